# SPDX-License-Identifier: MIT
"""What the tests of the looking commands share: a terminal that is read as a screen."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from cli import DEADLINE, environment, holdfast
from tap import comment, ok

TOKEN = re.compile("\x1b\\[([?0-9;]*)([A-Za-z])")


def run(place, *words, code=0, what=None, **options):
    """Runs holdfast; its exit code is one test point. Returns stdout."""
    return run2(place, *words, code=code, what=what, **options).stdout


def run2(place, *words, code=0, what=None, **options):
    result = holdfast(*words, url=place.url, **options)
    ok(result.returncode == code,
       what or f"{' '.join(words)}: exit code {code}",
       f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}")
    return result


def run_json(place, *words, **options):
    return json.loads(run(place, *words, "--json", **options))


def lock_of(place, name):
    """The lock of that name as `show --json` has it, or None."""
    found = json.loads(holdfast("show", name, "--json", url=place.url).stdout)["locks"]
    return found[0] if found else None


class Screen:
    """A program on a terminal of `width` x `height`, and what it shows there."""

    def __init__(self, words, url, width=80, height=24, **more):
        self.width, self.height = width, height
        self.alternate, self.cursor_shown = False, True
        self.log = b""
        self.text = ""
        self.master, self.slave = pty.openpty()
        self.before = termios.tcgetattr(self.slave)
        self._set_size()
        self._clear()
        self.process = subprocess.Popen(
            words, stdin=self.slave, stdout=self.slave, stderr=self.slave,
            start_new_session=True, env=environment(url, {"TERM": "xterm", **more}),
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def _set_size(self):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ,
                    struct.pack("HHHH", self.height, self.width, 0, 0))

    def _clear(self):
        self.row = self.column = self.widest = 0
        self.rows = [""] * self.height

    def resize(self, width, height):
        """The user pulls at the window: the kernel sends SIGWINCH."""
        self.width, self.height = width, height
        self._clear()
        self._set_size()

    def type(self, text):
        os.write(self.master, text.encode())

    def _sequence(self, arguments, letter):
        if arguments == "?1049":
            self.alternate = letter == "h"
            self._clear()
        elif arguments == "?25":
            self.cursor_shown = letter == "h"
        elif letter == "H":
            parts = [int(part) for part in arguments.split(";") if part] or [1, 1]
            self.row, self.column = parts[0] - 1, 0
        elif letter == "K":
            self.rows[self.row] = self.rows[self.row][:self.column]
        elif letter == "J" and arguments == "2":
            self.rows = [""] * self.height
        elif letter == "J":
            self.rows[self.row] = self.rows[self.row][:self.column]
            self.rows[self.row + 1:] = [""] * (self.height - self.row - 1)

    def _put(self, char):
        if char == "\r":
            self.column = 0
        elif char == "\n":
            self.row = min(self.row + 1, self.height - 1)
        elif char >= " ":
            row = self.rows[self.row].ljust(self.column)
            self.rows[self.row] = row[:self.column] + char + row[self.column + 1:]
            self.column += 1
            self.widest = max(self.widest, self.column)

    def _feed(self, data):
        self.log += data
        self.text += data.decode(errors="replace")
        while self.text:
            found = TOKEN.match(self.text)
            if found:
                self._sequence(found.group(1), found.group(2))
                self.text = self.text[found.end():]
            elif self.text[0] == "\x1b" and len(self.text) < 16:
                break  # the rest of it is still to come
            else:
                self._put(self.text[0])
                self.text = self.text[1:]

    def read(self, timeout=0.1):
        """What came meanwhile; false at the end."""
        if not select.select([self.master], [], [], timeout)[0]:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self._feed(data)
        return bool(data)

    def wait_for(self, condition, what):
        """Reads until condition() holds; one test point, and the screen as comments."""
        end = time.monotonic() + DEADLINE
        while not condition() and time.monotonic() < end:
            if self.process.poll() is not None:
                self.read(0)
                break
            self.read()
        ok(condition(), what, self.show())
        comment(f"{what}; the user sees:\n" + self.show())

    def has(self, *parts):
        return lambda: all(any(part in row for row in self.rows) for part in parts)

    def show(self):
        return "\n".join("| " + row for row in self.rows if row)

    def end(self, code, what):
        """Waits for the end of the program; the terminal must be as before."""
        end = time.monotonic() + DEADLINE
        while self.process.poll() is None and time.monotonic() < end:
            self.read()
        while select.select([self.master], [], [], 0)[0]:
            self.read(0)
        ok(self.process.poll() == code, f"{what}: exit code {code}",
           self.process.poll())
        self.check_restored(what)
        os.close(self.master)
        os.close(self.slave)

    def check_restored(self, what):
        ok(termios.tcgetattr(self.slave) == self.before and not self.alternate and
           self.cursor_shown, f"{what}: the terminal is as before",
           f"alternate {self.alternate}, cursor {self.cursor_shown}")
