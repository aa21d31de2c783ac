#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""summary.py [--rerun] BUILD[:LEFT-OUT-SUITE[:WRAPPER]]...: what the tests of some build
directories said.

Reads the log that `meson test` left in each build directory and the list of the tests
that should have run. Counts the TAP sub-tests; a test that does not speak TAP counts as
one. Failed is: `not ok`, a plan that was not kept, a bail-out, a non-zero exit, a signal,
a timeout, a program without a single sub-test, a test that should have run and did not.
Prints every failure by name with what its test said of it, every skip, a table per suite,
and as the last line

    N passed, M failed

The exit status is 0 only if M is 0 and N is not.

With --rerun each program that failed is run once more, alone. One that then passes is
printed as `flaky: BUILD SUITE/TEST` with what it had said, and counts as passed if it is
the only one: a second one is a failure.
"""

import json
import pathlib
import re
import subprocess
import sys
from collections import Counter

RERUN_MAX = 4  # more failures than that are no accident
SAID_MAX = 6  # lines printed of what a test says of one failure
POINT = re.compile(r"^(not )?ok\b\s*(\d+)?\s*(?:-\s*)?([^#]*)(?:#\s*(\w+)\b\s*(.*))?$")
PLAN = re.compile(r"^1\.\.(\d+)(?:\s*#\s*skip\b\s*(.*))?", re.IGNORECASE)


class Outcome:
    """What one test program said: numbers, and a line for each failure and skip."""

    def __init__(self):
        self.passed = 0
        self.failures = []
        self.skips = []

    def __len__(self):
        return self.passed + len(self.failures) + len(self.skips)


def read_tap(text):
    """Counts the sub-tests in TAP output."""
    outcome, plan, seen, skip_all = Outcome(), None, 0, None
    said = SAID_MAX
    for line in text.splitlines():
        if line.startswith("#"):
            if said < SAID_MAX:
                outcome.failures[-1] += f"\n    {line}"
                said += 1
            continue
        said = SAID_MAX
        if found := PLAN.match(line):
            plan, skip_all = int(found[1]), found[2]
        elif line.startswith("Bail out!"):
            outcome.failures.append(line)
        elif found := POINT.match(line):
            seen += 1
            bad, _, name, directive, reason = found.groups()
            name = name.strip() or f"sub-test {seen}"
            if directive and directive.lower() == "skip":
                outcome.skips.append(f"{name}: {reason}")
            elif bad:
                outcome.failures.append(f"{name} (not ok)")
                said = 0
            else:
                outcome.passed += 1
    if plan is None:
        outcome.failures.append("no TAP plan")
    elif plan != seen:
        outcome.failures.append(f"planned {plan} sub-tests, ran {seen}")
    elif seen == 0 and skip_all:
        outcome.skips.append(f"the whole program: {skip_all}")
    elif seen == 0:
        outcome.failures.append("no sub-test ran")
    return outcome


def judge(record, protocol):
    """The outcome of one record of the log."""
    if protocol == "tap":
        outcome = read_tap(record["stdout"] or "")
    else:
        outcome = Outcome()
        if record["result"] == "SKIP":
            outcome.skips.append("the whole program")
        elif record["result"] == "OK":
            outcome.passed = 1
    clean = record["result"] in ("OK", "SKIP") and record["returncode"] in (0, 77)
    if not clean:
        how = f"{record['result']}, exit status {record['returncode']}"
        outcome.failures[-1:] = ["; ".join([how] + outcome.failures[-1:])]
    return outcome


def read_build(argument):
    """Yields (suite, test, protocol, outcome) for all tests of one build directory."""
    directory, left_out, _ = (argument + "::").split(":")[:3]
    listing = subprocess.run(
        ["meson", "introspect", "--tests", directory],
        check=True, capture_output=True, text=True).stdout
    expected = {}
    for test in json.loads(listing):
        suites = [suite.split(":")[-1] for suite in test["suite"]]
        if left_out not in suites:
            expected[test["name"]] = (suites[0], test["protocol"])

    log = pathlib.Path(directory, "meson-logs", "testlog.json")
    lines = log.read_text().splitlines() if log.exists() else []
    for record in map(json.loads, lines):
        name = record["name"].split(" / ")[-1].strip()
        suite, protocol = expected.pop(name, ("?", "exitcode"))
        yield suite, name, protocol, judge(record, protocol)
    for name, (suite, protocol) in expected.items():
        outcome = Outcome()
        outcome.failures.append("it did not run")
        yield suite, name, protocol, outcome


def run_again(argument, name, protocol):
    """The outcome of one program that runs alone."""
    directory, _, wrapper = (argument + "::").split(":")[:3]
    command = ["meson", "test", "-C", directory, "--no-rebuild", "--logbase", "rerun",
               "--timeout-multiplier", "8", name]
    log = pathlib.Path(directory, "meson-logs", "rerun.json")
    log.unlink(missing_ok=True)
    subprocess.run(command + (["--wrapper", wrapper] if wrapper else []), check=False,
                   stdout=subprocess.DEVNULL)
    records = [json.loads(line) for line in log.read_text().splitlines()
               ] if log.exists() else []
    if len(records) == 1:
        return judge(records[0], protocol)
    outcome = Outcome()
    outcome.failures.append("it did not run again")
    return outcome


def forgive(results):
    """Runs what failed again, alone, if it is little; forgives one that passes then."""
    failed = [result for result in results if result[-1].failures]
    forgiven = 0
    for result in failed if len(failed) <= RERUN_MAX else []:
        argument, suite, name, protocol, first = result
        again = run_again(argument, name, protocol)
        if again.failures:
            continue
        build = argument.partition(":")[0]
        print(f"flaky: {build} {suite}/{name}: " + "; ".join(first.failures))
        forgiven += 1
        if forgiven == 1:
            result[-1] = again


def main(arguments):
    rows, total = {}, Counter()
    results = [[argument, *test] for argument in arguments if argument != "--rerun"
               for test in read_build(argument)]
    if "--rerun" in arguments:
        forgive(results)
    for argument, suite, name, _, outcome in results:
        build = argument.partition(":")[0]
        row = rows.setdefault((build, suite), Counter())
        row.update(programs=1, passed=outcome.passed,
                   failed=len(outcome.failures), skipped=len(outcome.skips))
        for skip in outcome.skips:
            print(f"skipped: {build} {suite}/{name}: {skip}")
        for failure in outcome.failures:
            print(f"FAILED:  {build} {suite}/{name}: {failure}")

    head = ("programs", "passed", "failed", "skipped")
    print("\n" + f"{'build':<12}{'suite':<12}" + "".join(f"{h:>10}" for h in head))
    for (build, suite), row in rows.items():
        total.update(row)
        print(f"{build:<12}{suite:<12}" + "".join(f"{row[h]:>10}" for h in head))
    print(f"\n{total['passed']} passed, {total['failed']} failed")
    return 0 if total["passed"] and not total["failed"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
