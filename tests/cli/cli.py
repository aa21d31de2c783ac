# SPDX-License-Identifier: MIT
"""What the tests of the command share: a store, the command, a terminal.

Every wait has a deadline, and waits for a condition, never for time to pass.
"""

import contextlib
import fcntl
import json
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time

COMMAND = os.environ.get("HOLDFAST_COMMAND", "holdfast")
DEADLINE = 30.0  # for anything that should take a moment


def _too_long(*_):
    raise TimeoutError("the whole test takes too long")


signal.signal(signal.SIGALRM, _too_long)
signal.alarm(240)

# What is ignored stays ignored in children (nohup, a job in the background of sh), and a
# shell cannot trap it any more: begin as from a terminal.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _name in ("HUP", "QUIT", "TERM", "USR1", "USR2", "WINCH", "TSTP", "TTIN", "TTOU"):
    signal.signal(getattr(signal, "SIG" + _name), signal.SIG_DFL)


class Store:
    """A private directory and its URL."""

    def __init__(self, path):
        self.dir = path
        self.url = "file://" + path


@contextlib.contextmanager
def store():
    """A store of its own for a test; removed afterwards."""
    path = tempfile.mkdtemp(prefix="holdfast-cli.")
    try:
        yield Store(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def environment(url=None, env=None):
    """The environment of the command: ours, without what would change its answers."""
    result = {key: value for key, value in os.environ.items()
              if not key.startswith("HOLDFAST_") and key != "NO_COLOR"}
    result["PATH"] = ":".join([os.path.dirname(COMMAND),
                               result.get("PATH", "/usr/bin:/bin")])
    if url:
        result["HOLDFAST_URL"] = url
    result.update(env or {})
    return result


def holdfast(*words, url=None, env=None, **more):
    """Runs the command to its end; .returncode, .stdout, .stderr (text)."""
    more.setdefault("stdin", subprocess.DEVNULL if "input" not in more else None)
    if more["stdin"] is None:
        del more["stdin"]
    return subprocess.run([COMMAND, *words], env=environment(url, env), check=False,
                          capture_output=True, text=True, errors="replace",
                          timeout=more.pop("timeout", 120), **more)


def start(*words, url=None, env=None, **more):
    """Starts the command; a Popen with pipes for stdout and stderr."""
    more.setdefault("stdin", subprocess.DEVNULL)
    more.setdefault("stdout", subprocess.PIPE)
    more.setdefault("stderr", subprocess.PIPE)
    return subprocess.Popen([COMMAND, *words], env=environment(url, env), text=True,
                            errors="replace", **more)


def wait_for(condition, what="a condition", deadline=DEADLINE):
    """Asks until `condition` answers something true, which is returned."""
    end = time.monotonic() + deadline
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise TimeoutError("waited in vain for " + what)
        time.sleep(0.005)  # pause: between two looks at the condition


def alive(pid):
    """Is it there, and more than a zombie?"""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def state(pid):
    """The letter of its state in /proc: "S", "T", ... or "" if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def children(pid):
    """The children of a process."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                if int(file.read().rpartition(")")[2].split()[1]) == pid:
                    found.append(int(name))
        except OSError:
            pass
    return found


def token_of(place, name):
    """The token of the one that holds it, as text."""
    shown = json.loads(holdfast("show", name, "--json", url=place.url).stdout)
    return str(shown["locks"][0]["holders"][0]["token"])


class Holder:
    """Holds a lock with `holdfast run`, as a program called backup.sh, until the end of
    the with block."""

    def __init__(self, place, name, *options):
        self.scripts = tempfile.mkdtemp(prefix="holdfast-cli.")
        script = os.path.join(self.scripts, "backup.sh")
        with open(script, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho held\nread end\n")
        os.chmod(script, 0o755)
        self.process = start("run", *options, name, "--", script, url=place.url,
                             stdin=subprocess.PIPE)
        self.pid = self.process.pid
        if self.process.stdout.readline() != "held\n":
            raise RuntimeError("no lock: " + self.process.communicate()[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate("\n", timeout=DEADLINE)
        shutil.rmtree(self.scripts, ignore_errors=True)


class Terminal:
    """A command on a terminal of its own: a pty, as a user has it.

    .seen is all that came to the screen. Without `program` the words are those of
    holdfast.
    """

    def __init__(self, *words, url=None, env=None, program=COMMAND, size=(24, 80)):
        self.seen = ""
        self.status = None
        where = environment(url, {"TERM": "xterm", **(env or {})})
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.execvpe(program, [program, *words], where)
            finally:
                os._exit(127)
        self.resize(*size)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGHUP)
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)

    def resize(self, rows, columns):
        """Another size; who runs there is told (SIGWINCH)."""
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ,
                    struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, text):
        """Types. "\\x03" is Ctrl-C, "\\x1a" Ctrl-Z."""
        os.write(self.fd, text.encode())

    def read(self, seconds):
        """Reads what comes within that time; False at the end."""
        if not select.select([self.fd], [], [], max(seconds, 0))[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # EIO: the other end is closed
            return False
        self.seen += data.decode("utf-8", "replace")
        return bool(data)

    def until(self, text, deadline=DEADLINE, after=0):
        """Reads until `text` is on the screen (from .seen[after:]); where it ends."""
        end = time.monotonic() + deadline
        while text not in self.seen[after:]:
            if time.monotonic() > end:
                raise TimeoutError(f"{text!r} did not appear: {self.seen[after:]!r}")
            if not self.read(0.05) and text not in self.seen[after:]:
                raise EOFError(f"{text!r} did not appear: {self.seen[after:]!r}")
        return self.seen.index(text, after) + len(text)

    def until_exit(self, deadline=DEADLINE):
        """Reads to the end; .status is the exit code, or minus the signal. .seen."""
        end = time.monotonic() + deadline
        while self.read(0.05):
            if time.monotonic() > end:
                raise TimeoutError(f"it does not end: {self.seen!r}")
            if os.waitid(os.P_PID, self.pid,
                         os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                while select.select([self.fd], [], [], 0)[0] and self.read(0):
                    pass
                break
        _, status = os.waitpid(self.pid, 0)
        self.status = os.waitstatus_to_exitcode(status)
        return self.seen
