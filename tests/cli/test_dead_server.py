#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The store does not answer any more: signals end every command at once, and `run` ends
with its command.

A server is killed, or frozen: a frozen one keeps its connections and says nothing. The
limits below stand between "at once" and the seconds a request may take (5 s, and up to
20 s with its repeats); they measure which of the two it was, not how quick.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time

from cli import (DEADLINE, Holder, Terminal, alive, children, holdfast, start,
                 wait_for)
from redis_server import PROGRAM, redis
from tap import comment, done, ok

AT_ONCE = 3.0
CLOSE = 1.0  # what the library waits for when a client is closed; a signal does not
RELEASE = 1.0  # what `run` waits for when it releases; a signal does not


def waiters(server, name):
    shown = holdfast("show", name, "--json", url=server.url)
    locks = json.loads(shown.stdout)["locks"] if shown.returncode == 0 else []
    return len(locks[0]["waiters"]) if locks else 0


def silence(server, how):
    """The server falls silent."""
    if how == "frozen":
        os.kill(server.process.pid, signal.SIGSTOP)
    else:
        server.kill()


def ends_by(process, number, what):
    """Sends the signal; it has to end by it at once."""
    begin = time.monotonic()
    process.send_signal(number)
    try:
        output = process.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        process.kill()
        output = process.communicate()
    took = time.monotonic() - begin
    comment(f"{what}: {took:.3f} s, {process.returncode}, {output[1]}")
    ok(took < AT_ONCE and process.returncode in (128 + number, -number),
       f"{what}: ends at once", (took, process.returncode, output))
    return took


WAITERS = [["run", "w", "--", "true"], ["run", "-v", "w", "--", "true"],
           ["acquire", "w", "--ttl", "10m"], ["latch", "wait", "l"]]


def test_waiting(how):
    """A waiter of each kind; the server falls silent; TERM."""
    with redis() as server:
        holdfast("latch", "set", "l", "1", url=server.url)
        holdfast("acquire", "w", "--ttl", "10m", url=server.url)
        running = []
        for words in WAITERS:
            running.append(start(*words, url=server.url))
            wait_for(lambda words=words: waiters(server, words[-1] if words[0] ==
                                                 "latch" else "w"), "a waiter")
        wait_for(lambda: waiters(server, "w") == 3, "three waiters")
        silence(server, how)
        numbers = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGTERM]
        took = [ends_by(process, number, f"{how}: {' '.join(words)}, signal {number}")
                for words, process, number in zip(WAITERS, running, numbers)]
        # The quickest counts: a busy machine delays some of them, not all.
        ok(min(took) < 0.9 * CLOSE, f"{how}: a signal does not wait for the store", took)


def has_socket(pid):
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            if os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:"):
                return True
        except FileNotFoundError:  # closed between the list and the look
            continue
    return False


def test_opening():
    """A server that takes the connection and says nothing."""
    with redis() as server:
        silence(server, "frozen")
        for words in [["run", "w", "--", "true"], ["ls"], ["acquire", "w", "--ttl", "9s"],
                      ["latch", "wait", "l"], ["release", "x"], ["watch", "w"],
                      ["doctor"]]:
            process = start(*words, url=server.url)
            if words[0] != "release":
                wait_for(lambda process=process: has_socket(process.pid), "a connection")
            ends_by(process, signal.SIGTERM, f"opening: {' '.join(words)}")


def test_looking(how):
    """watch and top look again and again."""
    with redis() as server:
        process = start("watch", "w", "--every", "10ms", url=server.url)
        process.stdout.readline()
        with Terminal("top", "--every", "10ms", url=server.url) as terminal:
            terminal.until("NAME")
            silence(server, how)
            if how == "frozen":
                time.sleep(0.1)  # pause: both are within a look by then, or it is easier
                ends_by(process, signal.SIGINT, f"{how}: watch")
            else:
                process.communicate(timeout=DEADLINE)
            begin, at = time.monotonic(), len(terminal.seen)
            terminal.send("\x03")
            terminal.until_exit()
            took = time.monotonic() - begin
            # A frozen server ends no look: what a failed one shows comes too late.
            ok(took < 2.0 and terminal.status == -signal.SIGINT
               and "\033[?1049l" in terminal.seen
               and (how == "killed" or "no answer" not in terminal.seen[at:]),
               f"{how}: Ctrl-C ends top at once, and gives the terminal back",
               (took, terminal.status))


def test_command_ends(how, options):
    """The command has ended: its exit code, without waiting for the store."""
    with redis() as server:
        signal_name = "-STOP" if how == "frozen" else "-9"
        begin = time.monotonic()
        result = holdfast("run", *options, "x", "--", "sh", "-c",
                          f"kill {signal_name} {server.process.pid}; exit 3",
                          url=server.url)
        took = time.monotonic() - begin
        comment(f"{how}: {took:.3f} s: {result.stderr}")
        ok(result.returncode == 3 and took < AT_ONCE
           and "did not confirm the release" in result.stderr,
           f"{how}: run {' '.join(options)} ends with its command", (took, result))


def test_wait_ends(how):
    """A wait with an end."""
    with redis() as server:
        holdfast("acquire", "w", "--ttl", "10m", url=server.url)
        begin = time.monotonic()
        process = start("run", "--wait", "4s", "w", "--", "true", url=server.url)
        wait_for(lambda: waiters(server, "w") == 1, "a waiter")
        silence(server, how)
        message = process.communicate()[1]
        took = time.monotonic() - begin
        comment(f"{how}: {took:.3f} s: {message}")
        ok(process.returncode in (69, 75) and took < 4 + AT_ONCE,
           f"{how}: run --wait 4s ends then", (took, process.returncode, message))


def test_release_told():
    """The command has ended, the server does not confirm the release: TERM ends that."""
    took = []
    for _ in range(3):
        with redis() as server:
            process = start("run", "x", "--", "sh", "-c", "echo in; read end; exit 3",
                            url=server.url, stdin=subprocess.PIPE)
            process.stdout.readline()
            warden = children(process.pid)[0]
            silence(server, "frozen")
            process.stdin.write("\n")
            process.stdin.flush()
            wait_for(lambda warden=warden: not alive(warden), "the end of the command")
            begin = time.monotonic()
            process.send_signal(signal.SIGTERM)
            message = process.communicate()[1]
            took.append(time.monotonic() - begin)
            ok(process.returncode == 3 and "did not confirm the release" in message,
               "TERM within the release: the command's own code, and a word",
               (process.returncode, message))
    # The quickest counts, as above.
    ok(min(took) < 0.9 * RELEASE, "and the release is not waited for", took)


def test_terminal(how):
    """The line goes on while the store is silent, and says so; Ctrl-C ends it."""
    with redis() as server:
        holdfast("acquire", "w", "--ttl", "10m", url=server.url)
        with Terminal("run", "w", "--", "true", url=server.url, size=(24, 200)) as terminal:
            at = terminal.until("held for")
            silence(server, how)
            terminal.until("the store cannot be reached" if how == "killed" else
                           "the store has not answered for", after=at)
            begin = time.monotonic()
            terminal.send("\x03")
            terminal.until_exit()
            took = time.monotonic() - begin
            comment(terminal.seen)
            ok(took < AT_ONCE and terminal.status == 128 + signal.SIGINT,
               f"{how}: the line says so, Ctrl-C ends the wait", (took, terminal.status))


class Mute:
    """Between a client and the server: passes everything on up to the second script,
    which for a waiter is the inspection of the holder. That gets no answer."""

    def __init__(self, server):
        self.server = server
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(server.socket + ".mute")
        self.listener.listen()
        self.url = server.url + ".mute"
        self.scripts = 0
        threading.Thread(target=self.carry, daemon=True).start()

    def carry(self):
        client, server = self.listener.accept()[0], socket.socket(socket.AF_UNIX)
        server.connect(self.server.socket)
        while True:
            for end in select.select([client, server], [], [])[0]:
                data = end.recv(65536)
                if not data:
                    client.close()
                    server.close()
                    return
                self.scripts += data.count(b"EVALSHA") if end is client else 0
                if self.scripts < 2:
                    (server if end is client else client).sendall(data)


class Deaf(Mute):
    """Passes on all requests of clients, but on each connection no answer from its first
    script on."""

    def carry(self):
        while True:
            client, server = self.listener.accept()[0], socket.socket(socket.AF_UNIX)
            server.connect(self.server.socket)
            threading.Thread(target=self.deafen, args=(client, server), daemon=True).start()

    def deafen(self, client, server):
        deaf = False
        while True:
            for end in select.select([client, server], [], [])[0]:
                data = end.recv(65536)
                if not data:
                    client.close()
                    server.close()
                    return
                deaf = deaf or (end is client and b"EVALSHA" in data)
                if end is client:
                    server.sendall(data)
                elif not deaf:
                    client.sendall(data)


def test_silent_look():
    """It is busy, and the server falls silent before it says who has it: the message
    goes without."""
    with redis() as server, Holder(server, "w"):
        for words in [["run", "-n", "w", "--", "true"],
                      ["acquire", "-n", "w", "--ttl", "1m"]]:
            holdfast(*words, url=server.url)  # now the server knows the scripts
            mute = Mute(server)
            begin = time.monotonic()
            result = holdfast(*words, url=mute.url)
            took = time.monotonic() - begin
            comment(f"{took:.3f} s: {result.stderr}")
            ok(result.returncode == 1 and took < AT_ONCE and mute.scripts == 2
               and "HF_EBUSY" in result.stderr and "held for" not in result.stderr,
               f"{words[0]}: busy is said at once", (took, mute.scripts, result))
            mute.listener.close()
            os.unlink(server.socket + ".mute")


def test_unheard_extend():
    """The lock moves to a new id whose reply is lost: the lock becomes free."""
    with redis() as server:
        held = json.loads(holdfast("acquire", "w", "--ttl", "1h", "--json",
                                   url=server.url).stdout)
        held = json.loads(holdfast("extend", held["id"], "--ttl", "1h", "--json",
                                   url=server.url).stdout)
        holdfast("run", "x", "--", "true", url=server.url)  # it knows the scripts now
        deaf = Deaf(server)
        result = holdfast("extend", held["id"], "--ttl", "1h",
                          url=deaf.url + "?timeout=200ms")
        comment(result.stderr)
        ok(result.returncode != 0 and not result.stdout, "extend: no answer, no id", result)
        wait_for(lambda: holdfast("run", "-n", "w", "--", "true",
                                  url=server.url).returncode == 0, "a lock that is free")
        ok(holdfast("release", held["id"], url=server.url).returncode == 78,
           "and the old id has lost it")


def test_withdrawn():
    """A server that answers: a waiter that was signalled leaves the queue."""
    with redis() as server, Holder(server, "w"):
        holdfast("latch", "set", "l", "1", url=server.url)
        for words, name in [(WAITERS[0], "w"), (WAITERS[2], "w"), (WAITERS[3], "l")]:
            process = start(*words, url=server.url)
            wait_for(lambda name=name: waiters(server, name) == 1, "a waiter")
            ends_by(process, signal.SIGTERM, f"alive: {' '.join(words)}")
            ok(waiters(server, name) == 0, f"{' '.join(words)}: its place is given up")


def main():
    for how in ["killed", "frozen"]:
        test_waiting(how)
        test_looking(how)
        for options in [[], ["--ttl", "2s"], ["a", "b"]]:
            test_command_ends(how, options)
        test_wait_ends(how)
        test_terminal(how)
    test_opening()
    test_release_told()
    test_silent_look()
    test_unheard_extend()
    test_withdrawn()
    done()


if not PROGRAM:
    print("1..0 # SKIP no redis-server")
    sys.exit(0)
if "redis" not in holdfast("version").stdout:
    print("1..0 # SKIP this build has no redis")
    sys.exit(0)
main()
