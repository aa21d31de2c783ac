# SPDX-License-Identifier: MIT
"""A few mutants that are known to be killed, each run against the test that killed it: is
that so still? Another few with each commit, or for each value of $HOLDFAST_MUTANTS. TAP.

There is no build of its own. From the build directory of `make` come the commands: each
file that is concerned is compiled with its switches, and the test's program is linked
once more with that object ahead of the library, whose own one is then left out.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess

import schemata
import suites

HERE = os.path.dirname(os.path.abspath(__file__))
LEDGER = f"{HERE}/ledger.txt"
QUICK = re.compile(r"^(contract-(mem|fault\+mem|file|fault\+file)|sim-\w+|[a-z]\w*)$")
SLOW_S = 3.0


def write_ledger(mutants, ledger, tests):
    """Puts down what was killed by a test that is quick and has the library's objects."""
    speed = {test.name: (test.seconds, test.suite) for test in tests}
    rows = []
    for mutant in mutants:
        row = ledger.rows.get(mutant.id)
        if not row or row["status"] != "killed" or mutant.file.endswith(".lua"):
            continue
        seconds, suite = speed.get(row["by"], (99, ""))
        local = suite == "contract" and QUICK.match(row["by"]) and row["case"]
        if "hangs" not in row["why"] and "cli/" not in mutant.file and \
                (local or suite in ("unit", "sim") and seconds < SLOW_S):
            rows.append(f"{row['by']} {row['case'] or '-'} {mutant.key}".rstrip())
    head = ("# Mutants that are known to be killed: the test, its case, the mutant.\n"
            "# Made by `mutate.py --ledger`; --handful chooses from these.\n")
    with open(LEDGER, "w", encoding="utf-8") as stream:
        stream.write(head + "".join(row + "\n" for row in sorted(rows)))
    return len(rows)


def read_ledger():
    with open(LEDGER, encoding="utf-8") as stream:
        for line in stream:
            if not line.startswith("#"):
                test, case, key = line.rstrip("\n").split(" ", 2)
                yield test, "" if case == "-" else case, key


def in_the_library(top):
    """The sources whose objects the tests of the inside are linked with."""
    with open(f"{top}/build/compile_commands.json", encoding="utf-8") as stream:
        return {os.path.relpath(os.path.join(e["directory"], e["file"]), top)
                for e in json.load(stream) if "hf_inside" in e["output"]}


def turn_of(top):
    """What the choice hangs on: the commit, so that a red run can be repeated."""
    head = subprocess.run(["git", "-C", top, "rev-parse", "HEAD"], capture_output=True,
                          text=True, check=False).stdout
    return os.environ.get("HOLDFAST_MUTANTS") or head.strip() or "no commit"


def choose(top, place, count):
    """(mutant, test, case), another few each turn. A place that is gone is passed over."""
    turn = turn_of(top)
    rank = lambda row: hashlib.sha1(f"{turn} {row[2]}".encode()).digest()
    there = {test.name for test in suites.find(f"{top}/build")}
    inside = in_the_library(top)
    chosen, known, programs = [], {}, set()
    for test, case, key in sorted(read_ledger(), key=rank):
        file = key.split(" | ")[0]
        if len(chosen) == count:
            break
        if test not in there or file not in inside:
            continue
        if test not in programs and len(programs) >= max(2, count // 2):
            continue  # each program is linked anew: few of them are enough
        if file not in known:
            known[file] = {m.key: m for m in schemata.all_mutants(top, place, file)}
        if key in known[file]:
            programs.add(test)
            chosen.append((known[file][key], test, case))
    return chosen


class Linker:
    def __init__(self, top, build, place):
        self.top, self.build = top, build
        self.place = f"{place}/handful"
        shutil.rmtree(self.place, ignore_errors=True)
        os.makedirs(self.place)
        with open(f"{build}/compile_commands.json", encoding="utf-8") as stream:
            self.commands = json.load(stream)
        self.objects = []

    def compile(self, source, like, name):
        """Compiles a text as the build compiles the file `like`, but quickly."""
        entry = next(e for e in self.commands if "hf_inside" in e["output"] and
                     os.path.normpath(os.path.join(e["directory"], e["file"])) ==
                     f"{self.top}/{like}")
        words = shlex.split(entry["command"])
        for option in ("-MQ", "-MF"):
            if option in words:
                at = words.index(option)
                del words[at:at + 2]
        words = [w for w in words if not re.match(
            r"-flto|-ffat-lto|-W|-O|-g|-fno-semantic|-M|-U_FORT|-D_FORT", w)]
        at = words.index("-o")
        words = words[:at] + ["-O1", "-w", "-iquote",
                              os.path.dirname(f"{self.top}/{like}"), "-I", self.place,
                              "-o", f"{self.place}/{name}.o", "-c",
                              f"{self.place}/{name}.c"]
        schemata.write(f"{self.place}/{name}.c", source)
        subprocess.run(words, cwd=self.build, check=True)
        self.objects.append(f"{self.place}/{name}.o")

    def instrument(self, mutants):
        for name in ("switch.c", "switch.h"):
            with open(f"{HERE}/{name}", encoding="utf-8") as stream:
                text = stream.read()
            if name == "switch.c":
                self.compile("#define HFM_COUNT 4096\n" + text, "src/base/clock.c",
                             "hfm_switch")
            else:
                schemata.write(f"{self.place}/hfm_switch.h", text)
        for file in sorted({mutant.file for mutant in mutants}):
            with open(f"{self.top}/{file}", "rb") as stream:
                text = stream.read()
            here = [mutant for mutant in mutants if mutant.file == file]
            self.compile(schemata.instrument(text, here, "src/x.c"), file,
                         re.sub(r"\W", "_", file))

    def link(self, program):
        """The program once more, our objects ahead of the library's."""
        target = os.path.relpath(program, self.build)
        lines = subprocess.run(["ninja", "-C", self.build, "-t", "commands", "-s", target],
                               capture_output=True, text=True, check=True).stdout
        words = shlex.split(lines.strip().split("\n")[-1])
        words[words.index("-o") + 1] = f"{self.place}/{os.path.basename(program)}"
        first = next(i for i, word in enumerate(words) if word.endswith(".a"))
        words[first:first] = self.objects
        subprocess.run(words, cwd=self.build, check=True)
        return f"{self.place}/{os.path.basename(program)}"


def prepare(top, place, chosen):
    """The tests that are needed, each with a program that has the mutants in it."""
    build = f"{top}/build"
    for number, (mutant, _, _) in enumerate(chosen):
        mutant.number = number
    linker = Linker(top, build, place)
    linker.instrument([mutant for mutant, _, _ in chosen])
    names, made = {test for _, test, _ in chosen}, {}
    found = {test.name: test for test in suites.find(build) if test.name in names}
    for test in found.values():
        program = test.command[0]
        if program not in made:
            made[program] = linker.link(program)
        if test.is_contract and "taker" not in made:
            made["taker"] = linker.link(f"{build}/tests/contract/taker")
            preload = f"{build}/tests/contract/clock_preload.so"
            if os.path.exists(preload):
                os.symlink(preload, f"{linker.place}/clock_preload.so")
        test.command = [made[program], *test.command[1:]]
        test.seconds = SLOW_S
    return found, linker.place


def is_killed(test, case, mutant, place):
    extra = {"HFM_NUMBER": str(mutant.number)}
    if test.is_contract:
        extra["HFM_CHOSEN"] = f"{place}/chosen"
        with open(extra["HFM_CHOSEN"], "w", encoding="utf-8") as stream:
            stream.write(case + "\n")
        store, form, scenario = case.split("/")
        test.command = [test.command[0], "--store", store, "--only", scenario]
        assert form
    return any(suites.run(test, extra).failed for _ in range(2))


def run(top, place, count, say):
    chosen = choose(top, place, count)
    tests, built = prepare(top, place, chosen)
    print(f"1..{len(chosen)}", flush=True)
    bad = 0
    for number, (mutant, name, case) in enumerate(chosen, 1):
        killed = is_killed(tests[name], case, mutant, built)
        bad += not killed
        print(f"{'ok' if killed else 'not ok'} {number} - {mutant.id} {mutant.file}:"
              f"{mutant.line} {mutant.operator} is killed by {name} {case}", flush=True)
        if not killed:
            print("# " + mutant.key, flush=True)
    return 1 if bad or not chosen else 0
