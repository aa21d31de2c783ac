# SPDX-License-Identifier: MIT
"""What a campaign wants of a store."""

import subprocess

PULSE_PATIENCE = 1  # seconds for an answer to pulse.py


class Store:
    name = None
    kinds = ["mutex", "fair", "rw", "permits", "reentrant"]
    locks = 2  # of each kind
    moves = ["extend", "downgrade", "adopt", "leave", "evict"]  # what it can do
    port = None  # of its server, which workers reach by addresses of their own
    disk_mb = 64  # size of the private file system under `directory`/disk
    extra = []  # further arguments of every worker
    derived = []  # names like its own keys, files or nodes, that it accepts
    unwrapped = []  # kinds whose names may not be `{x}`

    def __init__(self, directory, build, random):
        self.directory = directory  # histories
        self.disk = directory + "/disk"  # a file system of its own
        self.build = build
        self.random = random

    def start(self):
        """Begins the servers, if there are any, and waits until they answer."""

    def stop(self):
        pass

    def specs(self):
        """How its workers are to be started: a list of workers.Spec."""
        raise NotImplementedError

    def connect(self):
        """A connection for pulse.py, past all that is broken between workers and the
        server; for stores that have one."""
        raise NotImplementedError

    def residue(self):
        """After the end: [(what, how many)] that should not be there any more."""
        return []

    def url(self):
        """As somebody who comes later knows it; None if nobody can."""
        return None


class Proxy:
    """tests/harness/tcp_proxy.c as a program: see proxy.c."""

    def __init__(self, program, server):
        self.process = subprocess.Popen([program, server], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def stop(self):
        self.process.stdin.close()
        self.process.wait()
