#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`holdfast run` in a real shell on a real terminal (a pty): Ctrl-C, Ctrl-Z, fg, bg."""

from cli import Terminal, holdfast, store, wait_for
from tap import comment, done, ok


class Shell(Terminal):
    """An interactive bash. Whoever types waits for the prompt first: what is typed ahead
    could reach the command before."""

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


def stopped(shell):
    """Has the shell, which tells with a prompt, seen that a job is stopped?"""
    shell.expect("<0>")
    shell.type("jobs\n")
    shell.expect("sh -c")
    return "Stopped" in shell.seen[:shell.at].splitlines()[-1]


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
        shell.type("holdfast run x -- sh -c 'trap \"echo caught; exit 7\" INT; echo up; "
                   "while :; do sleep 0.01; done'\n")
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
        shell.type("fg\n")
        shell.expect("holdfast run")
        shell.type("again\n")
        shell.expect("=again=")
        shell.expect("<0>")
        ok(not held(place), "fg: it has the terminal again, and ends")
        shell.type("holdfast run x -- sh -c 'while [ ! -e $0/go ]; do sleep 0.01; done; "
                   "echo moved' " + place.dir + "\n")
        wait_for(lambda: held(place), "the lock")
        shell.type("\x1a")
        shell.expect("<148>")
        shell.type("bg\n")
        shell.expect("<0>")
        shell.type("touch " + place.dir + "/go; wait; echo waited $?\n")
        shell.expect("moved")
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
        shell.type("fg\n")
        shell.expect("holdfast run")
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
        shell.type("fg\n")
        shell.expect("holdfast run")
        shell.type("\x03")
        shell.expect("<130>")
        wait_for(lambda: not held(place), "the lock to be free")
        ok(True, "Ctrl-Z, fg and Ctrl-C in a pipeline")
        comment(shell.seen)


def test_no_shell(place):
    with Terminal("run", "x", "--", "sh", "-c",
                  "echo up; while [ ! -e $0/go ]; do sleep 0.01; done; echo over",
                  place.dir, url=place.url) as terminal:
        terminal.until("up")
        terminal.send("\x1a")
        open(place.dir + "/go", "w", encoding="utf-8").close()
        terminal.until("over")
        terminal.until_exit()
        ok(terminal.status == 0, "Ctrl-Z where no shell could continue it: it goes on")


def main():
    for test in [test_plain, test_stop, test_pipeline, test_no_shell]:
        with store() as place:
            test(place)
    done()


main()
