#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""run.py BUILD CACHE: plays holdfast against Curator and kazoo on one private ZooKeeper
server and prints a row for each thing that was tried.

INTEROP_SECONDS sets how long the long contention runs (60; the others follow it),
INTEROP_ONLY plays only rows with these words in them. The table also goes to
BUILD/interop-zookeeper.md. Ends with 0 if every row is as it must be.
"""
import glob
import os
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(HERE), "redis"))

# pylint: disable=wrong-import-position
import mixed
import rows as r
from actors import Process, Side, ThreadSide, Wrong, until
from server import JARS, Server

CURATOR = ["5.9.0", "5.4.0"]
DEBIAN = "5.4.0"  # the one that is installed, not fetched
MAVEN_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
SECONDS = float(os.environ.get("INTEROP_SECONDS", "60"))
ONLY = os.environ.get("INTEROP_ONLY", "")
LONG_MS, SHORT_MS = 10000, round(r.SESSION * 1000)  # sessions

# What is called differently on the two sides: ours, theirs.
WORDS = {
    "leader": ("mutex", "leader"),
    "semmutex": ("permits:1:1", "semmutex"),
    "reentrant": ("reentrant", "mutex"),
}


# ---- What is fetched and built, once -------------------------------------------------


def must_run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.stdout.write(done.stdout[-2000:] + done.stderr[-2000:])
        sys.exit(f"interop: {command[0]} failed")


def fetched(root, version):
    """The jars from Maven, whole or not at all."""
    if not os.path.isdir(f"{root}/lib"):
        print(f"interop: fetching Curator {version}", flush=True)
        shutil.rmtree(f"{root}/half", ignore_errors=True)
        must_run(
            ["mvn", "-q", "-B", "-f", os.path.join(HERE, "pom.xml"), MAVEN_GOAL]
            + [f"-Dcurator.version={version}", "-DincludeScope=runtime"]
            + [f"-DoutputDirectory={root}/half"]
        )
        os.rename(f"{root}/half", f"{root}/lib")
    return f"{root}/lib/*"


def installed(version):
    names = ["recipes", "framework", "client"]
    jars = [f"{JARS}/curator-{name}-{version}.jar" for name in names]
    if not all(os.path.exists(jar) for jar in jars):
        sys.exit(f"interop: no Curator {version} (libcurator-recipes-java)")
    others = ["zookeeper", "zookeeper-jute", "guava", "slf4j-api", "slf4j-simple"]
    return ":".join(jars + [f"{JARS}/{name}.jar" for name in others])


def curator_classes(cache, version):
    root = os.path.join(cache, f"curator-{version}")
    path = installed(version) if version == DEBIAN else fetched(root, version)
    path = f"{root}/classes:{path}"
    os.makedirs(f"{root}/classes", exist_ok=True)
    must_run(
        ["javac", "-nowarn", "-Xlint:none", "-cp", path, "-d", f"{root}/classes"]
        + sorted(glob.glob(os.path.join(HERE, "*.java")))
    )
    return path


def python_with_kazoo():
    for python in [sys.executable, "/usr/bin/python3"]:
        done = subprocess.run(
            [python, "-c", "import kazoo"], capture_output=True, check=False
        )
        if done.returncode == 0:
            return python
    sys.exit("interop: no python3 has kazoo (python3-kazoo)")


# ---- Sides: those that are killed have short sessions --------------------------------


class ShortLived:
    """`command` is a function of the session's time; again() makes one to be killed."""

    def __init__(self, title, command, log):
        super().__init__(title, command(LONG_MS), log)
        self.with_session = command

    def again(self):
        other = type(self)(self.title, lambda _: self.with_session(SHORT_MS), self.log)
        self.others.append(other)
        return other


class Processes(ShortLived, Side):
    pass


class Threads(ShortLived, ThreadSide):
    pass


# ---- The table -----------------------------------------------------------------------


class Run:
    """What the rows need, and what came of them."""

    names = 0

    def __init__(self, server, ours, theirs, rows):
        self.server = server
        self.log = ours.log
        self.ours = ours
        self.theirs = theirs
        self.rows = rows
        self.queue = "/locks/"  # where semaphores queue
        self.leaves_its_place = "5.4." in theirs.title  # at a downgrade

    def name(self):
        Run.names += 1
        return f"n{Run.names}"

    def kind(self, side, kind):
        return WORDS.get(kind, (kind, kind))[0 if side is self.ours else 1]

    def _play(self, play):
        """The verdict, and what was seen. No row leaves a node."""
        try:
            seen = play() or ""
            self.ours.end_row()
            until(lambda: not self.server.ephemerals(), 6, "the last node to go")
            return "ok", seen
        except Wrong as wrong:
            left = " ".join(self.server.ephemerals())
            self.log.write(f"left: {left}\n")
            return "WRONG", str(wrong)

    def row(self, kind, direction, what, play):
        """Plays one row and keeps its verdict."""
        line = [kind, what, direction, self.theirs.title]
        if ONLY and not all(word in " ".join(line) for word in ONLY.split(",")):
            return
        began = time.monotonic()
        verdict, seen = self._play(play)
        self.ours.end_row()
        self.theirs.end_row()
        if verdict != "ok":
            self.theirs.close()  # what it still holds would be in the way
            self.theirs.process = None
        self.log.write(f"{time.monotonic() - began:.1f} s: {line} {verdict} {seen}\n")
        self.log.flush()
        self.rows.append([*line, verdict, seen])
        print(f"{kind:12} {what:26} {direction:22} {line[3]:14}", end=" ")
        print(f"{verdict:5} {seen}", flush=True)

    def both(self, kind, what, play, *more):
        """The row in both directions: `play(run, first, second, ...)`."""
        self.ours_first(kind, what, play, *more)
        self.theirs_first(kind, what, play, *more)

    def ours_first(self, kind, what, play, *more):
        direction = f"holdfast to {self.theirs.title.split()[0]}"
        self.row(
            kind, direction, what, lambda: play(self, self.ours, self.theirs, *more)
        )

    def theirs_first(self, kind, what, play, *more):
        direction = f"{self.theirs.title.split()[0]} to holdfast"
        self.row(
            kind, direction, what, lambda: play(self, self.theirs, self.ours, *more)
        )

    def mixed(self, kind, what, play, *more, direction="both at once"):
        self.row(kind, direction, what, lambda: play(self, *more))


def warm_up(run):
    """A JVM's first steps are slow: they are not what is measured."""
    actor, name = run.theirs.actor(), run.name()
    for kind in ["mutex", "write", "semmutex"]:
        actor.must_take(kind, name + kind, 5000)
        actor.must_drop(kind, name + kind)


def play_curator(run, seconds):
    warm_up(run)
    wake = "busy, waits, is woken"
    for kind in ["mutex", "write", "permits:2:3", "semmutex"]:
        run.both(kind, wake, r.hand_over, kind)
    run.both("leader", "waits, is woken", r.hand_over, "leader")
    run.both("write", "busy for a reader", r.hand_over, "write", "read")
    run.both("read", "busy for a writer", r.hand_over, "read", "write")
    run.both("multi", wake, r.hand_over, "multi", None, f"{run.name()}+{run.name()}")
    run.both("multi", "all or none", r.part_of_multi)
    run.both("mutex", "name with slashes", r.hand_over, "mutex", None, "jobs/by/night")
    run.both("mutex", "reentrant, counted", r.twice, "reentrant")
    run.theirs_first("write", "reentrant, counted", r.twice, "write", "write")
    run.theirs_first("read", "reentrant, counted", r.twice, "read", "write")
    run.both("read", "shared", r.shared)
    run.both("read", "behind a waiting writer", r.behind_a_writer)
    run.theirs_first("write", "read inside write", r.read_in_write)
    run.both("write", "downgrade", r.downgrade)
    run.both("write", "downgrade, writer waits", r.downgrade_before_writer)
    run.both("permits", "several at once", r.several)
    for kind in ["mutex", "write", "read"]:
        run.both(kind, "asked for, releases", r.revoked, kind)
    run.both("mutex", "order of arrival", r.in_order, "mutex")
    run.both("leader", "order of arrival", r.in_order, "leader", 6)
    for kind in ["mutex", "write"]:
        run.mixed(kind, "tokens grow", r.tokens_grow, kind)
    ours, theirs = "holdfast to Curator", "Curator to holdfast"
    run.mixed("all", "other kind is refused", r.refused, direction=theirs)
    run.mixed("all", "seen by the other", r.seen_by_them, direction=ours)
    run.mixed("all", "seen by the other", r.seen_by_us, direction=theirs)
    kinds = ["mutex", "read", "write", "permits:2:3", "semmutex"]
    run.both("all", "holder killed", r.killed, kinds)
    run.both("mutex", "waiter killed", r.killed_waiter)
    run.mixed("mutex", "holder stopped", r.stopped, direction=ours)
    run.mixed("mutex", f"4+4 for {seconds:.0f} s", mixed.exact, "mutex", seconds)
    short = max(2, seconds / 15)
    what = f"4+4 for {short:.0f} s"
    run.mixed("semmutex", what, mixed.exact, "semmutex", short)
    run.mixed("read/write", what, mixed.readers_and_writers, short)
    singles = ["permits:2:3", "permits:1:3"]
    run.mixed("permits:2:3", "conserved", mixed.conserved, *singles, short)


def play_kazoo(run, seconds):
    run.queue = "__lock__"
    ours = "holdfast to kazoo"
    wake = "busy, waits, is woken"
    for kind in ["mutex", "write", "permits:1:1"]:
        run.both(kind, wake, r.hand_over, kind)
    run.both("write", "busy for a mutex", r.hand_over, "write", "mutex")
    run.both("write", "busy for a reader", r.hand_over, "write", "read")
    run.both("read", "busy for a writer", r.hand_over, "read", "write")
    run.both("read", "shared", r.shared)
    run.both("mutex", "order of arrival", r.in_order, "mutex", 6)
    run.mixed("mutex", "tokens grow", r.tokens_grow, "mutex")
    for kind in ["mutex", "permits:1:1"]:
        run.mixed(kind, "folder stays", r.folder_stays, kind, direction=ours)
    run.both("all", "holder killed", r.killed, ["mutex", "read", "permits:1:1"])
    run.mixed("mutex", f"2+2 for {seconds:.0f} s", mixed.exact, "mutex", seconds, 2)
    short = max(2, seconds / 5)
    what = f"2+2 for {short:.0f} s"
    # Readers of kazoo 2.8 wait for writers behind them, and so for ever (its #649).
    writers = ["write"]
    run.mixed("read/write", what, mixed.readers_and_writers, short, 2, writers)
    singles = ["permits:2:2", "permits:1:2"]
    run.mixed("permits:2:2", "conserved", mixed.conserved, *singles, short, 2)


def write_table(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        file.write("| kind | what | direction | with | verdict | seen |\n")
        file.write("|---|---|---|---|---|---|\n")
        for row in rows:
            file.write("| " + " | ".join(row) + " |\n")


def play_all(server, peer, cache, log):
    rows = []
    hosts = f"127.0.0.1:{server.port}"
    url = f"zookeeper://{hosts}?session="
    seconds = SECONDS
    for version in CURATOR:
        ours = Processes("holdfast", lambda ms: [peer, f"{url}{ms}ms"], log)
        java = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        java += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        java += ["-cp", curator_classes(cache, version), "Peer", hosts]
        title = f"Curator {version}"
        theirs = Threads(title, lambda ms, java=java: [*java, str(ms)], log)
        play_curator(Run(server, ours, theirs, rows), seconds)
        theirs.close()
        seconds = SECONDS / 6
    kazoo = [python_with_kazoo(), "-B", os.path.join(HERE, "peer.py"), hosts]
    ours = Processes("holdfast", lambda ms: [peer, f"{url}{ms}ms&layout=kazoo"], log)
    theirs = Processes("kazoo", lambda ms: [*kazoo, str(ms)], log)
    theirs.actor()
    theirs.title = " ".join(theirs.greeting.split()[1:])
    theirs.close()
    play_kazoo(Run(server, ours, theirs, rows), SECONDS / 3)
    return rows


def main():
    build, cache = (os.path.abspath(path) for path in sys.argv[1:3])
    os.makedirs(cache, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.monotonic()
    server = Server()
    try:
        peer = os.path.join(build, "tests", "interop", "interop_peer")
        print(f"interop: ZooKeeper {server.version()}, port {server.port}", flush=True)
        path = os.path.join(build, "interop-zookeeper.log")
        with open(path, "w", encoding="utf-8") as log:
            rows = play_all(server, peer, cache, log)
    finally:
        for process in list(Process.alive):
            process.kill()
        server.stop()
    write_table(os.path.join(build, "interop-zookeeper.md"), rows)
    wrong = sum(row[4] != "ok" for row in rows)
    minutes = (time.monotonic() - began) / 60
    print(f"interop: {minutes:.1f} minutes")
    print(f"interop: zookeeper {len(rows) - wrong} rows ok, {wrong} wrong")
    return 1 if wrong or not rows else 0


sys.exit(main())
