#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The same faults for everybody: holdfast on its stores, and other libraries' locks.

    evidence.py --build build [--time 60] [--seed 1] [--lease 2000] [--only redis,...]

One schedule is drawn from the seed and played to each contender (peers/contenders.py)
in turn: who is stopped, killed or cut off, when and for how long. Six workers of one
thread take six mutexes for 50 to 300 ms each, far less than the lease; only a fault
outlasts it. At the end a table says what became of it: docs/evidence.md tells how to
read it.

Exit: 0 if holdfast kept its promises, 1 if not, 2 if something could not be run. What
peers do decides nothing: they do not promise what is counted here.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(1, os.path.join(HERE, "peers"))
sys.dont_write_bytecode = True

import contenders  # noqa: E402
import history  # noqa: E402
import run  # noqa: E402
import stores  # noqa: E402
from faults import cut  # noqa: E402
from nemesis import Nemesis  # noqa: E402
from network import Network  # noqa: E402
from workers import Crew, Worker  # noqa: E402

STORM_LEASES, QUIET_LEASES = 6, 1.5  # a round, in leases
SHORT, LONG = (0.1, 0.6), (1.8, 3.0)  # how long a fault lasts, in leases
EVERY = (0.08, 0.25)  # from one fault to the next, in leases
WARM_SECONDS = 60
WALL = ["unshare", "-n", "-m", "-p", "-f", "--kill-child", "--mount-proc"]


# ---- The faults


def pause(campaign, worker, seconds):
    """One worker is stopped, with all that belongs to it."""
    pid = worker.pid
    worker.signal(signal.SIGSTOP)
    yield seconds
    if worker.pid == pid:
        worker.signal(signal.SIGCONT)


def pause_all(campaign, worker, seconds):
    """Every worker is stopped at once."""
    for each in campaign.crew.workers:
        each.signal(signal.SIGSTOP)
    yield seconds
    for each in campaign.crew.workers:
        each.signal(signal.SIGCONT)


def kill(campaign, worker, seconds):
    """SIGKILL; another one takes its place."""
    worker.kill()
    yield min(seconds, 0.2)
    worker.start()


def partition(campaign, worker, seconds):
    """Nothing goes either way between one worker and the server."""
    return cut(campaign, worker, ["there", "back"], seconds)


def one_way_out(campaign, worker, seconds):
    """Its requests do not get there."""
    return cut(campaign, worker, ["there"], seconds)


def one_way_in(campaign, worker, seconds):
    """The replies do not come back."""
    return cut(campaign, worker, ["back"], seconds)


def cut_all(campaign, worker, seconds):
    """Nobody reaches the server."""
    campaign.network.cut_all(True)
    yield seconds
    campaign.network.cut_all(False)


def pause_server(campaign, worker, seconds):
    """The server is stopped."""
    campaign.store.freeze(True)
    yield seconds
    campaign.store.freeze(False)


# What each keeps busy meanwhile: nothing else happens to that.
FAULTS = [(pause, "worker"), (pause_all, "crew"), (kill, "worker"), (partition, "net"),
          (one_way_out, "net"), (one_way_in, "net"), (cut_all, "server"),
          (pause_server, "server")]
WEIGHTS = {"pause": 10, "partition": 3, "kill": 2}


class Strike:
    """One fault of a schedule; looks like faults.Fault to the nemesis."""

    def __init__(self, number, at, seconds, slot):
        self.function, self.where = FAULTS[number]
        self.number = number + 1
        self.name = self.function.__name__
        self.at, self.seconds, self.slot = at, seconds, slot

    def run(self, campaign, worker):
        return self.function(campaign, worker, self.seconds)

    def keys(self):
        if self.where == "crew":
            return {("worker", slot) for slot in range(contenders.WORKERS)}
        return {self.where} if self.where == "server" else {(self.where, self.slot)}

    def text(self):
        return f"{self.at:.3f} {self.name} {self.slot} {self.seconds:.3f}"


def fill(bag, dice):
    bag += [number for number, (function, _) in enumerate(FAULTS)
            for _ in range(WEIGHTS.get(function.__name__, 1))]
    dice.shuffle(bag)


def draw_round(dice, bag, lease):
    """Strikes in the order of their beginning, none of which meets another on the same
    worker, way or server. What does not fit now stays in the bag for later."""
    strikes, busy, at = [], {}, 0.0
    while at < STORM_LEASES * lease:
        if len(bag) < len(FAULTS):
            fill(bag, dice)
        seconds = lease * dice.uniform(*dice.choice([SHORT, LONG]))
        slot = dice.randrange(contenders.WORKERS)
        for number in bag:
            strike = Strike(number, at, seconds, slot)
            if all(busy.get(key, 0) <= at for key in strike.keys()):
                bag.remove(number)
                strikes.append(strike)
                busy.update({key: at + seconds + 0.1 for key in strike.keys()})
                break
        at += lease * dice.uniform(*EVERY)
    return strikes


def draw(seed, seconds, lease):
    dice, bag = random.Random(seed), []
    rounds = max(1, round(seconds / (lease * (STORM_LEASES + QUIET_LEASES))))
    return [draw_round(dice, bag, lease) for _ in range(rounds)]


def digest(schedule):
    text = "\n".join(strike.text() for strikes in schedule for strike in strikes)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


# ---- One contender


class Member(Worker):
    """A worker and, if it has one, the peer behind its pipe: one process group."""

    def signal(self, number):
        if not self.alive():
            return
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:  # holdfast alone, or not that far yet
            super().signal(number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait()
        self.mourn()

    def has_begun(self):
        """Has been granted or refused a lock at least once."""
        path = os.path.join(self.crew.directory, f"{self.number:04}-01.hist")
        if not os.path.exists(path):
            return False
        return any(event["op"] == history.ACQUIRE and event["phase"] == history.RETURN
                   for event in history.read(path)[1])


class Members(Crew):
    def start(self, specs):
        for slot, spec in enumerate(specs):
            worker = Member(self, slot, spec)
            worker.start()
            self.workers.append(worker)


class Trial(run.Campaign):
    def __init__(self, options, directory, contender):
        stores.ALL[contender.name] = contender.store
        super().__init__(options, directory)
        self.contender = contender
        self.store.lease = options.lease
        self.store.longest_lease = options.lease / 1000
        extra = []
        if contender.command:
            extra = ["--command", contender.command(options.build)]
        self.crew = Members(options.build, directory, self.store.kinds, options.seed,
                            locks=self.store.locks, extra=extra, timeout_ms=5000,
                            hold_us="50000-300000", think_us="0-20000", long_hold=0,
                            events=1 << 20,
                            driver="peer" if contender.command else "holdfast")

    def hold(self):
        lease = self.options.lease / 1000
        run.make_place(self.directory, self.store.disk_mb)
        if self.store.port:
            self.network = Network(self.store.port)
        self.history = history.Writer(os.path.join(self.directory, "nemesis.hist"), 0,
                                      label="nemesis")
        self.store.start()
        self.crew.start(self.store.specs())
        self.nemesis = Nemesis(self, [])
        self.warm()
        for strikes in draw(self.options.seed, self.options.time, lease):
            self.round(strikes, STORM_LEASES * lease)
            quiet = time.monotonic() + QUIET_LEASES * lease
            self.served(self.nemesis.heal())
            self.nemesis.work(quiet)
            self.watch()
        self.finish()

    def warm(self):
        deadline = time.monotonic() + WARM_SECONDS
        while not all(worker.has_begun() for worker in self.crew.workers):
            if time.monotonic() > deadline:
                raise RuntimeError("the workers do not begin")
            time.sleep(0.05)  # pause: nobody tells; their histories are looked at

    def round(self, strikes, seconds):
        begun = time.monotonic()
        for strike in strikes:
            if strike.where in ("net", "server") and not self.store.port:
                continue
            self.nemesis.work(begun + strike.at)
            while strike.keys() & self.nemesis.taken:  # on a slow machine
                self.nemesis.work(time.monotonic() + 0.01)
            self.nemesis.counts.setdefault(strike.name, 0)
            self.nemesis.start(strike, strike.keys(), self.crew.workers[strike.slot])
            self.watch()
        self.nemesis.work(begun + seconds)

    def told(self):
        """Holds of which the lock said that they were lost, when asked or at last."""
        found = set()
        for name in os.listdir(self.directory):
            if not name.endswith("-01.hist"):
                continue
            for event in history.read(os.path.join(self.directory, name))[1]:
                if event["op"] == history.LOST or event["result"] == history.LATE:
                    found.add((name, event["hold"]))
        return len(found)

    def verdict(self):
        """The figures of the table, as a dictionary."""
        print(self.lockcheck().stdout, file=sys.stderr)
        for text in self.trouble:
            print(f"trouble: {text}", file=sys.stderr)
        report = json.loads(self.lockcheck("--json").stdout)
        checks = {name: check["found"] for name, check in report["checks"].items()}
        must = sum(check["found"] for check in report["checks"].values()
                   if check["must_hold"])
        return {
            "acquisitions": report["acquisitions"], "exposed": report["exposed"],
            "faults": report["faults"], "checks": checks,
            "told": self.told(),
            "plain": report["lost_updates_plain"],
            "fenced": report["lost_updates_fenced"],
            "rejected": report["rejected_writes"],
            "longest_ms": report["belief_overlap_max_ms"],
            "stuck": report["stuck"], "left": report["residue"],
            "violations": must + len(self.trouble), "trouble": self.trouble,
            "counts": self.nemesis.counts, "slowest": self.slowest,
        }


def trial(options):
    """Inside: one contender; the figures go to standard output as JSON."""
    contender = next(one for one in contenders.ALL if one.name == options.store)
    directory = options.keep or tempfile.mkdtemp(prefix="holdfast-evidence-")
    os.makedirs(directory, exist_ok=True)
    try:
        campaign = Trial(options, os.path.abspath(directory), contender)
        campaign.hold()
        print(json.dumps(campaign.verdict()))
    finally:
        if not options.keep:
            shutil.rmtree(directory, ignore_errors=True)
    return 0


# ---- All of them


COLUMNS = ["", "acquisitions", "exposed", "faults", "overlaps within validity",
           "belief overlaps", "told", "lost, plain", "lost, fenced", "stuck",
           "left behind"]


def row(contender, figures):
    peer = contender.command is not None
    return [contender.title, figures["acquisitions"], figures["exposed"],
            figures["faults"],
            "not promised" if peer else figures["checks"]["K1"],
            figures["checks"]["K2"], figures["told"], figures["plain"],
            figures["fenced"] if contender.fenced else "no token",
            figures["stuck"], figures["left"]]


def table(rows):
    """As Markdown, so that it can go into a document as it is."""
    lines = [COLUMNS] + [[str(cell) for cell in line] for line in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]

    def text(cells):
        return "| " + " | ".join(c.ljust(w) for c, w in zip(cells, widths)) + " |"
    rule = ["-" * width for width in widths]
    return "\n".join([text(lines[0]), text(rule)] + [text(line) for line in lines[1:]])


def ask(contender, options):
    """Runs one contender in namespaces of its own; its figures, or why there are
    none."""
    try:
        if contender.command:
            contender.command(options.build)
    except contenders.Missing as missing:
        return None, f"left out: {missing} is missing"
    wall = WALL if os.geteuid() == 0 else [WALL[0], "-r", *WALL[1:]]
    words = [sys.executable, os.path.abspath(__file__), "--inside", contender.name,
             "--build", options.build, "--time", options.time, "--seed", options.seed,
             "--lease", options.lease]
    if options.keep:
        words += ["--keep", os.path.join(options.keep, contender.name)]
    log = subprocess.PIPE if options.quiet else None
    done = subprocess.run(wall + [str(word) for word in words], stdout=subprocess.PIPE,
                          stderr=log, text=True,
                          env=dict(os.environ, **{run.INSIDE: "root"}))
    if done.returncode != 0:
        return None, f"could not be run: {(done.stderr or '').strip()[-400:]}"
    return json.loads(done.stdout), None


def all_of_them(options):
    schedule = draw(options.seed, options.time, options.lease / 1000)
    print(f"evidence: {sum(map(len, schedule))} faults in {len(schedule)} rounds, lease"
          f" {options.lease} ms, seed {options.seed}, schedule {digest(schedule)}",
          flush=True)
    rows, notes, status = [], [], 0
    for contender in contenders.ALL:
        if options.only and contender.name not in options.only:
            continue
        figures, why = ask(contender, options)
        if why:
            notes.append(f"{contender.title}: {why}")
            status = 2
            continue
        rows.append(row(contender, figures))
        notes.append(f"{contender.title}: longest belief overlap"
                     f" {figures['longest_ms']:.0f} ms, {figures['rejected']} writes"
                     " refused by the fenced register, served within"
                     f" {figures['slowest']:.1f} s of a heal")
        notes += [f"{contender.title}: {text}" for text in figures["trouble"]]
        if not contender.command and figures["violations"]:
            notes.append(f"{contender.title}: VIOLATED {figures['checks']}")
            status = status or 1
        print(f"evidence: {contender.name} {json.dumps(figures['counts'])}", flush=True)
    print("\n" + table(rows) + "\n")
    print("\n".join(notes))
    print(f"load {os.getloadavg()[1]:.1f} on {os.cpu_count()} processors")
    return status


def parse():
    parser = argparse.ArgumentParser(description="The same faults for everybody.")
    parser.add_argument("--build", default="build", help="the build directory")
    parser.add_argument("--time", type=float, default=60, help="seconds per contender")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lease", type=int, default=2000, help="milliseconds; etcd"
                        " knows seconds only, and two at least")
    parser.add_argument("--only", type=lambda text: text.split(","),
                        help="of " + ",".join(one.name for one in contenders.ALL))
    parser.add_argument("--keep", help="leave histories and logs in this directory")
    parser.add_argument("--verbose", dest="quiet", action="store_false",
                        help="all that lockcheck says")
    parser.add_argument("--inside", dest="store", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    if options.keep:
        options.keep = os.path.abspath(options.keep)
    vars(options).update(bound=10, grace=300, patience=60, unsound=False, short=False,
                         sabotage=False)
    return options


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # and takes its child along
    return trial(options) if options.store else all_of_them(options)


if __name__ == "__main__":
    sys.exit(main())
