#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""--json: every reading command prints one document, of the form docs/cli.md shows.

Notes and names of programs come from strangers: whatever bytes they are, the document
parses, and a table never lets them move the cursor.
"""

import base64
import json
import os
import subprocess

from cli import COMMAND, Holder, environment, holdfast, start, store
from tap import done, ok

ENTRY = {"kind": str, "host": (str, None), "pid": (int, None), "program": (str, None),
         "note": str, "permits": int, "since_ms": (int, None), "token": (int, None),
         "lease_ms": (int, None), "place": (int, None)}
LOCK = {"name": str, "kind": str, "limit": (int, None), "available": (int, None),
        "left": (int, None), "version": (int, None), "holders": [ENTRY],
        "waiters": [ENTRY]}
LOCKS = {"url": str, "locks": [LOCK]}
LATCH = {"url": str, "name": str, "left": int, "open": bool}
CELL = {"url": str, "name": str, "version": int, "value": (str, None), "base64": str}
SEM = {"url": str, "name": str, "limit": (int, None), "available": (int, None),
       "holders": [ENTRY], "waiters": [ENTRY]}
HOLD = {"id": str, "token": int, "lease_ms": int}
DOCTOR = {"version": str, "stores": [str], "url": str, "reachable": bool,
          "error": (dict, None), "open_us": (int, None), "round_trip_us": (int, None),
          "capabilities": [str], "findings": [{"level": str, "topic": str, "what": str,
                                               "fix": (str, None)}]}
VERSION = {"version": str, "stores": [str]}
WATCH = {"time": str, "name": str, "event": str, "who": (ENTRY, None),
         "from": (ENTRY, None), "left": (int, None), "version": (int, None),
         "holders": int, "waiters": int}

HOSTILE = b"a\x1b[2J\"b\\\t\xff\xfe\xc3("


def unlike(value, schema, where="$"):
    """What is not as the schema has it."""
    if isinstance(schema, tuple):
        return [] if value is None else unlike(value, schema[0], where)
    if isinstance(schema, list):
        if not isinstance(value, list):
            return [f"{where} is no list"]
        return [fault for i, item in enumerate(value)
                for fault in unlike(item, schema[0], f"{where}[{i}]")]
    if isinstance(schema, dict):
        if not isinstance(value, dict) or list(value) != list(schema):
            return [f"{where}: {value} has other keys than {list(schema)}"]
        return [fault for key in schema
                for fault in unlike(value[key], schema[key], f"{where}.{key}")]
    if type(value) is schema:
        return []
    return [f"{where}: {value!r} is no {schema.__name__}"]


def document(schema, *words, url=None):
    """Runs a command; its document."""
    result = holdfast(*words, url=url)
    what = " ".join(words)
    try:
        value = json.loads(result.stdout)
    except ValueError as error:
        ok(False, what, f"{error}: {result.stdout}{result.stderr}")
        return None
    faults = unlike(value, schema)
    ok(not faults and result.stdout.count("\n") == 1 and not result.stderr,
       f"{what}: one line, as documented", faults or result.stderr)
    return value


def test_forms(place):
    holdfast("latch", "set", "l", "3", url=place.url)
    holdfast("cell", "set", "c", "t\u00e4xt", url=place.url)
    document(HOLD, "acquire", "s", "--permits", "1/4", "--ttl", "1m", "--json",
             url=place.url)
    with Holder(place, "m", "--note", "why"):
        found = document(LOCKS, "ls", "--json", url=place.url)
        ok([lock["name"] for lock in found["locks"]] == ["c", "l", "m", "s"],
           "ls: all of them, by name", found)
        shown = document(LOCKS, "show", "m", "--json", url=place.url)
        first = shown["locks"][0]["holders"][0]
        ok(first["program"] == "backup.sh" and first["note"] == "why"
           and first["lease_ms"] is None and first["token"] > 0, "show: the holder",
           first)
        document(LOCKS, "show", "nobody", "--json", url=place.url)
        watch = start("watch", "m", "--json", url=place.url)
        line = watch.stdout.readline()
        watch.terminate()
        watch.communicate()
        ok(not unlike(json.loads(line), WATCH), "watch: a document per line",
           unlike(json.loads(line), WATCH))
    latch = document(LATCH, "latch", "show", "l", "--json", url=place.url)
    ok(latch["left"] == 3 and latch["open"] is False, "latch show: 3 to go", latch)
    cell = document(CELL, "cell", "get", "c", "--json", url=place.url)
    ok(cell["value"] == "t\u00e4xt", "cell get: the value", cell)
    sem = document(SEM, "sem", "show", "s", "--json", url=place.url)
    ok(sem["limit"] == 4 and sem["available"] == 3, "sem show: 3 of 4", sem)
    document(DOCTOR, "doctor", "--json", url=place.url)
    document(VERSION, "version", "--json")


def test_hostile(place):
    """A note of any bytes, from another client."""
    process = subprocess.Popen(
        [COMMAND.encode(), b"run", b"--note", HOSTILE, b"h", b"--", b"sh", b"-c",
         b"echo held; read end"], env=environment(place.url), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE)
    process.stdout.readline()
    try:
        raw = subprocess.run([COMMAND, "show", "h", "--json"], capture_output=True,
                             env=environment(place.url), check=False).stdout
        note = json.loads(raw.decode("utf-8"))["locks"][0]["holders"][0]["note"]
        ok(note == HOSTILE.decode("utf-8", "replace"),
           "bytes that are not UTF-8 become U+FFFD, the rest is kept", repr(note))
        ok(not any(byte < 32 and byte != 10 for byte in raw),
           "no control character is in the document", raw)
        table = subprocess.run([COMMAND, "show", "h"], capture_output=True,
                               env=environment(place.url), check=False).stdout
        ok(b"\x1b" not in table and b"\xff" not in table and b"\\x1b[2J" in table,
           "the table shows them as \\xNN", table)
    finally:
        process.communicate(b"\n")


def test_binary(place):
    value = os.urandom(64) + b"\0\xff"
    subprocess.run([COMMAND, "cell", "set", "b", "-"], input=value, check=True,
                   env=environment(place.url), stdout=subprocess.DEVNULL)
    cell = document(CELL, "cell", "get", "b", "--json", url=place.url)
    ok(cell["value"] is None and base64.b64decode(cell["base64"]) == value,
       "cell get: what is not text comes as base64", cell)


def test_secrets():
    result = holdfast("doctor", "--json", "file://app:hunter2@db/x")
    ok("hunter2" not in result.stdout + result.stderr, "doctor: no password",
       result.stdout + result.stderr)


def main():
    with store() as place:
        test_forms(place)
    with store() as place:
        test_hostile(place)
        test_binary(place)
    test_secrets()
    done()


main()
