# SPDX-License-Identifier: MIT
"""Who takes part in evidence.py: a lock, the store it lives in, and how it is run.

Stores are those of the campaigns where there is one, reduced to what everybody has: six
workers of one thread, each with a client and an address of the server of its own, six
mutexes, one lease.
"""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

from stores.base import Store
from stores.file import File
from stores.redis import Redis
from workers import Spec

HERE = os.path.dirname(os.path.abspath(__file__))
JARS = "/usr/share/java/"
CURATOR = ["curator-recipes", "curator-framework", "curator-client", "zookeeper",
           "guava", "slf4j-nop"]
JAVA = ["java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData", "-Xshare:auto"]
WORKERS = 6
START_SECONDS = 60
LOOK_SECONDS = 0.05


class Missing(Exception):
    """What a contender needs is not installed."""


# ---- Stores


class Reduced:
    """What all stores here have in common; goes before the store's own class."""

    kinds = ["mutex"]
    locks = 6
    lease = 2000  # ms
    peer = False  # a peer's locks, not ours: nobody sweeps them at the end
    url_form = None  # as a worker is told, with its {address}

    def specs(self):
        addresses = [f"127.0.0.{10 + slot}" for slot in range(WORKERS)]
        return [Spec(self.url_form.format(address=address, lease=self.lease),
                     threads=1, ttl=self.lease, address=address)
                for address in addresses]

    def url(self):
        return None if self.peer else super().url()

    def left(self):
        """Names of what is in the store and belongs to locks."""
        raise NotImplementedError

    def residue(self):
        """What killed workers left goes with its lease, or a little later."""
        deadline = time.monotonic() + 3 * self.lease / 1000
        while self.left() and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)  # pause: leases end by themselves
        return [(name, 1) for name in self.left()]


class Served:
    """A server that is one process: started, stopped, frozen."""

    def start(self):
        self.launch()
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server of {self.name} does not come up")
            time.sleep(LOOK_SECONDS)  # pause: a server tells nobody that it is up

    def run(self, *command):
        with open(os.path.join(self.directory, "server.log"), "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)

    def stop(self):
        self.process.kill()
        self.process.wait()

    freeze = Redis.freeze


class RedisHere(Reduced, Served, Redis):
    url_form = ("redis://{address}:6379/?layout=redisson&timeout=400ms"
                "&connect_timeout=400ms")

    def left(self):
        return [f"key {key}" for key in self.command("KEYS", "*") or []
                if not key.startswith("redisson_lock_token:")]


class FileHere(Reduced, File):
    residue = File.residue

    def specs(self):
        return [Spec(self.url(), threads=1, ttl=self.lease) for _ in range(WORKERS)]


class Etcd(Reduced, Served, Store):
    port = 2379
    disk_mb = 512
    url_form = "{address}:2379"

    def launch(self):
        self.run("etcd", "--data-dir", os.path.join(self.disk, "etcd"),
                 "--listen-client-urls", "http://0.0.0.0:2379",
                 "--advertise-client-urls", "http://127.0.0.1:2379",
                 "--listen-peer-urls", "http://127.0.0.1:2380",
                 "--logger", "zap", "--log-level", "warn")

    def answers(self):
        try:
            with urllib.request.urlopen("http://127.0.0.1:2379/health", timeout=1):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def left(self):
        command = ["etcdctl", "get", "", "--prefix", "--keys-only"]
        done = subprocess.run(command, capture_output=True, text=True,
                              env=dict(os.environ, ETCDCTL_API="3"))
        return [f"key {line}" for line in done.stdout.split()]


class ZooKeeper(Reduced, Served, Store):
    port = 2181
    disk_mb = 512
    url_form = ("zookeeper://{address}:2181/torture?session={lease}ms&timeout=400ms"
                "&connect_timeout=400ms")

    def url(self):
        return None if self.peer else "zookeeper://127.0.0.1:2181/torture"

    def launch(self):
        data = os.path.join(self.disk, "zookeeper")
        os.makedirs(data, exist_ok=True)
        config = os.path.join(self.directory, "zoo.cfg")
        with open(config, "w") as file:
            file.write(f"tickTime=200\ndataDir={data}\nclientPort=2181\n"
                       "clientPortAddress=0.0.0.0\nminSessionTimeout=100\n"
                       "maxSessionTimeout=60000\nmaxClientCnxns=0\n"
                       "admin.enableServer=false\n4lw.commands.whitelist=*\n")
        self.run(*JAVA, "-Dzookeeper.preAllocSize=64",
                 "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                 "-cp", f"{JARS}zookeeper.jar:{JARS}slf4j-simple.jar",
                 "org.apache.zookeeper.server.quorum.QuorumPeerMain", config)

    def say(self, word):
        try:
            with socket.create_connection(("127.0.0.1", self.port), 2) as connection:
                connection.settimeout(2)
                connection.sendall(word.encode())
                text = b""
                while part := connection.recv(65536):
                    text += part
            return text.decode()
        except OSError:
            return ""

    def answers(self):
        return self.say("ruok") == "imok" and "not currently" not in self.say("srvr")

    def left(self):
        """Nodes that belong to a session, and so to a hold or a place in a queue.
        Folders stay for a while: the server takes the empty ones away itself."""
        return [f"node {line.strip()}" for line in self.say("dump").splitlines()
                if line.startswith("\t/")]


class ZooKeeperPeer(ZooKeeper):
    url_form = "{address}:2181"
    peer = True


# ---- How the peers are run


def redis_py(_build):
    for python in [sys.executable, "/usr/bin/python3"]:
        found = subprocess.run([python, "-c", "import redis"], capture_output=True)
        if found.returncode == 0:
            return f"{python} {HERE}/redis_py.py"
    raise Missing("no python3 has redis-py (python3-redis)")


def etcdctl(_build):
    needs("etcd", "--version", "etcd-server")
    needs("etcdctl", "version", "etcd-client")
    return f"{sys.executable} {HERE}/etcdctl_lock.py"


def curator(build):
    needs("javac", "-version", "a JDK")
    jars = [f"{JARS}{name}.jar" for name in CURATOR]
    for jar in jars:
        if not os.path.exists(jar):
            raise Missing(f"{jar} (libcurator-recipes-java)")
    classes = os.path.join(build, "peers", "curator")
    path = ":".join(jars)
    subprocess.run(["javac", "-cp", path, "-d", classes,
                    os.path.join(HERE, "CuratorLock.java")], check=True)
    return " ".join(JAVA + ["-cp", f"{classes}:{path}", "CuratorLock"])


def needs(program, argument, package):
    try:
        subprocess.run([program, argument], capture_output=True)
    except FileNotFoundError:
        raise Missing(f"{program} ({package})") from None


# ---- All of them


class Contender:
    """`command`: None for holdfast, else a function of the build directory that gives
    the program behind the pipe. `fenced`: does it hand out a token?"""

    def __init__(self, name, title, base, command=None, fenced=True, peer=False):
        self.name = name
        self.title = title
        self.command = command
        self.fenced = fenced
        more = {"name": name, "peer": peer}
        self.store = type(base.__name__, (base,), more)


class RedisPeer(RedisHere):
    url_form = "redis://{address}:6379/"


ALL = [
    Contender("redis", "holdfast, redis", RedisHere),
    Contender("file", "holdfast, file", FileHere),
    Contender("zookeeper", "holdfast, zookeeper", ZooKeeper),
    Contender("redis-py", "redis-py Lock", RedisPeer, redis_py, False, True),
    Contender("etcdctl", "etcdctl lock", Etcd, etcdctl, True, True),
    Contender("curator", "Curator InterProcessMutex", ZooKeeperPeer, curator, False,
              True),
]
