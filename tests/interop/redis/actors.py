# SPDX-License-Identifier: MIT
"""Who takes part: a private Redis server, and actors that obey lines.

An actor is one owner of locks: a process of ../peer.c, peer.py or peer.js, or a thread
of Peer.java. A side makes actors and can be killed. Every answer is stamped with the
time at which it came.
"""
import os
import queue
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time


class Wrong(Exception):
    """Something was not as it must be; says what."""


def expect(seen, must, what):
    if seen != must:
        raise Wrong(f"{what}: {seen!r}, must be {must!r}")


class Process:
    """A child that is driven by lines; `hear` gets each of its own, with its time."""

    alive = set()

    def __init__(self, command, hear, log, env=None):
        self.child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            bufsize=1,
            env={**os.environ, **(env or {})},
        )
        self.hear = hear
        Process.alive.add(self)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.child.stdout:
            self.hear(line.rstrip("\n"), time.monotonic())

    def say(self, line):
        try:
            self.child.stdin.write(line + "\n")
            self.child.stdin.flush()
        except BrokenPipeError as error:
            raise Wrong("a driver has ended by itself") from error

    def kill(self):
        Process.alive.discard(self)
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()

    def close(self):
        try:
            self.child.stdin.close()
            self.child.wait(5)
            Process.alive.discard(self)
        except (OSError, subprocess.TimeoutExpired):
            self.kill()


class Actor:
    def __init__(self, process, prefix=""):
        self.process = process
        self.prefix = prefix
        self.answers = queue.Queue()

    def send(self, line):
        self.process.say(self.prefix + line)

    def get(self, timeout=15):
        """The next answer and when it came."""
        try:
            return self.answers.get(timeout=timeout)
        except queue.Empty:
            raise Wrong(f"no answer within {timeout} s") from None

    def ask(self, line, timeout=15):
        self.send(line)
        return self.get(timeout)[0]

    # What is asked most often.
    def take(self, kind, name, wait_ms=0, ttl_ms=30000):
        """The first word of the answer: held, busy, timeout..."""
        return self.ask(f"take {kind} {name} {wait_ms} {ttl_ms}", 15 + wait_ms / 1000)

    def must_take(self, kind, name, wait_ms=0, ttl_ms=30000):
        """Takes what is free; the token."""
        answer = self.take(kind, name, wait_ms, ttl_ms)
        expect(answer.split()[0], "held", f"take {kind}")
        return int(answer.split()[1])

    def must_drop(self, kind, name):
        expect(self.ask(f"drop {kind} {name}"), "dropped", f"drop {kind}")


class Side:
    """One process per actor."""

    def __init__(self, title, command, log, env=None):
        self.title = title
        self.command = command
        self.log = log
        self.env = env
        self.processes = []
        self.others = []
        self.greeting = ""

    def actor(self):
        actor = Actor(None)
        actor.process = Process(
            self.command, lambda *heard: actor.answers.put(heard), self.log, self.env
        )
        self.processes.append(actor.process)
        self.greeting = actor.get(30)[0]
        expect(self.greeting.split()[0], "ready", f"start of {self.title}")
        return actor

    def kill(self):
        for process in self.processes:
            process.kill()
        self.processes = []

    def close(self):
        for process in self.processes:
            process.close()
        self.processes = []
        for other in self.others:
            other.close()
        self.others = []

    def end_row(self):
        """Nobody is needed any longer."""
        self.close()

    def again(self):
        """Another one of the same sort, to be killed."""
        self.others.append(Side(self.title, self.command, self.log, self.env))
        return self.others[-1]


class ThreadSide(Side):
    """One process, one thread in it per actor."""

    def __init__(self, title, command, log):
        super().__init__(title, command, log)
        self.actors = {}
        self.count = 0
        self.process = None

    def _hear(self, line, when):
        name, _, answer = line.partition(" ")
        if name in self.actors:
            self.actors[name].answers.put((answer, when))

    def actor(self):
        if self.process is None:
            main = self.actors["main"] = Actor(None)
            self.process = Process(self.command, self._hear, self.log)
            self.processes.append(self.process)
            expect(main.get(60)[0], "ready", f"start of {self.title}")
        self.count += 1
        name = f"t{self.count}"
        self.actors[name] = Actor(self.process, name + " ")
        return self.actors[name]

    def end_row(self):
        """The process is kept: starting it is dear."""
        for other in self.others:
            other.close()
        self.others = []

    def again(self):
        self.others.append(ThreadSide(self.title, self.command, self.log))
        return self.others[-1]


class Server:
    """A Redis server of our own, and a connection to look into it."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="holdfast-interop-")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = open(os.path.join(self.dir, "log"), "w+", encoding="utf-8")
        self.child = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1"]
            + ["--dir", self.dir, "--save", "", "--appendonly", "no"],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
        )
        self.stream = None
        until(self._connect, 10, "the server to answer")

    def _connect(self):
        try:
            link = socket.create_connection(("127.0.0.1", self.port), 10)
        except OSError:
            return False
        self.stream = link.makefile("rwb")
        return True

    def call(self, *words):
        """One request; integers, strings, None and lists come back."""
        encoded = [str(word).encode() for word in words]
        self.stream.write(b"*%d\r\n" % len(encoded))
        for word in encoded:
            self.stream.write(b"$%d\r\n%s\r\n" % (len(word), word))
        self.stream.flush()
        return self._reply()

    def _reply(self):
        line = self.stream.readline().rstrip(b"\r\n")
        kind, rest = line[:1], line[1:]
        if kind == b":":
            return int(rest)
        if kind == b"*":
            return [self._reply() for _ in range(int(rest))]
        if kind == b"$":
            if rest == b"-1":
                return None
            return self.stream.read(int(rest) + 2)[:-2].decode("utf-8", "replace")
        if kind == b"-":
            raise Wrong(f"server: {rest.decode()}")
        return rest.decode()

    def stop(self):
        self.child.terminate()
        try:
            self.child.wait(5)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def until(condition, seconds, what):
    """Looks again and again until `condition` holds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Wrong(f"waited {seconds} s for {what}")
        time.sleep(0.01)  # pause: between two looks
