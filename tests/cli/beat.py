# SPDX-License-Identifier: MIT
"""A command that writes down when it runs, and the test that two of them never meet."""

import contextlib
import os
import signal
import sys
import tempfile
import time

from cli import DEADLINE, holdfast, start, state, wait_for
from tap import comment, ok

# Writes "who time" every 5 ms, on the one clock of this host, until it is killed or
# its time is over. It does not care for TERM: that is what KILL is for.
PROGRAM = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
now = lambda: time.clock_gettime(time.CLOCK_BOOTTIME)
end = now() + float(sys.argv[3])
while now() < end:
    os.write(log, f"{sys.argv[2]} {now():.6f}\\n".encode())
    time.sleep(0.005)  # pause: the beat itself
"""


def now():
    """The clock of the beats."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Log:
    """A file in which commands leave their beats."""

    def __init__(self, path):
        self.path = path

    def command(self, who, seconds):
        return [sys.executable, "-c", PROGRAM, self.path, who, str(seconds)]

    def beats(self, who):
        try:
            with open(self.path, encoding="utf-8") as log:
                lines = [line.split() for line in log if line.endswith("\n")]
        except OSError:
            return []
        return [float(line[1]) for line in lines if line[0] == who]

    def await_beats(self, who):
        wait_for(lambda: len(self.beats(who)) > 3, f"{who} at work")


@contextlib.contextmanager
def log():
    with tempfile.TemporaryDirectory(prefix="holdfast-cli.") as directory:
        yield Log(os.path.join(directory, "log"))


def in_line(place, process):
    """Waits until it is among those that wait, or hold."""
    wait_for(lambda: f'"pid":{process.pid},' in
             holdfast("ls", "--json", url=place.url).stdout.replace(" ", ""),
             "the second one in line")


def succession(beats, what):
    """A has ended before B began."""
    a, b = beats.beats("A"), beats.beats("B")
    if not ok(len(a) > 3 and len(b) > 3, f"{what}: both have run", (len(a), len(b))):
        return
    comment(f"{what}: A until {a[-1]:.3f} ({len(a)} beats), B from {b[0]:.3f} "
            f"({len(b)} beats): {(b[0] - a[-1]) * 1000:.0f} ms between")
    ok(a[-1] < b[0], f"{what}: the two never run together", (a[-1], b[0]))


def never_together(place):
    """holdfast is stopped beyond its lease of 2 s while the next one waits."""
    with log() as beats:
        first = start("run", "--ttl", "2s", "x", "--", *beats.command("A", 120),
                      url=place.url)
        beats.await_beats("A")
        second = start("run", "x", "--", *beats.command("B", 0.5), url=place.url)
        in_line(place, second)
        first.send_signal(signal.SIGSTOP)
        code = second.wait(DEADLINE)
        ok(state(first.pid) == "T", "the first holdfast is still stopped")
        first.send_signal(signal.SIGCONT)
        message = first.communicate(timeout=DEADLINE)[1]
        comment(message + second.communicate()[1])
        succession(beats, "stopped")
        ok(code == 0, "the second one ran to its end", code)
        ok(first.returncode == 78 and "could not be renewed in time" in message,
           "the first one: exit 78", (first.returncode, message))
