# SPDX-License-Identifier: MIT
"""A private redis-server: a unix socket in a directory of its own, nothing kept."""

import os
import shutil
import subprocess
import tempfile
import time

import resp


def program():
    return os.environ.get("REDIS_SERVER") or shutil.which("redis-server")


class Server:
    def __init__(self, *options):
        self.directory = tempfile.mkdtemp(prefix="holdfast-redis-")
        self.path = os.path.join(self.directory, "socket")
        command = [program(), "--port", "0", "--unixsocket", self.path, "--save", ""]
        command += ["--appendonly", "no", "--dir", self.directory]
        command += ["--loglevel", "warning"]
        self.process = subprocess.Popen(
            command + list(options), stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )
        try:
            self._await()
        except Exception:
            self.stop()
            raise

    def _await(self):
        deadline = time.monotonic() + 10
        while True:
            try:
                client = resp.Client(self.path)
                client("PING")
                client.close()
                return
            except (OSError, resp.Error):
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)  # pause: the server does not announce that it is up

    def stop(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
