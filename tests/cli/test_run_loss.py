#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A lost lock: the command and all it started end before another client holds it."""

import os
import re
import resource
import signal
import socket
import subprocess
import time

from beat import never_together
from cli import (DEADLINE, alive, children, holdfast, start, state, store, token_of,
                 wait_for)
from tap import comment, done, ok

# A shell with a child, a grandchild, one that left by setsid, and one that left twice.
TREE = """
trap '' TERM
sh -c 'sleep 300 & wait' &
setsid sleep 301 &
(setsid sh -c 'sleep 302 & exec sleep 303' &)
sleep 304 & echo $$; wait; wait; sleep 305
"""


def tree_start(place, *options):
    run = start("run", *options, "t", "--", "sh", "-c", TREE, url=place.url)
    run.stdout.readline()
    warden = children(run.pid)[0]

    def all_of(pid):
        return [p for child in children(pid) for p in [child, *all_of(child)]]

    tree = wait_for(lambda: len(all_of(warden)) >= 7 and all_of(warden), "the tree")
    return run, warden, tree


def gone(tree, what):
    try:
        wait_for(lambda: not any(alive(pid) for pid in tree), what)
        ok(True, what)
    except TimeoutError:
        left = [pid for pid in tree if alive(pid)]
        ok(False, what, left)
        for pid in left:
            os.kill(pid, signal.SIGKILL)


def evict(place, name):
    result = holdfast("break", name, "--token", token_of(place, name), url=place.url)
    if result.returncode != 0:
        raise RuntimeError(result.stderr)


def test_evicted(place):
    """The message names the evicting process, also when that has ended."""
    for kind in [], ["--fair"], ["--permits", "1/2"]:
        run = start("run", *kind, "e", "--", "sh", "-c", "echo in; read end",
                    url=place.url, stdin=subprocess.PIPE)
        run.stdout.readline()
        breaker = start("break", "e", "--token", token_of(place, "e"), url=place.url)
        breaker.communicate(timeout=DEADLINE)
        who = f"evicted by {socket.gethostname()} pid {breaker.pid} holdfast"
        message = run.communicate(timeout=DEADLINE)[1]
        ok(run.returncode == 78 and f"the lock was lost: {who}" in message,
           f"run {' '.join(kind)}: the evicting process", (run.returncode, message))


def tree_without_warden(place, *options):
    """A tree whose warden is stopped before its lease of a few seconds is over: longer
    ones where the machine is busy."""
    for ttl in ("2s", "8s", "30s"):
        run, warden, tree = tree_start(place, "--ttl", ttl, "--no-renew", *options)
        try:
            os.kill(warden, signal.SIGSTOP)
            return run, warden, tree
        except ProcessLookupError:
            run.communicate()
    raise RuntimeError("no warden lives for 30 s")


def test_trees(place):
    run, warden, tree = tree_start(place)
    comment(f"{len(tree)} processes below the warden")
    evict(place, "t")
    ok(run.wait(DEADLINE) == 78, "evicted: exit 78", run.returncode)
    ok(not any(alive(pid) for pid in tree), "and nothing of the tree is left by then")
    gone([warden], "nor the warden")
    comment(run.communicate()[1])

    run, warden, tree = tree_start(place)
    run.kill()
    gone(tree + [warden], "kill -9 of holdfast: the tree is gone")
    run.communicate()

    run, warden, tree = tree_start(place, "--ttl", "2s")
    run.send_signal(signal.SIGSTOP)
    gone(tree, "holdfast stopped: the tree is gone")
    ok(state(run.pid) == "T", "while holdfast is stopped")
    run.send_signal(signal.SIGCONT)
    ok(run.wait(DEADLINE) == 78, "and then exit 78", run.returncode)
    run.communicate()

    run, warden, tree = tree_start(place)
    os.kill(warden, signal.SIGKILL)
    ok(run.wait(DEADLINE) == 70, "kill -9 of the warden: exit 70", run.returncode)
    gone(tree, "and the tree is gone")
    comment(run.communicate()[1])

    for grace in [[], ["--grace", "0"]]:
        run, warden, tree = tree_without_warden(place, *grace)
        code, message = run.wait(DEADLINE), run.communicate()[1]
        ok(code == 78 and "(--no-renew), the command is killed" in message
           and message.count("\n") == 1,
           f"the warden stopped {grace}: holdfast does its work", (code, message))
        gone(tree + [warden], "and the tree is gone")


def test_warden_dies_late(place):
    """The warden dies in the time between TERM and KILL, without a word: what ends the
    command then is the end of the lease, as with a warden that lives."""
    run, warden, tree = tree_start(place, "--ttl", "3s", "--no-renew")
    os.kill(warden, signal.SIGSTOP)
    time.sleep(2.1)  # pause: until TERM is due, 2 s after the grant
    os.kill(warden, signal.SIGKILL)
    code, message = run.wait(DEADLINE), run.communicate()[1]
    ok(code == 78 and "(--no-renew), the command is killed" in message,
       "the warden killed after its time: exit 78", (code, message))
    gone(tree, "and the tree is gone")


def test_descriptors(place):
    """Too few of them: the command is not even started, or it runs to its end."""
    ran = set()
    for limit in range(6, 40):
        result = holdfast("run", "d", "--", "sh", "-c", "echo in; read end; echo out",
                          url=place.url, preexec_fn=lambda limit=limit: resource.setrlimit(
                              resource.RLIMIT_NOFILE, (limit, limit)))
        ran.add(result.returncode)
        if (result.returncode, result.stdout) not in [(0, "in\nout\n"), (70, "")] \
                or "is killed" in result.stderr:
            ok(False, f"{limit} descriptors", result)
    ok(ran == {0, 70}, "few descriptors: not started, or all of it", ran)


def test_ends(place):
    def run(*words):
        begin = time.monotonic()
        result = holdfast("run", *words, url=place.url)
        return result, time.monotonic() - begin

    result, took = run("--ttl", "2s", "x", "--", "sleep", "3")
    ok(result.returncode == 0 and took >= 3, "a lease is renewed", result)
    result, took = run("--ttl", "1s", "--no-renew", "x", "--", "sleep", "60")
    ok(result.returncode == 78 and took < 30 and "(--no-renew)" in result.stderr,
       "--no-renew: over with the lease", (took, result))
    result, took = run("--max-hold", "1s", "x", "--", "sleep", "60")
    ok(result.returncode == 78 and took < 30
       and re.search("--max-hold (is about to end|has ended), the command is killed",
                     result.stderr),
       "--max-hold: over by then", (took, result))
    result, took = run("--ttl", "2s", "--max-hold", "3s", "x", "--", "sleep", "60")
    ok(result.returncode == 78 and 2 < took < 30
       and re.search("--max-hold (is about to end|has ended)", result.stderr),
       "--max-hold: also of a lease that is renewed", (took, result))
    script = "trap 'echo cleaned; exit 0' TERM; while :; do sleep 0.01; done"
    result, _ = run("--ttl", "1s", "--no-renew", "x", "--", "sh", "-c", script)
    ok(result.returncode == 78 and result.stdout == "cleaned\n",
       "TERM comes first, the exit code says lost all the same", result)
    script = "trap 'echo asked' TERM; while :; do sleep 0.01; done"
    result, took = run("--ttl", "1s", "--no-renew", "--grace", "0", "x", "--", "sh",
                       "-c", script)
    ok(result.returncode == 78 and result.stdout == "" and 0.7 < took < 30,
       "--grace 0: KILL at the end, no TERM before", (took, result))


def test_on_lost(place):
    for option, wanted in [("warn", ""), ("exec:echo hook $HOLDFAST_NAME", "hook w\n")]:
        run = start("run", "--on-lost=" + option, "w", "--", "sh", "-c",
                    "echo in; read end; echo over", url=place.url,
                    stdin=subprocess.PIPE)
        run.stdout.readline()
        evict(place, "w")
        line = run.stderr.readline()
        ok("continues without the lock" in line, f"--on-lost={option}: a message", line)
        out, _ = run.communicate("\n", timeout=DEADLINE)
        ok(sorted(out.splitlines()) == sorted((wanted + "over\n").splitlines()),
           "the command is left alone", out)
        ok(run.returncode == 78, "and the exit code says lost", run.returncode)


def test_on_revoke(place):
    run = start("run", "-v", "r", "--", "sh", "-c", "echo in; read end; echo over",
                url=place.url, stdin=subprocess.PIPE)
    run.stdout.readline()
    run.stderr.readline()
    holdfast("revoke", "r", url=place.url)
    line = run.stderr.readline()
    ok("another client asks" in line, "--on-revoke=ignore: -v says so", line)
    ok(run.communicate("\n", timeout=DEADLINE)[0] == "over\n" and run.returncode == 0,
       "and the command goes on")
    run = start("run", "--on-revoke=term", "r", "--", "sh", "-c", "echo in; read end",
                url=place.url, stdin=subprocess.PIPE)
    run.stdout.readline()
    holdfast("revoke", "r", url=place.url)
    ok(run.wait(DEADLINE) == 143, "--on-revoke=term: it gets TERM", run.returncode)
    run.communicate()


def main():
    for test in [never_together, test_trees, test_evicted, test_warden_dies_late,
                 test_descriptors, test_ends, test_on_lost, test_on_revoke]:
        with store() as place:
            test(place)
    done()


main()
