# SPDX-License-Identifier: MIT
"""The tests that mutants are run against, and how one is run.

meson knows the programs (`meson introspect --tests`). The contract suite is one test per
store, whose cases are chosen one by one. Everything is measured once with no mutant
switched on: what a test reaches and how long it takes. A test that fails then is left
out, and the report says so.
"""

import json
import os
import re
import select
import signal
import subprocess
import tempfile
import threading
import time
import uuid

LINE = re.compile(rb"^(not )?ok \d+ - (\S+)(?: # (\d+) ms)?")

# store -> how much of it is measured
CONTRACT = {"mem": [], "fault+mem": ["--needs", "fault"], "file": [],
            "fault+file": ["--needs", "fault"], "redis": [], "redis-simple": [],
            "redis-resp2": ["--part", "1/6"], "fault+redis": ["--needs", "fault"],
            "zookeeper": [], "zookeeper-single": [],
            "zookeeper-kazoo": ["--part", "1/6"],
            "fault+zookeeper": ["--needs", "fault", "--part", "1/6"]}
LEFT_OUT = re.compile(r"^(contract-.*|header|sim-replay|sim-planted|kill_storm_control|"
                      r"deadlines-.*|torture.*|bench.*|mutants)$")
# Short forms: a mutant is met in the first rounds or not at all.
SHORTER = {"sim-mem": ("1-600", "1-150"), "sim-fault": ("1-500", "1-150"),
           "sim-lease": ("1-400", "1-150"), "kill_storm": ("5", "2"),
           "threads": ("3", "1"), "fork_close": ("300", "60"), "cancel_race": (None, ["--rounds", "1000"])}

# What a mutant of an area is run against; `deep` adds everything else that reaches it.
PROGRAMS = {"unit", "fuzz", "outside"}
MAP = {"core": (PROGRAMS | {"sim", "stress", "file"}, ("mem", "fault+mem", "file")),
       "kit": (PROGRAMS | {"sim"}, ("mem", "file", "redis", "fault+redis", "zookeeper")),
       "memory": (PROGRAMS | {"sim", "stress"}, ("mem", "fault+mem")),
       "file": (PROGRAMS | {"file", "stress"}, ("file", "fault+file")),
       "redis": (PROGRAMS | {"redis"},
                 ("redis", "redis-simple", "fault+redis", "redis-resp2")),
       "scripts": ({"redis"}, ("redis-simple", "redis")),
       "zookeeper": (PROGRAMS | {"zookeeper"},
                     ("zookeeper", "zookeeper-single", "zookeeper-kazoo",
                      "fault+zookeeper")),
       "cli": ({"cli"}, ())}
STEADY = {"unit", "fuzz", "sim"}  # their failures need no second look
DEEP_ONLY = {"redis_faults-resp2", "contract-redis-resp2", "zk_objects"}


class Test:
    """A program, or one store of the contract suite (then `cases` says which)."""

    def __init__(self, name, suite, command, env, directory):
        self.name, self.suite, self.command = name, suite, command
        self.env, self.directory = env, directory
        self.seconds, self.good, self.why = 0.0, True, ""
        self.stamp = ""
        self.reached = frozenset()
        self.cases = {}  # of the contract: name -> (seconds, bytes)

    @property
    def is_contract(self):
        return self.suite == "contract"

    def limit(self):
        """Seconds without a word after which it hangs."""
        if self.is_contract:
            longest = max((case[0] for case in self.cases.values()), default=1)
            return 15 + 4 * longest
        return 15 + 5 * self.seconds


def find(build):
    """The tests of a build directory, the contract suite's stores among them."""
    listed = json.loads(subprocess.run(["meson", "introspect", "--tests", build],
                                       capture_output=True, text=True, check=True).stdout)
    tests = []
    for one in listed:
        name, suite = one["name"], one["suite"][0].split(":")[-1]
        if LEFT_OUT.match(name):
            continue
        command = list(one["cmd"])
        old, new = SHORTER.get(name, (None, None))
        if old:
            command = [new if word == old else word for word in command]
        elif new:
            command += new
        tests.append(Test(name, suite, command, one["env"], build))
    program = f"{build}/tests/contract/contract"
    for store, part in CONTRACT.items():
        tests.append(Test(f"contract-{store}", "contract",
                          [program, "--store", store, *part], {}, build))
    return tests


# ---- Running one ----------------------------------------------------------------------


class Outcome:
    def __init__(self):
        self.failed, self.case, self.why = False, "", ""
        self.seconds = 0.0
        self.cases = {}


def marked(mark):
    """The processes that carry our mark in their environment."""
    word = f"HFM_RUN={mark}".encode()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as stream:
                    if word in stream.read():
                        yield int(name)
            except OSError:
                pass


def sweep(mark):
    """Ends what a test has left running: takers, servers, wardens. Only what it started
    itself has the mark."""
    for _ in range(20):
        found = list(marked(mark))
        if not found:
            return
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.02)


MARKS = set()  # of the tests that run now
STOPPED = threading.Event()


def sweep_all():
    """For a campaign that is told to end: nothing is left running, nothing begins."""
    STOPPED.set()
    for mark in list(MARKS):
        sweep(mark)


def run(test, extra, jobs=2, whole=False):
    """Runs a test with these variables; stops at the first failure unless `whole`."""
    mark = uuid.uuid4().hex
    MARKS.add(mark)
    if STOPPED.is_set():
        raise SystemExit
    scratch = tempfile.mkdtemp(prefix="hfm.", dir=os.environ.get("TMPDIR", "/tmp"))
    env = dict(os.environ, **test.env, **extra, HFM_RUN=mark, TMPDIR=scratch)
    command = test.command + (["--jobs", str(jobs)] if test.is_contract else [])
    outcome, since = Outcome(), time.monotonic()
    process = subprocess.Popen(command, cwd=test.directory, env=env,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)
    limit = 600 if whole else test.limit()
    ended = watch(process, outcome, limit, whole)
    if not ended:
        sweep(mark)
    process.wait()
    process.stdout.close()
    outcome.seconds = time.monotonic() - since
    if ended and process.returncode != 0 and not outcome.failed:
        outcome.failed, outcome.why = True, f"ended with {process.returncode}"
    sweep(mark)
    MARKS.discard(mark)
    subprocess.run(["rm", "-rf", scratch], check=False)
    return outcome


def watch(process, outcome, limit, whole):
    """Reads what the test says. Answers whether it came to its end by itself."""
    fd, rest, last = process.stdout.fileno(), b"", time.monotonic()
    tail = b""
    while True:
        ready, _, _ = select.select([fd], [], [], 0.5)
        now = time.monotonic()
        if not ready:
            if process.poll() is not None:
                return True
            if now - last > limit:
                outcome.failed, outcome.why = True, f"hangs ({limit:.0f} s)"
                return False
            continue
        chunk = os.read(fd, 65536)
        if not chunk:
            try:
                process.wait(timeout=limit)
            except subprocess.TimeoutExpired:
                outcome.failed, outcome.why = True, "hangs at its end"
                return False
            return True
        last = now
        rest += chunk
        *lines, rest = rest.split(b"\n")
        for line in lines:
            note(line, outcome)
        if outcome.failed and not whole:
            return False


def note(line, outcome):
    found = LINE.match(line)
    if found:
        name = found[2].decode(errors="replace")
        if found[3]:
            outcome.cases[name] = (int(found[3]) / 1000, not found[1])
        if found[1] and not outcome.failed:
            outcome.failed, outcome.case = True, name
            outcome.why = line.decode(errors="replace")[:160]
