# SPDX-License-Identifier: MIT
"""What a campaign came to: a score per area, and every mutant that lives, with the tests
that ran against it. equivalents.txt lists mutants that change nothing that could be seen;
they do not count."""

import os

import schemata

HERE = os.path.dirname(os.path.abspath(__file__))
EQUIVALENTS = f"{HERE}/equivalents.txt"
KNOWN = f"{HERE}/known.txt"  # they live, and count: what is known of each


def equivalents():
    """Mutants that change nothing that could be seen."""
    return reasons(EQUIVALENTS)


def reasons(path):
    """key -> reason. A line of the file is a key, those below it, indented, its reason."""
    found, key = {}, None
    if os.path.exists(path):
        with open(path, encoding="utf-8") as stream:
            for line in stream:
                if line.startswith("#") or not line.strip():
                    continue
                if not line[0].isspace():
                    key = line.strip()
                    found[key] = ""
                elif key:
                    found[key] = (found[key] + " " + line.strip()).strip()
    return found


def show(mutant):
    """The change, as a reader of a diff expects it."""
    lines = [f"{mutant.file}:{mutant.line}: {mutant.function}(): {mutant.operator}",
             f"    -  {mutant.old}"]
    return "\n".join(lines + ([f"    +  {mutant.new}"] if mutant.new else []))


def score(mutants, ledger):
    """Rows: area, run, killed, equivalent, alive, killed of what can be."""
    known, rows = equivalents(), {}
    for mutant in mutants:
        row = ledger.rows.get(mutant.id)
        if not row:
            continue
        total = rows.setdefault(schemata.area_of(mutant.file), [0, 0, 0, 0])
        total[0] += 1
        if row["status"] == "killed":
            total[1] += 1
        elif mutant.key in known:
            total[2] += 1
        else:
            total[3] += 1
    return rows


def table(mutants, ledger):
    lines = ["| area | mutants | killed | equivalent | alive | score |",
             "|---|---:|---:|---:|---:|---:|"]
    rows = score(mutants, ledger)
    rows = {area: rows[area] for area in schemata.AREAS if area in rows}
    rows["all"] = [sum(column) for column in zip(*rows.values())] or [0, 0, 0, 0]
    for area, (total, killed, equal, alive) in rows.items():
        part = f"{100 * killed / (total - equal):.1f} %" if total > equal else "-"
        lines.append(f"| {area} | {total} | {killed} | {equal} | {alive} | {part} |")
    return "\n".join(lines)


def full(mutants, ledger, tests):
    known, notes = equivalents(), reasons(KNOWN)
    out = ["# Mutants", "", table(mutants, ledger), ""]
    bad = [test for test in tests if not test.good]
    cases = [case for test in tests for case in getattr(test, "left_out", [])]
    if bad or cases:
        out += ["Left out, because they fail with no mutant switched on:", ""]
        out += [f"- {test.name}: {test.why}" for test in bad]
        out += [f"- {case}" for case in cases] + [""]
    out += ["## Alive", ""]
    for mutant in mutants:
        row = ledger.rows.get(mutant.id)
        if not row or row["status"] == "killed" or mutant.key in known:
            continue
        ran = ", ".join(row["ran"]) or "none reaches it"
        short = " (the time was up before all tests ran)" if row.get("short") else ""
        note = [f"    {notes[mutant.key]}"] if mutant.key in notes else []
        out += [f"{mutant.id} {show(mutant)}", f"    ran: {ran}{short}", *note, ""]
    out += ["## Equivalent", ""]
    for mutant in mutants:
        row = ledger.rows.get(mutant.id)
        if row and row["status"] != "killed" and mutant.key in known:
            out += [f"{mutant.id} {show(mutant)}", f"    {known[mutant.key]}", ""]
    return "\n".join(out)
