# SPDX-License-Identifier: MIT
"""file: a directory on a file system of its own, which can be filled up."""

import json
import os
import subprocess

from workers import Spec

from .base import Store


class File(Store):
    name = "file"
    disk_mb = 16
    layout = ""

    def start(self):
        os.mkdir(self.place(), 0o700)

    def place(self):
        return os.path.join(self.disk, "locks")

    def home(self):
        """Where the store keeps its files: a directory of its own in the place."""
        return os.path.join(self.place(), ".holdfast")

    def url(self):
        return f"file:{self.place()}{self.layout}"

    def specs(self):
        url = self.url()
        return [
            Spec(url, threads=3, share=3, ttl=500),
            Spec(url, threads=3, share=0, ttl=0),
            Spec(url, threads=3, share=2, ttl=900, clock=True),
            Spec(url, threads=2, share=2, ttl=0),
            Spec("fault+" + url, threads=3, share=2, ttl=400, shim=True),
            Spec("fault+" + url, threads=2, share=0, ttl=700, shim=True, clock=True),
        ]

    def residue(self):
        """Holders and waiters that a fresh client sees, and files that should have
        gone with the process that made them."""
        command = [os.path.join(self.build, "cli", "holdfast"), "ls", "--json"]
        done = subprocess.run(command, capture_output=True, text=True,
                              env=dict(os.environ, HOLDFAST_URL=self.url()))
        if done.returncode != 0:
            return [(f"holdfast ls: {done.stderr.strip()}", 1)]
        entries = json.loads(done.stdout)["locks"]
        left = [name for name in os.listdir(self.home())
                if name not in ("state", "live", "token")]
        return [("entries", len(entries))] * bool(entries) + [
            (f"file {name}", 1) for name in left]


class Flock(File):
    """The same directory with a plain lock file per name: no leases, no queue."""

    name = "flock"
    kinds = ["mutex", "rw", "reentrant"]
    moves = []
    layout = "?layout=flock"

    def specs(self):
        url = self.url()
        return [
            Spec(url, threads=3, share=3, ttl=0),
            Spec(url, threads=3, share=0, ttl=0),
            Spec(url, threads=3, share=2, ttl=0, clock=True),
            Spec(url, threads=2, share=2, ttl=0),
            Spec("fault+" + url, threads=3, share=2, ttl=0, shim=True),
            Spec("fault+" + url, threads=2, share=0, ttl=0, shim=True, clock=True),
        ]

    def residue(self):
        """Lock files stay; nobody may hold one."""
        found = []
        for name in os.listdir(self.place()):
            path = os.path.join(self.place(), name)
            taken = subprocess.run(["flock", "-n", path, "true"]).returncode
            if taken != 0:
                found.append((f"held: {name}", 1))
        return found
