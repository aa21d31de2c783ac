#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`etcdctl lock` behind a pipe: etcdctl_lock.py HOST:PORT TTL_MS.

Lines as driver_peer.c tells. To acquire is to run `etcdctl lock NAME`, which prints its
key when it has the lock, keeps its lease alive, and gives both back when interrupted;
when its session is over it ends by itself. The key's create revision is the token: it
grows from holder to holder. The command cannot try once: a moment stands for that.
"""
import json
import os
import selectors
import signal
import subprocess
import sys
import time

ONCE_SECONDS = 0.3
END_SECONDS = 5


class Peer:
    def __init__(self, endpoint):
        self.endpoint = endpoint
        self.process = None

    def start(self, name, ttl_ms):
        command = ["etcdctl", "--endpoints", self.endpoint, "--dial-timeout", "1s",
                   "--write-out", "json", "lock",
                   "--ttl", str(max(1, int(ttl_ms) // 1000)), name]
        self.process = subprocess.Popen(
            command, env=dict(os.environ, ETCDCTL_API="3"), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def answer(self, seconds):
        """What it has said so far, b"" if it has ended; None if it says nothing."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(seconds):
                return None
        return os.read(self.process.stdout.fileno(), 65536)

    def stop(self):
        """Interrupts it; its exit status and last words, None if it had to be killed.
        It says little on standard error, which fits into the pipe."""
        process, self.process = self.process, None
        process.send_signal(signal.SIGINT)
        try:
            words = process.communicate(timeout=END_SECONDS)[1]
            return process.returncode, words
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return None, b""

    def token(self, text, deadline):
        """The answer is one line of JSON, which may come in pieces."""
        while not text.endswith(b"\n"):
            more = self.answer(max(0, deadline - time.monotonic()))
            if not more:
                return 0
            text += more
        return json.loads(text)["kvs"][0]["create_revision"]

    def acquire(self, name, timeout_ms, ttl_ms):
        once = timeout_ms == "0"
        wait = ONCE_SECONDS if once else int(timeout_ms) / 1000
        deadline = time.monotonic() + wait
        self.start(name, ttl_ms)
        text = self.answer(wait)
        if text:
            token = self.token(text, deadline + 1)
            if token:
                return f"ok {token}"
        self.stop()
        if text is not None:
            return "unknown it ended"
        return "busy" if once else "timeout"

    def release(self):
        if not self.process:
            return "late"
        gone = self.process.poll() is not None
        code, words = self.stop()
        if gone or b"session expired" in words:
            return "late"
        return "ok" if code == 0 else f"unknown it ended with {code}"

    def held(self):
        alive = self.process and self.process.poll() is None
        return "yes" if alive else "no"


def main():
    peer = Peer(sys.argv[1])
    for line in sys.stdin:
        verb, *words = line.split()
        print(getattr(peer, verb)(*words), flush=True)
    if peer.process:
        peer.stop()


main()
