#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plants wrong locks and sees whether they are found out.

    planted.py [--only NAME,...] [--short] [--list] [--raw | --mutants] [--build DIR]
    make torture-planted [ONLY=NAME,...]

Each wrong lock (plans.py; mutants of holdfast itself: mutants.py) is put under load on
its schedule, in rounds that grow longer, until lockcheck finds what it has to find,
60 s at most. A correct lock then goes through the same schedule and must be clean:
otherwise the checker would prove nothing by finding something. Prints a line for each;
exit 1 if a wrong lock survived or a correct one was found guilty.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
from campaign import Campaign  # noqa: E402
from plans import PLANS, SHORT  # noqa: E402
import mutants  # noqa: E402

LIMIT_S = 60
SHORT_S = 2


class Tools:
    def __init__(self, build, keep):
        torture = os.path.join(build, "tests", "torture")
        self.build = build
        self.worker = os.path.join(torture, "planted", "worker-planted")
        self.lockcheck = os.path.join(torture, "checker", "lockcheck")
        self.clock_shift = os.path.join(torture, "clock_shift.so")
        self.keep = keep


def say(*columns):
    name, wrong, verdict, rest = columns
    print(f"{name:27} {wrong:44} {verdict:14} {rest}", flush=True)


def show(verdict, names):
    for name in names:
        for example in verdict.examples.get(name, [])[:2]:
            print(f"    {name}: {example}")


def catch(plan, tools, seed):
    """Rounds until one is red as it should be: the checks that found it, after how many
    seconds, and the verdict; no checks if it survived."""
    begun = time.monotonic()
    wanted, seconds = set(plan.catch.split()), plan.round_s
    while True:
        verdict = Campaign(plan, tools, seed).run(seconds)
        spent = time.monotonic() - begun
        red = verdict.red()
        if wanted & set(red):
            return red, spent, verdict
        seed, seconds = seed + 1, seconds * 1.5
        if spent + seconds + 5 > LIMIT_S:
            return [], spent, verdict


class Gate:
    """Judges wrong locks, and the correct one on each schedule that occurs, once."""

    def __init__(self, tools, options):
        self.tools, self.options = tools, options
        self.judged = set()

    def guilty(self, plan, tools):
        """Runs a wrong lock with the worker of `tools`: True if it was caught."""
        red, seconds, verdict = catch(plan, tools, self.options.seed)
        say(plan.name, plan.wrong, " ".join(red) or "SURVIVED", f"{seconds:.1f} s")
        if self.options.verbose:
            show(verdict, red)
        return bool(red)

    def acquitted(self, plan):
        """Runs the correct lock on the schedule of `plan`: True if it was clean."""
        key = self.schedule_of(plan)
        if key in self.judged:
            return True
        self.judged.add(key)
        campaign = Campaign(replace(plan, point=""), self.tools, self.options.seed,
                            control=True)
        verdict = campaign.run(plan.round_s)
        red = verdict.red(but=plan.forgiven.split())
        but = f", {plan.forgiven} not asked" if plan.forgiven else ""
        say("", f"  {plan.control} on the same schedule",
            "RED " + " ".join(red) if red else "clean",
            f"{verdict.acquisitions} acquisitions{but}")
        show(verdict, red)
        return not red

    def schedule_of(self, plan):
        if self.options.short:
            return plan.schedule
        return (plan.schedule, plan.store, plan.kind, plan.options, plan.control,
                plan.ttl, plan.hold, plan.think, plan.long_hold, plan.processes,
                plan.threads, plan.share, plan.skew_ms, plan.moves)

    def passes(self, plan, tools):
        """Both; the second also if the first failed."""
        try:
            caught = self.guilty(plan, tools)
            return self.acquitted(plan) and caught
        except RuntimeError as why:
            print(f"{plan.name}: ERROR: {why}")
            return False


def enter_namespace():
    """As root: in a process namespace of our own, so that nothing outlives us."""
    if os.geteuid() != 0 or os.environ.get("PLANTED_INSIDE"):
        return
    os.environ["PLANTED_INSIDE"] = "1"
    inside = ["unshare", "-m", "-p", "-f", "--kill-child", "--mount-proc"]
    if subprocess.run([*inside, "true"], check=False).returncode == 0:
        os.execvp("unshare", [*inside, sys.executable, *sys.argv])


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default=os.environ.get("ONLY"),
                        help="names, with commas between")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--short", action="store_true", help="the few of make test")
    parser.add_argument("--raw", action="store_true", help="no mutants")
    parser.add_argument("--mutants", action="store_true", help="nothing but mutants")
    parser.add_argument("--build", default=os.path.join(HERE, "../../../build"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="leave histories behind")
    parser.add_argument("--verbose", action="store_true", help="with examples")
    options = parser.parse_args()
    options.verbose = options.verbose or bool(options.only)
    return options


def chosen(table, options, short):
    names = short if options.short else [entry.name for entry in table]
    if options.only:
        names = [name for name in names if name in options.only.split(",")]
    return [entry for entry in table if entry.name in names]


def main():
    options = arguments()
    plans = [] if options.mutants else chosen(PLANS, options, SHORT)
    if options.short:
        plans = [replace(plan, round_s=SHORT_S) for plan in plans]
    changes = [] if options.raw else chosen(mutants.MUTANTS, options, [])
    if options.list:
        for entry in plans + changes:
            print(f"{entry.name:27} {entry.wrong:44} {entry.catch}")
        return 0
    if not plans + changes:
        print("planted.py: no such lock; see --list", file=sys.stderr)
        return 2
    if not shutil.which("redis-server"):
        print("planted.py: there is no redis-server")
        return 77
    enter_namespace()
    tools = Tools(os.path.abspath(options.build), options.keep)
    gate = Gate(tools, options)
    say("lock", "what is wrong with it", "caught by", "after")
    caught = sum(gate.passes(plan, tools) for plan in plans)
    if changes:
        caught += mutants.run(changes, gate)
    total = len(plans) + len(changes)
    print(f"planted: {caught} of {total} as they should be")
    return 0 if caught == total else 1


if __name__ == "__main__":
    sys.exit(main())
