# SPDX-License-Identifier: MIT
"""The workers of a campaign: started, told, stopped, killed, and started again.

A store says what each is like (`Spec`). A worker keeps its slot for the whole campaign;
the process in it may change, and each process has a number of its own, because its
history must not be mixed up with that of the one before.
"""

import os
import resource
import signal
import struct
import subprocess
import time

import history


class Spec:
    """How to start a worker: where its store is and what is special about it."""

    def __init__(self, url, threads=3, share=0, ttl=500, address=None, proxy=None,
                 clock=False, shim=False):
        self.url = url
        self.threads = threads
        self.share = share  # so many of the threads share one client
        self.ttl = ttl  # ms; 0: no lease
        self.address = address  # of the store as this worker knows it, to cut it off
        self.proxy = proxy  # the bad network it goes through
        self.clock = clock  # its wall clock can be moved
        self.shim = shim  # its store is behind the fault shim


class Worker:
    def __init__(self, crew, slot, spec):
        self.crew = crew
        self.slot = slot
        self.spec = spec
        self.process = None
        self.number = 0

    def start(self):
        """Another process in this slot, with the next number."""
        crew, spec = self.crew, self.spec
        crew.last_number += 1
        self.number = crew.last_number
        command = [
            crew.program("worker"),
            "--dir", crew.directory, "--process", self.number,
            "--threads", spec.threads, "--share", spec.share,
            "--locks", crew.locks, "--kinds", ",".join(crew.kinds),
            "--driver", crew.driver, "--url", spec.url, "--ttl", spec.ttl,
            "--seed", crew.seed, "--hold-us", crew.hold_us,
            "--think-us", crew.think_us, "--long-hold", crew.long_hold,
            "--timeout", crew.timeout_ms, "--resources", crew.resources,
            "--events", crew.events, "--until",
        ]
        environment = dict(os.environ)
        if spec.clock:
            environment["LD_PRELOAD"] = crew.program("clock_shift.so")
            environment["HOLDFAST_TEST_CLOCK"] = self.clock_path()
            self.shift_clock(0)
        if crew.names:
            command += ["--names", crew.names]
        if crew.moves:
            command += ["--moves", ",".join(crew.moves)]
        command += crew.extra
        with open(self.path("err"), "ab") as err, open(self.path("out"), "ab") as out:
            self.process = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.PIPE, stdout=out,
                stderr=err, env=environment,
            )

    def path(self, suffix):
        return os.path.join(self.crew.directory, f"worker-{self.number:04}.{suffix}")

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process.poll() is None

    def waiting_path(self):
        return os.path.join(self.crew.directory, f"waiting-{self.number:04}")

    def begun(self):
        """Is past its loading: a fault then hits the library, not the loader."""
        return self.alive() and os.path.exists(self.waiting_path())

    def signal(self, number):
        if self.alive():
            self.process.send_signal(number)

    def tell(self, line):
        """One command of control.h."""
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            pass  # it was killed; what it was told does not matter

    def kill(self):
        """SIGKILL, and remembers when it was gone for sure."""
        self.process.kill()
        self.process.wait()
        self.mourn()

    def mourn(self):
        self.crew.killed[self.number] = history.now()

    # ---- What is done to a process from outside

    def threads(self):
        try:
            return [int(name) for name in os.listdir(f"/proc/{self.pid}/task")]
        except OSError:
            return []

    def starve(self, on):
        policy = os.SCHED_IDLE if on else os.SCHED_OTHER
        for thread in self.threads():
            try:
                os.sched_setscheduler(thread, policy, os.sched_param(0))
            except OSError:
                pass  # the thread is gone

    def descriptors(self):
        try:
            return len(os.listdir(f"/proc/{self.pid}/fd"))
        except OSError:
            return 0

    def limit_descriptors(self, count):
        """`count` None: as it was."""
        try:
            _, hard = resource.prlimit(self.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(self.pid, resource.RLIMIT_NOFILE, (count or hard, hard))
        except OSError:
            pass

    def clock_path(self):
        return os.path.join(self.crew.directory, f"clock-{self.slot}")

    def shift_clock(self, seconds):
        with open(self.clock_path(), "r+b" if os.path.exists(self.clock_path())
                  else "w+b") as file:
            file.write(struct.pack("<q", int(seconds * 1e9)))


class Crew:
    """All of them. `extra`: further arguments of every worker."""

    def __init__(self, build, directory, kinds, seed, **settings):
        self.build = build
        self.directory = directory
        self.kinds = kinds
        self.seed = seed
        self.driver = "holdfast"
        self.worker_program = "worker"
        self.locks = 2
        self.hold_us = "0-600"
        self.think_us = "0-2000"
        self.long_hold = 1500
        self.timeout_ms = 20000
        self.events = 1 << 22
        self.moves = []
        self.names = None  # a file with the names of the locks; otherwise plain ones
        self.extra = []
        for name, value in settings.items():
            setattr(self, name, value)
        self.resources = os.path.join(directory, "resources")
        self.last_number = 0
        self.killed = {}
        self.workers = []

    def program(self, name):
        if name == "worker":
            name = self.worker_program
        return os.path.join(self.build, "tests", "torture", name)

    def start(self, specs):
        for slot, spec in enumerate(specs):
            worker = Worker(self, slot, spec)
            worker.start()
            self.workers.append(worker)

    def waiting_since(self, moment):
        """How many threads have been waiting for a lock since before that moment."""
        count = 0
        for worker in self.workers:
            if not worker.begun():
                continue
            with open(worker.waiting_path(), "rb") as file:
                words = file.read(8 * worker.spec.threads)
            stamps = struct.unpack(f"<{len(words) // 8}Q", words)
            count += sum(0 < stamp < moment for stamp in stamps)
        return count

    def dead(self):
        """Those that ended though nobody killed them: (worker, how)."""
        return [(worker, worker.process.returncode) for worker in self.workers
                if not worker.alive() and worker.number not in self.killed]

    def stop(self, patience):
        """Lets all finish. Returns those that did not within `patience` seconds."""
        open(os.path.join(self.directory, "stop"), "w").close()
        deadline = time.monotonic() + patience
        stuck = []
        for worker in self.workers:
            try:
                worker.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                stuck.append(worker)
        for worker in stuck:
            self.trace(worker)
            worker.signal(signal.SIGKILL)
            worker.process.wait()
        return stuck

    def trace(self, worker):
        """Where the threads of one that does not end are, if there is a debugger."""
        try:
            with open(worker.path("stacks"), "w") as out:
                subprocess.run(
                    ["gdb", "-p", str(worker.pid), "-batch", "-ex",
                     "thread apply all bt"],
                    stdout=out, stderr=subprocess.STDOUT, timeout=60,
                )
        except (OSError, subprocess.TimeoutExpired):
            pass

    def residue(self):
        """What the processes that ended by themselves say they left: [(what, n)]."""
        found = []
        for worker in self.workers:
            with open(worker.path("out")) as file:
                for line in file:
                    if not line.startswith("residue "):
                        continue
                    for word in line.split()[1:]:
                        what, number = word.split("=")
                        if int(number) != 0:
                            found.append((f"{what} of process {worker.number}",
                                          abs(int(number))))
        return found

    def finals(self):
        """Per lock: number, last token, fenced value, plain value."""
        count = self.locks * len(self.kinds)
        with open(self.resources, "rb") as file:
            data = file.read()
        return [(lock, *struct.unpack_from("<QQQ", data, lock * 64))
                for lock in range(count)]
