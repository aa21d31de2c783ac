# SPDX-License-Identifier: MIT
"""Runs mutants against tests, the cheapest first, until one fails: then it is killed.

The ledger is a file with a line of JSON per mutant, written when its run is over, so a
campaign that is stopped goes on where it was. A mutant that lives has a line too, with
the tests that ran; `deep` takes those up again with every other test that reaches them.
"""

import concurrent.futures
import hashlib
import json
import os
import tempfile
import threading
import time
from collections import Counter

import schemata
import suites


class Ledger:
    """What became of each mutant; the last line of a mutant counts."""

    def __init__(self, path):
        self.path, self.lock = path, threading.Lock()
        self.rows = {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as stream:
                for line in stream:
                    try:
                        row = json.loads(line)
                    except ValueError:
                        continue  # cut short when the campaign was stopped
                    self.rows[row["id"]] = row

    def add(self, row):
        with self.lock:
            self.rows[row["id"]] = row
            with open(self.path, "a", encoding="utf-8") as stream:
                stream.write(json.dumps(row) + "\n")


class Campaign:
    def __init__(self, tests, ledger, lua, jobs, budget, deep):
        self.tests = [test for test in tests if test.good]
        self.ledger, self.lua, self.jobs = ledger, lua, jobs
        self.budget, self.deep = budget, deep
        self.kills = Counter()  # (file, test or case) -> mutants killed: try those first
        self.lock = threading.Lock()
        for row in ledger.rows.values():
            if row["status"] == "killed":
                self.remember(row["file"], row["by"], row["case"])

    def remember(self, file, name, case):
        with self.lock:
            self.kills[file, name] += 1
            if case:
                self.kills[file, case] += 1

    # ---- which tests --------------------------------------------------------------

    def fits(self, test, mutant):
        suites_of, stores = suites.MAP[schemata.area_of(mutant.file)]
        if self.deep or test.name in suites.DEEP_ONLY:
            return self.deep
        if test.is_contract:
            return test.name[len("contract-"):] in stores
        return test.suite in suites_of

    def reaches(self, test, mutant):
        if mutant.file.endswith(".lua"):  # the server cannot tell
            return "redis" in test.name
        return mutant.number in test.reached

    def cases(self, test, mutant):
        """Of a store's contract: what reaches the mutant. Unless `deep`, each scenario
        in two forms only, another two for each mutant."""
        is_lua = mutant.file.endswith(".lua")
        found = [case for case, (_, reached) in test.cases.items()
                 if is_lua or mutant.number in reached]
        if self.deep or test.seconds < 15:
            return found
        rank = lambda case: hashlib.sha1(f"{mutant.id}{case}".encode()).digest()
        by_scenario = {}
        for case in sorted(found, key=rank):
            by_scenario.setdefault(case.split("/")[2], []).append(case)
        return [case for row in by_scenario.values() for case in row[:2]]

    def plan(self, mutant):
        """(test, cases) in order: what killed others of this file, then by cost."""
        plan = []
        for test in self.tests:
            if not self.fits(test, mutant) or not self.reaches(test, mutant):
                continue
            cases = self.cases(test, mutant) if test.is_contract else []
            if test.is_contract and not cases:
                continue
            likely = [case for case in cases if self.kills[mutant.file, case]]
            if likely:
                plan.append((self.cost(test, likely), test, likely))
            rest = sorted(set(cases) - set(likely))
            if rest or not cases:
                bonus = self.kills[mutant.file, test.name] if not cases else 0
                plan.append((self.cost(test, rest) / (1 + bonus), test, rest))
        plan.sort(key=lambda row: row[0])
        return [(test, cases) for _, test, cases in plan]

    @staticmethod
    def cost(test, cases):
        if not test.is_contract:
            return test.seconds
        start = 4 if "zookeeper" in test.name else 0
        return start + 0.002 * len(test.cases) + sum(test.cases[c][0] for c in cases) / 2

    # ---- one mutant ---------------------------------------------------------------

    def once(self, test, cases, mutant):
        extra = {"HFM_NUMBER": str(mutant.number), "HFM_LUA": self.lua}
        with tempfile.NamedTemporaryFile("w", suffix=".chosen") as chosen:
            if test.is_contract:
                chosen.write("".join(case + "\n" for case in cases))
                chosen.flush()
                extra["HFM_CHOSEN"] = chosen.name
            return suites.run(test, extra)

    def kills_it(self, test, cases, mutant):
        """The failure, or None. Where load alone can make a test fail, it has to fail
        twice."""
        outcome = self.once(test, cases, mutant)
        if outcome.failed and test.suite not in suites.STEADY:
            again = [outcome.case] if outcome.case in cases else cases
            second = self.once(test, again, mutant)
            if not second.failed:
                return None
        return outcome if outcome.failed else None

    def run(self, mutant):
        before = self.ledger.rows.get(mutant.id, {})
        ran, since = list(before.get("ran", [])), time.monotonic()
        stamps = dict(before.get("stamps", {}))  # of the tests as they were then
        row = {"id": mutant.id, "key": mutant.key, "file": mutant.file,
               "line": mutant.line, "deep": self.deep, "status": "survived", "by": "",
               "case": "", "why": ""}
        plan = self.plan(mutant)
        for test, cases in plan:
            label = test.name + (f" ({len(cases)} cases)" if cases else "")
            if label in ran and stamps.get(label, test.stamp) == test.stamp:
                continue
            if time.monotonic() - since > self.budget:
                row["short"] = True  # the budget was spent before all tests ran
                break
            outcome = self.kills_it(test, cases, mutant)
            ran += [] if label in ran else [label]
            stamps[label] = test.stamp
            if outcome:
                row.update(status="killed", by=test.name, why=outcome.why,
                           case=outcome.case if test.is_contract else "")
                self.remember(mutant.file, test.name, row["case"])
                break
        if not plan and not ran:
            row["status"] = "unreached"
        row["ran"], row["seconds"] = ran, round(time.monotonic() - since, 1)
        row["stamps"] = stamps if row["status"] == "survived" else {}
        self.ledger.add(row)
        return row

    def run_all(self, mutants, say):
        done = 0
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            waiting = {pool.submit(self.run, mutant): mutant for mutant in mutants}
            for future in concurrent.futures.as_completed(waiting):
                mutant, row, done = waiting[future], future.result(), done + 1
                say(f"{done}/{len(mutants)} {mutant.id} {mutant.file}:{mutant.line} "
                    f"{mutant.operator}: {row['status']}"
                    + (f" by {row['by']} {row['case']}" if row["by"] else "")
                    + f" in {row['seconds']} s")
