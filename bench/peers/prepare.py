#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""prepare.py DIRECTORY: fetches and builds what the bench needs to measure other lock
libraries beside holdfast, and writes DIRECTORY/commands (those for Redis) and
DIRECTORY/commands.zookeeper for bench --peers DIRECTORY.

Needs npm, Maven, a JDK and a python3 that has redis-py; for ZooKeeper Debian's jars of
Curator, a python3 that has kazoo, and the headers of libzookeeper_mt. A library whose
tools are not there is left out, and said so. What was fetched stays, and is not fetched
again.
"""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
POM = os.path.join(HERE, "..", "..", "tests", "interop", "redis", "pom.xml")
MAVEN_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
REDISSON = "4.7.0"
JARS = "/usr/share/java"


class Missing(Exception):
    """Something is not installed, or cannot be fetched."""


def run(command, directory=None, env=None):
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise Missing(f"{command[0]} is not installed") from error
    if done.returncode != 0:
        raise Missing(f"{command[0]}: {(done.stdout + done.stderr)[-500:]}")


def once(directory, make):
    """Makes `directory` whole or not at all."""
    if not os.path.isdir(directory):
        half = directory + ".half"
        shutil.rmtree(half, ignore_errors=True)
        os.makedirs(half)
        make(half)
        os.rename(half, directory)
    return directory


def python(module, driver):
    for path in [sys.executable, "/usr/bin/python3"]:
        try:
            run([path, "-c", f"import {module}"])
            return [path, os.path.join(HERE, driver)]
        except Missing:
            pass
    raise Missing(f"no python3 has {module}")


def node(cache, library):
    def make(directory):
        shutil.copy(os.path.join(HERE, "package.json"), directory)
        quiet = ["--no-audit", "--no-fund", "--no-package-lock"]
        run(["npm", "install", *quiet], directory)

    directory = once(os.path.join(cache, "node"), make)
    shutil.copy(os.path.join(HERE, "peer.js"), directory)
    return ["node", os.path.join(directory, "peer.js"), library]


def redisson(cache):
    def make(directory):
        run(
            ["mvn", "-q", "-B", "-f", POM, MAVEN_GOAL, "-DincludeScope=runtime"]
            + [f"-Dredisson.version={REDISSON}", f"-DoutputDirectory={directory}/lib"]
        )

    root = once(os.path.join(cache, f"redisson-{REDISSON}"), make)
    path = f"{root}/classes:{root}/lib/*"
    source = os.path.join(HERE, "Peer.java")
    run(["javac", "-nowarn", "-cp", path, "-d", f"{root}/classes", source])
    return ["java", "-Xmx128m", "-Dslf4j.internal.verbosity=ERROR", "-cp", path, "Peer"]


def curator(cache):
    names = ["curator-recipes", "curator-framework", "curator-client", "guava"]
    names += ["zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-simple"]
    jars = [f"{JARS}/{name}.jar" for name in names]
    for jar in jars:
        if not os.path.exists(jar):
            raise Missing(f"{jar} is not there")
    classes = os.path.join(cache, "curator")
    path = ":".join([classes, *jars])
    source = os.path.join(HERE, "PeerCurator.java")
    run(["javac", "-nowarn", "-Xlint:none", "-cp", path, "-d", classes, source])
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return ["java", "-Xmx256m", "-Xss256k", quiet, "-cp", path, "PeerCurator"]


def libzookeeper(cache):
    program = os.path.join(cache, "peer_zookeeper")
    source = os.path.join(HERE, "peer_zookeeper.c")
    run(["cc", "-O2", "-o", program, source, "-lzookeeper_mt", "-pthread"])
    return [program]


PEERS = {
    "commands": {
        "redis-py": lambda _: python("redis", "peer.py"),
        "node-redlock": lambda cache: node(cache, "redlock"),
        "redis-semaphore": lambda cache: node(cache, "redis-semaphore"),
        "redisson": redisson,
    },
    "commands.zookeeper": {
        "libzookeeper_mt": libzookeeper,
        "curator": curator,
        "kazoo": lambda _: python("kazoo", "peer_kazoo.py"),
    },
}


def prepare(cache, peers):
    lines = []
    for name, make in peers.items():
        try:
            lines.append("\t".join([name, *make(cache)]) + "\n")
        except Missing as missing:
            print(f"bench: {name} is left out: {missing}", file=sys.stderr)
    return lines


def main():
    cache = os.path.abspath(sys.argv[1])
    os.makedirs(cache, exist_ok=True)
    for file, peers in PEERS.items():
        lines = prepare(cache, peers)
        with open(os.path.join(cache, file), "w", encoding="utf-8") as out:
            out.writelines(lines)


main()
