#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`holdfast top` on a terminal, and without one."""

import json
import signal
import termios

from cli import COMMAND, DEADLINE, Holder, holdfast, start, state, store, wait_for
from look_util import Screen, lock_of, run, run2
from tap import done, ok


def canonical(screen):
    flags = termios.tcgetattr(screen.slave)[3]
    return bool(flags & termios.ICANON), bool(flags & termios.ECHO)


def order(screen, *names):
    """Whether the locks stand in this order."""
    rows = [row.split(" ")[0] for row in screen.rows]
    return [row for row in rows if row in names] == list(names)


def on_a_terminal(place):
    screen = Screen([COMMAND, "top", "--every", "50ms"], place.url)
    screen.wait_for(screen.has("alpha", "bravo", "3 names, 3 holders, 1 waiter",
                               "q quit"),
                    "top shows the locks")
    ok(canonical(screen) == (False, False) and screen.alternate and
       not screen.cursor_shown, "keys without echo, another screen, no cursor")
    ok(screen.has(place.url)(), "the URL")
    ok("KIND" in screen.rows[3] and "TOKEN" not in screen.rows[3],
       "80 columns: there is no room for the token", screen.rows[3])
    ok(screen.rows[23].startswith("n name"), "the keys are in the last line")

    screen.resize(130, 30)
    screen.wait_for(lambda: "TOKEN" in screen.rows[3] and
                    screen.rows[29].startswith("n name") and len(screen.rows[3]) == 130,
                    "made larger: the token is there, and the lines are longer")
    screen.resize(40, 6)
    screen.wait_for(lambda: screen.rows[5].startswith("n name") and
                    screen.has("more")(),
                    "made small: what does not fit is counted")
    ok(screen.widest <= 40 and "HELD FOR" not in screen.rows[3],
       "no line is wider than the screen", screen.widest)
    screen.resize(10, 3)
    screen.wait_for(lambda: screen.rows[0] == "holdfast ~", "tiny, and it still draws")
    screen.resize(80, 24)
    screen.wait_for(screen.has("alpha", "q quit"), "as large as before")

    screen.type("w")
    screen.wait_for(lambda: screen.has("by waiters")() and
                    order(screen, "bravo", "alpha", "charlie"),
                    "w: most waiters first")
    screen.type("t")
    screen.wait_for(lambda: screen.has("by token")() and
                    order(screen, "charlie", "bravo", "alpha"), "t: newest token first")
    screen.type("h")
    screen.wait_for(lambda: screen.has("by held")() and
                    order(screen, "alpha", "bravo", "charlie"), "h: held longest first")
    screen.type("\x1b[1;5Bn")  # an arrow says nothing, and is not taken for letters
    screen.wait_for(lambda: screen.has("by name")() and
                    order(screen, "alpha", "bravo", "charlie"), "n: by name")
    screen.type("q")
    screen.end(0, "q")


def goes_on(place):
    screen = Screen([COMMAND, "top", "brav", "--every", "50ms"], place.url)
    screen.wait_for(lambda: screen.has("bravo")() and not screen.has("alpha")(),
                    "a prefix: only those")
    with Holder(place, "bravissimo"):
        screen.wait_for(screen.has("bravissimo"), "a new holder")
    screen.wait_for(lambda: not screen.has("bravissimo")(), "and goes")
    screen.type("q")
    screen.end(0, "q after a change")


def signals(place):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        screen = Screen([COMMAND, "top"], place.url)
        screen.wait_for(screen.has("alpha"), f"{number.name}: it runs")
        if number == signal.SIGINT:
            screen.type("\x03")
        else:
            screen.process.send_signal(number)
        screen.end(-number, number.name)


def ctrl_z(place):
    """In a shell, as job control needs one: Ctrl-Z, a look at the terminal, fg, q."""
    screen = Screen(["bash", "--norc", "--noprofile", "-i"], place.url, PS1="ready> ",
                    HISTFILE="")
    screen.wait_for(screen.has("ready>"), "a shell")
    screen.type(f"'{COMMAND}' top --every 50ms\n")
    screen.wait_for(lambda: screen.alternate and screen.has("alpha", "q quit")(),
                    "top in the shell")
    screen.type("\x1a")
    screen.wait_for(lambda: not screen.alternate and screen.cursor_shown and
                    screen.has("Stopped")(), "Ctrl-Z: stopped, and the shell is back")
    screen.type("stty -a | tr -s ' ;' '\\n' | grep -cxE 'icanon|echo'\n")
    screen.wait_for(lambda: "2" in screen.rows, "with lines and echo, as before")
    screen.type("fg\n")
    screen.wait_for(lambda: screen.alternate and not screen.cursor_shown and
                    screen.has("alpha", "q quit")(), "fg: the screen is back")
    ok(canonical(screen) == (False, False), "and keys have no echo again")
    screen.type("q")
    screen.wait_for(lambda: not screen.alternate and screen.cursor_shown,
                    "q: back in the shell")
    screen.type("exit\n")
    screen.end(0, "the shell")


def stopped_from_outside(place):
    """SIGSTOP cannot be caught; after SIGCONT the screen is drawn anew."""
    screen = Screen([COMMAND, "top", "--every", "50ms"], place.url)
    screen.wait_for(screen.has("alpha"), "SIGSTOP: it runs")
    screen.process.send_signal(signal.SIGSTOP)
    wait_for(lambda: state(screen.process.pid) == "T", "a stopped process")
    mode = termios.tcgetattr(screen.slave)
    mode[3] |= termios.ICANON | termios.ECHO
    termios.tcsetattr(screen.slave, termios.TCSANOW, mode)
    screen.process.send_signal(signal.SIGCONT)
    screen.wait_for(lambda: canonical(screen) == (False, False),
                    "SIGCONT: keys without echo again")
    screen.type("q")
    screen.end(0, "q after SIGCONT")


def no_terminal(place):
    text = run(place, "top")
    lines = text.splitlines()
    ok("3 names, 3 holders, 1 waiter" in lines[0] and "\x1b" not in text,
       "in a pipe: plain text, once", text)
    ok(lines[1].split("\t")[:3] == ["NAME", "KIND", "HELD BY"] and len(lines) == 5,
       "a head and a line for each, with tabs", text)
    ok(run2(place, "top", "--every", "0", code=64).stderr != "", "--every 0: nonsense")
    shown = json.loads(run(place, "top", "--json"))
    ok([lock["name"] for lock in shown["locks"]] == ["alpha", "bravo", "charlie"] and
       shown["url"] == place.url, "--json is that of ls", shown)
    screen = Screen([COMMAND, "top"], place.url, TERM="dumb")
    screen.end(0, "a dumb terminal: once, and as it is")
    ok(b"\x1b" not in screen.log and b"alpha" in screen.log, "without any sequence")

    process = start("top", "--every", "50ms", url=place.url)
    seen = [process.stdout.readline() for _ in range(12)]
    ok(sum("3 names" in line for line in seen) >= 2, "--every: again and again", seen)
    process.stdout.close()
    ok(process.wait(DEADLINE) == 0 and process.stderr.read() == "",
       "the reader goes: it ends quietly")
    ok(holdfast("top", url="file:/there/is/no/such").returncode != 0, "no store")


def main():
    with store() as place, Holder(place, "alpha"), \
            Holder(place, "bravo"), Holder(place, "charlie"):
        waiter = start("run", "bravo", "--", "true", url=place.url)
        wait_for(lambda: lock_of(place, "bravo")["waiters"], "a waiter")
        for test in (on_a_terminal, goes_on, signals, ctrl_z, stopped_from_outside,
                     no_terminal):
            test(place)
        waiter.terminate()
        waiter.communicate(timeout=DEADLINE)
    done()


main()
