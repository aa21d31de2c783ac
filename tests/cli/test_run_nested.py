#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`holdfast run --reentrant` within the command of another run."""

import json
import os
import subprocess

from cli import (DEADLINE, Holder, children, holdfast, start, store, token_of)
from redis_server import redis
from tap import comment, done, ok, skip

SHOW = "echo $HOLDFAST_NAME: $HOLDFAST_TOKEN"


def nested(place, outer, inner, env=None):
    """One run within another; .stdout has a line of each."""
    script = f"{SHOW}; holdfast run {inner} -- sh -c '{SHOW}'"
    result = holdfast("run", *outer, "--", "sh", "-c", script, url=place.url, env=env)
    comment(f"run {' '.join(outer)}, in it run {inner}: {result.returncode}")
    comment(result.stdout + result.stderr)
    return result


def test_covered(place, store_name):
    for outer in [["x"], ["--fair", "x"], ["--reentrant", "x"], ["-x", "rw"]]:
        result = nested(place, outer, f"-n --reentrant {outer[-1]}")
        lines = result.stdout.splitlines()
        ok(result.returncode == 0 and len(lines) == 2 and lines[0] == lines[1],
           f"{store_name}: within run {' '.join(outer)}: not waited for, same token",
           result)
    result = holdfast("run", "x", "--", "sh", "-c",
                      "holdfast run -n --reentrant x -- holdfast show x --json",
                      url=place.url)
    locks = json.loads(result.stdout)["locks"]
    ok(len(locks) == 1 and len(locks[0]["holders"]) == 1, f"{store_name}: one hold",
       result)
    result = holdfast("run", "x", "--", "holdfast", "run", "--reentrant", "x", "--",
                      "sh", "-c", "exit 7", url=place.url)
    ok(result.returncode == 7, f"{store_name}: the exit code passes through", result)
    result = holdfast("run", "x", "--", "holdfast", "run", "--reentrant", "x", "--",
                      "no-such-program", url=place.url)
    ok(result.returncode == 127 and "no-such-program" in result.stderr,
       f"{store_name}: no such command", result)
    ok(holdfast("run", "-n", "x", "--", "true", url=place.url).returncode == 0,
       f"{store_name}: free afterwards")


def test_several(place, store_name):
    result = nested(place, ["a", "b"], "-n --reentrant b")
    outer, inner = result.stdout.splitlines()
    ok(inner == "b: " + outer.split()[-1], f"{store_name}: one of two names", result)
    result = nested(place, ["a"], "-n --reentrant c a")
    outer, inner = result.stdout.splitlines()
    ok(inner.startswith("c a: ") and inner.split()[-1] == outer.split()[-1]
       and inner.split()[-2] != outer.split()[-1],
       f"{store_name}: a name more is acquired, the other is not waited for", result)
    result = nested(place, ["a b"], '-n --reentrant "a b"')
    ok(result.returncode == 0, f"{store_name}: a name with a blank in it", result)
    result = holdfast("run", "a", "--", "holdfast", "run", "b", "--", "holdfast", "run",
                      "--reentrant", "-n", "a", "--", "echo", "in", url=place.url)
    ok(result.stdout == "in\n", f"{store_name}: held two runs further out", result)


def test_not_covered(place, store_name):
    result = nested(place, ["x"], "-n x")
    ok(result.returncode == 1, f"{store_name}: without --reentrant it is busy", result)
    result = nested(place, ["-s", "rw"], "-n --reentrant rw")
    ok(result.returncode == 77, f"{store_name}: a shared hold covers nothing", result)
    first = nested(place, ["x"], "-n --reentrant y").stdout.split()
    ok(len(first) == 4 and [first[0], first[2]] == ["x:", "y:"]
       and first[1] != first[3], f"{store_name}: another name is acquired", first)

    result = holdfast("run", "x", "--", "env", "HOLDFAST_TOKEN=" + first[1], "holdfast",
                      "run", "-n", "--reentrant", "x", "--", "true", url=place.url)
    ok(result.returncode == 1, f"{store_name}: another token: busy", result)
    stale = {"HOLDFAST_NAME": "x", "HOLDFAST_TOKEN": first[1]}
    result = holdfast("run", "-v", "-n", "--reentrant", "x", "--", "sh", "-c", SHOW,
                      url=place.url, env=stale)
    ok(result.returncode == 0 and "acquired" in result.stderr
       and int(result.stdout.split()[1]) > int(first[1]),
       f"{store_name}: the outer run is gone: acquired, with a new token", result)
    with Holder(place, "x") as holder:
        result = holdfast("run", "-n", "--reentrant", "x", "--", "true", url=place.url,
                          env=stale)
        ok(result.returncode == 1, f"{store_name}: busy if another holds it", result)
        result = holdfast("run", "-n", "--reentrant", "x", "--", "true", url=place.url,
                          env={"HOLDFAST_NAME": "x",
                               "HOLDFAST_TOKEN": token_of(place, "x")})
        ok(result.returncode == 1,
           f"{store_name}: a token is not enough, pid {holder.pid} is not above us",
           result)


def test_loss(place, store_name):
    """The outer hold is taken away: the inner command goes with it."""
    run = start("run", "x", "--", "holdfast", "run", "--reentrant", "x", "--", "sh",
                "-c", "echo $$; read end", url=place.url, stdin=subprocess.PIPE)
    pid = int(run.stdout.readline())
    ok(children(children(run.pid)[0]) == [pid],
       f"{store_name}: the inner command stands where the inner run stood")
    holdfast("break", "x", "--token", token_of(place, "x"), url=place.url)
    ok(run.wait(DEADLINE) == 78, f"{store_name}: outer lost: exit 78", run.returncode)
    ok(not os.path.exists(f"/proc/{pid}"), f"{store_name}: the inner command is gone")
    run.communicate()


def test_flock(place):
    url = place.url + "?layout=flock"
    result = holdfast("run", "--reentrant", "f", "--", "true", url=url)
    ok(result.returncode == 77 and "can list holders" in result.stderr,
       "a store that cannot tell: refused, not waited for ever", result)


def test_all(place, store_name):
    for test in [test_covered, test_several, test_not_covered, test_loss]:
        test(place, store_name)


def main():
    with store() as place:
        test_all(place, "file")
        test_flock(place)
    with redis() as server:
        if not server:
            skip("redis", "no redis-server")
        elif "redis" not in holdfast("version").stdout:
            skip("redis", "this build has no redis")
        else:
            test_all(server, "redis")
    done()


main()
