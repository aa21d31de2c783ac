#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`holdfast run` in a real shell on a real terminal (a pty): Ctrl-C, Ctrl-Z, fg, bg.

The commands that are stopped here start nothing. A shell that starts a program with
vfork() cannot be stopped before the program has begun, but that one can: then both
hang, with holdfast and without.
"""

import os

from cli import Terminal, holdfast, store, wait_for
from tap import comment, done, ok


class Shell(Terminal):
    """An interactive bash. Whoever types waits for the prompt first: what is typed
    ahead could reach the command before."""

    def __init__(self, place):
        super().__init__("--norc", "--noprofile", "-i", program="bash", url=place.url,
                         env={"PS1": "<$?>", "TERM": "dumb", "HISTFILE": ""},
                         size=(24, 250))
        self.at = self.until("<0>")

    def type(self, text):
        self.send(text)

    def expect(self, text):
        """Waits for `text` on what came since the last expect."""
        self.at = self.until(text, after=self.at)

    def foreground(self):
        """Types fg, and waits until the job has the terminal: a Ctrl-C before that
        would be for the shell."""
        self.type("fg\n")
        self.expect("holdfast run")
        wait_for(lambda: os.tcgetpgrp(self.fd) != self.pid, "the job in the foreground")


def stopped(shell):
    """Has the shell, which tells with a prompt, seen that a job is stopped?"""
    shell.expect("<0>")
    shell.type("jobs\n")
    shell.expect("sh -c")
    return "Stopped" in shell.seen[:shell.at].splitlines()[-1]


def make_fifo(place):
    path = os.path.join(place.dir, "fifo")
    os.mkfifo(path)
    return path


def held(place):
    return "mutex" in holdfast("ls", url=place.url).stdout


def test_plain(place):
    with Shell(place) as shell:
        shell.type("holdfast run x -- sh -c 'read a; echo =$a='\n")
        wait_for(lambda: held(place), "the lock")
        shell.type("typed\n")
        shell.expect("=typed=")
        shell.expect("<0>")
        ok(True, "a command reads the terminal")
        shell.type("holdfast run x -- sleep 100\n")
        wait_for(lambda: held(place), "the lock")
        shell.type("\x03")
        shell.expect("<130>")
        ok(not held(place), "Ctrl-C ends it: 130, and the lock is free")
        shell.type("holdfast run x -- sh -c 'trap \"echo caught; exit 7\" INT; "
                   "echo up; while :; do sleep 0.01; done'\n")
        shell.expect("\nup")
        shell.type("\x03")
        shell.expect("caught")
        shell.expect("<7>")
        ok(True, "a command may handle Ctrl-C itself")
        shell.type("bash -c 'holdfast run x -- sleep 100; echo went on'\n")
        wait_for(lambda: held(place), "the lock")
        shell.type("\x03")
        shell.expect("<130>")
        ok("\nwent on" not in shell.seen, "Ctrl-C ends the script around it as well",
           shell.seen)
        comment(shell.seen)


def test_stop(place):
    with Shell(place) as shell:
        shell.type("holdfast run x -- sh -c 'echo up; read a; echo =$a='\n")
        shell.expect("\nup")
        shell.type("\x1a")
        shell.expect("Stopped")
        shell.expect("<148>")
        ok(held(place), "Ctrl-Z: the shell is back, the lock is held")
        shell.foreground()
        shell.type("again\n")
        shell.expect("=again=")
        shell.expect("<0>")
        ok(not held(place), "fg: it has the terminal again, and ends")
        fifo = make_fifo(place)
        shell.type(f"holdfast run x -- sh -c 'read a <$0; echo $a' {fifo}\n")
        wait_for(lambda: held(place), "the lock")
        shell.type("\x1a")
        shell.expect("<148>")
        shell.type("bg\n")
        shell.expect("<0>")
        shell.type(f"echo moved >{fifo}; wait; echo waited $?\n")
        shell.expect("\nmoved")
        shell.expect("waited 0")
        shell.expect("<0>")
        ok(True, "bg: it goes on without the terminal")
        shell.type("holdfast run x -- sh -c 'read a; echo =$a=' &\n")
        shell.expect("<0>")
        wait_for(lambda: held(place), "the lock")
        shell.type("echo still $((6*7))\n")
        shell.expect("still 42")
        ok(True, "started in the background it leaves the terminal alone")
        wait_for(lambda: stopped(shell), "the shell to see that it wants the terminal")
        shell.expect("<0>")
        shell.foreground()
        shell.type("later\n")
        shell.expect("=later=")
        shell.expect("<0>")
        ok(True, "and gets it with fg")
        comment(shell.seen)


def test_pipeline(place):
    with Shell(place) as shell:
        shell.type("holdfast run x -- echo one | "
                   "(echo up; read a </dev/tty; cat; echo =$a=)\n")
        shell.expect("\nup")
        shell.type("mine\n")
        shell.expect("=mine=")
        shell.expect("<0>")
        ok("\none" in shell.seen, "a neighbour in the pipeline reads the terminal")
        shell.type("echo two | holdfast run x -- sh -c 'cat; read a </dev/tty; "
                   "echo =$a='\n")
        shell.expect("\ntwo")
        shell.type("wish\n")
        shell.expect("=wish=")
        shell.expect("<0>")
        ok(True, "and so does the command behind a pipe")
        shell.type("holdfast run x -- sleep 100 | cat\n")
        wait_for(lambda: held(place), "the lock")
        shell.type("\x1a")
        shell.expect("<148>")
        shell.foreground()
        shell.type("\x03")
        shell.expect("<130>")
        wait_for(lambda: not held(place), "the lock to be free")
        ok(True, "Ctrl-Z, fg and Ctrl-C in a pipeline")
        comment(shell.seen)


def test_no_shell(place):
    fifo = make_fifo(place)
    with Terminal("run", "x", "--", "sh", "-c", "echo up; read a <$0; echo $a", fifo,
                  url=place.url) as terminal:
        terminal.until("up")
        terminal.send("\x1a")
        terminal.until("^Z")
        with open(fifo, "w", encoding="utf-8") as end:
            end.write("over\n")
        terminal.until("over")
        terminal.until_exit()
        ok(terminal.status == 0, "Ctrl-Z where no shell could continue it: it goes on")


def main():
    for test in [test_plain, test_stop, test_pipeline, test_no_shell]:
        with store() as place:
            test(place)
    done()


main()
