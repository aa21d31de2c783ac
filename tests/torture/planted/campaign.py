# SPDX-License-Identifier: MIT
"""One run of workers against a store of its own, with faults, judged by lockcheck.

Used by planted.py and mutants.py. Everything lives in a directory that is gone
afterwards; servers listen on sockets in it. Faults are few and plain (signals to
workers and servers), because a planted lock has to fall to a schedule that can be told
in a sentence; run.py has the large collection.
"""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import history  # noqa: E402
from stores.zookeeper import ZooKeeper  # noqa: E402

CHECKS = ["K1", "K2", "K3", "K4", "K5", "K7", "K8", "K9", "K10", "K11",
          "K12"]
INFORMATIVE = {"K2", "K5"}
BOUND_MS = 3000
HEALED_S = BOUND_MS / 1000 + 0.5  # how long workers go on after the last fault


def pause(seconds):
    """Time that is part of a schedule, or between two looks at something."""
    time.sleep(seconds)  # pause: schedules are made of time


class Server:
    """A redis-server without persistence, on a socket (and a port, for replicas)."""

    def __init__(self, directory, name, port=0):
        self.socket = os.path.join(directory, name + ".sock")
        self.log = os.path.join(directory, name + ".log")
        self.port = port
        self.process = None

    def start(self, *more):
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1",
                   "--unixsocket", self.socket, "--save", "", "--appendonly", "no",
                   "--dir", os.path.dirname(self.socket), "--dbfilename",
                   os.path.basename(self.socket) + ".rdb", "--repl-diskless-sync-delay",
                   "0", "--logfile", self.log, *more]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        for _ in range(500):
            if self.say("PING") == ["+PONG"]:
                return self
            pause(0.01)
        raise RuntimeError(f"redis-server does not start, see {self.log}")

    def say(self, *words):
        """The lines of the answer; enough for what is asked here. [] if none came."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(2)
                connection.connect(self.socket)
                connection.sendall((" ".join(words) + "\r\nPING\r\n").encode())
                text = b""
                while not text.endswith(b"+PONG\r\n"):
                    part = connection.recv(65536)
                    if not part:
                        return []
                    text += part
            lines = text.decode(errors="replace").split("\r\n")[:-2]
            return lines or ["+PONG"]
        except OSError:
            return []

    def keys(self):
        """What locks have left: all keys but token counters, counters at zero and
        answers to evictions, which stay for a minute."""
        found = []
        for line in self.say("KEYS", "*"):
            if line[:1] in "*$+" or "token" in line or "holdfast_done" in line:
                continue
            if self.say("GET", line)[1:] != ["0"]:
                found.append(line)
        return found

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        try:
            os.unlink(self.socket)
        except FileNotFoundError:
            pass


class Worker:
    def __init__(self, campaign, number):
        self.number = number
        self.output = os.path.join(campaign.directory, f"worker-{number}.log")
        with open(self.output, "w", encoding="utf-8") as output:
            self.process = subprocess.Popen(
                campaign.command(number), stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, env=campaign.environment(number))

    def signal(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)


class Campaign:
    """`plan` says which lock, which load and which schedule (planted.py: Plan)."""

    def __init__(self, plan, tools, seed, control=False):
        self.plan, self.tools = plan, tools
        self.control = control
        self.driver = plan.control if control else plan.driver
        self.random = random.Random(seed)
        self.seed = seed
        self.directory = tempfile.mkdtemp(prefix="planted-")
        self.histories = os.path.join(self.directory, "histories")
        self.servers, self.workers, self.killed = [], [], []
        self.keeper = None
        self.count = self.faults = 0

    # ---- What is started ------------------------------------------------------------

    def url(self):
        if self.plan.store == "mem":
            return "mem:"
        if self.plan.store == "file":
            place = os.path.join(self.directory, "locks")
            os.makedirs(place, mode=0o700, exist_ok=True)
            return "file://" + place + (self.plan.options if self.holdfast() else "")
        if self.plan.store == "zookeeper":
            return (f"zookeeper://127.0.0.1:{self.keeper.proxies[0].port}" +
                    (f"/planted?session={self.plan.ttl}ms" if self.holdfast() else ""))
        sockets = [server.socket for server in self.servers]
        if self.plan.store == "redis-replica":
            sockets = [os.path.join(self.directory, "service.sock")]
        return "redis+unix://" + ",".join(sockets) + (
            self.plan.options if self.holdfast() else "")

    def holdfast(self):
        return self.driver == "holdfast"

    def command(self, number):
        plan = self.plan
        words = [self.tools.worker, "--dir", self.histories, "--process", str(number),
                 "--threads", str(plan.threads), "--locks", "1", "--kinds", plan.kind,
                 "--driver", self.driver, "--url", self.url(), "--ttl", str(plan.ttl),
                 "--seed", str(self.seed), "--hold-us", plan.hold, "--think-us",
                 plan.think, "--timeout", str(plan.timeout), "--resources",
                 os.path.join(self.directory, "resources"), "--events", "300000",
                 "--until"]
        if plan.long_hold:
            words += ["--long-hold", str(plan.long_hold)]
        if plan.moves:
            words += ["--moves", plan.moves]
        if plan.share:
            words += ["--share", str(plan.threads)]
        return words

    def environment(self, number):
        more = {}
        if self.plan.point and not self.holdfast():
            more["PLANTED_POINT"] = self.plan.point
        if self.plan.skew_ms and number % 3 == 1:
            path = os.path.join(self.directory, "clock")
            with open(path, "wb") as clock:
                clock.write((self.plan.skew_ms * 1000000).to_bytes(8, "little"))
            more.update(LD_PRELOAD=self.tools.clock_shift, HOLDFAST_TEST_CLOCK=path)
        return dict(os.environ, **more)

    def spawn(self):
        self.count += 1
        worker = Worker(self, self.count)
        self.workers.append(worker)
        return worker

    def start(self):
        os.makedirs(self.histories)
        self.writer = history.Writer(os.path.join(self.histories, "nemesis.hist"),
                                     9999, label="nemesis")
        names = {"redis": 1, "redis-three": 3, "redis-replica": 2}
        for i in range(names.get(self.plan.store, 0)):
            port = 0
            if self.plan.store == "redis-replica":
                port = free_port()
            self.servers.append(Server(self.directory, f"redis{i + 1}", port).start())
        if self.plan.store == "zookeeper":
            self.keeper = ZooKeeper(self.directory, self.tools.build, self.random)
            self.keeper.port = free_port()
            os.mkdir(self.keeper.disk)
            self.keeper.start()
        if self.plan.store == "redis-replica":
            follow(self.servers[1], self.servers[0])
            self.point_service(self.servers[0])
        for _ in range(self.plan.processes):
            self.spawn()

    def point_service(self, server):
        """The address that clients know leads to this server from now on."""
        link = os.path.join(self.directory, "service.sock")
        os.symlink(os.path.basename(server.socket), link + ".new")
        os.rename(link + ".new", link)

    # ---- Faults ---------------------------------------------------------------------

    def fault(self, kind):
        """A context in which something is broken."""
        self.faults += 1
        return Fault(self.writer, self.faults, kind)

    def living(self):
        return [worker for worker in self.workers if worker.process.poll() is None]

    def bury(self):
        """Notes workers that died, and starts others in their place."""
        for worker in list(self.workers):
            if worker.process.poll() == -signal.SIGKILL:
                self.workers.remove(worker)
                self.killed.append((worker.number, history.now()))
                self.spawn()

    # ---- The run --------------------------------------------------------------------

    def run(self, seconds):
        """Starts, breaks, heals, stops; the verdict of lockcheck."""
        try:
            self.start()
            end = time.monotonic() + seconds
            self.plan.schedule(self, end)
            self.heal()
            return self.check()
        finally:
            self.clean()

    def heal(self):
        self.bury()
        self.writer.add(history.HEAL)
        needed = self.control or "K8" in self.plan.catch.split()
        end = time.monotonic() + (HEALED_S if needed else 0.3)
        while time.monotonic() < end:
            pause(0.05)
            if self.plan.point:
                self.bury()
        with open(os.path.join(self.histories, "stop"), "w", encoding="utf-8"):
            pass
        end = time.monotonic() + self.last_hold_s()
        while self.living() and time.monotonic() < end:
            pause(0.02)
        self.stuck = self.living()
        for worker in self.stuck:
            worker.signal(signal.SIGKILL)  # not told to the checker: it is its finding
        for worker in self.workers:
            worker.process.wait()
        self.take_stock()

    def last_hold_s(self):
        """How long a worker may take to end that is not stuck: it may have to wait for
        others who end, too."""
        longest = int(self.plan.hold.split("-")[1]) / 1e6
        if self.plan.long_hold:
            longest = max(longest, 2 * self.plan.ttl / 1000)
        return 1.5 + 3 * longest

    def take_stock(self):
        with open(os.path.join(self.directory, "resources"), "rb") as file:
            token, value, plain = [int.from_bytes(file.read(8), "little")
                                   for _ in range(3)]
        self.writer.add(history.FINAL, token=token, value=value, until_ns=plain)
        left = self.left_behind()
        if left is not None:
            self.writer.add(history.RESIDUE, value=left)
        self.writer.close()

    def left_behind(self):
        """Things in the store that no lease will remove; None if it cannot be said."""
        if self.plan.store != "redis":
            return None
        end = time.monotonic() + self.plan.ttl / 1000 + 0.5
        while self.servers[0].keys() and time.monotonic() < end:
            pause(0.05)
        return len(self.servers[0].keys())

    def check(self):
        killed = ",".join(f"{number}@{gone}" for number, gone in self.killed)
        command = [self.tools.lockcheck, self.histories, "--json", "--bound",
                   str(BOUND_MS), "--grace", str(self.plan.grace)]
        if killed:
            command += ["--killed", killed]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        try:
            return Verdict(json.loads(done.stdout), self.plan.suspect)
        except ValueError:
            raise RuntimeError(f"lockcheck: {done.stderr.strip()}") from None

    def clean(self):
        for worker in self.workers:
            worker.signal(signal.SIGKILL)
            worker.process.wait()
        for server in self.servers:
            server.kill()
        if self.keeper:
            self.keeper.stop()
        if self.tools.keep:
            print(f"kept: {self.directory}")
        else:
            shutil.rmtree(self.directory, ignore_errors=True)


class Fault:
    def __init__(self, writer, number, kind):
        self.writer, self.number, self.kind = writer, number, kind

    def __enter__(self):
        self.writer.add(history.FAULT, history.INVOKE, value=self.number,
                        kind=self.kind)

    def __exit__(self, *_):
        self.writer.add(history.FAULT, history.RETURN, value=self.number,
                        kind=self.kind)


class Verdict:
    """What lockcheck found: how often each check was violated."""

    def __init__(self, report, suspect):
        checks = report["checks"]
        self.found = {name: checks[name]["found"] for name in CHECKS
                      if checks[name]["found"]}
        self.examples = {name: checks[name]["examples"] for name in CHECKS}
        self.acquisitions = report["acquisitions"]
        if suspect and report["order_suspicions"]:
            self.found["K7"] = report["order_suspicions"]

    def red(self, but=()):
        return [name for name in CHECKS
                if name in self.found and name not in INFORMATIVE and name not in but]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def follow(replica, master):
    """Makes one server the replica of another, and waits until it has caught up."""
    replica.say("REPLICAOF", "127.0.0.1", str(master.port))
    for _ in range(400):
        if "master_link_status:up" in replica.say("INFO", "replication"):
            return
        pause(0.02)
    raise RuntimeError("the replica does not follow")
