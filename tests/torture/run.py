#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One campaign: a store, workers that take its locks, and faults, until the time is up.

    run.py --build build --store redis --time 600 [--seed 7] [--keep DIRECTORY]
    run.py --ledger FILE --sum

Runs in namespaces of its own (network, mounts, processes), so that nothing it breaks or
leaves is seen outside. Faults come in rounds: a storm, in which one begins every tenth
of a second or three, then all are mended and everybody who waits must be served.
At the end `lockcheck` reads what the workers wrote down, and the closing lines say

    torture: <store> <kind> acquisitions= exposed= faults= kinds= violations=
             lost_updates_fenced= stuck=

for each kind of lock and for all. A campaign that came to its end adds a line to the
ledger (ledger.py), whose seeds are not used again unless --seed asks. Exit: 0 if every promise was kept, 1 if not, 2 if the
campaign could not be held.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

import faults  # noqa: E402
import history  # noqa: E402
import ledger  # noqa: E402
import stores  # noqa: E402
from stores import names  # noqa: E402
from nemesis import Nemesis  # noqa: E402
from network import Network  # noqa: E402
from pulse import Pulse  # noqa: E402
from workers import Crew  # noqa: E402

INSIDE = "HOLDFAST_TORTURE_INSIDE"
# How somebody who comes later takes a lock of each kind for himself alone.
SWEEP = {"mutex": [], "fair": ["--fair"], "rw": ["-x"], "permits": ["--permits", "4/4"],
         "reentrant": []}

# The form of the test suite: the same faults every time, and time enough for a machine
# that has other things to do (where nothing runs for a second, even a free lock cannot
# be had in half of one).
SHORT = {"time": 5, "storm": 5, "quiet": 1, "every": (0.06, 0.12), "seed": 6,
         "bound": 30, "patience": 60, "grace": 5000}


# ---- A place of its own


def enter_sandbox():
    """Goes on as another process, in namespaces that end with it."""
    if os.environ.get(INSIDE):
        return
    wall = ["unshare", "-n", "-m", "-p", "-f", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        wall.insert(1, "-r")
    if subprocess.run(wall + ["true"], stderr=subprocess.DEVNULL).returncode != 0:
        sys.exit("torture: needs root, or user namespaces (unshare -r), to make a "
                 "network and a file system of its own; both were refused")
    os.environ[INSIDE] = "root" if os.geteuid() == 0 else "user"
    myself = [sys.executable, os.path.abspath(__file__)]
    os.execvp(wall[0], wall + myself + sys.argv[1:])


def make_place(directory, disk_mb):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    disk = os.path.join(directory, "disk")
    os.mkdir(disk)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={disk_mb}m,mode=700",
                    "torture", disk], check=True)


# ---- The campaign


class Campaign:
    def __init__(self, options, directory):
        self.options = options
        self.directory = directory
        self.random = random.Random(options.seed)
        self.clock = time.monotonic
        self.sleep = time.sleep
        kind = stores.ALL[options.store]
        self.store = kind(directory, options.build, self.random)
        self.network = None
        self.pulse = None
        self.trouble = []  # what no check could have seen
        self.heals = 0
        self.slowest = 0
        self.journal = open(os.path.join(directory, "nemesis.log"), "w")
        self.began = time.monotonic()
        extra = list(self.store.extra)
        if options.sabotage:
            extra.append("--sabotage")
        self.names = names.draw(options.seed, self.store.kinds, self.store.locks,
                                self.store.derived, self.store.unwrapped)
        self.crew = Crew(options.build, directory, self.store.kinds, options.seed,
                         locks=self.store.locks, moves=self.store.moves, extra=extra,
                         names=self.write_names())

    def write_names(self):
        path = os.path.join(self.directory, "names")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(name + "\n" for name in self.names)
        return path

    def log(self, text):
        self.journal.write(f"{time.monotonic() - self.began:9.3f} {text}\n")
        self.journal.flush()

    def hold(self):
        options = self.options
        make_place(self.directory, self.store.disk_mb)
        if self.store.port:
            self.network = Network(self.store.port)
        self.history = history.Writer(os.path.join(self.directory, "nemesis.hist"), 0,
                                      label="nemesis")
        self.store.start()
        if self.store.port:
            self.pulse = Pulse(self.history, self.store.connect)
        self.crew.start(self.store.specs())
        self.nemesis = Nemesis(self, self.faults())
        end = time.monotonic() + options.time
        while time.monotonic() < end:
            self.storm(min(end, time.monotonic() + options.storm))
            quiet = time.monotonic() + options.quiet
            self.served(self.nemesis.heal())
            self.nemesis.work(quiet)
            self.watch()
        self.finish()

    def faults(self):
        kinds = faults.of_store(self.store.name, self.options.unsound)
        if self.options.only:
            kinds = [fault for fault in kinds if fault.name in self.options.only]
        if os.environ[INSIDE] != "root":  # could not be taken back
            kinds = [fault for fault in kinds if fault.name != "starve"]
        return kinds

    def storm(self, until):
        low, high = self.options.every
        while time.monotonic() < until:
            self.nemesis.begin()
            self.nemesis.work(time.monotonic() + self.random.uniform(low, high))
            self.watch()

    def served(self, healed):
        """Whoever was waiting when all was mended must have an answer. Whether it came
        in time lockcheck says, who knows when the machine stood still."""
        waiting = self.crew.waiting_since(healed)
        late = healed + self.options.bound * 10 ** 9
        limit = late + self.options.patience * 10 ** 9
        while waiting and history.now() < limit:
            time.sleep(0.005)  # pause: workers tell nobody; their page is looked at
            waiting = self.crew.waiting_since(healed)
            if waiting and history.now() > late:
                late = limit
                self.trace()
        took = (history.now() - healed) / 1e9
        self.heals += 1
        self.slowest = max(self.slowest, took)
        self.log(f"all who waited were served after {took:.3f} s")
        if waiting:
            self.trouble.append(f"{waiting} waited for {took:.0f} s after a heal, at"
                                f" {healed}")

    def trace(self):
        """Where everybody is, with --keep."""
        if self.options.keep:
            for worker in self.crew.workers:
                self.crew.trace(worker)

    def watch(self):
        """A worker that ends by itself has met a fault of its own."""
        for worker, code in self.crew.dead():
            if self.options.store == "file" and code == -9:
                continue  # in the guard, on order, and nobody has looked yet
            text = f"process {worker.number} ended by itself: {code}"
            self.trouble.append(text)
            self.log(text)
            worker.mourn()
            worker.start()

    def finish(self):
        stuck = self.crew.stop(self.options.patience)
        self.trouble += [f"process {worker.number} does not end" for worker in stuck]
        for worker, code in self.crew.dead():
            if code != 0 and worker not in stuck:
                self.trouble.append(f"process {worker.number} ended with {code}")
        if self.pulse:
            self.pulse.stop()
        self.sweep()
        residue = self.crew.residue() + self.store.residue()
        for lock, token, fenced, plain in self.crew.finals():
            self.history.add(history.FINAL, lock=lock, token=token, value=fenced,
                             until_ns=plain)
        self.history.add(history.RESIDUE, value=sum(count for _, count in residue))
        self.history.close()
        for what, count in residue:
            self.say(f"left behind: {what}" + (f": {count}" if count > 1 else ""))
        self.store.stop()

    def sweep(self):
        """Somebody who comes later must get every lock; what dead waiters left goes
        with it."""
        if self.store.url() is None:
            return
        for lock, name in enumerate(self.names):
            self.take(name, SWEEP[self.store.kinds[lock // self.crew.locks]])

    def take(self, name, how):
        command = [os.path.join(self.options.build, "cli", "holdfast"), "run",
                   "--wait", "10s", *how, name, "--", "true"]
        done = subprocess.run(command, capture_output=True, text=True,
                              env=dict(os.environ, HOLDFAST_URL=self.store.url()))
        if done.returncode != 0:
            self.trouble.append(f"{name} cannot be had: {done.returncode} "
                                f"{done.stderr.strip()}")

    # ---- The verdict

    def lockcheck(self, *more):
        program = os.path.join(self.options.build, "tests", "torture", "checker",
                               "lockcheck")
        command = [program, self.directory, "--bound", str(self.options.bound * 1000),
                   "--grace", str(self.options.grace), *more]
        if self.crew.killed:
            command += ["--killed", ",".join(f"{number}@{when}" for number, when
                                             in self.crew.killed.items())]
        if self.options.unsound:
            command.append("--unsound")
        self.log(" ".join(command))  # for who keeps the histories
        return subprocess.run(command, capture_output=True, text=True)

    def check(self):
        """Asks lockcheck and prints the closing lines. True if all is well."""
        expected = ("K2 lock", "K2 ...", "K5 lock", "K5 ...")  # with leases
        for line in self.lockcheck().stdout.splitlines():
            if not line.startswith(expected):
                self.say(line)
        done = self.lockcheck("--json")
        if done.returncode not in (0, 1):
            sys.exit(f"torture: lockcheck cannot tell: {done.stderr.strip()}")
        report = json.loads(done.stdout)
        counts = self.nemesis.counts
        self.say("faults: " + ", ".join(f"{name} {counts[name]}" for name in counts))
        self.say(f"heals: {self.heals}; whoever waited was served within"
                 f" {self.slowest:.3f} s; load {os.getloadavg()[1]:.1f} on"
                 f" {os.cpu_count()} processors")
        for text in self.trouble:
            self.say(f"trouble: {text}")
        kinds = dict(report["kinds"], all=report)
        report["violations"] += len(self.trouble)
        for kind in self.store.kinds + ["all"]:
            self.say(self.line(kind, kinds[kind], report))
        if self.options.short:
            self.tap(report)
        elif self.options.ledger:
            ledger.append(self.options.ledger, self.entry(report))
        return report["violations"] == 0

    def entry(self, report):
        """The line of the ledger."""
        return {"store": self.store.name, "seed": self.options.seed,
                "seconds": round(self.options.time),
                "acquisitions": report["acquisitions"], "exposed": report["exposed"],
                "faults": report["faults"], "kinds": report["fault_kinds"],
                "adoptions": report["adoptions"], "left": report["left"],
                "evictions": report["evictions"],
                "downgrades": report["downgrades"], "extends": report["extends"],
                "violations": report["violations"],
                "lost_updates": report["lost_updates_fenced"],
                "stuck": report["stuck"], "slowest": f"{self.slowest:.3f}"}

    def tap(self, report):
        """The verdict as a test speaks it."""
        points = [(f"{name} {check['title']}", check["found"] == 0)
                  for name, check in report["checks"].items() if check["must_hold"]]
        points += [("workers end as they are told", not self.trouble),
                   ("ten kinds of faults and more", report["fault_kinds"] >= 10),
                   ("locks were taken meanwhile", report["exposed"] > 0)]
        print(f"1..{len(points)}")
        for number, (name, good) in enumerate(points, 1):
            print(f"{'ok' if good else 'not ok'} {number} - {self.store.name} {name}")

    def say(self, text):
        print(f"# {text}" if self.options.short else text, flush=True)

    def line(self, kind, totals, report):
        return (f"torture: {self.store.name} {kind}"
                f" acquisitions={totals['acquisitions']} exposed={totals['exposed']}"
                f" faults={report['faults']} kinds={report['fault_kinds']}"
                f" violations={totals['violations']}"
                f" lost_updates_fenced={totals['lost_updates_fenced']}"
                f" stuck={totals['stuck']}")


# ---- The command


def pair(text):
    low, high = text.split("-")
    return float(low), float(high)


def parse():
    parser = argparse.ArgumentParser(description="One torture campaign.")
    parser.add_argument("--build", default="build", help="the build directory")
    parser.add_argument("--store", choices=sorted(stores.ALL))
    parser.add_argument("--time", type=float, default=60, help="seconds of faults")
    parser.add_argument("--seed", type=int,
                        help="without it, the next that the ledger does not have")
    parser.add_argument("--ledger", help="where a finished campaign is written down;"
                        " otherwise BUILD/torture/ledger.tsv")
    parser.add_argument("--sum", action="store_true",
                        help="print the totals of the ledger and end")
    parser.add_argument("--short", action="store_true",
                        help="the form of the test suite")
    parser.add_argument("--keep", help="leave histories and logs in this directory")
    parser.add_argument("--only", type=lambda text: text.split(","),
                        help="these faults alone")
    parser.add_argument("--unsound", action="store_true",
                        help="also faults that no lease survives")
    parser.add_argument("--every", type=pair, default=(0.1, 0.3),
                        help="seconds between the beginnings of two faults")
    parser.add_argument("--storm", type=float, default=8, help="seconds of a round")
    parser.add_argument("--quiet", type=float, default=1.5,
                        help="seconds without faults after a round")
    parser.add_argument("--bound", type=int, default=5,
                        help="seconds within which a waiter must be served")
    parser.add_argument("--grace", type=int, default=300,
                        help="milliseconds for which a fault is felt after its end")
    parser.add_argument("--patience", type=float, default=30,
                        help="seconds within which workers must end")
    parser.add_argument("--faults", action="store_true", help="list the faults and end")
    parser.add_argument("--sabotage", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.store and not options.sum:
        parser.error("--store is wanted")
    options.build = os.path.abspath(options.build)
    if options.short:
        vars(options).update(SHORT)
    choose_seed(options)
    return options


def choose_seed(options):
    """Campaigns whose figures would mislead are not written down."""
    options.ledger = os.path.abspath(
        options.ledger or os.path.join(options.build, "torture", "ledger.tsv"))
    if options.seed is None and options.store:
        options.seed = ledger.next_seed(options.store,
                                        [options.ledger, ledger.COMMITTED])
        sys.argv += ["--seed", str(options.seed)]  # for the process in the sandbox
    if options.only or options.unsound or options.sabotage:
        options.ledger = None


def main():
    options = parse()
    if options.sum:
        ledger.show(ledger.totals(ledger.read(options.ledger)))
        return 0
    if options.faults:
        for fault in faults.of_store(options.store, True):
            mark = " (unsound)" if fault.unsound else ""
            print(f"{fault.name:20} {fault.story}{mark}")
        return 0
    enter_sandbox()
    directory = options.keep or tempfile.mkdtemp(prefix="holdfast-torture-")
    os.makedirs(directory, exist_ok=True)
    try:
        campaign = Campaign(options, os.path.abspath(directory))
        campaign.hold()
        good = campaign.check()
        if not good and not options.keep:
            options.keep = directory
            print(f"torture: histories and logs are left in {directory}")
        return 0 if good else 1
    finally:
        if not options.keep:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
