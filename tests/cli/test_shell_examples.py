#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The scripts of examples/shell do what their headers say, on the file store."""

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import subprocess

from cli import COMMAND, DEADLINE, environment, holdfast, store, wait_for
from tap import comment, done, ok, skip

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/shell")


def script(name):
    return os.path.normpath(os.path.join(HERE, name))


begun = []


def begin(place, name, *words, env=None):
    """Starts a script in its own group; what it says is one stream."""
    begun.append(subprocess.Popen(
        [script(name), *words], env=environment(place.url, env), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True))
    return begun[-1]


def clean_up(place):
    """Nothing may outlive a test that failed."""
    for process in begun:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    begun.clear()
    for left in [log_of(place), log_of(place) + ".no"]:
        if os.path.exists(left):
            os.unlink(left)


def end(process):
    said = process.communicate(timeout=4 * DEADLINE)[0]
    comment(said)
    return process.returncode, said


def log_of(place):
    """Where the jobs write, and what they wrote."""
    path = os.path.join(place.dir, "..", os.path.basename(place.dir) + ".log")
    return os.path.normpath(path)


def lines(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().split()
    except FileNotFoundError:
        return []


def overlap(words):
    """The most that were at it at the same time, of "begin" and "end" in a log."""
    most = now = 0
    for word in words:
        now += 1 if word == "begin" else -1
        most = max(most, now)
    return most


WORK = 'echo begin >>"$0"; sleep 0.2; echo end >>"$0"'  # the job takes a moment


def test_cron(place):
    log = log_of(place)
    hosts = [begin(place, "cron-many-hosts.sh", "report", "sh", "-c", WORK, log)
             for _ in range(4)]
    codes = [end(host)[0] for host in hosts]
    ok(codes == [0] * 4 and lines(log) == ["begin", "end"],
       "cron: four hosts, one run", f"{codes} {lines(log)}")
    late = end(begin(place, "cron-many-hosts.sh", "report", "sh", "-c", WORK, log))
    ok(late[0] == 0 and lines(log) == ["begin", "end"],
       "cron: a late clock, no second run", lines(log))
    holdfast("cell", "set", "cron/report/last", "2001-01-01", url=place.url)
    failed = end(begin(place, "cron-many-hosts.sh", "report", "false"))[0]
    again = end(begin(place, "cron-many-hosts.sh", "report", "sh", "-c", WORK, log))[0]
    ok(failed == 1 and again == 0 and len(lines(log)) == 4,
       "cron: the next day; a run that failed does not count", f"{failed} {lines(log)}")


def test_deploy(place):
    log = log_of(place)
    holdfast("latch", "set", "deploy/r42", "4", url=place.url)
    hosts = [begin(place, "rolling-deploy.sh", "r42", "sh", "-c", WORK, log)
             for _ in range(4)]
    waited = holdfast("latch", "wait", "deploy/r42", "--wait", "100s", url=place.url)
    codes = [end(host)[0] for host in hosts]
    ok(waited.returncode == 0 and codes == [0] * 4 and len(lines(log)) == 8,
       "deploy: all hosts, and the latch opens", f"{codes} {waited.stderr}")
    ok(1 <= overlap(lines(log)) <= 2, "deploy: never more than two at a time",
       lines(log))
    holdfast("latch", "set", "deploy/r43", "2", url=place.url)
    code, _ = end(begin(place, "rolling-deploy.sh", "r43", "sh", "-c", "exit 7"))
    other, said = end(begin(place, "rolling-deploy.sh", "r43", "touch", log + ".no"))
    left = holdfast("latch", "show", "deploy/r43", url=place.url).stdout
    ok(code == 7 and other == 1 and "it failed on" in said
       and not os.path.exists(log + ".no") and left == "2\n",
       "deploy: nothing more after a failure", f"{code} {other} {said} {left}")


def test_leader(place):
    log = log_of(place)
    daemon = f'echo begin >>{shlex.quote(log)}; exec sleep 600'
    words = ("leader.sh", "scheduler", "sh", "-c", daemon)
    first = begin(place, *words)
    wait_for(lambda: len(lines(log)) == 1, "the first leader")
    second = begin(place, *words)

    def waiters():
        return len(json.loads(holdfast(
            "show", "leader/scheduler", "--json", url=place.url).stdout)
            ["locks"][0]["waiters"])

    wait_for(lambda: waiters() == 1, "the second in line")
    ok(len(lines(log)) == 1, "leader: one daemon, one in line")
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    wait_for(lambda: len(lines(log)) == 2, "the second leader")
    ok(True, "leader: the leader dies, the next one starts its daemon")
    token = re.search(r'"token":(\d+)', holdfast(
        "show", "leader/scheduler", "--json", url=place.url).stdout).group(1)
    holdfast("break", "leader/scheduler", "--token", token, url=place.url)
    wait_for(lambda: len(lines(log)) == 3, "waiting for the lock again")
    ok(True, "leader: lost the lock, stood in line again, leads again")
    second.terminate()
    code, said = end(second)
    ok(code == 143 and "waiting for the lock again" in said,
       "leader: TERM ends the daemon and gives the lock back", f"{code} {said}")
    ok("free" in holdfast("show", "leader/scheduler", url=place.url).stdout,
       "leader: nothing is left")


def test_licence(place):
    seats = {"SEATS": "2", "PATIENCE": "200ms", "USER": "ann"}
    users = [subprocess.Popen(
        [script("licence.sh"), "solver", "sh", "-c", "echo in; read end"],
        env=environment(place.url, seats), text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE) for _ in range(2)]
    for user in users:
        user.stdout.readline()
    code, said = end(begin(place, "licence.sh", "solver", "true", env=seats))
    ok(code == 99 and "no seat of solver is free" in said and said.count("ann") == 2,
       "licence: no seat; it says who has them", f"{code} {said}")
    users[0].communicate("\n")
    code, said = end(begin(place, "licence.sh", "solver", "sh", "-c", "exit 5",
                           env=seats))
    ok(code == 5, "licence: a seat is free, the command's own code", f"{code} {said}")
    users[1].communicate("\n")


def test_unit(place):
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str
    unit.read(script("job@.service"))
    words = shlex.split(unit["Service"]["ExecStart"].replace("%i", "report")
                        .replace("%n", "job@report.service"))
    ok(words[0] == "/usr/bin/holdfast" and words[-1] == "/usr/local/bin/report",
       "unit: what it starts", words)
    result = subprocess.run([COMMAND, *words[1:-1], "sh", "-c", "echo $HOLDFAST_NAME"],
                            env=environment(place.url), capture_output=True, text=True,
                            check=False, timeout=4 * DEADLINE)
    ok(result.returncode == 0 and result.stdout == "jobs/report\n",
       "unit: its command line works", result.stdout + result.stderr)
    if not shutil.which("systemd-analyze"):
        skip("unit: systemd-analyze verify", "no systemd-analyze")
        return
    with open(script("job@.service"), encoding="utf-8") as file:
        text = file.read()
    path = os.path.join(place.dir, "job@true.service")
    with open(path, "w", encoding="utf-8") as out:
        out.write(text.replace("/usr/bin/holdfast", os.path.abspath(COMMAND))
                  .replace("/usr/local/bin/", "/bin/")
                  .replace("Documentation=man:holdfast-run(1)\n", ""))
    result = subprocess.run(["systemd-analyze", "verify", "--man=no", path], text=True,
                            capture_output=True, check=False, timeout=4 * DEADLINE)
    said = [line for line in result.stderr.splitlines() if "job@" in line]
    ok(not said, "unit: systemd-analyze verify", said)
    os.unlink(path)


def main():
    for test in [test_cron, test_deploy, test_leader, test_licence, test_unit]:
        with store() as place:
            try:
                test(place)
            finally:
                clean_up(place)
    done()


main()
