#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Lua scripts of the redis store on a real server. TAP.

usage: test_scripts.py [-v] [PATTERN]

Every case runs twice: as the library runs scripts (EVALSHA), and traced, where each key
a script touches must be one it declared. With -v the number of redis.call()s is shown
for the cases that count them. Without redis-server all is skipped."""

import sys
import traceback

sys.dont_write_bytecode = True

import cases_counts
import cases_evict
import cases_mutex
import cases_objects
import cases_refused
import cases_rw
import cases_token
import resp
import server
import world

MODULES = (cases_token, cases_mutex, cases_rw, cases_counts, cases_objects, cases_evict,
           cases_refused)


def cases(pattern):
    for module in MODULES:
        for name, function in sorted(vars(module).items()):
            label = f"{module.__name__[6:]}/{name[5:]}"
            if name.startswith("case_") and pattern in label:
                yield label, function


def run_case(number, label, function, place, run):
    w = world.World(place, run)
    try:
        function(w)
        print(f"ok {number} - {label}", flush=True)
        return True
    except Exception:
        print(f"not ok {number} - {label}")
        print("".join("# " + line for line in traceback.format_exc().splitlines(True)),
              flush=True)
        return False
    finally:
        w.close()


def main():
    words = [word for word in sys.argv[1:] if word != "-v"]
    chosen = list(cases(words[0] if words else ""))
    if not server.program():
        print("1..0 # SKIP redis-server is not installed")
        return 0
    print(f"1..{2 * len(chosen)}")
    place, number, good = server.Server(), 0, True
    try:
        client = resp.Client(place.path)
        for mode in (False, True):
            run = world.Runner(client, mode)
            run.verbose = "-v" in sys.argv
            for label, function in chosen:
                number += 1
                label += " traced" if mode else ""
                good = run_case(number, label, function, place, run) and good
        client.close()
    finally:
        place.stop()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
