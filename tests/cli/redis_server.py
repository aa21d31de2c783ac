# SPDX-License-Identifier: MIT
"""A private redis-server for a test: a unix socket in a directory of its own."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile

from cli import wait_for

PROGRAM = os.environ.get("REDIS_SERVER") or shutil.which("redis-server")


class Server:
    """.url is what holdfast is given, .dir what is removed in the end."""

    def __init__(self, directory, *options):
        self.dir = directory
        self.socket = os.path.join(directory, "socket")
        self.url = "redis+unix://" + self.socket
        self.options = options
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [PROGRAM, "--port", "0", "--unixsocket", self.socket, "--dir", self.dir,
             "--save", "", "--appendonly", "no", *self.options],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        wait_for(self.answers, "redis-server")

    def answers(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"redis-server ended with {self.process.returncode}")
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(5)
            peer.connect(self.socket)
            peer.sendall(b"PING\r\n")
            return peer.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        return False

    def kill(self):
        """As a crash would."""
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def redis(*options):
    """A server for the time of a with block; None where it is not installed."""
    if not PROGRAM:
        yield None
        return
    directory = tempfile.mkdtemp(prefix="holdfast-cli.")
    server = None
    try:
        server = Server(directory, *options)
        yield server
    finally:
        if server:
            server.kill()
        shutil.rmtree(directory, ignore_errors=True)
