# SPDX-License-Identifier: MIT
"""A private ZooKeeper server, and what can be seen of it from outside."""
import os
import shutil
import socket
import subprocess
import tempfile

from actors import until

JARS = "/usr/share/java"
CONFIG = """\
tickTime=200
dataDir={dir}/data
clientPort={port}
clientPortAddress=127.0.0.1
minSessionTimeout=1000
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=*
"""


class Server:
    def __init__(self):
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.dir = tempfile.mkdtemp(prefix="holdfast-interop-", dir=base)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        config = os.path.join(self.dir, "zoo.cfg")
        with open(config, "w", encoding="ascii") as file:
            file.write(CONFIG.format(dir=self.dir, port=self.port))
        self.log = open(os.path.join(self.dir, "log"), "w+", encoding="utf-8")
        self.child = subprocess.Popen(
            ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
            + ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
            + ["-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=1024"]
            + ["-Dznode.container.checkIntervalMs=1000"]
            + ["-cp", f"{JARS}/zookeeper.jar:{JARS}/slf4j-simple.jar"]
            + ["org.apache.zookeeper.server.quorum.QuorumPeerMain", config],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
        )
        until(lambda: "Mode:" in self.word("srvr"), 30, "the server to serve")

    def word(self, word):
        """What it answers to a four-letter word; nothing if it does not."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 5) as link:
                link.sendall(word.encode())
                with link.makefile("rb") as stream:
                    return stream.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def nodes(self, name):
        """The ephemeral nodes in a lock's folder, at any depth, and in the one that
        kazoo's semaphores have beside it."""
        folders = (f"/{name}/", f"/{name}-__lock__/")
        lines = [line.strip() for line in self.word("dump").splitlines()]
        return [line for line in lines if line.startswith(folders)]

    def watched(self, name):
        """Whether somebody watches a node in there."""
        lines = self.word("wchp").splitlines()
        return any(line.startswith(f"/{name}/") for line in lines)

    def ephemerals(self):
        lines = [line.strip() for line in self.word("dump").splitlines()]
        return [line for line in lines if line.startswith("/")]

    def version(self):
        return self.word("srvr").split("version:")[1].split("-")[0].strip()

    def stop(self):
        self.child.terminate()
        try:
            self.child.wait(5)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)
