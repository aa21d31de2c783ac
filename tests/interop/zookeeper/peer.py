# SPDX-License-Identifier: MIT
"""kazoo's side of a pair: peer.py HOSTS SESSION_MS. Understands the lines of ../peer.c
that say take, drop and loop, with the kinds mutex, read, write and permits:1:LIMIT. The
token of a hold is the czxid of its node, or 0 for permits."""
import os
import sys
import time

import kazoo.version
from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

HEAD, SEATS = 42, 16
CLIENT = KazooClient(hosts=sys.argv[1], timeout=int(sys.argv[2]) / 1000)
LOCKS = {}


def lock_of(kind, name):
    key = (kind, name)
    if key not in LOCKS:
        word, *numbers = kind.split(":")
        if word == "permits":
            LOCKS[key] = CLIENT.Semaphore("/" + name, max_leases=int(numbers[1]))
        else:
            make = {"read": CLIENT.ReadLock, "write": CLIENT.WriteLock}
            LOCKS[key] = make.get(word, CLIENT.Lock)("/" + name)
    return LOCKS[key]


def take(kind, name, wait_ms):
    lock = lock_of(kind, name)
    try:
        if wait_ms == 0:
            held = lock.acquire(blocking=False)
        else:
            held = lock.acquire(timeout=wait_ms / 1000 if wait_ms > 0 else None)
    except LockTimeout:
        held = False
    if not held:
        return "busy" if wait_ms == 0 else "timeout"
    if kind.startswith("permits"):
        return "held 0"
    return f"held {CLIENT.exists(lock.path + '/' + lock.node).czxid}"


def drop(kind, name):
    return "dropped" if lock_of(kind, name).release() else "lost"


class Table:
    """The witness of ../table.h."""

    def __init__(self, kind, path, seat):
        word, *numbers = kind.split(":")
        self.weight = 1 if word in ("read", "permits") else 9
        self.room = int(numbers[1]) if numbers else 9
        self.seat = HEAD + seat
        self.file = os.open(path, os.O_RDWR)
        self.wrong = 0

    def look(self):
        seats = os.pread(self.file, SEATS, HEAD)
        self.wrong += sum(digit - 48 for digit in seats) > self.room

    def sit(self, token):
        os.pwrite(self.file, b"%d" % self.weight, self.seat)
        self.look()
        if self.weight < self.room:
            return
        count, last = (int(word) for word in os.pread(self.file, HEAD, 0).split())
        self.wrong += 0 < token <= last
        os.pwrite(self.file, b"%020d %020d\n" % (count + 1, token or last), 0)

    def rise(self):
        self.look()
        os.pwrite(self.file, b"0", self.seat)


def loop(kind, name, ms, path, seat):
    table = Table(kind, path, int(seat))
    end = time.monotonic() + int(ms) / 1000
    rounds = 0
    while time.monotonic() < end:
        answer = take(kind, name, 60000)
        if not answer.startswith("held"):
            return answer
        table.sit(int(answer.split()[1]))
        if kind.startswith("permits"):
            time.sleep(0.003)  # pause: so that one too many would be met
        table.rise()
        rounds += 1
        if drop(kind, name) != "dropped":
            return "lost"
        if kind == "read":
            time.sleep(0.001)  # pause: as the readers of the other side
    return f"done {rounds} {table.wrong}"


def obey(word):
    if word[0] == "take":
        return take(word[1], word[2], int(word[3]))
    if word[0] == "drop":
        return drop(word[1], word[2])
    if word[0] == "loop":
        return loop(*word[1:])
    return "what?"


def main():
    CLIENT.start(timeout=20)
    print("ready kazoo", kazoo.version.__version__, flush=True)
    for line in sys.stdin:
        try:
            answer = obey(line.split())
        except Exception as error:  # pylint: disable=broad-except
            answer = f"error {error!r}".replace("\n", " ")
        print(answer, flush=True)
    CLIENT.stop()


main()
