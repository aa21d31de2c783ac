#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ls, show, watch; break and revoke."""

import json
import os
import re
import signal
import socket
import subprocess

from cli import COMMAND, DEADLINE, Holder, Terminal, holdfast, start, store, wait_for
from look_util import lock_of, run, run2, run_json
from tap import comment, done, ok

ENTRY = {"kind", "host", "pid", "program", "note", "permits", "since_ms", "token",
         "lease_ms", "place"}
LOCK = {"name", "kind", "limit", "available", "left", "version", "holders", "waiters"}


def waiter(place, name, *options):
    """A waiter; .terminate() ends it."""
    before = len(lock_of(place, name)["waiters"])
    process = start("run", *options, name, "--", "true", url=place.url)
    wait_for(lambda: len(lock_of(place, name)["waiters"]) > before, "a waiter")
    return process


def gone(process):
    process.terminate()
    process.communicate(timeout=DEADLINE)


# ---- ls, show ------------------------------------------------------------------------

def lists(place):
    ok(run(place, "ls") == "NAME\tKIND\tHELD BY\tHELD FOR\tWAITERS\tMAX WAIT\n",
       "ls of nothing: the heads alone")
    ok(run_json(place, "ls") == {"url": place.url, "locks": []}, "ls --json of nothing")
    holdfast("latch", "set", "jobs/latch", "4", url=place.url)
    holdfast("cell", "set", "jobs/cell", "v", url=place.url)
    with Holder(place, "jobs/a"), Holder(place, "other"):
        process = waiter(place, "jobs/a")
        lines = [line.split("\t") for line in run(place, "ls", "jobs/").splitlines()]
        ok([line[0] for line in lines] == ["NAME", "jobs/a", "jobs/cell", "jobs/latch"],
           "ls PREFIX: by name", lines)
        ok(lines[1][1] == "mutex" and "backup.sh" in lines[1][2] and lines[1][4] == "1",
           "kind, holder, number of waiters", lines[1])
        ok(lines[2][2].startswith("version ") and lines[3][2] == "4 left",
           "a cell and a latch", lines)
        ok(len(run_json(place, "ls")["locks"]) == 4, "ls: all of them")
        ok(run_json(place, "ls", "nowhere")["locks"] == [], "ls of another prefix")
        gone(process)
    run(place, "ls", "a", "b", code=64)


def shows(place):
    ok(run(place, "show", "s").startswith("free:"), "show of a free lock says so")
    ok(run_json(place, "show", "s")["locks"] == [], "--json: nothing")
    with Holder(place, "s", "--note", "nightly", "--ttl", "1h") as holder:
        process = waiter(place, "s", "--fair")
        lines = [line.split("\t") for line in run(place, "show", "s").splitlines()]
        ok(lines[0] == ["ROLE", "KIND", "HOST", "PID", "PROGRAM", "FOR", "TOKEN",
                        "LEASE LEFT", "NOTE"], "the heads", lines[0])
        ok(lines[1][0] == "holder" and lines[1][2] == socket.gethostname() and
           lines[1][3] == str(holder.pid) and lines[1][4] == "backup.sh" and
           lines[1][8] == "nightly" and lines[1][7].endswith("s"), "the holder", lines)
        ok(lines[2][:2] == ["waiter, 0 ahead", "fair"] and lines[2][6:8] == ["-", "-"],
           "the waiter", lines[2])
        shown = run_json(place, "show", "s")
        lock = shown["locks"][0]
        ok(set(shown) == {"url", "locks"} and set(lock) == LOCK and
           all(set(one) == ENTRY for one in lock["holders"] + lock["waiters"]),
           "--json has every field of the schema and no other", shown)
        mine, other = lock["holders"][0], lock["waiters"][0]
        ok(mine["pid"] == holder.pid and mine["token"] > 0 and mine["place"] is None and
           0 < mine["lease_ms"] <= 3600000 and mine["since_ms"] >= 0, "a holder", mine)
        ok(other["place"] == 0 and other["token"] is None and
           other["lease_ms"] is None, "a waiter", other)
        with Terminal("show", "s", url=place.url) as terminal:
            comment("show on a terminal:\n" + terminal.until_exit())
            ok("\x1b[1m" in terminal.seen and "\t" not in terminal.seen,
               "on a terminal: bold heads, columns")
        with Terminal("show", "s", url=place.url, env={"NO_COLOR": "1"}) as terminal:
            ok("\x1b" not in terminal.until_exit(), "NO_COLOR: no colours")
        gone(process)
    run(place, "show", code=64)
    run(place, "show", "a", "b", code=64)
    run(place, "show", "a\nb", code=64, what="a name that cannot be")
    run(place, "ls", "--url", place.url + "?layout=flock", code=77,
        what="a store that cannot be looked at")


def odd_bytes(place):
    """A note may hold anything."""
    note = "\x1b[2J\u202eevil\tnote"
    with Holder(place, "o", "--note", note):
        text = run(place, "show", "o")
        ok("\\x1b[2J" in text and "\x1b" not in text and "\u202e" not in text and
           "\\x09" in text, "control characters are shown, not sent", text)
        ok(run_json(place, "show", "o")["locks"][0]["holders"][0]["note"] == note,
           "--json: as it is, escaped")
        process = start("watch", "o", url=place.url)
        line = process.stdout.readline()
        ok("\\x1b[2J" in line and "\x1b" not in line and "\u202e" not in line,
           "watch shows them, too", line)
        gone(process)
    raw = subprocess.run([COMMAND, "run", "-u", place.url, "o", "--note", b"\xff\xfe",
                          "--", COMMAND, "show", "o", "--json", "--url", place.url],
                         capture_output=True, check=False, timeout=120)
    ok(raw.returncode == 0 and json.loads(raw.stdout)["locks"][0]["holders"],
       "bytes that are not UTF-8 make no bad JSON", raw)


# ---- watch ---------------------------------------------------------------------------

class Watch:
    """`watch --json` in the background."""

    def __init__(self, place, name):
        self.process = start("watch", name, "--every", "10ms", "--json", url=place.url)

    def next(self, event, what):
        line = self.process.stdout.readline()
        found = json.loads(line) if line else {}
        ok(found.get("event") == event, what, line)
        return found


def watches(place):
    watch = Watch(place, "w")
    found = watch.next("free", "free at first")
    ok(set(found) == {"time", "name", "event", "who", "from", "left", "version",
                      "holders", "waiters"} and
       re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found["time"]),
       "every field, and the time", found)
    with Holder(place, "w") as holder:
        found = watch.next("acquired", "a client acquires it")
        ok(found["who"]["pid"] == holder.pid and found["holders"] == 1, "who", found)
        first = waiter(place, "w")
        found = watch.next("waiting", "a client waits")
        ok(found["who"]["pid"] == first.pid and found["waiters"] == 1, "who", found)
        gone(first)
        found = watch.next("left", "and gives up")
        ok(found["who"]["pid"] == first.pid, "who", found)
        second = start("acquire", "w", "--fair", "--ttl", "2s", "--json", url=place.url)
        watch.next("waiting", "another one waits")
    found = watch.next("handed over", "and gets it")
    ok(found["from"]["pid"] == holder.pid and found["who"]["pid"] == second.pid,
       "from whom to whom", found)
    held = json.loads(second.communicate(timeout=DEADLINE)[0])
    holdfast("extend", held["id"], "--ttl", "200ms", url=place.url)
    watch.next("expired", "its lease ends")
    with Holder(place, "w"):
        watch.next("acquired", "taken once more")
    watch.next("released", "and released")
    watch.process.send_signal(signal.SIGINT)
    out, err = watch.process.communicate(timeout=DEADLINE)
    ok((watch.process.returncode, out, err) == (-signal.SIGINT, "", ""),
       "Ctrl-C ends it", watch.process.returncode)


def watches_objects(place):
    watch = Watch(place, "wl")
    watch.next("free", "no latch")
    holdfast("latch", "set", "wl", "2", url=place.url)
    ok(watch.next("set", "a latch is set")["left"] == 2, "to 2")
    holdfast("latch", "down", "wl", url=place.url)
    ok(watch.next("counted", "counted")["left"] == 1, "1 is left")
    holdfast("latch", "down", "wl", url=place.url)
    watch.next("opened", "open")
    gone(watch.process)
    watch = Watch(place, "wc")
    watch.next("free", "no cell")
    version = holdfast("cell", "set", "wc", "x", url=place.url).stdout.strip()
    ok(watch.next("created", "a cell")["version"] == int(version), "its version")
    version = holdfast("cell", "set", "wc", "y", url=place.url).stdout.strip()
    ok(watch.next("changed", "changed")["version"] == int(version), "its new version")
    holdfast("cell", "rm", "wc", "-V", version, url=place.url)
    watch.next("removed", "removed")
    gone(watch.process)


def watch_ends(place):
    with Holder(place, "we"):
        process = start("watch", "we", url=place.url)
        line = process.stdout.readline()
        ok(re.match(r"\d\d:\d\d:\d\d\.\d{3}  holds  .*backup\.sh, token \d+$", line),
           "a line for people", line)
        process.stdout.close()
        ok(process.wait(DEADLINE) == 0 and process.stderr.read() == "",
           "the reader closed the pipe: it ends, quietly")
        with Terminal("-c", f"trap : INT; '{COMMAND}' watch we; echo code $?",
                      program="sh", url=place.url) as terminal:
            terminal.until("holds")
            terminal.send("\x03")
            ok("code 130" in terminal.until_exit(), "Ctrl-C: 130, says the shell",
               terminal.seen)
        with Terminal("watch", "we", url=place.url) as terminal:
            terminal.until("holds")
            terminal.send("\x03")
            terminal.until_exit()
            comment("watch, and Ctrl-C:\n" + terminal.seen)
            ok(terminal.status == -signal.SIGINT, "Ctrl-C on a terminal")
    run(place, "watch", code=64)
    run(place, "watch", "w", "--every", "0", code=64)
    run(place, "watch", "w", "--every", "x", code=64)


# ---- break, revoke -------------------------------------------------------------------

def breaks(place):
    result = run2(place, "break", "b", code=64)
    ok("holdfast show" in result.stderr, "break says where to find the token",
       result.stderr)
    held = json.loads(holdfast("acquire", "b", "--ttl", "1h", "--json",
                               url=place.url).stdout)
    result = run2(place, "break", "b", "--token", str(held["token"] + 1000000), code=1)
    ok("no holder has token" in result.stderr and lock_of(place, "b"),
       "another token evicts no holder", result.stderr)
    result = run2(place, "break", "b", "-t", str(held["token"]), "-v")
    ok("evicting" in result.stderr and result.stdout == "", "-v: from whom",
       result.stderr)
    ok(lock_of(place, "b") is None, "it is free")
    run(place, "release", held["id"], code=78, what="and its holder has lost it")
    run(place, "break", "b", "--token", "0", code=64)
    run(place, "break", "b", "--token", "x", code=64)
    run(place, "break", "--token", "1", code=64)
    run(place, "break", "b", "--token", "1", "--url", place.url + "?layout=flock",
        code=77)


def revokes(place):
    result = run2(place, "revoke", "r", code=1)
    ok("the lock has no holder" in result.stderr, "no holder to ask", result.stderr)
    with Holder(place, "r"):
        token = lock_of(place, "r")["holders"][0]["token"]
        ok(run2(place, "revoke", "r").stderr == "", "all holders are asked")
        run(place, "revoke", "r", "--token", str(token))
        run(place, "revoke", "r", "--token", str(token + 1000000), code=1)
        ok(lock_of(place, "r")["holders"][0]["token"] == token,
           "asking takes nothing away")
    process = start("run", "r", "--on-revoke", "term", "--", "cat", url=place.url,
                    stdin=subprocess.PIPE)
    wait_for(lambda: lock_of(place, "r"), "a holder that listens")
    result = run2(place, "revoke", "r", "-v")
    ok("asking" in result.stderr, "-v says whom", result.stderr)
    ok(process.wait(DEADLINE) != 0, "who listens lets go", process.returncode)
    process.communicate(timeout=DEADLINE)


def revokes_early(place):
    with Holder(place, "r"):
        process = start("run", "r", "--fair", "--on-revoke", "term", "--", "cat",
                        url=place.url, stdin=subprocess.PIPE)
        wait_for(lambda: lock_of(place, "r")["waiters"], "a waiter")
        process.send_signal(signal.SIGSTOP)
    held = wait_for(lambda: lock_of(place, "r")["holders"], "a holder that does not know it")
    ok(held[0]["pid"] == process.pid, "it is the one who waited", held)
    run2(place, "revoke", "r")
    process.send_signal(signal.SIGCONT)
    ok(process.wait(DEADLINE) != 0, "asked before its command began", process.returncode)
    process.communicate(timeout=DEADLINE)


def main():
    with store() as place:
        for test in (lists, shows, odd_bytes, watches, watches_objects, watch_ends,
                     breaks, revokes, revokes_early):
            test(place)
    ok(holdfast("ls", url="file:/no/such/dir").stderr.startswith(
        "holdfast: ls: file:/no/such/dir: there is no directory"), "no store: words")
    done()


os.environ["TZ"] = "UTC"
main()
