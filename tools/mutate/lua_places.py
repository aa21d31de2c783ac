# SPDX-License-Identifier: MIT
"""The mutants of a Lua script. They are found line by line: the scripts are laid out so
that a statement begins on a line of its own, and what is not whole on its line is left
alone. A mutant here has no switch in the text: `start` and `end` are what it replaces,
`after` what it puts there, and the whole script is kept in both forms (schemata.py). One
that the server does not compile is dropped there.
"""

import os
import re

from places import Mutant

STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
CONDITION = re.compile(r"^\s*(?:else)?if (.*) then$")
CALL = re.compile(r"^\s*((?:redis\.)?p?call|[a-z_]+)\(.*\)$")
ASSIGN = re.compile(r"^\s*(?!for )[\w.\[\]#', ]+ = [^=].*$")
RETURN = re.compile(r"^\s*return\b.*$")
BEGIN = re.compile(r"^(?:local )?function ([\w.]+)|^local function ([\w.]+)")
RELATIONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "~=", "~=": "=="}


def masked(line):
    """The line with its strings blanked: the same length, nothing to be found in them."""
    return STRING.sub(lambda m: "'" + "_" * (len(m[0]) - 2) + "'", line)


def whole(text):
    return all(text.count(a) == text.count(b) for a, b in ("()", "{}", "[]"))


class Script:
    def __init__(self, top, file):
        self.file = file
        with open(os.path.join(top, file), encoding="utf-8") as stream:
            self.text = stream.read()
        self.mutants, self.function = [], "script"
        offset = 0
        lines = self.text.split("\n")
        for number, line in enumerate(lines, 1):
            if not line.lstrip().startswith("--"):
                following = lines[number].strip() if number < len(lines) else ""
                self.line(number, offset, line, following)
            offset += len(line) + 1

    def add(self, operator, number, offset, start, end, line, new):
        old = line[start:end]
        if old != new:
            shown = (" ".join(line.split()), " ".join(
                (line[:start] + new + line[end:]).split()))
            self.mutants.append(Mutant(self.file, self.function, number, operator,
                                       shown[0], shown[1], offset + start,
                                       offset + end, "", new))

    def line(self, number, offset, line, following):
        begin = BEGIN.match(line)
        if begin:
            self.function = begin[1] or begin[2]
            return
        if line in ("end", "end "):
            self.function = "script"
        mask = masked(line)
        add = lambda operator, start, end, new: self.add(operator, number, offset, start,
                                                         end, line, new)
        self.statement(add, line, mask, following)
        self.tokens(add, line, mask)
        found = CONDITION.match(mask)
        if found and whole(found[1]):
            self.condition(add, mask, *found.span(1))

    def statement(self, add, line, mask, following):
        begin = len(line) - len(line.lstrip())
        ends = whole(mask) and not re.match(r"(and|or|\.\.|\))", following) and \
            not re.search(r"(\b(and|or)|\.\.|=|,)$", mask)
        if not ends or mask.lstrip().startswith("local "):
            return
        if CALL.match(mask) and not mask.lstrip().startswith(("if", "return", "unpack")):
            add("drop-call", begin, len(line), "do end")
        elif ASSIGN.match(mask):
            add("drop-assign", begin, len(line), "do end")
        elif RETURN.match(mask) and following in ("end", "else") or \
                RETURN.match(mask) and following.startswith("elseif"):
            add("drop-return", begin, len(line), "do end")

    def condition(self, add, mask, start, end):
        add("if-true", start, end, "true")
        add("if-false", start, end, "false")
        depth, pieces, at = 0, [], start
        for token in re.finditer(r"[({\[]|[)}\]]|\b(and|or)\b", mask[start:end]):
            depth += token[0] in "({[" and 1 or token[0] in ")}]" and -1 or 0
            if depth == 0 and token[1]:
                pieces.append((at, start + token.start(), token[1]))
                at = start + token.end()
        words = [piece[2] for piece in pieces]
        pieces.append((at, end, None))
        for i, (first, last, _) in enumerate(pieces if words else []):
            word = words[i] if i < len(words) else words[-1]
            text = mask[first:last]
            lead = len(text) - len(text.lstrip())
            add("drop-operand", first + lead, first + len(text.rstrip()),
                "true" if word == "and" else "false")

    def tokens(self, add, line, mask):
        for found in re.finditer(r" (<=|>=|<|>|==|~=) ", mask):
            add("boundary" if found[1] in "<=>=" else "equality", found.start(1),
                found.end(1), RELATIONS[found[1]])
        for found in re.finditer(r" ([+-]) ", mask):
            add("arithmetic", found.start(1), found.end(1),
                "-" if found[1] == "+" else "+")
        for found in re.finditer(r"(?<![\w.^'\[])([1-9]\d*)(?![\w.\]'])", mask):
            value = int(found[1])
            add("constant", found.start(1), found.end(1),
                str(value + 1 if value < 100 else value // 10))
        for found in re.finditer(r"\bnot ", mask):
            add("no-not", found.start(), found.end(), "")
        for found in re.finditer(r"\b(true|false)\b", mask):
            add("swap-bool", found.start(), found.end(),
                "false" if found[1] == "true" else "true")
