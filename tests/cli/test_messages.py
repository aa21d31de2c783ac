#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""docs/cli.md shows what is printed: its examples are run, and must print just that.

A block that follows a comment <!-- run --> is run in one bash, on a store of its own;
<!-- run: busy --> first sets the scene `busy`. Each "$ command" must print the lines
under it. What differs from run to run is made equal on both sides: numbers other than
exit codes, durations, the name of the host, blanks between columns. /srv/locks stands
for the directory of the store.

Every failure that the command knows must be among them (FAILURES), and no message may
show a password or a code without words.
"""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile

from cli import COMMAND, DEADLINE, Holder, environment, holdfast, store
from redis_server import redis
from tap import comment, done, ok, skip

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/cli.md")
PASSWORD = "hunter2"

# What must be provoked on the page: a part of the message.
FAILURES = {
    "busy": "jobs/nightly: held for 4m12s by db3 pid 8123",
    "timeout": "timed out",
    "lost": "the lock was lost: evicted by db3 pid 8123",
    "end of --max-hold": "--max-hold is about to end, the command is killed",
    "end of --no-renew": "(--no-renew), the command is killed",
    "not confirmed": "did not confirm the release",
    "wrong password": "HF_EREFUSED",
    "mismatch": "in use as a mutex, not as a semaphore",
    "no server": "HF_EUNREACHABLE",
    "bad URL": "cannot be understood",
    "unknown scheme": "there is no store for the scheme",
    "unknown URL option": "has no option",
    "no directory": "there is no directory",
    "no permission": "ermission",
    "not here": "HF_EUNSUPPORTED",
    "bad duration": "is not a duration",
    "bad name": "HF_ENAME",
    "bad number": "is not ",
    "unknown option": "there is no option",
    "unknown command": "there is no command",
    "no command": "an operand is missing",
    "command not found": "o such file",
    "not a hold": "not the id of a hold",
    "no such cell": "there is no such cell",
    "stale version": "the cell has changed",
}


# ---- Scenes --------------------------------------------------------------------------

@contextlib.contextmanager
def busy(place):
    """Another client holds jobs/nightly, as a program called backup.sh."""
    with Holder(place, "jobs/nightly", "--note", "nightly backup"):
        yield {}


@contextlib.contextmanager
def no_permission(place):
    """The command runs as a user who may not open the directory."""
    if os.geteuid() == 0:
        # That user may not be able to read the build directory.
        with tempfile.TemporaryDirectory(prefix="holdfast-cli.") as bin_dir:
            os.chmod(bin_dir, 0o755)
            shutil.copy(COMMAND, os.path.join(bin_dir, "holdfast"))
            yield {"path": bin_dir, "prefix": ["setpriv", "--reuid=65534",
                                               "--regid=65534", "--clear-groups"]}
    else:
        os.chmod(place.dir, 0o000)
        yield {}
        os.chmod(place.dir, 0o700)


@contextlib.contextmanager
def redis_server(_):
    """A server with a password: /run/redis.sock stands for its socket."""
    with redis("--requirepass", PASSWORD + "0") as server:
        yield {"store": "redis"} if not server else {
            "store": "redis", "server": server,
            "replace": {"/run/redis.sock": server.socket},
            "env": {"SERVER": str(server.process.pid), "SECRET": PASSWORD + "0",
                    "HOLDFAST_URL": server.url + "?password_env=SECRET"}}


SCENES = {
    "": lambda place: contextlib.nullcontext({}),
    "busy": busy,
    "no permission": no_permission,
    "redis": lambda place: contextlib.nullcontext({"store": "redis"}),
    "redis server": redis_server,
}


# ---- The page ------------------------------------------------------------------------

def blocks():
    """(line, scene, [(command, expected lines)]) of each block that is to be run."""
    with open(PAGE, encoding="utf-8") as page:
        lines = page.read().splitlines()
    for at, line in enumerate(lines):
        match = re.fullmatch(r"<!-- run(?:: (.*))? -->", line)
        if not match:
            continue
        assert lines[at + 1] == "```console", f"cli.md:{at + 2}: a console block is due"
        steps = []
        for text in lines[at + 2:lines.index("```", at)]:
            if text.startswith("$ "):
                steps.append((text[2:], []))
            else:
                steps[-1][1].append(text)
        yield at + 1, match.group(1) or "", steps


def perform(steps, place, prefix=(), path=None, env=None, replace=None, **_):
    """Runs the commands in one bash; what each of them printed."""
    script = "exec 2>&1\n"
    path = path or os.path.dirname(os.path.abspath(COMMAND))
    for command, _ in steps:
        for shown, real in {"/srv/locks": place.dir, **(replace or {})}.items():
            command = command.replace(shown, real)
        script += command + "\n"
        script += "code=$?; printf '\\001'; (exit $code)\n"
    result = subprocess.run([*prefix, "bash", "--norc", "-c", script],
                            env=environment(place.url, {
                                "LC_ALL": "C", "PATH": path + ":/usr/bin:/bin",
                                **(env or {})}),
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                            errors="replace", timeout=4 * DEADLINE, check=False,
                            cwd="/")
    return [part.splitlines() for part in result.stdout.split("\001")[:-1]]


def evened(lines, place, replace=None):
    """Without what differs from run to run."""
    text = "\n".join(lines)
    for shown, real in (replace or {}).items():
        text = text.replace(real, shown)
    text = text.replace("file://" + place.dir, "file:/srv/locks")
    text = text.replace(place.dir, "/srv/locks")
    text = re.sub(rf"\b({re.escape(socket.gethostname())}|db3)\b", "HOST", text)
    text = re.sub(r"[0-9a-f]{32}", "ID", text)
    text = re.sub(r"this build has: [a-z ]+", "this build has: ...", text)
    text = re.sub(r"\b(\d+(\.\d+)?(d|h|min|ms|us|m|s))+\b", "TIME", text)
    # An exit code has a line of its own, and counts.
    text = re.sub(r"^(?!\d{1,3}$)(.*)$", lambda line: re.sub(
        r"\d+(\.\d+)?", "NUMBER", line.group(1)), text, flags=re.MULTILINE)
    return re.sub(r"[ \t]+", " ", text).strip()


def check_block(line, scene, steps):
    with store() as place, SCENES[scene](place) as given:
        needed = given.get("store", "file")
        if needed not in holdfast("version").stdout:
            skip(f"cli.md:{line}", f"this build has no {needed}")
            return
        if scene == "redis server" and "server" not in given:
            skip(f"cli.md:{line}", "no redis-server")
            return
        printed = perform(steps, place, **given)
        for (command, wanted), got in zip(steps, printed):
            same = evened(wanted, place) == evened(got, place, given.get("replace"))
            ok(same, f"cli.md:{line}: {command}",
               "" if same else "wanted:\n" + "\n".join(wanted) + "\ngot:\n"
               + "\n".join(got))
        ok(len(printed) == len(steps), f"cli.md:{line}: all commands were run")


def check_messages(page):
    """Things that hold for every message on the page."""
    for what, part in FAILURES.items():
        ok(any(part in line for line in page), f"the page has a failure: {what}", part)
    messages = [line for line in page if line.startswith("holdfast: ")]
    shy = [line for line in messages if len(re.findall(r"[a-z]{2,}", line)) < 5]
    ok(not shy, "no message is a code without words", shy)
    secret = [line for line in page if PASSWORD in line and not line.startswith("$ ")]
    ok(not secret, "no message shows a password", secret)


def main():
    page = []
    for line, scene, steps in blocks():
        for command, wanted in steps:
            page += ["$ " + command, *wanted]
        check_block(line, scene, steps)
    count = sum(line.startswith("$ ") for line in page)
    comment(f"{count} commands of the page were run")
    check_messages(page)
    done()


if not shutil.which("bash"):
    print("1..0 # SKIP no bash")
    sys.exit(0)
main()
