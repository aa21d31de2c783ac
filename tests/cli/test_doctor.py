#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""doctor, bench, version."""

import json
import os
import re

from cli import Terminal, holdfast, store
from look_util import run, run2, run_json
from tap import comment, done, ok


def by_topic(report):
    return {finding["topic"]: finding for finding in report["findings"]}


def healthy(place):
    text = run(place, "doctor")
    lines = text.splitlines()
    ok(re.match(r"holdfast \d+\.\d+\.\d+, stores: .*file", lines[0]), "version, stores",
       text)
    ok(re.match(re.escape(place.url) + r": opened in [\d.]+ ms, answers in [\d.]+ ms",
                lines[1]), "how long it takes", text)
    ok(lines[2].startswith("can: mutex, fair mutex, "), "what it can do", text)
    ok("permissions: mode 0700" in text, "what is good", text)
    report = run_json(place, "doctor")
    ok(set(report) == {"version", "stores", "url", "reachable", "error", "open_us",
                       "round_trip_us", "capabilities", "findings"}, "--json", report)
    ok(report["reachable"] is True and report["error"] is None and
       report["open_us"] >= 0 and report["round_trip_us"] >= 0 and
       {"mutex", "lease", "durable", "diagnose"} <= set(report["capabilities"]),
       "reachable, with capabilities", report)
    ok(all(set(finding) == {"level", "topic", "what", "fix"} and
           finding["level"] in ("good", "remark", "trap") and
           (finding["level"] == "good") == (finding["fix"] is None)
           for finding in report["findings"]), "the others have a fix", report)
    ok("1 of 1024 clients" in by_topic(report)["clients"]["what"], "we are alone")


def traps(place):
    os.chmod(place.dir, 0o777)
    result = run2(place, "doctor", code=77)
    ok("all users may write" in result.stderr, "what cannot be opened is not examined",
       result.stderr)
    os.chmod(place.dir, 0o770)
    text = run(place, "doctor", what="remarks alone: exit code 0")
    ok("remark  permissions: the group may delete" in text and
       f"fix: chmod g-w '{place.dir}'" in text and "0 traps, 1 remark" in text,
       "a remark, and its fix", text)
    os.chmod(place.dir, 0o700)
    ok(os.listdir(place.dir) == [], "doctor leaves nothing behind", os.listdir(place.dir))
    run(place, "run", "x", "--", "true")
    state = place.dir + "/.holdfast/state"
    os.chmod(state, 0o666)
    text = run(place, "doctor", code=1, what="a trap: exit code 1")
    ok("trap    permissions: all users may write the file '.holdfast/state'" in text and
       "fix: chmod o-w" in text, "a trap, and its fix", text)
    report = run_json(place, "doctor", code=1)
    ok(report["findings"][0]["level"] == "trap", "worst first", report)
    with Terminal("doctor", url=place.url) as terminal:
        comment("doctor on a terminal:\n" + terminal.until_exit())
        ok("\x1b[31;1mtrap" in terminal.seen and terminal.status == 1, "in colour")
    with Terminal("doctor", url=place.url, env={"NO_COLOR": "1"}) as terminal:
        ok("\x1b" not in terminal.until_exit(), "NO_COLOR: without")
    os.chmod(state, 0o600)


def others(place):
    text = run(place, "doctor", place.url + "?layout=flock", what="a URL as operand")
    ok("cannot: fair mutex, " in text and "remark  cleaners: " in text and
       "tmpfiles" in text, "layout=flock: what it cannot, and cleaners of /tmp", text)
    text = run(place, "doctor", "mem:")
    ok("threads of this process only" in text and "All good." in text, "mem", text)
    result = run2(place, "doctor", "file:/no/such/dir", code=69)
    ok("there is no directory" in result.stderr and "stores:" in result.stdout,
       "not there: 69, and a sentence", result)
    report = json.loads(run(place, "doctor", "file:/no/such/dir", "--json", code=69))
    ok(report["reachable"] is False and report["error"]["name"] == "HF_ENOENT" and
       report["error"]["text"] and report["findings"] is None, "and as JSON", report)
    run(place, "doctor", "nonsense", code=64, what="no URL at all")
    result = run2(place, "doctor", "file://user:hunter2@h/x?password=hunter2", code=64)
    ok("hunter2" not in result.stderr + result.stdout, "no password is shown", result)
    report = run(place, "doctor", "file://user:hunter2@h/x", "--json", code=64)
    ok("hunter2" not in report, "also not in JSON", report)
    run(place, "doctor", "mem:", "--url", "mem:", code=64, what="the URL twice")
    run(place, "doctor", "a", "b", code=64)


def bench(place):
    text = run(place, "bench", "--time", "50ms")
    ok("free lock, one thread" in text and "one lock, 4 threads" in text and
       "median" in text and "not a comparison" in text, "bench, in words", text)
    comment(text)
    for url in (place.url, place.url + "?layout=flock", "mem:"):
        report = json.loads(run(place, "bench", "--time", "30ms", "--json", "--url",
                                url))
        late = report["handover_ns"]
        ok(report["pairs_per_second"] > 0 and
           report["contended_pairs_per_second"] > 0 and
           0 < late["p50"] <= late["p99"] and late["count"] > 0 and
           report["time_ms"] == 30, "bench --json", report)
    ok(run_json(place, "ls")["locks"] == [], "nothing is left behind")
    for time in ("0", "2h", "x"):
        run(place, "bench", "--time", time, code=64)
    run(place, "bench", "name", code=64)


def version(place):
    text = run(place, "version")
    ok(re.fullmatch(r"holdfast \d+\.\d+\.\d+\nstores: .+\n", text), "version", text)
    report = run_json(place, "version")
    stores = " ".join(report["stores"])
    ok(f"holdfast {report['version']}\nstores: {stores}\n" == text and
       {"mem", "file"} <= set(report["stores"]), "--json", report)
    ok(holdfast("--version").stdout == text, "--version")
    run(place, "version", "x", code=64)


def main():
    with store() as place:
        for test in (healthy, traps, others, bench, version):
            test(place)
    done()


main()
