# SPDX-License-Identifier: MIT
"""Calls, hf_close() and the command end in time when the server is killed, frozen or cut
off, while they wait and while they hold. Prints how late each was, as a table.

    deadlines.py [--slack MS] [--store redis|zookeeper]

The slack is what a busy machine may add; `--slack 250` is the promise on an idle one.
"""
import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "cli"),
                os.path.join(HERE, "..", "interop", "zookeeper"),
                os.path.join(HERE, "..", "interop", "redis")]

import tap  # noqa: E402
from cli import COMMAND, wait_for  # noqa: E402

PROBE = os.environ["HOLDFAST_PROBE"]
REQUEST_MS = 1000  # as probe.c has it
CLOSE_MS = 1000    # the library's default


class Proxy:
    """Between the clients and a server. Cut, it keeps its connections and says nothing."""

    def __init__(self, port):
        self.port_of_server = port
        self.open = True
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
                server = socket.create_connection(("127.0.0.1", self.port_of_server))
            except OSError:
                if self.listener.fileno() < 0:
                    return
                client.close()  # as a server that is not there refuses
                continue
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self.carry, args=pair, daemon=True).start()

    def carry(self, source, sink):
        try:
            while data := source.recv(65536):
                while not self.open:
                    time.sleep(0.05)  # pause: cut off, until the test is over
                sink.sendall(data)
        except OSError:
            pass
        if self.open:
            for end in (source, sink):
                end.close()

    def stop(self):
        self.listener.close()


class Redis:
    scheme = "redis"

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="holdfast-deadlines.")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.child = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1",
             "--dir", self.dir, "--save", "", "--appendonly", "no"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        wait_for(self.answers, "redis-server")

    def answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), 5) as peer:
                peer.sendall(b"PING\r\n")
                return peer.recv(64).startswith(b"+PONG")
        except OSError:
            return False

    def stop(self):
        self.child.kill()
        self.child.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


def zookeeper():
    import server  # of tests/interop/zookeeper

    class ZooKeeper(server.Server):
        scheme = "zookeeper"

        def stop(self):
            self.child.kill()
            super().stop()

    return ZooKeeper()


class Probe:
    def __init__(self, url):
        self.child = subprocess.Popen([PROBE, url], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)
        self.expect("ready")

    def expect(self, word):
        line = self.child.stdout.readline().split()
        if not line or line[0] != word:
            raise RuntimeError(f"the probe said {line}, not {word}")
        return line[1:]

    def say(self, line):
        self.child.stdin.write(line + "\n")
        self.child.stdin.flush()

    def answer(self):
        code, elapsed = self.expect("answer")
        return code, int(elapsed)

    def ask(self, line):
        self.say(line)
        return self.answer()

    def end(self):
        self.child.kill()
        self.child.wait()


def fault(kind, server, proxy):
    if kind == "killed":
        server.child.kill()
        server.child.wait()
    elif kind == "frozen":
        server.child.send_signal(signal.SIGSTOP)
    else:
        proxy.open = False


def run_command(url, *arguments):
    return subprocess.Popen([COMMAND, "run", "--url", url, *arguments],
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)


def end_of(process, number):
    began = time.monotonic()
    process.send_signal(number)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return process.returncode, int(1000 * (time.monotonic() - began))


def rows(kind, server, proxy):
    """(what, its deadline in ms, what it answered, when in ms) for one fault."""
    url = f"{server.scheme}://127.0.0.1:{proxy.port}"
    names = ("holder", "long", "short", "try", "releaser", "closer")
    probes = {name: Probe(url) for name in names}
    commands = []
    try:
        probes["holder"].ask("hold held")
        probes["releaser"].ask("hold released")
        probes["closer"].ask("hold closed")
        runs = {"SIGTERM": run_command(url, "--wait", "60s", "held", "--", "true"),
                "SIGINT": run_command(url, "--wait", "60s", "held", "--", "true"),
                "holding": run_command(url, "ran", "--", "sleep", "60")}
        commands = list(runs.values())
        probes["long"].say("wait held 4000")
        time.sleep(1)  # pause: all of them should be at their places
        fault(kind, server, proxy)
        yield ("wait 100 ms", 100, *probes["short"].ask("wait held 100"))
        yield ("try", REQUEST_MS, *probes["try"].ask("wait held 0"))
        yield ("run, waiting, SIGTERM", 0, *end_of(runs["SIGTERM"], signal.SIGTERM))
        yield ("run, waiting, SIGINT", 0, *end_of(runs["SIGINT"], signal.SIGINT))
        yield ("run, holding, SIGTERM", CLOSE_MS, *end_of(runs["holding"], signal.SIGTERM))
        yield ("release", REQUEST_MS, *probes["releaser"].ask("release"))
        yield ("wait 4 s", 4000, *probes["long"].answer())
        for name in ("closer", "holder", "long", "short"):
            yield (f"close of the {name}", CLOSE_MS, *probes[name].ask("close"))
    finally:
        for process in commands:
            process.kill()
            process.wait()
        for probe in probes.values():
            probe.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--slack", type=int, default=4000)
    parser.add_argument("--store", choices=("redis", "zookeeper"), action="append")
    options = parser.parse_args()
    for store in options.store or ("redis", "zookeeper"):
        for kind in ("killed", "frozen", "cut off"):
            server = Redis() if store == "redis" else zookeeper()
            proxy = Proxy(server.port)
            try:
                for what, deadline, answer, elapsed in rows(kind, server, proxy):
                    late = elapsed - deadline
                    tap.ok(late <= options.slack,
                           f"{store:9} {kind:8} {what:22} {answer!s:15} "
                           f"deadline {deadline:5} ms, {late:+6} ms")
            finally:
                proxy.stop()
                server.stop()
    tap.done()


main()
