#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""acquire, release, extend: a lock that outlives the command which took it."""

import json
import os
import subprocess

from cli import COMMAND, Holder, environment, holdfast, start, store, wait_for
from look_util import lock_of, run, run2, run_json
from tap import done, ok


def evaluated(place, script, **env):
    """What a shell makes of it; lines of stdout."""
    result = subprocess.run(["sh", "-c", script], env=environment(place.url, env),
                            capture_output=True, text=True, check=False, timeout=120)
    return result.returncode, result.stdout.splitlines()


def take(place, name, *options):
    """Acquires it, and gives the JSON."""
    return json.loads(holdfast("acquire", name, "--ttl", "5m", "--json", *options,
                               url=place.url).stdout)


def holds_on(place):
    lines = run(place, "acquire", "a", "--ttl", "5m").splitlines()
    ok(len(lines) == 2 and lines[0].startswith("HOLDFAST_ID='") and
       lines[1].startswith("HOLDFAST_TOKEN='"), "two lines, ID and TOKEN", lines)
    lock = lock_of(place, "a")
    token = lines[1].split("'")[1]
    ok(lock["holders"][0]["token"] == int(token), "it is held, with that token", lock)
    ok(290000 < lock["holders"][0]["lease_ms"] <= 300000, "for five minutes", lock)
    ok(lock["holders"][0]["note"].startswith(f"acquire for pid {os.getpid()}"),
       "the note says who called", lock)
    run(place, "acquire", "a", "--ttl", "1s", "--wait", "0", code=1)
    result = run2(place, "acquire", "a", "--ttl", "1s", "--nonblock", code=1)
    ok("acquire: a: held for " in result.stderr, "busy: who holds it", result.stderr)
    result = run2(place, "acquire", "a", "--ttl", "1s", "-w", "50ms", code=75)
    ok(result.stdout == "" and "timed out: held for " in result.stderr,
       "nothing on stdout, a sentence on stderr", result.stderr)
    run(place, "release", lines[0].split("'")[1])
    ok(lock_of(place, "a") is None, "released")
    result = run2(place, "release", lines[0].split("'")[1], code=78)
    ok("no longer holds a lock" in result.stderr, "a second time it is lost",
       result.stderr)


def in_a_shell(place):
    code, lines = evaluated(place, """
        eval "$(holdfast acquire --export -t 1m "it's  a \\"name\\" \\$HOME")" || exit
        echo "$HOLDFAST_TOKEN"
        holdfast ls
        first=$HOLDFAST_ID
        eval "$(holdfast extend --ttl 1h)" && echo "$HOLDFAST_TOKEN"
        holdfast release "$first"; echo "old id $?"
        holdfast release; echo "new id $?"
        holdfast release; echo "again $?"
    """)
    ok(code == 0 and lines[2].split("\t")[0] == "it's  a \"name\" $HOME",
       "any name survives eval", lines)
    ok(lines[0] == lines[3], "extend keeps the token", lines)
    ok(lines[4:] == ["old id 78", "new id 0", "again 78"],
       "extend spends the id; HOLDFAST_ID counts without an operand", lines)


def bare_numbers(place):
    held = json.loads(run(place, "acquire", "n", "--ttl", "30", "--json"))
    ok(held["lease_ms"] == 30000, "--ttl 30 is 30 s", held)
    more = run_json(place, "extend", held["id"], "--ttl", "1.5")
    ok(more["lease_ms"] == 1500, "extend --ttl 1.5 is 1.5 s", more)


def extends(place):
    held = take(place, "e")
    more = run_json(place, "extend", held["id"], "--ttl", "2h")
    ok(more["token"] == held["token"] and more["id"] != held["id"] and
       more["lease_ms"] == 7200000, "extend --json: same token, new id", more)
    ok(lock_of(place, "e")["holders"][0]["lease_ms"] > 7000000, "two hours from now")
    run(place, "extend", held["id"], "--ttl", "1h", code=78)
    ok(run(place, "extend", more["id"], "--ttl", "1ms", "--export").endswith(
        "export HOLDFAST_ID HOLDFAST_TOKEN\n"), "extend --export")
    wait_for(lambda: lock_of(place, "e") is None, "the end of the lease")
    ok(True, "a lease that is over ends the hold")
    run(place, "extend", more["id"], code=64, what="extend needs --ttl")
    run(place, "extend", more["id"], "--ttl", "0", code=64)
    run(place, "extend", "--ttl", "1s", code=64, what="extend needs an id")


def kinds(place):
    shared = [take(place, "rw", "--shared"), take(place, "rw", "-s", "--wait", "0")]
    ok(len(lock_of(place, "rw")["holders"]) == 2, "--shared twice")
    run(place, "acquire", "rw", "--exclusive", "--ttl", "1m", "-n", code=1)
    for held in shared:
        run(place, "release", held["id"])
    take(place, "rw", "-x", "--note", "mine")
    holder = lock_of(place, "rw")["holders"][0]
    ok((holder["kind"], holder["note"]) == ("write", "mine"), "-x --note", holder)
    take(place, "f", "--fair")
    ok(lock_of(place, "f")["holders"][0]["kind"] == "fair", "--fair")
    take(place, "p", "--permits", "3/4")
    lock = lock_of(place, "p")
    ok((lock["limit"], lock["available"], lock["holders"][0]["permits"]) == (4, 1, 3),
       "--permits 3/4", lock)
    run(place, "acquire", "p", "--permits", "2/4", "--ttl", "1m", "-n", code=1)
    run(place, "acquire", "p", "--permits", "1/5", "--ttl", "1m", "-n", code=77,
        what="another limit is refused")
    for _ in range(2):
        take(place, "x", "--expiring", "2")
    ok(lock_of(place, "x")["available"] == 0, "--expiring 2, twice")
    run(place, "acquire", "x", "--expiring", "2", "--ttl", "1m", "-n", code=1)
    take(place, "s", "--stripe", "user/42/16")
    run(place, "acquire", "s", "--stripe", "user/42/16", "--ttl", "1m", "-n", code=1,
        what="one stripe of one key")
    found = json.loads(run(place, "ls", "s", "--json"))["locks"]
    ok(len(found) == 1 and found[0]["name"] != "s", "a stripe is part of a name", found)


def waits(place):
    with Holder(place, "w"):
        process = start("acquire", "w", "--ttl", "1m", "--json", url=place.url)
        wait_for(lambda: lock_of(place, "w")["waiters"], "a waiter")
        ok(process.poll() is None, "it waits for ever unless told")
    held = json.loads(process.communicate(timeout=60)[0])
    ok(process.returncode == 0 and lock_of(place, "w")["holders"][0]["token"] ==
       held["token"], "and has it when its turn has come")


def mistakes(place):
    for words in (["m"], ["m", "--ttl", "0"], ["m", "--ttl", "soon"], ["--ttl", "1s"],
                  ["m", "n", "--ttl", "1s"], ["m", "--ttl", "1s", "--permits", "5/4"],
                  ["m", "--ttl", "1s", "--permits", "1"],
                  ["m", "--ttl", "1s", "--permits", "-1/2"],
                  ["m", "--ttl", "1s", "--expiring", "0"],
                  ["m", "--ttl", "1s", "--stripe", "/4"],
                  ["m", "--ttl", "1s", "--stripe", "k/70000"],
                  ["m", "--ttl", "1s", "--stripe", "k"],
                  ["m", "--ttl", "1s", "--shared", "--fair"],
                  ["m", "--ttl", "1s", "-n", "--wait", "1s"], ["", "--ttl", "1s"]):
        result = run2(place, "acquire", *words, code=64)
        if result.stdout or not result.stderr.startswith("holdfast: acquire: "):
            ok(False, "one sentence on stderr", result)
    result = run2(place, "acquire", "m", "--ttl", "1s", "--permits", "5/4", code=64)
    ok('"5/4" asks for more permits than the semaphore has' in result.stderr,
       "--permits 5/4: what is wrong with it", result.stderr)
    run(place, "release", code=64, what="release needs an id")
    run(place, "release", "nonsense", code=64, what="nonsense is no id")
    run(place, "acquire", "m", "--ttl", "1s", "--url", place.url + "?layout=flock",
        code=77, what="a store without detached holds refuses")
    with open("/dev/full", "w", encoding="utf-8") as full:
        result = subprocess.run([COMMAND, "acquire", "full", "--ttl=5m"], stdout=full,
                                env=environment(place.url), stderr=subprocess.PIPE,
                                text=True, check=False, timeout=120)
    ok(result.returncode == 70 and lock_of(place, "full") is None,
       "an id that cannot be written: the lock is given back", result)


def within_run(place):
    """The lock of a run is the run's; what acquire took within it is not."""
    tries = ('for id in "" "$HOLDFAST_ID"; do for what in release "extend --ttl 1m"; do '
             'holdfast $what ${id:+"$id"}; echo $?; done; done; ')
    for names in (["a"], ["a", "b"], ["a c"]):
        result = holdfast("run", *names, "--", "sh", "-c", tries + "echo alive",
                          url=place.url)
        ok(result.returncode == 0 and result.stdout.split() == ["64"] * 4 + ["alive"]
           and result.stderr.count("belongs to the enclosing `holdfast run`") == 4,
           f"run {names}: its own lock is not released within", result)
    result = holdfast("run", "a", "--", "sh", "-c", "export id=$HOLDFAST_ID; holdfast run "
                      "b -- sh -c 'holdfast release \"$id\"; echo $?'", url=place.url)
    ok(result.returncode == 0 and result.stdout == "64\n",
       "nor that of a run further out", result)
    result = holdfast("run", "a", "--", "sh", "-c", 'eval "$(holdfast acquire d --ttl 1m)";'
                      ' eval "$(holdfast extend --ttl 2m)"; holdfast release; echo $?',
                      url=place.url)
    ok(result.stdout == "0\n" and lock_of(place, "d") is None,
       "what was acquired within is released there", result)


def main():
    with store() as place:
        for test in (holds_on, in_a_shell, bare_numbers, extends, kinds, waits, mistakes,
                     within_run):
            test(place)
    done()


main()
