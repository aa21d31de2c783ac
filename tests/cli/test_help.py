#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""--help, the man pages and the completions say all that the tables hold.

`help --tables` prints the tables themselves; everything else is compared with that. The
completion of bash is asked in a real bash, that of zsh in a real zsh if there is one.
"""

import os
import re
import shutil
import subprocess

from cli import DEADLINE, Terminal, environment, holdfast, store
from tap import done, ok, skip

PAGES = {
    "holdfast": "holdfast.1",
    "run": "holdfast-run.1",
    "hold": "holdfast-hold.1",
    "look": "holdfast-look.1",
    "repair": "holdfast-repair.1",
    "objects": "holdfast-objects.1",
    "url": "holdfast-url.7",
}
BACKENDS = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                        "../../docs/backends")
SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT",
            "EXAMPLES", "SEE ALSO"]


def said(*words):
    """What holdfast prints; it must succeed and keep stderr clean."""
    result = holdfast(*words)
    if result.returncode != 0 or result.stderr:
        ok(False, "holdfast " + " ".join(words), result.stderr)
    return result.stdout


def tables():
    """[(command, group, option, letter, value)] of all that is not hidden."""
    return [tuple(line.split("\t")) for line in said("help", "--tables").splitlines()]


def missing(rows, text_of, pattern_of):
    """The rows whose pattern is not in their text."""
    return [" ".join(row[:3]) for row in rows
            if not re.search(pattern_of(row), text_of(row), re.MULTILINE)]


def rendered(group):
    """A page as a reader sees it."""
    result = subprocess.run(["man", "-l", "-"], input=said("help", "--man", group),
                            env={**os.environ, "MANWIDTH": "80", "LC_ALL": "C"},
                            capture_output=True, text=True, check=False)
    return re.sub(".\b", "", result.stdout)


# ---- --help --------------------------------------------------------------------------

def test_help(rows):
    commands = list(dict.fromkeys(row[0] for row in rows))
    overview = said("--help")
    lost = [c for c in commands
            if not re.search(rf"^  {c} +\S", overview, re.MULTILINE)]
    ok(not lost, "--help lists every command", lost)
    ok(said("help") == overview and said("-h") == overview, "help, -h and --help agree")

    texts = {c: said(*c.split(), "--help") for c in commands}
    ok(all(said("help", *c.split()) == texts[c] for c in commands),
       "`help COMMAND` and `COMMAND --help` agree")
    lost = missing(rows, lambda row: texts[row[0]],
                   lambda row: rf"^  (-{row[3]}, |    )--{row[2]}"
                               + (f" {re.escape(row[4])}" if row[4] else "") + r"( |$)")
    ok(not lost, "--help of a command has every option, with letter and value", lost)
    lost = [c for c in commands if not texts[c].startswith(f"Usage: holdfast {c} ")]
    ok(not lost, "it begins with the usage", lost)
    wide = [line for text in [overview, *texts.values()] for line in text.splitlines()
            if len(line) > 80
            and not line.startswith(("  holdfast", "Usage:", "  eval"))]
    ok(not wide, "no line is wider than 80 columns", wide)


def test_topics():
    ok("Usage: holdfast latch set" in said("latch", "--help"),
       "latch --help: the family")
    ok("Signal N" in said("help", "exit"), "help exit")
    ok("HOLDFAST_TOKEN" in said("help", "environment"), "help environment")
    ok("layout=flock" in said("help", "url"), "help url")
    ok(holdfast().returncode == 64 and "Usage" in holdfast().stderr,
       "no command at all: the overview on stderr, exit 64")


def test_stores():
    """holdfast-url(7) has every option that the page of a store has."""
    text = said("help", "url")
    for page in sorted(os.listdir(BACKENDS)):
        with open(os.path.join(BACKENDS, page), encoding="utf-8") as lines:
            options = [word for line in lines.read().partition("## Guarantees")[0]
                       .splitlines() if line.startswith("| `")
                       for word in re.findall(r"`(\w+)`", line.split("|")[1])]
        lost = [o for o in options if not re.search(rf"\b{o}=", text)]
        ok(not lost, f"help url has the {len(options)} options of {page}", lost)


def test_guesses():
    for typed, meant in [("shwo", "show"), ("relase", "release"), ("acq", "acquire"),
                         ("lach", "latch"), ("verison", "version")]:
        result = holdfast(typed)
        ok(result.returncode == 64 and f'did you mean "{meant}' in result.stderr
           and not result.stdout, f"{typed}: did you mean {meant}?", result.stderr)
    result = holdfast("xyzzy")
    ok(result.returncode == 64 and "did you mean" not in result.stderr,
       "xyzzy: no guess", result.stderr)
    result = holdfast("run", "--wiat", "3s", "x", "--", "true")
    ok(result.returncode == 64 and "did you mean --wait?" in result.stderr,
       "--wiat: did you mean --wait?", result.stderr)
    result = holdfast("help", "verison")
    ok(result.returncode == 64 and "`version`" in result.stderr,
       "help verison: did you mean version?", result.stderr)


def test_before_the_command():
    """Options of every command may stand before it."""
    with store() as place:
        for words in [["--url", place.url, "ls"], ["--url=" + place.url, "ls", "--json"],
                      ["-u" + place.url, "-v", "latch", "show", "x"],
                      ["-v", "-u", place.url, "run", "x", "--", "true"]]:
            result = holdfast(*words, url="file:/nowhere")
            ok(result.returncode == 0, f"holdfast {' '.join(words)}", result)
        result = holdfast("--url", place.url, "ls", "--url", place.url)
        ok(result.returncode == 64, "--url before and behind it", result)
    ok(said("-v", "--help") == said("--help"), "-v --help: the overview")
    ok(holdfast("--ttl", "3s", "run", "x", "--", "true").returncode == 64,
       "other options may not")


def test_families():
    for word in ["latch", "cell", "sem"]:
        for words in [[word], [word, "xyzzy"]]:
            result = holdfast(*words)
            ok(result.returncode == 64 and "one of these subcommands" in result.stderr
               and f"{word} {'get' if word == 'cell' else 'show'}" in result.stderr,
               f"{words}: the subcommands", result)


# ---- The man pages -------------------------------------------------------------------

def test_pages(rows):
    if not shutil.which("man") or not shutil.which("groff"):
        skip("man pages", "no man or groff")
        return
    for group, page in PAGES.items():
        roff = said("help", "--man", group)
        check = subprocess.run(["groff", "-ww", "-man", "-Tutf8", "-z"], input=roff,
                               capture_output=True, text=True, check=False)
        ok(check.returncode == 0 and not check.stderr, f"{page}: groff has no warning",
           check.stderr)
        ok(roff.isascii(), f"{page}: plain ASCII")
    texts = {group: rendered(group) for group in PAGES}
    for group, page in PAGES.items():
        heads = re.findall(r"^([A-Z][A-Z ]+)$", texts[group], re.MULTILINE)
        wanted = [s for s in SECTIONS
                  if group != "url" or s not in ("OPTIONS", "EXIT STATUS", "EXAMPLES")]
        ok([h for h in heads if h in wanted] == wanted, f"{page}: its sections", heads)
    lost = missing(rows, lambda row: texts[row[1]],
                   lambda row: rf"^ +(-{row[3]}, )?--{row[2]}\b")
    ok(not lost, "every option is in the page of its command", lost)
    commands = list(dict.fromkeys(row[:2] for row in rows))
    lost = [c for c, _ in commands if not re.search(rf"^ +{c}\b", texts["holdfast"],
                                                    re.MULTILINE)]
    ok(not lost, "holdfast(1) lists every command", lost)
    lost = [c for c, group in commands
            if f"holdfast {c} [OPTION...]" not in texts[group]]
    ok(not lost, "every command is in the synopsis of its page", lost)
    ok(holdfast("help", "--man", "nonsense").returncode == 64,
       "an unknown page: exit 64")


# ---- Completion ----------------------------------------------------------------------

BASH = r"""
source /dev/stdin <<<"$SCRIPT"
complete -p holdfast || exit 1
COMP_LINE=$LINE COMP_POINT=${#LINE}
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_holdfast
printf '%s\n' "${COMPREPLY[@]}"
"""


def bash_offers(script, url, *words):
    env = environment(url, {"SCRIPT": script, "LINE": " ".join(words)})
    result = subprocess.run(["bash", "--norc", "-c", BASH, "bash", *words], env=env,
                            capture_output=True, text=True, check=False)
    head, _, rest = result.stdout.partition("\n")
    if result.stderr or head != "complete -F _holdfast holdfast":
        ok(False, "bash takes the script", result.stdout + result.stderr)
    return rest.split()


def test_bash(rows):
    script = said("help", "--complete", "bash")
    with store() as place:
        def offers(*words):
            return bash_offers(script, place.url, "holdfast", *words)

        firsts = {row[0].split()[0] for row in rows}
        ok(set(offers("")) == firsts | {"--help", "--version"}, "bash: the commands",
           offers(""))
        ok(offers("rel") == ["release"], "bash: rel -> release")
        ok(set(offers("latch", "")) == {"set", "down", "wait", "show"},
           "bash: latch ...")
        lost = []
        for command in dict.fromkeys(row[0] for row in rows):
            wanted = {word for row in rows if row[0] == command
                      for word in ("--" + row[2], "-" + row[3]) if word != "--"}
            got = set(offers(*command.split(), "-")) - {"--"}
            if got != wanted:
                lost.append((command, sorted(wanted ^ got)))
        ok(not lost, "bash: exactly the options of every command", lost)
        ok("file:" in offers("ls", "--url", ""), "bash: --url file:")
        ok(offers("run", "--wait", "=", "f") == ["forever"], "bash: --wait=forever")
        ok("true" in offers("run", "x", "--", "tru"), "bash: a command after --")

        trap = os.path.join(place.dir, "pwned")
        evil = f"$(touch {trap})"
        for name in ["jobs/nightly", "a:b:c", evil]:
            holdfast("cell", "set", name, "1", url=place.url)
        ok(offers("show", "jo") == ["jobs/nightly"], "bash: names of the store",
           offers("show", "jo"))
        got = bash_offers(script, place.url, "holdfast", "show", "a:b")
        ok(got == ["b:c"], "bash: a name with colons, after the last one", got)
        offers("show", "")
        ok(not os.path.exists(trap), "bash: a hostile name is not expanded")


ZSH = r"""
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PS1=; fpath=($DIR \$fpath); autoload -U compinit; compinit -u -D"
zpty -w z "echo REA''DY"
zpty -r z out '*READY*'
zpty -w -n z "$LINE"$'\t'" ;echo EN''D"$'\n'
zpty -r z out '*END*'
print -r -- "$out"
"""


def test_zsh(rows):
    script = said("help", "--complete", "zsh")
    lost = missing(rows, lambda row: re.search(
        rf"^    '{row[0]}'\)\n.*?;;$", script, re.MULTILINE | re.DOTALL).group(0),
        lambda row: rf"--{row[2]}[=\[}}]")
    ok(not lost, "zsh: every option of every command", lost)
    if not shutil.which("zsh"):
        skip("zsh completes", "no zsh")
        return
    with store() as place:
        with open(os.path.join(place.dir, "_holdfast"), "w", encoding="utf-8") as out:
            out.write(script)
        for line, end in [("holdfast rel", "release"),
                          ("holdfast latch d", "latch down"),
                          ("holdfast show --js", "show --json"),
                          ("holdfast latch wait --wai", "--wait"),
                          ("holdfast ls --url fi", "--url file:")]:
            result = subprocess.run(
                ["zsh", "-f", "-c", ZSH], capture_output=True, text=True, check=False,
                timeout=DEADLINE,
                env=environment(place.url,
                                {"DIR": place.dir, "LINE": line, "TERM": "dumb"}))
            ok(end in result.stdout and "error" not in result.stdout,
               f"zsh: {line} -> {end}", result.stdout + result.stderr)


# ---- Tables --------------------------------------------------------------------------

def test_tables():
    with store() as place:
        for name in ["a", "a-much-longer-name", "z\u00fc\u65e5"]:
            holdfast("cell", "set", name, "1", url=place.url)
        plain = holdfast("ls", url=place.url).stdout
        ok("\033" not in plain and plain.splitlines()[0].split("\t")[:2] ==
           ["NAME", "KIND"], "not a terminal: tabs and no escape codes", plain)
        ok(all(line.count("\t") == plain.splitlines()[0].count("\t")
               for line in plain.splitlines()), "each line has the same columns")

        def shown(**env):
            with Terminal("ls", url=place.url, env=env) as terminal:
                return terminal.until_exit()

        seen = shown()
        lines = re.sub(r"\033\[[0-9;]*m", "", seen).split("\r\n")
        ok("\033[1mNAME" in seen, "on a terminal the heads are bold", repr(seen))
        # The last name is two columns wider on a screen than it has letters.
        places = [line.replace("\u65e5", "\u65e5.").find("cell") for line in lines[1:4]]
        ok(len(set(places + [lines[0].find("KIND")])) == 1 and places[0] > 0,
           "its columns are aligned", "\n".join(lines))
        ok("\033" not in shown(NO_COLOR="1"), "NO_COLOR: no escape codes")
        ok("\033" not in shown(TERM="dumb"), "TERM=dumb: no escape codes")


def main():
    rows = tables()
    ok(len(rows) > 60 and ("ls", "look", "json", "-", "") in rows,
       "the tables are there", rows)
    test_help(rows)
    test_topics()
    test_stores()
    test_guesses()
    test_before_the_command()
    test_families()
    test_pages(rows)
    test_bash(rows)
    test_zsh(rows)
    test_tables()
    done()


main()
