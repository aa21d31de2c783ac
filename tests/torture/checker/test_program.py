#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_program.py LOCKCHECK: histories written by history.py, read by lockcheck.

The two agree on layout and sum; the report as text and as JSON says what was planted;
the exit status is what the manual says.
"""

import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import history as h

SECOND = 10**9
count = failed = 0


def check(ok, name):
    global count, failed
    count += 1
    failed += not ok
    print(f"{'' if ok else 'not '}ok {count} - {name}", flush=True)


def run(directory, *options):
    done = subprocess.run([sys.argv[1], directory, *options], capture_output=True,
                          text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def hold(writer, number, times, token, kind=h.MUTEX, **more):
    inv, ret, give, given = times
    event = dict(hold=number, lock=3, kind=kind, permits=1, limit=1, **more)
    writer.add(h.ACQUIRE, h.INVOKE, t_ns=inv, **event)
    writer.add(h.ACQUIRE, t_ns=ret, result=h.OK, token=token, until_ns=h.FOREVER,
               **event)
    writer.add(h.REGISTER, t_ns=ret, result=h.OK, token=token, value=token, **event)
    writer.add(h.PLAIN, t_ns=ret, result=h.OK, value=token, **event)
    writer.add(h.RELEASE, h.INVOKE, t_ns=give, **event)
    writer.add(h.RELEASE, t_ns=given, result=h.OK, **event)


def campaign(directory, second_at, final=2, kill=False):
    with h.Writer(os.path.join(directory, "a.hist"), 1) as writer:
        hold(writer, 1, (10, 20, 30, 40), 1)
        writer.add(h.END, t_ns=50)
    with h.Writer(os.path.join(directory, "b.hist"), 2, thread=5) as writer:
        hold(writer, 1, (15, second_at, second_at + 10, second_at + 20), 2)
        if kill:
            writer.add(h.ACQUIRE, h.INVOKE, t_ns=100, hold=2, lock=3, kind=h.MUTEX)
        else:
            writer.add(h.END, t_ns=second_at + 20)
    with h.Writer(os.path.join(directory, "nemesis.hist"), 0) as writer:
        writer.add(h.FAULT, h.INVOKE, t_ns=5 * SECOND, value=1, kind=9)
        writer.add(h.FAULT, t_ns=6 * SECOND, value=1, kind=9)
        writer.add(h.FAULT, h.INVOKE, t_ns=12, value=2, kind=4)
        writer.add(h.FAULT, t_ns=13, value=2, kind=4)
        writer.add(h.HEAL, t_ns=7 * SECOND)
        writer.add(h.FINAL, t_ns=8 * SECOND, lock=3, token=2, value=final,
                   until_ns=final)
        writer.add(h.RESIDUE, t_ns=8 * SECOND, value=0)


def tests():
    with tempfile.TemporaryDirectory() as directory:
        campaign(directory, 31)
        code, out, _ = run(directory, "--json", "--strict-plain", "--grace", "0")
        report = json.loads(out)
        check(code == 0 and report["violations"] == 0, "green: exit 0")
        check(report["acquisitions"] == 2 and report["faults"] == 2
              and report["fault_kinds"] == 2, "acquisitions and faults are counted")
        check(report["exposed"] == 1, "the one a fault met was exposed")
        check(report["kinds"]["mutex"]["fenced_writes"] == 2, "counts by kind")
        check(report["faults_by_kind"] == {"4": 1, "9": 1}, "faults by kind")
        check(set(report["checks"]) == {"K1", "K2", "K3", "K4", "K5", "K7", "K8", "K9",
                                        "K10", "K11", "K12"}, "every check is reported")
        code, out, _ = run(directory)
        check(code == 0 and out.endswith("lockcheck: 0 violations\n"), "as text")
        done = subprocess.run([sys.executable, h.__file__,
                               os.path.join(directory, "a.hist")],
                              capture_output=True, text=True, check=False)
        check(done.returncode == 0 and "ACQUIRE RETURN lock=3 hold=1 MUTEX OK token=1"
              in done.stdout, "history.py prints a history")

    with tempfile.TemporaryDirectory() as directory:
        campaign(directory, 29)
        code, out, _ = run(directory, "--json")
        report = json.loads(out)
        check(code == 1 and report["checks"]["K1"]["found"] == 1
              and report["kinds"]["mutex"]["violations"] == 1, "red: exit 1")
        example = report["checks"]["K1"]["examples"][0]
        check("lock 3" in example and "p1/t0" in example and "p2/t5" in example
              and "token 2" in example, "the example names lock, threads, tokens")
        code, out, _ = run(directory)
        check(code == 1 and f"K1 {example}" in out, "and is in the text as well")
        code, _, _ = run(directory, "--unsound")
        check(code == 0, "--unsound: K1 does not count")

    with tempfile.TemporaryDirectory() as directory:
        campaign(directory, 31, final=1)
        report = json.loads(run(directory, "--json")[1])
        check(report["lost_updates_fenced"] == 1 and report["lost_updates_plain"] == 1,
              "lost updates are counted")
        check(report["violations"] == 1, "the plain one is no violation")
        report = json.loads(run(directory, "--json", "--strict-plain")[1])
        check(report["violations"] == 2, "unless it has to be")

    with tempfile.TemporaryDirectory() as directory:
        campaign(directory, 31, kill=True)
        report = json.loads(run(directory, "--json")[1])
        check(report["stuck"] == 1, "stuck without an answer")
        code, _, _ = run(directory, "--killed", f"9,2@{SECOND}")
        check(code == 0, "--killed excuses it")

    with tempfile.TemporaryDirectory() as directory:
        check(run(directory)[0] == 2, "no histories: exit 2")
        check(run(directory + "/none")[0] == 2, "no directory: exit 2")
        check(run(directory, "--bound", "x")[0] == 2, "a bad option: exit 2")
        with open(os.path.join(directory, "x.hist"), "wb") as file:
            file.write(b"not a history at all, but as long as the header of one is......")
        check(run(directory)[0] == 2, "a file that is none of ours: exit 2")


tests()
print(f"1..{count}")
sys.exit(failed != 0)
