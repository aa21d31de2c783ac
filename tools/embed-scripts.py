#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Embeds Lua scripts in C.

usage: embed-scripts.py DIRECTORY OUTPUT.c OUTPUT.inc

Every DIRECTORY/NAME.lua but the parts becomes `hf__redis_script_NAME` (scripts.h). A line
`-- uses: a, b` in it is replaced by part_a.lua and part_b.lua, in that order.
Comments, indentation and empty lines are dropped, to keep short what is sent.
The same input always gives the same output.
"""

import hashlib
import pathlib
import re
import sys

USES = re.compile(r"^-- uses: (.*)$", re.MULTILINE)


def shorten(text):
    """The text without whole-line comments, indentation and empty lines.

    Comments stand on lines of their own in these scripts, and no string or statement
    depends on its line breaks, so lines are all there is to look at."""
    lines = (line.strip() for line in text.splitlines())
    return "".join(line + "\n" for line in lines if line and not line.startswith("--"))


def assemble(path):
    """A script with its parts in it, shortened: what the server gets."""

    def parts(uses):
        names = (name.strip() for name in uses.group(1).split(","))
        paths = (path.parent / f"part_{name}.lua" for name in names)
        return "".join(part.read_text(encoding="utf-8") for part in paths)

    return shorten(USES.sub(parts, path.read_text(encoding="utf-8")))


def load(directory):
    """Every script of a directory: name -> text."""
    paths = sorted(pathlib.Path(directory).glob("*.lua"))
    return {p.stem: assemble(p) for p in paths if not p.stem.startswith("part_")}


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
    scripts = load(sys.argv[1])
    pathlib.Path(sys.argv[2]).write_text(source(scripts), encoding="utf-8")
    listing = "".join(f"REDIS_SCRIPT({name})\n" for name in scripts)
    pathlib.Path(sys.argv[3]).write_text(listing, encoding="utf-8")


if __name__ == "__main__":
    main()
