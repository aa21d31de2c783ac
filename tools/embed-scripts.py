#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Embeds Lua scripts in C.

usage: embed-scripts.py DIRECTORY OUTPUT.c OUTPUT.inc

Every DIRECTORY/NAME.lua but the parts becomes `hf__redis_script_NAME` (scripts.h), and
every whole number that part_values.lua names a constant of C, `SCRIPT_NAME`.
Comments, indentation and empty lines are dropped, to keep short what is sent.
The same input always gives the same output. Two kinds of comments are instructions:

`-- uses: a, b` is replaced by part_a.lua and part_b.lua, in that order, without those
that the script already has. Parts may use parts.

`-- pastes: a, b`: from here to the line that uses part_a.lua, a call of a function of
that part is replaced by the body of the function; the same for part_b.lua. The server
makes every function of a script anew in each run, which takes it as long as a command.
So a script begins with the common cases, pasted, and ends with the rest, which calls.

A call that is pasted stands on a line of its own: `f(x)`, `a, b = f(x)`,
`local a, b = f(x)` or `return f(x)`. A function that is pasted has no return but its
last statement. A name that a part defines for all is defined nowhere else.
"""

import dataclasses
import hashlib
import pathlib
import re
import sys

INCLUDE = re.compile(r"-- (uses|pastes): (.*)")
FUNCTION = re.compile(r"local function (\w+)\((.*)\)")
DEFINITION = re.compile(r"\s*(?:local function (\w+)|(?:local|for) (?!function )([\w, ]+))")
CALL = re.compile(r"\s*(?:(local )?([\w, ]+) = |(return ))?(\w+)\((.*)\)")
STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")


class Wrong(Exception):
    """The scripts cannot be put together."""


@dataclasses.dataclass
class Line:
    file: str
    number: int
    text: str

    def wrong(self, why):
        return Wrong(f"{self.file}:{self.number}: {why}: {self.text.strip()}")

    def other(self, text):
        return dataclasses.replace(self, text=text)

    def masked(self):
        return STRING.sub(lambda found: "_" * len(found[0]), self.text)

    def defines(self):
        found = DEFINITION.match(self.text)
        return set(re.findall(r"\w+", found[1] or found[2])) if found else set()


@dataclasses.dataclass
class Function:
    begin: Line
    parameters: str
    body: list
    result: list  # the last statement, if it returns


def read(path):
    """The lines of a file without comments and empty lines.

    Comments stand on lines of their own in these scripts, and no string or statement
    depends on its line breaks, so lines are all there is to look at."""
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        comment = text.lstrip().startswith("--") and not INCLUDE.fullmatch(text)
        if text.strip() and not comment:
            yield Line(path.name, number, text)


def functions(lines):
    """The functions of a part: name -> Function."""
    found = {}
    for first, begin in enumerate(lines):
        head = FUNCTION.fullmatch(begin.text)
        if head:
            last = next(i for i in range(first, len(lines)) if lines[i].text == "end")
            body, result = lines[first + 1 : last], []
            for i, line in enumerate(body):
                if line.text.startswith("    return"):
                    body, result = body[:i], body[i:]
                    break
            found[head[1]] = Function(begin, head[2], body, result)
    return found


class Script:
    """A script with its parts in it: `lines`."""

    def __init__(self, path):
        self.directory, self.lines = path.parent, []
        self.used = set()  # names of parts
        self.pasted = {}  # name of a part -> its functions
        self.common = set()  # names that the parts define
        self.missing = set()  # those of them that are no functions and not used yet
        self.results = 0  # variables for the results of what is pasted
        for line in read(path):
            include = INCLUDE.fullmatch(line.text)
            if include:
                self.include(line, *include.groups())
            else:
                self.lines += self.paste(line) if self.pasted else [line]

    def include(self, line, how, names):
        for name in re.findall(r"\w+", names):
            path = self.directory / f"part_{name}.lua"
            if not path.exists():
                raise line.wrong(f"there is no {path.name}")
            if name in self.used:
                continue
            values = set()
            lines = list(read(path))
            for inside in lines:
                include = INCLUDE.fullmatch(inside.text)
                if include:
                    self.include(inside, how, include[2])
                elif inside.text.startswith("local"):
                    values |= inside.defines()
            lines = [line for line in lines if not INCLUDE.fullmatch(line.text)]
            self.common |= values
            if how == "uses":
                self.used.add(name)
                self.pasted.pop(name, None)
                self.missing -= values
                self.lines += lines
            else:
                self.pasted[name] = functions(lines)
                self.missing |= values - self.pasted[name].keys()

    def paste(self, line):
        """What stands for a line: itself, or the body of the function that it calls."""
        if line.defines() & self.common:
            raise line.wrong("a name that a part defines")
        known = {name: f for part in self.pasted.values() for name, f in part.items()}
        masked = line.masked()
        words = re.findall(r"(?<![\w.:])([A-Za-z_]\w*)(?! =)", masked)
        for word in self.missing.intersection(words):
            raise line.wrong(f"{word} is not known before its part is used")
        called = [word for word in words if word in known]
        if not called:
            return [line]
        call = CALL.fullmatch(masked)
        if not call or called != [call[4]] or call[5].count("(") != call[5].count(")"):
            raise line.wrong(f"{called[0]}() cannot be pasted here")
        return self.block(line, call, known[call[4]])

    def block(self, line, call, function):
        """A call as a block of its own: parameters, body, results."""
        arguments = line.text[call.start(5) : call.end(5)]
        targets = re.findall(r"\w+", call[2] or "")
        results = ", ".join(f"_{self.results + i}" for i in range(len(targets)))
        self.results += len(targets)
        out = [line.other("do")]
        if results:
            out.insert(0, line.other(f"local {results}"))
        if function.parameters:
            given = f" = {arguments}" if arguments else ""
            names = function.begin.other(f"local {function.parameters}")
            out += [names.other(part.text + given) for part in self.paste(names)]
        for inside in function.body:
            if re.search(r"\breturn\b", inside.masked()):
                raise inside.wrong("cannot be pasted, as it returns before the end")
            out += self.paste(inside)
        if function.result:
            first, *rest = function.result
            target = "return" if call[3] else f"{results or 'local _'} ="
            text = first.text.replace("return", target, 1)
            out += self.plain(first.other(text)) + sum(map(self.plain, rest), [])
        out.append(line.other("end"))
        if targets:
            out.append(line.other(f"{call[1] or ''}{call[2]} = {results}"))
        return out

    def plain(self, line):
        pasted = self.paste(line)
        if pasted != [line]:
            raise line.wrong("nothing is pasted into a result")
        return pasted


def assemble(path):
    """A script with its parts in it, shortened: what the server gets."""
    return "".join(line.text.strip() + "\n" for line in Script(path).lines)


def load(directory):
    """Every script of a directory: name -> text."""
    paths = sorted(pathlib.Path(directory).glob("*.lua"))
    return {p.stem: assemble(p) for p in paths if not p.stem.startswith("part_")}


def constants(directory):
    """The whole numbers of part_values.lua: name -> digits."""
    found = {}
    for line in read(pathlib.Path(directory) / "part_values.lua"):
        head = re.fullmatch(r"local ([A-Z_, ]+) = ([\d, ']+)", line.text)
        if head:
            values = re.findall(r"\d+", head[2])
            found.update(zip(re.findall(r"\w+", head[1]), values, strict=True))
    return found


def listing(directory, scripts):
    """What scripts.h includes."""
    names = "".join(f"REDIS_SCRIPT({name})\n" for name in scripts)
    rows = (f"REDIS_CONSTANT({n}, {v})\n" for n, v in constants(directory).items())
    return names + "".join(rows)


def sha1(text):
    return hashlib.sha1(text.encode("utf-8")).hexdigest()


def quoted(line):
    escaped = line.replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?")
    return f'    "{escaped}\\n"'


def definition(name, text):
    lines = "\n".join(quoted(line) for line in text.splitlines())
    return (
        f"static const char {name}_text[] =\n{lines};\n"
        f"const struct script hf__redis_script_{name} = {{\n"
        f'    "{name}", {name}_text, sizeof({name}_text) - 1,\n'
        f'    "{sha1(text)}"\n}};\n'
    )


def source(scripts):
    head = "/* Made by embed-scripts.py from scripts/: do not edit. */\n"
    head += '#include "backends/redis/scripts.h"\n'
    body = "\n".join(definition(name, text) for name, text in scripts.items())
    rows = "".join(f"    &hf__redis_script_{name},\n" for name in scripts)
    table = f"const struct script *const hf__redis_scripts[] = {{\n{rows}    NULL\n}};\n"
    return f"{head}\n{body}\n{table}"


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    try:
        scripts = load(sys.argv[1])
    except Wrong as wrong:
        sys.exit(f"{sys.argv[0]}: {wrong}")
    pathlib.Path(sys.argv[2]).write_text(source(scripts), encoding="utf-8")
    text = listing(sys.argv[1], scripts)
    pathlib.Path(sys.argv[3]).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
