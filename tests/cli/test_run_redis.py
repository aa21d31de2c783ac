#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`holdfast run` on a Redis server: leases, losses, and what is said about them."""

import os
import re
import signal
import socket
import subprocess
import sys

from beat import in_line, log, never_together, now, succession
from cli import (DEADLINE, Holder, alive, children, holdfast, start, store, token_of,
                 wait_for)
from redis_server import PROGRAM, redis
from tap import comment, done, ok

TTL = 2.0


def test_plain(server):
    result = holdfast("run", "-v", "--note", "n", "x", "--", "sh", "-c",
                      "echo $HOLDFAST_NAME $HOLDFAST_URL; exit 3", url=server.url)
    ok(result.returncode == 3 and result.stdout == f"x {server.url}\n"
       and "released" in result.stderr, "a command runs, and its code passes", result)
    with Holder(server, "x", "--note", "nightly backup"):
        shown = holdfast("show", "x", url=server.url).stdout
        comment(shown)
        ok("nightly backup" in shown and "backup.sh" in shown, "show tells who", shown)
        result = holdfast("run", "-n", "x", "--", "true", url=server.url)
        ok(result.returncode == 1, "busy: exit 1", result)
        result = holdfast("run", "-w", "50ms", "x", "--", "true", url=server.url)
        ok(result.returncode == 75, "timeout: exit 75", result)
        waiter = start("run", "x", "--", "echo", "turn", url=server.url)
        in_line(server, waiter)
    ok(waiter.communicate(timeout=DEADLINE)[0] == "turn\n", "the waiter is granted it")
    result = holdfast("run", "--ttl", "2s", "x", "--", "sleep", "3", url=server.url)
    ok(result.returncode == 0, "a lease is renewed", result)


def test_killed(server):
    """kill -9 of holdfast: the command dies at once. Free with the lease."""
    with log() as beats:
        first = start("run", "--ttl", "2s", "k", "--", *beats.command("A", 120),
                      url=server.url)
        beats.await_beats("A")
        second = start("run", "k", "--", *beats.command("B", 0.5), url=server.url)
        in_line(server, second)
        warden = children(first.pid)[0]
        tree = [warden, *children(warden)]
        first.kill()
        wait_for(lambda: not any(alive(pid) for pid in tree), "the end of the tree")
        ok(not beats.beats("B"), "kill -9: the command is gone before the lease is")
        ok(second.wait(DEADLINE) == 0, "kill -9: the second one has its turn")
        succession(beats, "kill -9")
        first.communicate()
        second.communicate()


def test_evicted(server):
    run = start("run", "e", "--", "sh", "-c", "echo $$; read end", url=server.url,
                stdin=subprocess.PIPE)
    pid = int(run.stdout.readline())
    breaker = start("break", "e", "--token", token_of(server, "e"), url=server.url)
    breaker.communicate(timeout=DEADLINE)
    message = run.stderr.readline()
    comment(message)
    who = f"evicted by {socket.gethostname()} pid {breaker.pid} holdfast"
    ok(run.wait(DEADLINE) == 78 and f"the lock was lost: {who}" in message
       and not alive(pid), "break: exit 78, and who did it", (run.returncode, message))
    run.communicate()


def test_server_killed(server):
    """No renewal is possible: the command ends before the lease could pass on."""
    with log() as beats:
        run = start("run", "--ttl", "2s", "s", "--", *beats.command("A", 120),
                    url=server.url)
        beats.await_beats("A")
        server.kill()
        killed = now()
        message = run.communicate(timeout=DEADLINE)[1]
        comment(message)
        last = beats.beats("A")[-1]
        comment(f"the last beat {last - killed:.3f} s after the server, lease {TTL} s")
        ok(last - killed < TTL, "server killed: the command ends within the lease",
           last - killed)
        ok(run.returncode == 78 and message.count("\n") == 1
           and "could not be renewed in time" in message, "server killed: exit 78, one line",
           (run.returncode, message))
        ok(now() - killed < 10, "server killed: no wait for it")
    server.start()
    result = holdfast("run", "--ttl", "2s", "s", "--", "sh", "-c",
                      f"kill -9 {server.process.pid}; exit 3", url=server.url)
    server.kill()
    comment(result.stderr)
    ok(result.returncode == 3 and "did not confirm the release" in result.stderr,
       "server killed, then the command ends: its own code, and a word", result)
    result = holdfast("run", "x", "--", "echo", "ran", url=server.url)
    comment(result.stderr)
    ok(result.returncode == 69 and result.stdout == ""
       and "HF_EUNREACHABLE" in result.stderr, "no server: exit 69", result)
    server.start()


def test_server_empty(server):
    """The server comes back, and has forgotten the lock: that is a loss as well."""
    run = start("run", "--ttl", "2s", "s", "--", "sh", "-c", "echo in; read end",
                url=server.url, stdin=subprocess.PIPE)
    run.stdout.readline()
    server.kill()
    server.start()
    message = run.stderr.readline()
    comment(message)
    ok(run.wait(DEADLINE) == 78
       and "the lock was lost: the store no longer has it" in message,
       "server restarted, empty: exit 78, and why", (run.returncode, message))
    run.communicate()
    ok(holdfast("run", "s", "--", "true", url=server.url).returncode == 0,
       "and it can be used again")


def test_no_renewal(server):
    """The command is not killed: the message says how long the server was silent."""
    run = start("run", "--ttl", "2s", "--on-lost=warn", "s", "--", "sh", "-c",
                "echo in; read end", url=server.url, stdin=subprocess.PIPE)
    run.stdout.readline()
    os.kill(server.process.pid, signal.SIGSTOP)
    message = run.stderr.readline()
    os.kill(server.process.pid, signal.SIGCONT)
    comment(message)
    ok(re.search(r"the lock was lost: the store has confirmed no renewal for [1-9]\d*\.\d s,"
                 " the command continues", message), "no renewal: for how long", message)
    run.communicate("\n", timeout=DEADLINE)
    ok(run.returncode == 78, "and the exit code says lost", run.returncode)


def test_ends(server):
    for options, part in [(["--ttl", "500ms", "--no-renew"], "(--no-renew)"),
                          (["--max-hold", "500ms"], "--max-hold"),
                          (["--ttl", "2s", "--max-hold", "3s"], "--max-hold")]:
        result = holdfast("run", *options, "m", "--", "sleep", "60", url=server.url)
        comment(result.stderr)
        ok(result.returncode == 78 and part in result.stderr
           and re.search("is about to end|has ended", result.stderr), f"{' '.join(options)}: exit 78", result)


def test_password():
    with redis("--requirepass", "hunter2") as server:
        path = server.socket
        for url, code in [(f"redis+unix://:hunter2@{path}", 0),
                          (f"redis+unix://{path}?password_env=SECRET", 0),
                          (f"redis+unix://:hunter3@{path}", 77),
                          (f"redis+unix://me:hunter3@{path}", 77),
                          (f"redis+unix://{path}", 77)]:
            result = holdfast("run", "x", "--", "sh", "-c", "echo $HOLDFAST_URL",
                              url="file:/nowhere", env={"SECRET": "hunter2",
                                                        "HOLDFAST_URL": url})
            shown = url.replace("hunter", "PASSWORD").replace(path, "/socket")
            comment(result.stderr.replace(path, "/socket"))
            ok(result.returncode == code and "hunter" not in result.stderr,
               f"{shown}: exit {code}", result)
            if code:
                ok(len(result.stderr.splitlines()) == 1 and result.stdout == "",
                   f"{shown}: one line, and the command was not run", result)
        result = holdfast("run", "--url", f"redis+unix://:hunter2@{path}", "x", "--",
                          "holdfast", "run", "-v", "y", "--", "true")
        ok(result.returncode == 0 and "y: acquired" in result.stderr
           and "hunter" not in result.stderr,
           "a holdfast within the command reaches the same store", result)
        for words in [["ls", "--json"], ["top"], ["bench", "--time", "10ms"], ["doctor"]]:
            result = holdfast(*words, url=f"redis+unix://:hunter2@{path}")
            ok(path in result.stdout and "hunter" not in result.stdout + result.stderr,
               f"{words[0]}: the URL without its password", result)


def test_no_server():
    with store() as place:
        for url in [f"redis+unix://:hunter2@{place.dir}/none",
                    "redis://me:hunter2@127.0.0.1:1"]:
            result = holdfast("run", "x", "--", "echo", "ran", url=url)
            comment(result.stderr.replace(place.dir, "/dir"))
            ok(result.returncode == 69 and result.stdout == ""
               and "HF_EUNREACHABLE" in result.stderr and "hunter2" not in result.stderr
               and len(result.stderr.splitlines()) == 1, "no server: exit 69", result)


def main():
    with redis() as server:
        for test in [test_plain, never_together, test_killed, test_evicted, test_ends,
                     test_no_renewal, test_server_empty, test_server_killed]:
            test(server)
    test_password()
    test_no_server()
    done()


if not PROGRAM:
    print("1..0 # SKIP no redis-server")
    sys.exit(0)
if "redis" not in holdfast("version").stdout:
    print("1..0 # SKIP this build has no redis")
    sys.exit(0)
main()
