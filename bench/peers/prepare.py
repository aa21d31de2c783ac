#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""prepare.py DIRECTORY: fetches and builds what the bench needs to measure other lock
libraries beside holdfast, and writes DIRECTORY/commands for bench --peers DIRECTORY.

Needs npm, Maven, a JDK and a python3 that has redis-py; a library whose tools are not
there is left out, and said so. What was fetched stays, and is not fetched again.
"""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
POM = os.path.join(HERE, "..", "..", "tests", "interop", "redis", "pom.xml")
MAVEN_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
REDISSON = "4.7.0"


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


def redis_py(_):
    for python in [sys.executable, "/usr/bin/python3"]:
        try:
            run([python, "-c", "import redis"])
            return [python, os.path.join(HERE, "peer.py")]
        except Missing:
            pass
    raise Missing("no python3 has redis-py")


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


PEERS = {
    "redis-py": redis_py,
    "node-redlock": lambda cache: node(cache, "redlock"),
    "redis-semaphore": lambda cache: node(cache, "redis-semaphore"),
    "redisson": redisson,
}


def main():
    cache = os.path.abspath(sys.argv[1])
    os.makedirs(cache, exist_ok=True)
    lines = []
    for name, make in PEERS.items():
        try:
            lines.append("\t".join([name, *make(cache)]) + "\n")
        except Missing as missing:
            print(f"bench: {name} is left out: {missing}", file=sys.stderr)
    with open(os.path.join(cache, "commands"), "w", encoding="utf-8") as out:
        out.writelines(lines)


main()
