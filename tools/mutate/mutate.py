#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Mutation tests: small faults set into the library, the stores and the command, one at
a time, and the tests run against each. One that no test notices shows a missing test.

usage: mutate.py [--only DIRECTORY] [--sample N] [--seed S]     a campaign; goes on where
                                                                it was stopped
       mutate.py --deep ...        those that live, against every test that reaches them
       mutate.py --again ...       those that live, against tests that are new to them
       mutate.py --list            all mutants; --sample limits it
       mutate.py --one ID          shows a mutant; applied to a copy of its file, as a diff
       mutate.py --report          scores and survivors, from the ledger
       mutate.py --ledger          writes ledger.txt, from which --handful chooses
       mutate.py --handful N       N mutants that are known to be killed; are they still?

Everything is written below build-mutants/. docs/internals/testing.md tells the whole.
"""

import argparse
import difflib
import json
import os
import signal
import sys
import time

sys.dont_write_bytecode = True

try:
    import clang.cindex  # noqa: F401  places.py needs it; say so in a sentence
except ImportError:
    sys.exit("mutate: python3-clang is not installed (tools/setup.sh mutants)")

import campaign
import handful
import measure
import report
import schemata
import suites

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
PLACE = os.path.join(TOP, "build-mutants")


def say(text):
    print(time.strftime("%H:%M:%S ") + text, flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", help="mutants of files whose path begins so")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() + 1)
    parser.add_argument("--budget", type=float, default=120, help="seconds per mutant")
    for word in ("list", "report", "deep", "again", "ledger"):
        parser.add_argument(f"--{word}", action="store_true")
    parser.add_argument("--one", metavar="ID")
    parser.add_argument("--handful", type=int, metavar="N")
    return parser.parse_args()


# ---- Showing ----------------------------------------------------------------------------


def plain_change(mutant, text):
    """The source with the mutant alone in it, no switch."""
    if mutant.file.endswith(".lua"):
        return text[:mutant.start] + mutant.after.encode() + text[mutant.end:]
    old = text[mutant.start:mutant.end]
    new = {"{ if": b";", "(M(@) ||": b"true", "(!M(@)": b"false"}
    for start, put in new.items():
        if mutant.before.startswith(start):
            return text[:mutant.start] + put + text[mutant.end:]
    assert old
    return text[:mutant.start] + mutant.new.encode() + text[mutant.end:]


def show_one(mutants, wanted):
    for mutant in mutants:
        if mutant.id.startswith(wanted):
            with open(f"{TOP}/{mutant.file}", "rb") as stream:
                text = stream.read()
            new = plain_change(mutant, text)
            print(mutant.key)
            print("".join(difflib.unified_diff(
                text.decode().splitlines(True), new.decode().splitlines(True),
                mutant.file, f"{mutant.file} ({mutant.id})")), end="")
            return 0
    sys.exit(f"mutate: there is no mutant {wanted}")


# ---- A campaign -------------------------------------------------------------------------


def lua_that_loads(copy, mutants):
    """Without those that the server does not compile."""
    sys.path.insert(0, f"{TOP}/tests/redis")
    import resp
    import server
    if not server.program():
        return [m for m in mutants if not m.file.endswith(".lua")]
    place, good = server.Server(), []
    client = resp.Client(place.path)
    for mutant in mutants:
        path = f"{copy.lua}/{mutant.number}"
        if not mutant.file.endswith(".lua") or loads(client, path):
            good.append(mutant)
    client.close()
    place.stop()
    return good


def loads(client, path):
    changed = False
    with open(path, encoding="utf-8") as stream:
        while head := stream.readline().split():
            changed = True
            try:
                client("SCRIPT", "LOAD", stream.read(int(head[2])))
            except Exception:  # whatever the server says against it
                return False
    return changed


def prepare(pool):
    """The instrumented build of a pool, without what does not compile."""
    copy = schemata.Copy(TOP, PLACE)
    copy.write(pool)
    kept = lua_that_loads(copy, pool)
    while True:
        if len(kept) < len(pool):
            say(f"{len(pool) - len(kept)} mutants do not compile and are dropped")
            pool = kept
            copy.write(pool)
        bad = copy.make()
        if not bad:
            return copy, pool
        kept = [mutant for mutant in pool if mutant.number not in bad]


def write_pool(pool):
    with open(f"{PLACE}/pool.json", "w", encoding="utf-8") as stream:
        json.dump([mutant.id for mutant in pool], stream)


def todo(pool, ledger, options):
    known = report.equivalents()
    for mutant in pool:
        row = ledger.rows.get(mutant.id)
        lives = row and row["status"] != "killed"
        if not row and not options.deep:
            yield mutant
        elif lives and mutant.key not in known and \
                (options.again or options.deep and not row.get("deep")):
            yield mutant


def ended(*_):
    """Told to end: the ledger has all that is done; stop what runs."""
    suites.sweep_all()
    os._exit(130)


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, ended)
    signal.signal(signal.SIGINT, ended)
    os.makedirs(PLACE, exist_ok=True)
    if options.handful:
        return handful.run(TOP, PLACE, options.handful, say)
    mutants = schemata.all_mutants(TOP, PLACE, options.only)
    if options.one:
        return show_one(mutants, options.one)
    pool = schemata.sample(mutants, options.sample or len(mutants), options.seed)
    if options.list:
        for mutant in pool:
            print(mutant.id, mutant.key)
        return 0
    ledger = campaign.Ledger(f"{PLACE}/ledger.jsonl")
    if options.report:
        print(report.full(mutants, ledger, []))
        return 0
    if options.ledger:
        tests = suites.find(f"{PLACE}/build")
        measure.recall(tests, PLACE)
        say(f"{handful.write_ledger(mutants, ledger, tests)} mutants in ledger.txt")
        return 0
    copy, pool = prepare(pool)
    say(f"{len(pool)} mutants are built in")
    tests = suites.find(copy.build)
    measure.measure_all(tests, PLACE, options.jobs, say)
    run = campaign.Campaign(tests, ledger, copy.lua, options.jobs, options.budget,
                            options.deep)
    run.run_all(list(todo(pool, ledger, options)), say)
    with open(f"{PLACE}/report.md", "w", encoding="utf-8") as stream:
        stream.write(report.full(pool, ledger, tests))
    print(report.table(pool, ledger))
    return 0


if __name__ == "__main__":
    sys.exit(main())
