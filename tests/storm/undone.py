#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Takes fixes out, one at a time, and says whether storm notices.

    undone.py [--scratch DIR] [--limit SECONDS] [--runs SECONDS] [NUMBER...]

Each undone/NN-*.patch brings one defect back. The project is cloned into a scratch
directory and built there; then for each patch: apply, build, run storm with seed after
seed until a run is red or the limit is over, take the patch out again. Exit 1 if one was
not noticed."""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parent.parent

# number -> build, store, further arguments of storm
HOW = {
    "01": ("plain", "redis", ["--kinds", "mutex,rw,permits"]),
    "02": ("plain", "redis", ["--lossy", "--kinds", "mutex,rw"]),
    "04a": ("asan", "mem", ["--kinds", "mutex"]),
    "04b": ("asan", "mem", ["--lossy", "--kinds", "rw"]),
    "04c": ("tsan", "mem", ["--kinds", "mutex,rw"]),
    "05": ("plain", "zookeeper", ["--pure", "--kinds", "rw"]),
    "07": ("plain", "mem", ["--kinds", "mutex"]),
    "09": ("plain", "mem", ["--kinds", "mutex"]),
    "10": ("plain", "mem", ["--kinds", "mutex"]),
    "11": ("plain", "mem", ["--unsent"]),
    "30": ("plain", "mem", ["--kinds", "mutex"]),
    "31": ("plain", "redis-simple", []),
    "32": ("plain", "mem", ["--kinds", "mutex"]),
    "33": ("plain", "redis", ["--kinds", "rw"]),
    "34": ("plain", "mem", []),
    "35": ("tsan", "file", []),
}
SETUP = {
    "plain": [],
    "tsan": ["-Db_sanitize=thread", "-Db_lundef=false", "-Doptimization=1"],
    "asan": ["-Db_sanitize=address,undefined", "-Db_lundef=false", "-Doptimization=1"],
}
TOLD = re.compile(r"(violation of S\d+: .*|ERROR: \w+Sanitizer.*|runtime error.*"
                  r"|ended with .*|no end after .*)")


def run(command, where):
    done = subprocess.run(command, cwd=where, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def build(scratch, flavour):
    if not (scratch / flavour).exists():
        run(["meson", "setup", flavour, *SETUP[flavour]], scratch)
    run(["ninja", "-C", flavour, "tests/storm/storm"], scratch)


def storm(scratch, number, seed, seconds):
    flavour, store, more = HOW[number]
    command = ["setarch", "-R", scratch / flavour / "tests/storm/storm", "--store", store, "--seed",
               str(seed), "--seconds", str(seconds), *more]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True)
    found = TOLD.search(done.stderr + done.stdout)
    word = found.group(1) if found else "red"
    at = re.search(r"# +([\d.]+) process .*violation of", done.stderr)
    took = float(at.group(1)) if at else time.monotonic() - began
    return done.returncode != 0, took, word[:150]


def undo(scratch, patch, limit, seconds):
    number = patch.name.split("-")[0]
    run(["git", "checkout", "-q", "--", "src"], scratch)
    run(["git", "apply", str(patch)], scratch)
    build(scratch, HOW[number][0])
    spent = 0.0
    for seed in range(1, 1000):
        red, took, word = storm(scratch, number, seed, seconds)
        spent += took
        if red:
            print(f"{patch.stem}: noticed by {HOW[number][1]}"
                  f" {' '.join(HOW[number][2])} ({HOW[number][0]}), seed {seed},"
                  f" after {spent:.1f} s: {word}", flush=True)
            return True
        if spent > limit:
            break
    print(f"{patch.stem}: NOT noticed in {spent:.0f} s", flush=True)
    return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scratch")
    parser.add_argument("--limit", type=float, default=300)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("numbers", nargs="*")
    options = parser.parse_args()
    scratch = pathlib.Path(options.scratch or tempfile.mkdtemp(prefix="holdfast-undone-"))
    if not (scratch / ".git").exists():
        run(["git", "clone", "-q", str(PROJECT), str(scratch)], PROJECT)
    noticed = True
    for patch in sorted((HERE / "undone").glob("*.patch")):
        if not options.numbers or patch.name.split("-")[0] in options.numbers:
            noticed &= undo(scratch, patch, options.limit, options.runs)
    run(["git", "checkout", "-q", "--", "src"], scratch)
    return 0 if noticed else 1


if __name__ == "__main__":
    sys.exit(main())
