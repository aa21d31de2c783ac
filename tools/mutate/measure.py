# SPDX-License-Identifier: MIT
"""Runs every test once with no mutant switched on: does it pass, how long does it take,
which mutants does it reach? Kept in a file per test, so that it is done once per build.
"""

import concurrent.futures
import glob
import hashlib
import json
import os
import shutil

import suites


def measure(test, place):
    """Answers a dictionary that JSON can keep."""
    reached = f"{place}/reached"
    name = test.name.replace("/", "+")
    single, many = f"{reached}/{name}", f"{reached}/{name}.cases"
    shutil.rmtree(many, ignore_errors=True)
    os.makedirs(many)
    if os.path.exists(single):
        os.unlink(single)
    extra = {"HFM_TESTS": many} if test.is_contract else {"HFM_REACHED": single}
    outcome = suites.run(test, extra, jobs=3, whole=True)
    row = {"name": test.name, "stamp": stamp_of(test), "seconds": outcome.seconds, "good": not outcome.failed,
           "why": outcome.why, "cases": {}}
    if test.is_contract:
        # A case that fails is left out; the others are as good as ever.
        row["cases"] = {case: seconds for case, (seconds, good) in outcome.cases.items()
                        if good}
        row["left_out"] = [case for case, (_, good) in outcome.cases.items() if not good]
        row["good"] = bool(row["cases"])
    return row


def places_of(path):
    """The numbers whose byte is set."""
    try:
        with open(path, "rb") as stream:
            content = stream.read()
    except FileNotFoundError:
        return frozenset()
    return frozenset(i for i, byte in enumerate(content) if byte)


def take(test, row, place):
    test.seconds, test.good, test.why = row["seconds"], row["good"], row["why"]
    test.stamp = row["stamp"]
    name = test.name.replace("/", "+")
    test.left_out = row.get("left_out", [])
    if test.is_contract:
        many = f"{place}/reached/{name}.cases"
        test.cases = {case: (seconds, places_of(f"{many}/{case.replace('/', '+')}"))
                      for case, seconds in row["cases"].items()}
        test.reached = frozenset().union(*(c[1] for c in test.cases.values()))
    else:
        test.reached = places_of(f"{place}/reached/{name}")


def recall(tests, place):
    """How long each took when it was measured last; nothing else."""
    with open(f"{place}/measured.json", encoding="utf-8") as stream:
        rows = json.load(stream)["rows"]
    for test in tests:
        test.seconds = rows.get(test.name, {}).get("seconds", 99)


def stamp_of(test):
    """Says of which programs a measure is: the test's own, and what it may start."""
    build, total = test.directory, hashlib.sha1(" ".join(test.command).encode())
    beside = [path for word in test.command if word.endswith(".py")
              for path in sorted(glob.glob(f"{os.path.dirname(word)}/*.py"))]
    for path in (*test.command, *beside, f"{build}/src/libholdfast.so.0",
                 f"{build}/cli/holdfast", f"{build}/tests/contract/taker"):
        if os.path.isfile(path):
            with open(path, "rb") as stream:
                total.update(stream.read())
    return total.hexdigest()[:16]


def measure_all(tests, place, jobs, say):
    """Fills the tests in; what was measured with the same programs is kept."""
    kept = f"{place}/measured.json"
    rows = {}
    if os.path.exists(kept):
        with open(kept, encoding="utf-8") as stream:
            rows = json.load(stream)["rows"]
    os.makedirs(f"{place}/reached", exist_ok=True)

    def keep():
        with open(kept + ".new", "w", encoding="utf-8") as stream:
            json.dump({"rows": rows}, stream)
        os.replace(kept + ".new", kept)

    todo = [test for test in tests
            if not rows.get(test.name, {}).get("good") or
            rows[test.name].get("stamp") != stamp_of(test)]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(measure, test, place): test for test in todo}
        for done in concurrent.futures.as_completed(waiting):
            row = done.result()
            rows[row["name"]] = row
            say(f"measured {row['name']}: {row['seconds']:.1f} s"
                + ("" if row["good"] else f", left out: {row['why']}"))
            keep()
    for test in tests:
        take(test, rows[test.name], place)
