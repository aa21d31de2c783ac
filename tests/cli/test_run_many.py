#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Many runs leave nothing behind; flock(1) and holdfast exclude each other."""

import os
import shutil
import subprocess
import time

from cli import DEADLINE, COMMAND, environment, holdfast, start, store, wait_for
from tap import comment, done, ok, skip

RUNS = int(os.environ.get("HOLDFAST_RUNS", "1000"))
TIME = 15.0  # under a sanitizer a run takes long: then fewer are enough


def wardens():
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/comm", encoding="utf-8") as comm, \
                    open(f"/proc/{name}/environ", "rb") as env:
                if comm.read().startswith("holdfast-warden"):
                    found.append((name, env.read()))
        except OSError:
            pass
    return found


def test_many(place):
    env = environment(place.url)
    begin, count, bad = time.monotonic(), 0, 0
    while count < RUNS and (count < 100 or time.monotonic() - begin < TIME):
        bad += subprocess.call([COMMAND, "run", "x", "--", "true"], env=env) != 0
        count += 1
    ok(bad == 0, f"{count} runs of `true`")
    names = sorted(os.listdir(os.path.join(place.dir, ".holdfast")))
    ok(names == ["live", "state"], "the directory has the files it always has", names)
    text = holdfast("ls", "--json", url=place.url).stdout.replace(" ", "")
    ok('"locks":[]' in text, "nothing is held", text)
    left = [pid for pid, where in wardens() if place.dir.encode() in where]
    ok(not left, "no process is left", left)


def test_flock(place):
    if not shutil.which("flock"):
        skip("flock(1)", "not here")
        return
    url, path = place.url + "?layout=flock", os.path.join(place.dir, "job.lock")
    ours = start("run", "job.lock", "--", "sh", "-c", "echo in; read end", url=url,
                 stdin=subprocess.PIPE)
    ours.stdout.readline()
    result = subprocess.run(["flock", "-n", "-E", "9", path, "-c", "true"], check=False)
    ok(result.returncode == 9, "flock(1) is kept out by holdfast run")
    waiter = subprocess.Popen(["flock", path, "-c", "echo theirs"],
                              stdout=subprocess.PIPE, text=True)
    ours.communicate("\n", timeout=DEADLINE)
    ok(waiter.communicate(timeout=DEADLINE)[0] == "theirs\n", "and has its turn")
    theirs = subprocess.Popen(["flock", path, "-c", "echo in; read end"], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    theirs.stdout.readline()
    result = holdfast("run", "-n", "job.lock", "--", "true", url=url)
    ok(result.returncode == 1, "holdfast run is kept out by flock(1)", result.stderr)
    ours = start("run", "-v", "job.lock", "--", "echo", "ours", url=url)
    wait_for(lambda: "waiting" in ours.stderr.readline(), "holdfast waiting")
    theirs.communicate("\n", timeout=DEADLINE)
    ok(ours.communicate(timeout=DEADLINE)[0] == "ours\n", "and has its turn")
    killed = start("run", "job.lock", "--", "sh", "-c", "echo in; sleep 300", url=url)
    killed.stdout.readline()
    killed.kill()
    result = subprocess.run(["flock", "-w", "20", path, "-c", "true"], check=False)
    ok(result.returncode == 0, "kill -9 of holdfast frees the file for flock(1)")
    killed.communicate()


def main():
    for test in [test_many, test_flock]:
        with store() as place:
            test(place)
    comment(f"HOLDFAST_RUNS={RUNS}")
    done()


main()
