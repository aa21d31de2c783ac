# SPDX-License-Identifier: MIT
"""zookeeper: one server, which keeps what it has acknowledged over a crash, and removes
empty containers every half second, so that folders vanish under those who use them. On
a private network, as the server of redis is."""

import os
import re
import signal
import struct
import subprocess
import time

from workers import Spec

from . import zkraw
from .base import Proxy, PULSE_PATIENCE, Store

JARS = "/usr/share/java/"
START_SECONDS = 40
CONFIG = """tickTime=100
dataDir={data}
clientPort={port}
minSessionTimeout=400
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=*
"""
SWITCHES = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
            "-XX:-UsePerfData", "-Djava.net.preferIPv4Stack=true"]
PROPERTIES = {
    "zookeeper.forceSync": "no",  # the page cache outlives a killed server
    "zookeeper.preAllocSize": "64",
    "zookeeper.snapCount": "50000",
    "znode.container.checkIntervalMs": "500",
    "znode.container.maxNeverUsedIntervalMs": "2000",
    "znode.container.maxPerMinute": "1000000",
    "org.slf4j.simpleLogger.defaultLogLevel": "warn",
}


class Question(zkraw.Session):
    """Goes through the queue in which requests of the workers stand."""

    def __init__(self, port):
        super().__init__(port, lasts_ms=1000, patience=PULSE_PATIENCE)

    def ask(self):
        self.children("/")


class ZooKeeper(Store):
    name = "zookeeper"
    port = 2181
    locks = 4
    moves = ["extend", "downgrade", "evict"]
    disk_mb = 1024
    chroot = "/torture"
    longest_lease = 1.2

    def __init__(self, directory, build, random):
        super().__init__(directory, build, random)
        self.config = os.path.join(directory, "zoo.cfg")
        self.clock = os.path.join(directory, "clock-server")
        self.process = None
        self.proxies = []

    # ---- The server

    def launch(self):
        command = ["java", *SWITCHES]
        command += [f"-D{key}={value}" for key, value in PROPERTIES.items()]
        command += ["-cp", f"{JARS}zookeeper.jar:{JARS}slf4j-simple.jar",
                    "org.apache.zookeeper.server.quorum.QuorumPeerMain", self.config]
        environment = dict(
            os.environ, HOLDFAST_TEST_CLOCK=self.clock,
            LD_PRELOAD=os.path.join(self.build, "tests", "torture", "clock_shift.so"))
        with open(os.path.join(self.directory, "zookeeper.log"), "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, env=environment)

    def answers(self):
        try:
            return "Mode:" in zkraw.word(self.port, "srvr")
        except OSError:
            return False

    def await_server(self):
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("ZooKeeper does not come up; see zookeeper.log")
            time.sleep(0.02)  # pause: the server tells nobody that it is up

    def start(self):
        with open(self.config, "w") as file:
            file.write(CONFIG.format(data=self.disk, port=self.port))
        self.shift_clock(0)
        self.launch()
        self.await_server()
        program = os.path.join(self.build, "tests", "torture", "proxy")
        self.proxies = [Proxy(program, f":{self.port}") for _ in range(2)]

    def stop(self):
        for proxy in self.proxies:
            proxy.stop()
        self.crash()

    def crash(self):
        self.process.kill()
        self.process.wait()

    def freeze(self, on):
        self.process.send_signal(signal.SIGSTOP if on else signal.SIGCONT)

    def shift_clock(self, seconds):
        """The wall clock; the one by which sessions end goes on as it does."""
        with open(self.clock, "r+b" if os.path.exists(self.clock) else "w+b") as file:
            file.write(struct.pack("<q", int(seconds * 1e9)))

    def connect(self):
        return Question(self.port)

    def expire(self, count):
        """Ends that many sessions, if the server can be asked."""
        try:
            found = re.findall(r"sid=0x([0-9a-f]+)", zkraw.word(self.port, "cons"))
            sessions = sorted({int(text, 16) for text in found} - {0})
            for session in self.random.sample(sessions, min(count, len(sessions))):
                zkraw.expire(self.port, session)
        except OSError:
            pass

    # ---- The workers

    def spec(self, slot, ttl, proxy=None, **rest):
        address = f"127.0.0.{10 + slot}"
        host = f"127.0.0.1:{proxy.port}" if proxy else f"{address}:{self.port}"
        return Spec(f"zookeeper://{host}{self.chroot}?session={ttl}ms"
                    "&timeout=400ms&connect_timeout=400ms",
                    ttl=ttl, address=address, proxy=proxy, **rest)

    def specs(self):
        return [
            self.spec(0, 600, threads=3, share=3),
            self.spec(1, 500, threads=3, share=0),
            self.spec(2, 900, threads=3, share=2, clock=True),
            self.spec(3, 700, threads=3, share=2, clock=True),
            self.spec(4, 600, proxy=self.proxies[0], threads=3, share=3),
            self.spec(5, 1200, proxy=self.proxies[1], threads=2, share=0),
        ]

    def url(self):
        return f"zookeeper://127.0.0.1:{self.port}{self.chroot}?session=1000ms"

    def left(self):
        """Nodes, and sessions beside the one that looks."""
        session = zkraw.Session(self.port)
        nodes = list(session.walk(self.chroot))
        numbers = dict(line.split("\t", 1) for line in
                       zkraw.word(self.port, "mntr").splitlines() if "\t" in line)
        session.close()
        others = int(numbers["zk_global_sessions"]) - 1
        found = [(f"node {path}", 1) for path in nodes]
        return found + [("sessions", others)] * bool(others)

    def residue(self):
        """Whatever is left below the root of the store. What killed workers left goes
        with their sessions, and empty containers soon after: they are given that time.
        Who removes containers goes by the wall clock, and sleeps for an hour where it
        was moved by one; hence another server."""
        self.crash()
        self.launch()
        self.await_server()
        deadline = time.monotonic() + 3 * self.longest_lease + 5
        while (found := self.left()) and time.monotonic() < deadline:
            time.sleep(0.05)  # pause: sessions end by themselves
        return found
