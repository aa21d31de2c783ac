#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the picture of `holdfast top` in README.md.

usage: screenshot.py COMMAND OUTPUT.svg

COMMAND is the built `holdfast`. A few real locks are held and waited for; `holdfast top`
shows them on a pseudo terminal, and its screen is written as SVG. All of that happens in
namespaces of its own (unshare(1)), where the host is called db3 and the locks are in
/srv/locks, so that the picture has no names of the machine that made it.
"""

import fcntl
import html
import os
import pathlib
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

ROWS, COLUMNS = 13, 106
CHAR, LINE, MARGIN = 8.43, 19, 14
INSIDE = "hostname db3 && mount -t tmpfs none /srv && mkdir -m 700 /srv/locks"

# (arguments of `holdfast run`, name of the command)
SCENE = [
    (["jobs/nightly", "--note", "all of /srv"], "backup.sh"),
    (["--permits", "2/4", "licences/cad"], "render"),
    (["--permits", "1/4", "licences/cad"], "render"),
    (["--shared", "config/site"], "serve"),
    (["--shared", "config/site"], "serve"),
    (["deploy/web"], "deploy.sh"),
    (["--fair", "reports/daily"], "report"),
]
WAITING = [
    (["jobs/nightly"], "backup.sh"),
    (["jobs/nightly"], "backup.sh"),
    (["--permits", "2/4", "licences/cad"], "render"),
    (["deploy/web"], "deploy.sh"),
]


class Screen:
    """As much of a terminal as `top` uses."""

    def __init__(self):
        self.cells = [[(" ", "")] * COLUMNS for _ in range(ROWS)]
        self.row = self.column = 0
        self.style = ""

    def erase(self, row, column):
        for at in range(column, COLUMNS):
            self.cells[row][at] = (" ", "")

    def control(self, given, letter):
        if letter == "m":
            self.style = {"0": "", "": ""}.get(given, given)
        elif letter == "H":
            self.row = int((given or "1").split(";")[0]) - 1
            self.column = 0
        elif letter == "K":
            self.erase(self.row, self.column)
        elif letter == "J":
            self.erase(self.row, self.column)
            for row in range(self.row + 1, ROWS):
                self.erase(row, 0)

    def put(self, c):
        if c == "\r":
            self.column = 0
        elif c == "\n":
            self.row = min(self.row + 1, ROWS - 1)
        elif self.column < COLUMNS:
            self.cells[self.row][self.column] = (c, self.style)
            self.column += 1

    def feed(self, text):
        at = 0
        while at < len(text):
            found = re.compile(r"\x1b\[([?0-9;]*)([a-zA-Z])").match(text, at)
            if found:
                self.control(*found.groups())
                at = found.end()
            else:
                self.put(text[at])
                at += 1


def start(command, directory, arguments, program):
    """`holdfast run` of a program that only waits."""
    path = directory / program
    if not path.exists():
        path.write_text("#!/bin/sh\nexec sleep 600\n", encoding="utf-8")
        path.chmod(0o755)
    return subprocess.Popen([command, "run", *arguments, "--", str(path)],
                            stderr=subprocess.DEVNULL, start_new_session=True)


def screen_of(command):
    """What `top` shows after a while."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm-256color", LC_ALL="C.UTF-8")
        time.sleep(0.2)    # until the size below is set
        os.execv(command, [command, "top"])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", ROWS, COLUMNS, 0, 0))
    read, end = b"", time.monotonic() + 2.6
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            read += os.read(terminal, 65536)
    os.write(terminal, b"q")
    os.waitpid(child, 0)
    screen = Screen()
    screen.feed(read.decode())
    return screen


def spans(cells):
    """[(column, text, style)] of a row: runs of one style, without blanks around."""
    found, at = [], 0
    while at < COLUMNS:
        end = at
        while end < COLUMNS and cells[end][1] == cells[at][1]:
            end += 1
        text = "".join(c for c, _ in cells[at:end])
        if text.strip() or "7" in cells[at][1]:
            found.append((at, text, cells[at][1]))
        at = end
    return found


def svg(screen):
    width, height = COLUMNS * CHAR + 2 * MARGIN, ROWS * LINE + 2 * MARGIN
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
           'font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" '
           'font-size="14">',
           "<!-- SPDX-License-Identifier: MIT. Made by tools/screenshot.py -->",
           "<title>holdfast top</title>",
           f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#1b1f24"/>']
    for row, cells in enumerate(screen.cells):
        y = MARGIN + row * LINE
        for column, text, style in spans(cells):
            x, colour = MARGIN + column * CHAR, "#d7dde4"
            if "7" in style:
                out.append(f'<rect x="{x:.1f}" y="{y}" width="{len(text) * CHAR:.1f}" '
                           f'height="{LINE}" fill="#d7dde4"/>')
                colour = "#1b1f24"
            elif "2" in style:
                colour = "#8b949e"
            bold = ' font-weight="bold"' if "1" in style else ""
            text = text.rstrip()
            start_of = len(text) - len(text.lstrip())
            if text.strip():
                out.append(
                    f'<text x="{x + start_of * CHAR:.1f}" y="{y + 14}" fill="{colour}"'
                    f'{bold} textLength="{len(text.strip()) * CHAR:.1f}" '
                    f'xml:space="preserve">{html.escape(text.strip())}</text>')
    return "\n".join(out) + "\n</svg>\n"


def main():
    command, output = os.path.abspath(sys.argv[1]), sys.argv[2]
    if not os.environ.get("SCREENSHOT_INSIDE"):
        os.environ["SCREENSHOT_INSIDE"] = "1"
        os.execvp("unshare", ["unshare", "--uts", "--mount", "--map-root-user", "sh", "-c",
                              INSIDE + ' && exec "$@"', "sh", sys.executable, *sys.argv])
    directory = pathlib.Path("/srv")
    os.environ["HOLDFAST_URL"] = "file:/srv/locks"
    running = []
    try:
        for group in (SCENE, WAITING):
            for arguments, program in group:
                running.append(start(command, directory, arguments, program))
                time.sleep(0.7)
        time.sleep(8)
        screen = screen_of(command)
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait()
    pathlib.Path(output).write_text(svg(screen), encoding="utf-8")
    print("\n".join("".join(c for c, _ in row).rstrip() for row in screen.cells))


if __name__ == "__main__":
    main()
