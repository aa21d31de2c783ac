#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The ledger of campaigns: short runs that add up.

    ledger.py [FILE...]          totals per store; without FILE of both ledgers below
    ledger.py --next STORE       the next seed that no run of that store has used
    ledger.py --markdown FILE... the totals as docs/evidence.md shows them

Each campaign that was held to its end appends one line to a file of tab-separated
values: build/torture/ledger.tsv unless `run.py --ledger` names another. The committed
ledger is docs/evidence/ledger.tsv; to add a run to it, add its line. Red runs are
written down like green ones.
"""

import argparse
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.abspath(os.path.join(HERE, "..", ".."))
DEFAULT = os.path.join("build", "torture", "ledger.tsv")
COMMITTED = os.path.join(TREE, "docs", "evidence", "ledger.tsv")
FIRST_SEED = 101

SUMS = ["seconds", "acquisitions", "exposed", "faults", "adoptions", "left",
        "evictions", "downgrades", "extends", "violations", "lost_updates", "stuck"]
FIELDS = ["date", "commit", "sources", "store", "seed", "seconds", "acquisitions", "exposed",
          "faults", "kinds", "adoptions", "left", "evictions", "downgrades", "extends",
          "violations", "lost_updates", "stuck", "slowest"]  # sources: the tree of src


def git(*words):
    done = subprocess.run(["git", "-C", TREE, *words], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def version():
    """The commit, and the tree of src, which stays the same where a commit is moved;
    "+" if the files differ."""
    commit = git("rev-parse", "--short=12", "HEAD") or "unknown"
    sources = git("rev-parse", "--short=12", "HEAD:src") or "unknown"
    status = ["status", "--porcelain", "--untracked-files=no", "--"]
    return {"commit": commit + "+" * bool(git(*status, "include", "tests/torture")),
            "sources": sources + "+" * bool(git(*status, "src"))}


def read(path):
    """[{field: text}]; none if there is no such file."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.rstrip("\n").split("\t") for line in file]
    except FileNotFoundError:
        return []
    if not lines:
        return []
    names = lines[0]
    for number, line in enumerate(lines, 1):
        if len(line) != len(names):
            sys.exit(f"{path}:{number}: {len(line)} values for {len(names)} names")
    return [dict(zip(names, line)) for line in lines[1:]]


def append(path, run):
    """One line, in one write: campaigns may end at the same time."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    run = dict(run, date=time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime()), **version())
    text = "\t".join(str(run[name]) for name in FIELDS) + "\n"
    if not os.path.exists(path):
        text = "\t".join(FIELDS) + "\n" + text
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)


def next_seed(store, paths):
    """One more than the largest that was used."""
    used = [int(run["seed"]) for path in paths for run in read(path)
            if run["store"] == store]
    return max(used, default=FIRST_SEED - 1) + 1


def totals(runs):
    """{store: {field: number}}, in the order of first mention; `runs` and the slowest
    with them. A run that stands in two files counts once."""
    seen, stores = set(), {}
    for run in runs:
        key = tuple(sorted(run.items()))
        if key in seen:
            continue
        seen.add(key)
        sums = stores.setdefault(run["store"], dict.fromkeys(SUMS, 0) | {
            "runs": 0, "kinds": 0, "slowest": 0.0})
        sums["runs"] += 1
        for name in SUMS:
            sums[name] += int(float(run[name]))
        sums["kinds"] = max(sums["kinds"], int(run["kinds"]))
        sums["slowest"] = max(sums["slowest"], float(run["slowest"]))
    return stores


COLUMNS = ["runs", "seconds", "acquisitions", "exposed", "faults", "kinds", "adoptions",
           "left", "evictions", "downgrades", "extends", "violations", "lost_updates",
           "stuck", "slowest"]


def rows(stores):
    for store, sums in stores.items():
        yield [store] + [f"{sums[name]:.1f}" if name == "slowest" else
                         f"{sums[name]:,}" for name in COLUMNS]


def show(stores):
    table = [["store"] + COLUMNS, *rows(stores)]
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    for row in table:
        print("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                        for i, (cell, width) in enumerate(zip(row, widths))))


def markdown(stores):
    print("| store | " + " | ".join(COLUMNS).replace("_", " ") + " |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    for row in rows(stores):
        print("| " + " | ".join(row) + " |")


def main():
    parser = argparse.ArgumentParser(description="The ledger of campaigns.")
    parser.add_argument("files", nargs="*", default=[DEFAULT, COMMITTED])
    parser.add_argument("--next", metavar="STORE", help="print the next unused seed")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    if options.next:
        print(next_seed(options.next, options.files))
        return 0
    stores = totals([run for path in options.files for run in read(path)])
    (markdown if options.markdown else show)(stores)
    return 0


if __name__ == "__main__":
    sys.exit(main())
