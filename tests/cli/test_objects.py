#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""latch, cell, sem."""

import base64
import subprocess

from cli import (COMMAND, DEADLINE, Holder, Terminal, environment, start, store,
                 wait_for)
from look_util import lock_of, run, run2, run_json
from tap import done, ok


def raw(place, *words, data=b""):
    """Bytes in, bytes out."""
    return subprocess.run([COMMAND, *words], input=data, env=environment(place.url),
                          capture_output=True, check=False, timeout=120)


def latches(place):
    ok(run(place, "latch", "show", "l") == "0\n", "one that was never set is open")
    run(place, "latch", "wait", "l")
    ok(run(place, "latch", "set", "l", "3") == "", "set says nothing")
    result = run2(place, "latch", "set", "l", "2", code=1)
    ok("already counting" in result.stderr, "not while it counts", result.stderr)
    ok(run(place, "latch", "down", "l") == "2\n", "down: what is left")
    shown = run_json(place, "latch", "show", "l")
    ok(shown == {"url": place.url, "name": "l", "left": 2, "open": False}, "--json",
       shown)
    ok(lock_of(place, "l")["left"] == 2, "and in `show`")
    result = run2(place, "latch", "wait", "l", "--wait", "0", code=1)
    ok("not open yet" in result.stderr, "wait 0", result.stderr)
    run(place, "latch", "wait", "l", "-w", "50ms", code=75)
    process = start("latch", "wait", "l", url=place.url)
    wait_for(lambda: lock_of(place, "l")["waiters"], "a waiter")
    ok(run(place, "latch", "down", "l", "5") == "0\n", "down by more than is left")
    process.communicate(timeout=DEADLINE)
    ok(process.returncode == 0, "it opens, and the waiter goes on")
    ok(run_json(place, "latch", "show", "l")["open"] is True, "open")
    for words in (["set", "l"], ["set", "l", "0"], ["set", "l", "-1"],
                  ["set", "l", "3x"], ["set", "l", "4294967296"], ["down", "l", "0"],
                  ["down"], ["show"],
                  ["wait", "l", "--wait", "x"], ["set", "l", "1", "2"]):
        run(place, "latch", *words, code=64)
    with Holder(place, "mutex"):
        run(place, "latch", "set", "mutex", "1", code=77,
            what="a name that is in use as a lock")


def cells(place):
    result = run2(place, "cell", "get", "c", code=1)
    ok("there is no such cell" in result.stderr, "none yet", result.stderr)
    first = run(place, "cell", "set", "c", "hello", "--create")
    ok(first.strip().isdigit(), "set prints the version", first)
    ok(raw(place, "cell", "get", "c").stdout == b"hello", "get prints the value alone")
    result = run2(place, "cell", "get", "c", "-v")
    ok(f"version {first.strip()}" in result.stderr and result.stdout == "hello",
       "-v: the version, on stderr", result.stderr)
    shown = run_json(place, "cell", "get", "c")
    ok(shown == {"url": place.url, "name": "c", "version": int(first), "value": "hello",
                 "base64": "aGVsbG8="}, "get --json", shown)
    result = run2(place, "cell", "set", "c", "x", "--create", code=1)
    ok("already exists" in result.stderr, "--create of one that is there",
       result.stderr)
    second = run(place, "cell", "set", "c", "2", "--if-version", first.strip())
    ok(int(second) > int(first), "the version grows")
    result = run2(place, "cell", "set", "c", "3", "-V", first.strip(), code=1)
    ok("the cell has changed" in result.stderr and result.stdout == "" and
       raw(place, "cell", "get", "c").stdout == b"2", "an old version writes nothing")
    third = run(place, "cell", "set", "c", "", what="set without a condition; empty")
    ok(int(third) > int(second) and raw(place, "cell", "get", "c").stdout == b"",
       "is written whatever it was")
    ok(run_json(place, "cell", "get", "c")["value"] == "", "empty is a value")
    for data in (b"\0\xff\n", bytes(range(256)) * 3, b"x" * 65536, b"a", b"ab"):
        ok(raw(place, "cell", "set", "c", "-", data=data).returncode == 0 and
           raw(place, "cell", "get", "c").stdout == data, f"{len(data)} bytes and back")
        shown = run_json(place, "cell", "get", "c")
        if base64.b64decode(shown["base64"]) != data:
            ok(False, "base64", shown)
    ok(raw(place, "cell", "set", "c", "-", data=b"x" * 65537).returncode == 64,
       "one byte too many")
    raw(place, "cell", "set", "c", "-", data=b"\0\xff")
    ok(run_json(place, "cell", "get", "c")["value"] is None, "no text: value is null")
    version = run_json(place, "cell", "get", "c")["version"]
    ok(lock_of(place, "c")["version"] == version, "and in `show`")
    result = run2(place, "cell", "rm", "c", code=64)
    ok("--if-version is required" in result.stderr, "rm needs a version", result.stderr)
    run(place, "cell", "rm", "c", "--if-version", "1", code=1)
    run(place, "cell", "rm", "c", "--if-version", str(version))
    run(place, "cell", "get", "c", code=1, what="gone")
    run(place, "cell", "set", "c", "x", "--create", "--if-version", "1", code=64)
    run(place, "cell", "set", "c", code=64)
    run(place, "cell", "set", "c", "x", "--if-version", "0", code=64)


def cells_on_a_terminal(place):
    value = b"a\x1b[2J\xc2\x9b2J\xe2\x80\xae\xff\x00b\tc\nd \xc3\xa4"
    raw(place, "cell", "set", "hostile", "-", data=value)
    ok(raw(place, "cell", "get", "hostile").stdout == value,
       "cell get: byte for byte without a terminal")
    with Terminal("cell", "get", "hostile", url=place.url) as terminal:
        seen = terminal.until_exit()
        ok(seen == "a\\x1b[2J\\xc2\\x9b2J\\xe2\\x80\\xae\\xff\\x00b\tc\r\nd \u00e4",
           "cell get: on a terminal it is shown", repr(seen))
    with Terminal("cell", "get", "hostile", "--raw", url=place.url) as terminal:
        ok("a\x1b[2J" in terminal.until_exit(), "cell get --raw: as it is")


def semaphores(place):
    ok(run(place, "sem", "show", "s").startswith("free:"), "an unused one")
    shown = run_json(place, "sem", "show", "s")
    ok(shown == {"url": place.url, "name": "s", "limit": None, "available": None,
                 "holders": [], "waiters": []}, "sem show --json of it", shown)
    with Holder(place, "s", "--permits", "2/5"), Holder(place, "s", "--permits", "1/5"):
        ok(run(place, "sem", "show", "s").splitlines()[1] == "2\t5\t2\t0",
           "available, limit, holders, waiters")
        shown = run_json(place, "sem", "show", "s")
        ok((shown["available"], shown["limit"], len(shown["holders"])) == (2, 5, 2) and
           shown["holders"][0]["permits"] == 2, "--json", shown)
        ok("2 of 5 permits free" in run(place, "show", "s"), "and in `show`")
    with Holder(place, "mutex"):
        result = run2(place, "sem", "show", "mutex", code=77)
        ok("of kind mutex" in result.stderr, "a mutex is none", result.stderr)


def main():
    with store() as place:
        for test in (latches, cells, cells_on_a_terminal, semaphores):
            test(place)
    done()


main()
