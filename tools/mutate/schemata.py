# SPDX-License-Identifier: MIT
"""The instrumented copy: every chosen mutant is compiled in, behind a switch that is read
from the environment when a program starts (switch.c). So all mutants share one build, and
a run costs the time of its tests only.

The copy is a tree of its own, `tree`, built in `build`; the sources of the project are
never touched. Files that come out as they were are left alone, so a second build is
short. A mutant that does not compile is dropped.
"""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import asdict

import lua_places
import places

COPIED = ("src", "include", "cli", "cmake", "man", "tests", "tools", "docs",
          "examples", "README.md", "meson.build", "meson_options.txt")
LEFT_OUT = ("tests/torture", "tools/mutate")
SCRIPTS = "src/backends/redis/scripts"
HERE = os.path.dirname(os.path.abspath(__file__))

# area -> the directories in it; a mutant belongs to the first that fits
AREAS = {"core": "src/core/", "kit": "src/kit/", "memory": "src/backends/memory/",
         "file": "src/backends/file/", "scripts": SCRIPTS + "/",
         "redis": "src/backends/redis/", "zookeeper": "src/backends/zookeeper/",
         "cli": "cli/"}
# Core is all stores' code: twice the share of the others.
SHARES = {"core": 2}


def area_of(file):
    return next((a for a, start in AREAS.items() if file.startswith(start)), None)


def embedder(top):
    spec = importlib.util.spec_from_file_location("embed", f"{top}/tools/embed-scripts.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(path, content):
    """Writes a file unless it says so already. Answers whether it changed."""
    if isinstance(content, str):
        content = content.encode()
    if os.path.exists(path):
        with open(path, "rb") as stream:
            if stream.read() == content:
                return False
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as stream:
        stream.write(content)
    return True


# ---- All mutants --------------------------------------------------------------------


def sources(top):
    for start in ("src/core", "src/kit", "src/backends", "cli"):
        for directory, _, names in os.walk(os.path.join(top, start)):
            for name in sorted(names):
                if name.endswith((".c", ".lua")):
                    yield os.path.relpath(os.path.join(directory, name), top)


def digest(paths):
    total = hashlib.sha1()
    for path in paths:
        with open(path, "rb") as stream:
            total.update(stream.read())
    return total.hexdigest()


def made_headers(top, made):
    """The headers that the build makes, for libclang."""
    os.makedirs(made, exist_ok=True)
    stores = ("memory", "file", "redis", "zookeeper")
    write(f"{made}/backends.inc", "".join(f"HF_BACKEND({s})\n" for s in stores))
    embed, scripts = embedder(top), f"{top}/{SCRIPTS}"
    write(f"{made}/scripts.inc", embed.listing(scripts, embed.load(scripts)))


def all_mutants(top, cache, only=None):
    """Every mutant of the tree, file by file; what has not changed comes from `cache`."""
    made_headers(top, f"{cache}/made")
    arguments = places.compiler_arguments(top, f"{cache}/made")
    own = digest([f"{HERE}/places.py", f"{HERE}/lua_places.py"])
    found = []
    for file in sources(top):
        if area_of(file) is None or only and not file.startswith(only):
            continue
        kept = f"{cache}/places/{digest([f'{top}/{file}'])[:16]}-{own[:8]}.json"
        if os.path.exists(kept):
            with open(kept, encoding="utf-8") as stream:
                found += [places.Mutant(**row) for row in json.load(stream)]
            continue
        if file.endswith(".lua"):
            mutants = lua_places.Script(top, file).mutants
        else:
            mutants = places.Source(top, file, arguments).mutants
        places.number_alike(mutants)
        write(kept, json.dumps([asdict(m) for m in mutants]))
        found += mutants
    return found


def sample(mutants, count, seed):
    """`count` mutants, spread over the areas; a larger sample holds the smaller one."""
    rank = lambda m: hashlib.sha1(f"{seed} {m.id}".encode()).hexdigest()
    rows = {}
    for mutant in sorted(mutants, key=rank):
        rows.setdefault(area_of(mutant.file), []).append(mutant)
    chosen, turn = [], 0
    while len(chosen) < count and any(rows.values()):
        for area in sorted(rows):
            share = SHARES.get(area, 1)
            chosen += rows[area][:share]
            rows[area] = rows[area][share:]
        turn += 1
    return chosen[:count]


# ---- The copy -----------------------------------------------------------------------


def instrument(text, mutants, file):
    """The text of a C file with its mutants in it. Ranges nest; of two that begin
    together the longer one is the outer one."""
    order = sorted(mutants, key=lambda m: (m.start, -m.end, m.number))
    ahead, behind = {}, {}
    for mutant in order:
        before, after = (part.replace("M(@)", f"M({mutant.number})")
                         for part in (mutant.before, mutant.after))
        ahead.setdefault(mutant.start, []).append(before)
        behind.setdefault(mutant.end, []).insert(0, after)
    switch = os.path.relpath("src/hfm_switch.h", os.path.dirname(file))
    out, at = [f'#include "{switch}"\n#line 1\n'.encode()], 0
    for place in sorted(set(ahead) | set(behind)):
        out.append(text[at:place])
        out += [part.encode() for part in behind.get(place, [])]
        out += [part.encode() for part in ahead.get(place, [])]
        at = place
    return b"".join(out + [text[at:]])


def copied(top):
    for name in COPIED:
        path = os.path.join(top, name)
        if os.path.isfile(path):
            yield name
        for directory, _, names in os.walk(path):
            inside = os.path.relpath(directory, top)
            if not inside.startswith(LEFT_OUT) and "__pycache__" not in inside:
                yield from (f"{inside}/{one}" for one in names)


def changed_once(text, old, new, file):
    if text.count(old) != 1:
        raise SystemExit(f"mutate: {file}: not there exactly once: {old}")
    return text.replace(old, new)


# What the copy needs besides its mutants: (file, text, what stands there instead).
HOOKS = [
    ("src/meson.build", "if cc.get_id() == 'gcc' and sanitize == 'none'", "if false"),
    ("src/meson.build", "  'base/clock.c',\n", "  'base/clock.c',\n  'hfm_switch.c',\n"),
    ("src/meson.build", "tls_sources = [\n", "tls_sources = [\n  'hfm_switch.c',\n"),
    ("src/backends/redis/scripts.h", "extern const struct script hf__redis_script_##name",
     "extern struct script hf__redis_script_##name"),
    ("tools/embed-scripts.py", 'f"const struct script hf__redis_script_{name}',
     'f"struct script hf__redis_script_{name}'),
    ("tools/embed-scripts.py", '    return f"{head}\\n{body}\\n{table}"',
     '    return f"{head}\\n{body}\\n{table}" + HFM_BEGIN'),
    ("tools/embed-scripts.py", "    return {p.stem: assemble(p) for p in paths",
     "    return hfm(directory) or {p.stem: assemble(p) for p in paths"),
    ("tools/embed-scripts.py", "\n\ndef load(", '''
HFM_BEGIN = """
void hfm_scripts(const struct script *const *all);
__attribute__((constructor(102))) static void hfm_begin(void)
{
    hfm_scripts(hf__redis_scripts);
}
"""


def hfm(directory):
    """The scripts of this run's mutant, if it is one in Lua."""
    import os
    path = f"{os.environ.get('HFM_LUA', '')}/{os.environ.get('HFM_NUMBER', '')}"
    if not os.path.isfile(path):
        return None
    texts = {p.stem: assemble(p) for p in sorted(pathlib.Path(directory).glob("*.lua"))
             if not p.stem.startswith("part_")}
    with open(path, encoding="utf-8") as stream:
        while head := stream.readline().split():
            texts[head[0]] = stream.read(int(head[2]))
    return texts


def load('''),
]


class Copy:
    def __init__(self, top, place):
        self.top, self.place = top, place
        self.tree, self.build = f"{place}/tree", f"{place}/build"
        self.lua = f"{place}/lua"

    def write(self, mutants):
        """The whole copy. C mutants are numbered, and counted from 0 as Lua's are."""
        for number, mutant in enumerate(mutants):
            mutant.number = number
        by_file = {}
        for mutant in mutants:
            by_file.setdefault(mutant.file, []).append(mutant)
        wanted = set()
        for file in copied(self.top):
            with open(f"{self.top}/{file}", "rb") as stream:
                text = stream.read()
            for name, old, new in HOOKS:
                if name == file:
                    text = changed_once(text.decode(), old, new, file).encode()
            if file in by_file and file.endswith(".c"):
                text = instrument(text, by_file[file], file)
            if write(f"{self.tree}/{file}", text):
                shutil.copymode(f"{self.top}/{file}", f"{self.tree}/{file}")
            wanted.add(file)
        for name in ("switch.c", "switch.h"):
            with open(f"{HERE}/{name}", encoding="utf-8") as stream:
                text = stream.read()
            if name == "switch.c":
                size = -(-max(len(mutants), 1) // 4096) * 4096
                text = f"#define HFM_COUNT {size}\n{text}"
            write(f"{self.tree}/src/hfm_{name}", text)
        self.write_lua([m for m in mutants if m.file.endswith(".lua")])

    def write_lua(self, mutants):
        """Both forms of a script are kept whole: here the mutants' ones."""
        shutil.rmtree(self.lua, ignore_errors=True)
        os.makedirs(self.lua)
        embed = embedder(self.top)
        plain = embed.load(f"{self.top}/{SCRIPTS}")
        shadow = f"{self.place}/shadow"
        shutil.rmtree(shadow, ignore_errors=True)
        shutil.copytree(f"{self.top}/{SCRIPTS}", shadow)
        for mutant in mutants:
            name = os.path.basename(mutant.file)
            with open(f"{self.top}/{mutant.file}", encoding="utf-8") as stream:
                text = stream.read()
            with open(f"{shadow}/{name}", "w", encoding="utf-8") as stream:
                stream.write(text[:mutant.start] + mutant.after + text[mutant.end:])
            try:
                texts = embed.load(shadow)
            except embed.Wrong:  # what is not there does not load either
                texts = {}
            parts = [f"{script} {embed.sha1(new)} {len(new.encode())}\n{new}"
                     for script, new in texts.items() if new != plain[script]]
            write(f"{self.lua}/{mutant.number}", "".join(parts))
            with open(f"{shadow}/{name}", "w", encoding="utf-8") as stream:
                stream.write(text)

    # ---- building ---------------------------------------------------------------

    def setup(self):
        if not os.path.exists(f"{self.build}/build.ninja"):
            subprocess.run(
                ["meson", "setup", self.build, self.tree, "-Dbuildtype=plain",
                 "-Doptimization=1", "-Dwerror=false", "-Dwarning_level=0",
                 "-Dc_args=-w -g0", "-Dexamples=disabled"],
                check=True, stdout=subprocess.DEVNULL)

    def make(self, targets=()):
        """Builds; answers the numbers of the mutants that do not compile."""
        self.setup()
        done = subprocess.run(["ninja", "-C", self.build, "-k", "0", *targets],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode == 0:
            return set()
        bad = set()
        for file, line in re.findall(r"([\w./-]+\.c):(\d+):\d+: error", done.stdout):
            path = os.path.normpath(os.path.join(self.build, file))
            bad |= self.numbers_at(path, int(line))
        if not bad:
            sys.exit(f"mutate: the copy does not build:\n{done.stdout[-4000:]}")
        return bad

    @staticmethod
    def numbers_at(path, line):
        if not os.path.exists(path):
            return set()
        with open(path, encoding="utf-8") as stream:
            lines = stream.read().split("\n")
        near = lines[line + 1:line + 2] # two lines were put ahead of the first
        return {int(n) for text in near for n in re.findall(r"\bM\((\d+)\)", text)}
