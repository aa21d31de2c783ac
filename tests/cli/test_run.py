#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`holdfast run`: every option and every exit code."""

import os
import re
import shutil
import signal
import socket
import subprocess
import time

from cli import (DEADLINE, Holder, Terminal, alive, children, environment,
                 holdfast, start, store, wait_for)
from tap import comment, done, ok


def code(result, wanted, what, part=""):
    """The exit code is `wanted`, and `part` is in the message."""
    comment(result.stderr)
    return ok(result.returncode == wanted and part in result.stderr,
              f"{what}: exit {wanted}", f"{result.returncode} {result.stderr}")


def names_left(place):
    return holdfast("ls", "--json", url=place.url).stdout


# ---- Exit codes ----------------------------------------------------------------------

def test_exit_codes(place):
    def run(*words):
        return holdfast("run", *words, url=place.url)

    code(run("x", "--", "true"), 0, "the command succeeds")
    code(run("x", "--", "sh", "-c", "exit 3"), 3, "the command's own code")
    code(run("x", "--", "sh", "-c", "kill -TERM $$"), 143, "ended by a signal")
    code(run("x", "--", "no-such-command"), 127, "no such command", "No such file")
    code(run("x", "--", "/etc/passwd"), 126, "not a program", "Permission denied")
    code(run("-c", "exit 4", "x"), 4, "-c STRING")
    code(run("--command=exit 5", "x"), 5, "--command=STRING")
    code(run("x"), 64, "no command", "command is missing")
    code(run("x", "true"), 64, "no --", "run x -- true")
    code(run("--", "true"), 64, "no name", "an operand is missing")
    code(run("--wait", "soon", "x", "--", "true"), 64, "bad duration", "not a duration")
    code(run("--ttl", "0", "x", "--", "true"), 64, "no lease", "longer than 0")
    code(run("--max-hold=0", "x", "--", "true"), 64, "no time", "longer than 0")
    code(run("--fair", "--shared", "x", "--", "true"), 64, "two kinds", "exclude")
    code(run("--permits", "9/4", "x", "--", "true"), 64, "too many", "more permits than")
    code(run("--permits", "1", "x", "--", "true"), 64, "bad permits", "is not K/N")
    code(run("--stripe", "/4", "x", "--", "true"), 64, "bad stripe", "is not KEY/N")
    code(run("--on-lost=cry", "x", "--", "true"), 64, "bad --on-lost", "not kill, warn")
    code(run("--on-revoke=cry", "x", "--", "true"), 64, "bad --on-revoke", "not ignore")
    code(run("-E", "256", "x", "--", "true"), 64, "bad exit code",
         "not a number from 0 to 255")
    code(run("-E", "x", "x", "--", "true"), 64, "bad number", "not a number")
    code(run("-n", "-w", "3s", "x", "--", "true"), 64, "-n and -w", "exclude")
    code(run("--wait", "1s", "--wait", "2s", "x", "--", "true"), 64, "twice", "twice")
    code(run("--note"), 64, "no value", "needs a value")
    code(run("--fair=yes", "x", "--", "true"), 64, "a flag with a value", "no value")
    code(run("-c", "true", "x", "--", "true"), 64, "two commands", "--command and")
    code(run("x", "x", "--", "true"), 64, "one name twice")
    code(run("a\tb", "--", "true"), 64, "bad name", "HF_ENAME")
    code(run("-u", place.url, "-u", place.url, "x", "--", "true"), 64, "two URLs",
         "quorum")
    code(holdfast("run", "x", "--", "true", url="file:///nowhere/at/all"), 69,
         "no such directory", "no directory")
    code(holdfast("run", "x", "--", "true", url="gopher://x"), 64, "unknown scheme")
    flock = place.url + "?layout=flock"
    code(holdfast("run", "--permits", "1/2", "f", "--", "true", url=flock), 77,
         "a kind the store lacks", "HF_EUNSUPPORTED")
    ok('"locks":[]' in names_left(place).replace(" ", ""), "nothing is left held",
       names_left(place))


def test_conflict(place):
    def run(*words):
        return holdfast("run", *words, "--", "echo", "ran", url=place.url)

    with Holder(place, "x"):
        code(run("-n", "x"), 1, "busy", "held for")
        code(run("--wait", "0", "x"), 1, "--wait 0", "held for")
        code(run("-w", "50ms", "x"), 75, "timeout", "timed out")
        code(run("-w", "0.05", "x"), 75, "timeout, plain seconds")
        code(run("--nonblock", "-E", "9", "x"), 9, "-E, busy")
        code(run("-w", "50ms", "--conflict-exit-code=0", "x"), 0, "-E, timeout")
        for words in [["-n", "-E", "0"], ["-w", "50ms", "-E", "0"]]:
            quiet = run(*words, "x")
            ok((quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", ""),
               f"{' '.join(words)}: cron has nothing to mail", quiet)
        quiet = run("-nq", "x")
        ok(quiet.returncode == 1 and quiet.stderr == "", "--quiet says nothing")
        ok(run("-n", "x").stdout == "", "the command was not run")
        code(run("-n", "--permits", "1/4", "x"), 77, "another kind", "HF_EMISMATCH")
        waiter = start("run", "--wait=forever", "x", "--", "echo", "ran", url=place.url)
        wait_for(lambda: '"place"' in names_left(place)
                 and str(waiter.pid) in names_left(place), "the waiter in line")
    ok(waiter.communicate(timeout=DEADLINE)[0] == "ran\n",
       "--wait forever has its turn")


# ---- Kinds ---------------------------------------------------------------------------

def test_kinds(place):
    def tries(options, name="k"):
        return holdfast("run", "-nq", *options, name, "--", "true",
                        url=place.url).returncode

    for options, second, what in [
            (["-s"], ["-s"], "shared and shared"),
            (["--permits", "2/3"], ["--permits", "1/3"], "2 and 1 of 3 permits"),
            (["--stripe", "a/65536"], ["--stripe", "b/65536"], "two stripes")]:
        with Holder(place, "k", *options):
            ok(tries(second) == 0, f"{what} go together")
    for options, second, what in [
            (["-s"], ["-x"], "shared and exclusive"),
            (["-x"], ["-s"], "exclusive and shared"),
            (["--permits", "2/3"], ["--permits", "2/3"], "2 and 2 of 3 permits"),
            (["--stripe", "a/4"], ["--stripe", "a/4"], "a stripe and itself"),
            (["--fair"], ["--fair"], "fair and fair"),
            (["--reentrant"], [], "reentrant and a mutex of others")]:
        with Holder(place, "k", *options):
            ok(tries(second) == 1, f"{what} exclude each other")
    with Holder(place, "a", "b"):
        ok(tries([], "b") == 1 and tries([], "a") == 1, "both of two names are held")
    with Holder(place, "b"):
        result = holdfast("run", "-n", "a", "b", "--", "true", url=place.url)
        ok(result.returncode == 1 and tries([], "a") == 0, "two names: all or none")
        ok("a b: b is held for" in result.stderr, "two names: which is held, by whom",
           result.stderr)


# ---- What the command gets -----------------------------------------------------------

def environment_of(*words, url, **more):
    text = holdfast("run", *words, "--", "env", "-0", url=url, **more).stdout
    return dict(line.split("=", 1) for line in text.split("\0") if "=" in line)


def test_environment(place):
    got = environment_of("x", url=place.url)
    ok(got["HOLDFAST_NAME"] == "x" and got["HOLDFAST_URL"] == place.url
       and got["HOLDFAST_TOKEN"].isdigit() and got["HOLDFAST_ID"].startswith("hf1."),
       "HOLDFAST_NAME, _URL, _TOKEN, _ID", got)
    later = environment_of("x", url=place.url)
    ok(int(later["HOLDFAST_TOKEN"]) > int(got["HOLDFAST_TOKEN"]), "tokens grow")
    got = environment_of("a", "b", url=place.url)
    ok(got["HOLDFAST_NAME"] == "a b" and len(got["HOLDFAST_TOKEN"].split()) == 2,
       "two names, two tokens", got)
    got = environment_of("--url", place.url, "x", url="file:///elsewhere")
    ok(got["HOLDFAST_URL"] == place.url, "--url goes on in HOLDFAST_URL")
    got = environment_of("f", url=place.url + "?layout=flock",
                         env={"HOLDFAST_ID": "old"})
    ok("HOLDFAST_ID" not in got, "no HOLDFAST_ID where holds have none", got)


def test_streams(place):
    result = holdfast("run", "x", "--", "cat", url=place.url, input="through\n")
    ok(result.stdout == "through\n" and result.stderr == "", "stdin and stdout pass")
    shell = subprocess.run(["sh", "-c", "echo x | holdfast run n -- cat | tr x y; "
                            "holdfast run n -- cat <&- ; holdfast run n -- echo z >&-"],
                           env=environment(place.url), capture_output=True, text=True,
                           check=False, timeout=60)
    ok(shell.stdout == "y\n", "pipes, closed stdin, closed stdout", shell)
    begin = time.monotonic()
    result = holdfast("run", "n", "--", "sh", "-c", "sleep 60 >&- 2>&- & echo $!",
                      url=place.url)
    pid = int(result.stdout)
    ok(result.returncode == 0 and time.monotonic() - begin < 30 and alive(pid),
       "what a command leaves in the background lives on, as without us")
    os.kill(pid, signal.SIGKILL)
    read, write = os.pipe()
    os.write(write, b"fd\n")
    os.close(write)
    result = holdfast("run", "n", "--", "sh", "-c", f"cat <&{read}", url=place.url,
                      pass_fds=[read])
    ok(result.stdout == "fd\n", "further descriptors pass", result)
    result = holdfast("run", "n", "--", "sh", "-c", "ls /proc/self/fd | wc -l",
                      url=place.url)
    ok(result.stdout.strip() == "4", "and none of ours does", result.stdout)


def test_signals(place):
    script = ("for s in HUP INT QUIT TERM USR1 USR2 WINCH; do trap \"echo got $s\" $s; "
              "done; echo ready; while :; do sleep 0.01; done")
    run = start("run", "x", "--", "bash", "-c", script, url=place.url)
    run.stdout.readline()
    for name in ["HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "WINCH"]:
        run.send_signal(getattr(signal, "SIG" + name))
        line = run.stdout.readline()
        ok(line == f"got {name}\n", f"SIG{name} is passed on", line)
    warden = children(run.pid)[0]
    command = children(warden)[0]
    ok(os.getpgid(command) == command and os.getpgid(warden) == warden
       and os.getsid(command) == os.getsid(run.pid), "groups of their own, one session")
    ok(len(os.listdir(f"/proc/{warden}/fd")) == 3, "the warden has none of our files",
       os.listdir(f"/proc/{warden}/fd"))
    run.send_signal(signal.SIGSTOP)
    run.send_signal(signal.SIGCONT)
    os.kill(command, signal.SIGKILL)
    ok(run.wait(DEADLINE) == 137, "killed by signal 9: exit 137")
    run.communicate()
    result = holdfast("run", "x", "--", "sh", "-c", "kill -PIPE $$", url=place.url)
    ok(result.returncode == 128 + signal.SIGPIPE or result.returncode == 0,
       "SIGPIPE is as we found it", result.returncode)


# ---- Messages ------------------------------------------------------------------------

def test_waiting(place):
    host = re.escape(socket.gethostname())
    with Holder(place, "w") as holder:
        line = rf"waiting \d+ s: held for [0-9.]+m?s by {host} pid {holder.pid} backup.sh"
        with Terminal("run", "w", "--", "true", url=place.url) as terminal:
            terminal.until("held for")
            terminal.until("waiting 2 s")
            ok(re.search(line, terminal.seen), "the waiting line", terminal.seen)
            ok("\n" not in terminal.seen, "it stays one line", terminal.seen)
            terminal.send("\x03")
            terminal.until_exit()
            comment(terminal.seen)
            ok(terminal.status == 130, "Ctrl-C while waiting: exit 130",
               terminal.status)
            ok(terminal.seen.endswith("\r\033[K") or "\r\033[K" in terminal.seen,
               "the line is cleared", terminal.seen)
        ok(str(terminal.pid) not in names_left(place), "no ticket is left",
           names_left(place))
        waiter = start("run", "-v", "w", "--", "true", url=place.url)
        ok(re.search(line, waiter.stderr.readline()), "-v: the same without a terminal")
        silent = start("run", "-w", "1.5s", "w", "--", "true", url=place.url)
        text = silent.communicate(timeout=DEADLINE)[1]
        ok("waiting" not in text and text.count("\n") == 1,
           "nothing without -v but the end", text)
        waiter.send_signal(signal.SIGTERM)
        ok(waiter.wait(DEADLINE) == 143, "TERM while waiting: exit 143")
        waiter.communicate()
    result = holdfast("run", "--verbose", "w", "--", "true", url=place.url)
    ok(re.search(r"acquired after .*, token \d+\n.*released", result.stderr),
       "-v: acquired, released", result.stderr)


def test_note(place):
    with Holder(place, "n", "--note", "release 42", "--ttl", "20s"):
        text = names_left(place)
        ok("release 42" in text and "backup.sh" in text, "--note and program are shown",
           text)


def test_secrets(place):
    for url in ["redis://me:hunter2@127.0.0.1:1/0", "file:/nowhere?password=hunter2",
                "nope://u:hunter2@h", "file://me:hunter2@h/x?token=hunter2&a=b",
                "redis:/:hunter2@h", "redis//u:hunter2@h", "u:hunter2@h", "hunter2@h",
                "redis:hunter2@h", "hunter2:x@h", "redis://hunter2@127.0.0.1:1",
                "redis:///me:hunter2@h", "redis://me:hunter2:x@127.0.0.1:1",
                "redis://me:12?hunter2@h", "redis://me:12?x&hunter2=1@h",
                "redis://127.0.0.1:1?pasword=hunter2",
                "redis://127.0.0.1:1?password=x@hunter2", "redis://:hunter2",
                "redis://me:hunter2/0", "redis://me:hunter2?db=1"]:
        for words in [["--url", url], []]:
            result = holdfast("run", "-v", "-w", "100ms", *words, "x", "--", "true",
                              url=url)
            ok(result.returncode not in (0, 1) and "hunter2" not in result.stderr,
               "no password in: "
               + result.stderr.strip().replace("hunter2", "PASSWORD"))
    for words in [["ls", "a", "redis://me:hunter2@h"], ["redis://me:hunter2@h", "ls"]]:
        result = holdfast(*words)
        ok(result.returncode == 64 and "hunter2" not in result.stderr,
           f"a URL where none belongs: {result.stderr.strip()}")
    result = holdfast("ls", url="file:/no/user@host/x")
    ok("file:/no/user@host/x" in result.stderr, "a path may have an @ in it", result)
    result = holdfast("ls", url="redis://127.0.0.1:1/0?db=x")
    ok("redis://127.0.0.1:1/0?db=x" in result.stderr, "a port is no password", result)


def test_durations(place):
    """A number without unit is seconds if it is alone."""
    for text in ["0", "30", "1.5", "5sec", "5s", "5min", "5m", "1h30m", "1m30s", "2d", "1ms"]:
        result = holdfast("run", "--wait", text, "x", "--", "true", url=place.url)
        ok(result.returncode == 0, f"--wait {text}", result)
    for text in ["1h30", "1m30", "30s1m", "5secs", "s", "", "1h 30m", "-1", "1e3"]:
        result = holdfast("run", "--wait", text, "x", "--", "true", url=place.url)
        ok(result.returncode == 64, f"--wait {text!r} is refused", result)


HOSTILE = {"C1": "\x9b2J", "right to left": "\u202e", "isolate": "\u2066",
           "mark": "\u200f", "Arabic mark": "\u061c", "ESC": "\x1b[2J"}


def test_escapes(place):
    """What strangers write, and what we are given, does not move the cursor."""
    for what, text in HOSTILE.items():
        for words in [["run", "-n", f"a{text}b", "--", "true", "--"], ["ls", "--" + text],
                      ["run", "--wait", text, "x", "--", "true"], [f"x{text}"],
                      ["cell", "get", f"a{text}b"], ["ls", "--url", "file:/no" + text]]:
            result = holdfast(*words, url=place.url)
            ok(text[0] not in result.stderr, f"{what}: {words[0]}", result)
        with Holder(place, "e", "--note", f"n{text}"):
            for words in [["ls"], ["show", "e"], ["ls", "--json"], ["show", "e", "--json"],
                          ["top"], ["run", "-n", "e", "--", "true"]]:
                result = holdfast(*words, url=place.url)
                ok(text[0] not in result.stdout + result.stderr,
                   f"{what}: a note, shown by {' '.join(words)}", result)
        path = os.path.join(place.dir, f"d{text}")
        os.mkdir(path, 0o700)
        os.chmod(path, 0o770)  # doctor has a remark, whose fix names the directory
        for words in [["doctor"], ["bench", "--time", "10ms"], ["top"], ["ls", "--json"]]:
            result = holdfast(*words, url="file:" + path)
            ok(result.returncode == 0 and text[0] not in result.stdout + result.stderr,
               f"{what}: a directory, shown by {words[0]}", result)


def test_hostile_program(place):
    """The holder is a program with such a name; the waiter, and who looks, is on a
    terminal."""
    for what, text in HOSTILE.items():
        program = os.path.join(place.dir, f"prog{text.replace('/', '')}end")
        os.symlink(shutil.which("cat"), program)
        holder = start("run", "h", "--", program, url=place.url, stdin=subprocess.PIPE)
        wait_for(lambda: f'"pid":{holder.pid}' in names_left(place), "the holder")
        for words in [["run", "h", "--", "true"], ["top", "--every", "1s"], ["watch", "h"]]:
            with Terminal(*words, url=place.url, size=(24, 200)) as terminal:
                terminal.until("prog")
                terminal.until("end")
                raw = terminal.seen[terminal.seen.index("prog"):]
                ok(text not in raw[:raw.index("end")],
                   f"{what}: a program, shown by {words[0]}", repr(raw))
        holder.communicate(timeout=DEADLINE)


def main():
    for test in [test_exit_codes, test_conflict, test_kinds, test_environment,
                 test_streams, test_signals, test_waiting, test_note, test_secrets,
                 test_escapes, test_hostile_program, test_durations]:
        with store() as place:
            test(place)
    done()


main()
