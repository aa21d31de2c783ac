# SPDX-License-Identifier: MIT
"""redis: one server that writes everything down before it answers (AOF, fsync always),
so that a crash forgets nothing; on a private network, where each worker knows it by an
address of its own and two of them through a bad network in between."""

import os
import shutil
import signal
import subprocess
import sys
import time

from workers import Spec

from .base import Proxy, PULSE_PATIENCE, Store

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "..", "redis"))
import resp  # noqa: E402

START_SECONDS = 20


class Question(resp.Client):
    def __init__(self, path):
        super().__init__(path)
        self.socket.settimeout(PULSE_PATIENCE)

    def ask(self):
        try:
            self("PING")
        except resp.Error:
            pass  # an answer, too


class Redis(Store):
    name = "redis"
    port = 6379
    locks = 3
    disk_mb = 1024
    layout = "redisson"
    derived = ["redisson_rwlock:{torture}", "redisson_lock__channel:{torture}",
               "torture:timeout", "holdfast_info", "holdfast_queue{torture}"]
    unwrapped = ["fair"]
    longest_lease = 2.0  # extended to twice what was asked for first

    def __init__(self, directory, build, random):
        super().__init__(directory, build, random)
        self.socket = os.path.join(self.disk, "socket")
        self.process = None
        self.proxies = []

    # ---- The server

    def launch(self):
        command = [
            "redis-server", "--bind", "0.0.0.0", "--port", self.port,
            "--unixsocket", self.socket, "--protected-mode", "no",
            "--dir", self.disk, "--save", "",
            "--appendonly", "yes", "--appendfsync", "always",
            "--auto-aof-rewrite-min-size", "8mb", "--enable-debug-command", "yes",
            "--loglevel", "warning",
        ]
        with open(os.path.join(self.directory, "redis.log"), "ab") as log:
            self.process = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log,
            )

    def answers(self):
        try:
            client = resp.Client(self.socket)
            client("PING")
            client.close()
            return True
        except (OSError, resp.Error, ConnectionError):
            return False

    def await_server(self):
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("redis-server does not come up; see redis.log")
            time.sleep(0.01)  # pause: the server tells nobody that it is up

    def start(self):
        self.launch()
        self.await_server()
        program = os.path.join(self.build, "tests", "torture", "proxy")
        self.proxies = [Proxy(program, self.socket) for _ in range(2)]

    def stop(self):
        for proxy in self.proxies:
            proxy.stop()
        self.process.kill()
        self.process.wait()

    def crash(self):
        self.process.kill()
        self.process.wait()

    def forget(self):
        """Only while the server is away."""
        shutil.rmtree(os.path.join(self.disk, "appendonlydir"))

    def freeze(self, on):
        self.process.send_signal(signal.SIGSTOP if on else signal.SIGCONT)

    def connect(self):
        return Question(self.socket)

    def command(self, *words):
        """None if the server does not answer or refuses."""
        try:
            client = resp.Client(self.socket)
            reply = client(*words)
            client.close()
            return reply
        except (OSError, resp.Error, ConnectionError):
            return None

    def order(self, *words):
        """A command whose answer nobody waits for."""
        try:
            client = resp.Client(self.socket)
            client.send(*words)
            client.close()
        except OSError:
            pass

    # ---- The workers

    def spec(self, slot, options="", proxy=None, **rest):
        address = f"127.0.0.{10 + slot}"
        host = f"127.0.0.1:{proxy.port}" if proxy else f"{address}:{self.port}"
        return Spec(
            f"redis://{host}/?layout={self.layout}&timeout=400ms&connect_timeout=400ms"
            + options, address=address, proxy=proxy, **rest)

    def specs(self):
        return [
            self.spec(0, threads=3, share=3, ttl=500),
            self.spec(1, threads=3, share=0, ttl=400),
            self.spec(2, "&protocol=2", threads=3, share=2, ttl=900, clock=True),
            self.spec(3, threads=3, share=2, ttl=700, clock=True),
            self.spec(4, proxy=self.proxies[0], threads=3, share=3, ttl=500),
            self.spec(5, proxy=self.proxies[1], threads=2, share=0, ttl=1000),
        ]

    def url(self):
        return f"redis+unix://{self.socket}?layout={self.layout}"

    def residue(self):
        """Every key but the counters of tokens, which stay for ever on purpose, and
        the answers to evictions, which stay for a minute, for who asks again. What
        killed workers left goes with its lease: it is given that time."""
        deadline = time.monotonic() + 3 * self.longest_lease
        while True:
            keys = [key for key in self.command("KEYS", "*") or []
                    if not key.startswith("redisson_lock_token:")
                    and not self.is_answer(key)]
            if not keys or time.monotonic() > deadline:
                return [(f"key {key} ttl {self.command('PTTL', key)}", 1)
                        for key in keys]
            time.sleep(0.05)  # pause: leases end by themselves


    def is_answer(self, key):
        return (key.startswith("holdfast_done:")
                and 0 <= (self.command("PTTL", key) or 0) <= 60000)


class RedisSimple(Redis):
    """SET NX PX and nothing else."""

    name = "redis-simple"
    kinds = ["mutex", "reentrant"]
    moves = ["extend", "adopt", "leave", "evict"]
    locks = 6
    layout = "simple"
    unwrapped = []
