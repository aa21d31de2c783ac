#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""run.py BUILD CACHE: plays holdfast against Redisson, redis-py, redsync and node-redlock
on one private Redis server and prints a row for each thing that was tried.

INTEROP_SECONDS sets how long the long contention runs (60; the others follow it),
INTEROP_ONLY plays only rows with that word in them. The table also goes to
BUILD/interop-redis.md. Ends with 0 if every row is as it must be.
"""
import os
import shutil
import signal
import subprocess
import sys
import time

import contend
import redisson
import simple
from actors import Process, Server, Side, ThreadSide, Wrong

HERE = os.path.dirname(os.path.abspath(__file__))
GO = (1, 22)
REDISSON = ["4.7.0", "3.27.2"]
MAVEN_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
WATCHDOG_MS = round(redisson.LEASE * 1000)
SECONDS = float(os.environ.get("INTEROP_SECONDS", "60"))
ONLY = os.environ.get("INTEROP_ONLY", "")


# ---- What is fetched and built, once -------------------------------------------------


def once(directory, make):
    """Makes `directory` whole or not at all."""
    if os.path.isdir(directory):
        return directory
    half = directory + ".half"
    shutil.rmtree(half, ignore_errors=True)
    os.makedirs(half)
    make(half)
    os.rename(half, directory)
    return directory


def must_run(command, directory=None):
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.stdout.write(done.stdout[-2000:] + done.stderr[-2000:])
        sys.exit(f"interop: {command[0]} failed")


def redisson_classes(cache, version):
    def make(directory):
        print(f"interop: fetching Redisson {version}", flush=True)
        must_run(
            ["mvn", "-q", "-B", "-f", os.path.join(HERE, "pom.xml"), MAVEN_GOAL]
            + [f"-Dredisson.version={version}", "-DincludeScope=runtime"]
            + [f"-DoutputDirectory={directory}/lib"]
        )

    root = once(os.path.join(cache, f"redisson-{version}"), make)
    path = f"{root}/classes:{root}/lib/*"
    must_run(
        ["javac", "-nowarn", "-Xlint:none", "-cp", path, "-d", f"{root}/classes"]
        + [os.path.join(HERE, "Peer.java")]
    )
    return path


def node_modules(cache):
    def make(directory):
        print("interop: fetching node-redlock", flush=True)
        shutil.copy(os.path.join(HERE, "package.json"), directory)
        quiet = ["--no-audit", "--no-fund", "--no-package-lock"]
        must_run(["npm", "install", *quiet], directory)

    return os.path.join(once(os.path.join(cache, "node"), make), "node_modules")


def redsync_peer(cache):
    """None where there is no Go that can build it."""
    go = shutil.which("go")
    done = go and subprocess.run(
        [go, "env", "GOVERSION"], capture_output=True, text=True, check=False
    )
    version = (done.stdout.strip()[2:] if done else "0.0").split(".")
    if (int(version[0]), int(version[1])) < GO:
        print(f"interop: redsync is left out, it needs Go {GO[0]}.{GO[1]}", flush=True)
        return None

    def make(directory):
        print("interop: fetching redsync", flush=True)
        for file in ["peer.go", "go.mod", "go.sum"]:
            shutil.copy(os.path.join(HERE, "redsync", file), directory)
        must_run([go, "build", "-o", "peer", "."], directory)

    root = once(os.path.join(cache, "redsync"), make)
    shutil.copy(os.path.join(HERE, "redsync", "peer.go"), root)
    must_run([go, "build", "-o", "peer", "."], root)
    return os.path.join(root, "peer")


def python_with_redis():
    for python in [sys.executable, "/usr/bin/python3"]:
        done = subprocess.run(
            [python, "-c", "import redis"], capture_output=True, check=False
        )
        if done.returncode == 0:
            return python
    sys.exit("interop: no python3 has redis-py (python3-redis)")


# ---- The table -----------------------------------------------------------------------


class Run:
    """What the rows need, and what came of them."""

    def __init__(self, server, ours, theirs, rows):
        self.server = server
        self.log = ours.log
        self.ours = ours
        self.theirs = theirs
        self.rows = rows

    def name(self):
        Run.names = getattr(Run, "names", 0) + 1
        return f"n{Run.names}"

    def row(self, kind, direction, what, play):
        """Plays one row and keeps its verdict."""
        with_whom = self.theirs.title
        line = [kind, what, direction, with_whom]
        if ONLY and not all(word in " ".join(line) for word in ONLY.split(",")):
            return
        began = time.monotonic()
        try:
            verdict, seen = "ok", play() or ""
        except Wrong as wrong:
            verdict, seen = "WRONG", str(wrong)
        self.ours.end_row()
        self.theirs.end_row()
        self.log.write(f"{time.monotonic() - began:.1f} s: {line} {verdict} {seen}\n")
        self.log.flush()
        self.rows.append([*line, verdict, seen])
        print(f"{kind:12} {what:26} {direction:22} {with_whom:20}", end=" ")
        print(f"{verdict:5} {seen}", flush=True)

    def both(self, kind, what, play, *more):
        """The row in both directions: `play(run, first, second, ...)`."""
        for first, second in [(self.ours, self.theirs), (self.theirs, self.ours)]:
            direction = f"{self.word(first)} to {self.word(second)}"
            self.row(kind, direction, what, lambda: play(self, first, second, *more))

    def mixed(self, kind, what, play, *more, direction="both at once"):
        self.row(kind, direction, what, lambda: play(self, *more))

    def word(self, side):
        return "holdfast" if side is self.ours else side.title.split()[0]


def play_redisson(run, seconds):
    wake = "busy, waits, is woken"
    for kind in ["mutex", "fair", "fenced", "write", "permits:2:3", "expiring:1"]:
        run.both(kind, wake, redisson.hand_over, kind)
    run.both("write", "busy for a reader", redisson.hand_over, "write", "read")
    run.both("read", "busy for a writer", redisson.hand_over, "read", "write")
    run.both("read", "shared", redisson.shared)
    ours, theirs = "holdfast to Redisson", "Redisson to holdfast"
    run.mixed("read", "joined by the other", redisson.joined, direction=theirs)
    multi = f"{run.name()}+{run.name()}"
    run.both("multi", wake, redisson.hand_over, "multi", None, multi)
    run.both("multi", "all or none", redisson.part_of_multi)
    for kind, name in [("mutex", "{orders}:7"), ("write", "{orders}:8")]:
        run.both(kind, "name with braces", redisson.hand_over, kind, None, name)
    for kind in ["permits:2:2", "expiring:1"]:
        run.mixed(kind, "made by holdfast", redisson.made_by_us, kind, direction=ours)
    run.both("permits", "several at once", redisson.several)
    run.both("mutex", "reentrant, counted", redisson.twice, "mutex")
    for kind in ["fair", "write"]:
        run.row(
            kind,
            theirs,
            "reentrant, counted",
            lambda: redisson.twice(run, run.theirs, run.ours, kind),
        )
    run.row(
        "read",
        theirs,
        "reentrant, counted",
        lambda: redisson.twice(run, run.theirs, run.ours, "read", "write"),
    )
    run.mixed("write", "read inside write", redisson.read_in_write, direction=theirs)
    run.mixed("write", "downgrade", redisson.downgrade_ours, direction=ours)
    run.mixed("write", "downgrade", redisson.downgrade_theirs, direction=theirs)
    run.both("latch", "set, counted, opened", redisson.latch)
    run.both("fair", "order of arrival", redisson.fair_order)
    run.mixed("fenced", "tokens grow", redisson.tokens_grow)
    run.both("spin", "spin lock", redisson.spin)
    run.mixed("all", "other kind is refused", redisson.refused, direction=theirs)
    run.mixed("all", "seen by inspect", redisson.seen_by_inspect, direction=theirs)
    run.both("all", "kept for three leases", redisson.kept_alive)
    run.both("all", "holder killed", redisson.killed)
    run.both("mutex", "waiter killed", redisson.killed_waiter)
    run.both("fair", "waiter killed", redisson.killed_fair_waiter)
    run.mixed("permits", "holder killed", redisson.killed_permits, direction=ours)
    short = max(2, seconds / 6)
    run.mixed("mutex", f"4+4 for {seconds:.0f} s", contend.exact, "mutex", seconds)
    what = f"4+4 for {short:.0f} s"
    for kind in ["fair", "fenced", "permits:1:1", "expiring:1"]:
        run.mixed(kind, what, contend.exact, kind, short)
    run.mixed("read/write", what, contend.readers_and_writers, short)
    for kind in ["permits:2:5", "expiring:3"]:
        run.mixed(kind, "conserved", contend.conserved, kind, short)


def play_simple(run, seconds):
    run.both("simple", "busy, waits, has it", simple.hand_over)
    run.both("simple", "holder killed", simple.killed)
    ours = f"holdfast to {run.word(run.theirs)}"
    theirs = f"{run.word(run.theirs)} to holdfast"
    run.mixed("simple", "kept for three leases", simple.renewed, direction=ours)
    run.mixed("simple", "lease ends, late release", simple.expired, direction=theirs)
    what = f"2+2 for {seconds:.0f} s"
    run.mixed("simple", what, contend.exact, "mutex", seconds, 2, 0)
    what = f"3+3 for {2 * seconds:.0f} s, default delays"
    run.mixed("simple", what, simple.contest, 2 * seconds)


def write_table(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        file.write("| kind | what | direction | with | verdict | seen |\n")
        file.write("|---|---|---|---|---|---|\n")
        for row in rows:
            file.write("| " + " | ".join(row) + " |\n")


def play_all(server, peer, cache, log):
    rows = []
    url = f"redis://127.0.0.1:{server.port}"
    seconds = SECONDS
    for version in REDISSON:
        ours = Side("holdfast", [peer, url], log)
        classes = redisson_classes(cache, version)
        java = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        java += ["-cp", classes, "Peer", url, str(WATCHDOG_MS)]
        theirs = ThreadSide(f"Redisson {version}", java, log)
        play_redisson(Run(server, ours, theirs, rows), seconds)
        theirs.close()
        seconds = SECONDS / 3
    others = [
        ("redis-py", [python_with_redis(), os.path.join(HERE, "peer.py")], {}),
        (
            "node-redlock",
            ["node", os.path.join(HERE, "peer.js")],
            {"NODE_PATH": node_modules(cache)},
        ),
    ]
    redsync = redsync_peer(cache)
    if redsync:
        others.append(("redsync", [redsync], {}))
    for title, command, env in others:
        ours = Side("holdfast", [peer, url + "?layout=simple"], log)
        theirs = Side(title, [*command, str(server.port)], log, env)
        theirs.actor()
        theirs.title = " ".join(theirs.greeting.split()[1:])
        theirs.close()
        play_simple(Run(server, ours, theirs, rows), SECONDS / 6)
    alone = Run(server, ours, ours, rows)
    alone.mixed("simple", "room for foreign clients", simple.cost, SECONDS / 3)
    return rows


def main():
    build, cache = (os.path.abspath(path) for path in sys.argv[1:3])
    os.makedirs(cache, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.monotonic()
    server = Server()
    try:
        peer = os.path.join(build, "tests", "interop", "interop_peer")
        version = server.call("INFO", "server").split("redis_version:")[1].split()[0]
        print(f"interop: Redis {version}, port {server.port}", flush=True)
        path = os.path.join(build, "interop-redis.log")
        with open(path, "w", encoding="utf-8") as log:
            rows = play_all(server, peer, cache, log)
    finally:
        for process in list(Process.alive):
            process.kill()
        server.stop()
    write_table(os.path.join(build, "interop-redis.md"), rows)
    wrong = sum(row[4] != "ok" for row in rows)
    minutes = (time.monotonic() - began) / 60
    print(f"interop: {minutes:.1f} minutes")
    print(f"interop: redis {len(rows) - wrong} rows ok, {wrong} wrong")
    return 1 if wrong or not rows else 0


sys.exit(main())
