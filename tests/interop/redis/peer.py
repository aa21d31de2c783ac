#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""redis-py's side of a pair: peer.py PORT.

Understands take, drop, state, loop and contest of ../peer.c for the kind mutex: a
redis.lock.Lock, which is what layout=simple shares.
"""
import os
import sys
import time

import redis

HEAD, SEATS = 42, 16
CONTEST_HOLD = 0.0005
held = {}


class Table:
    """The witness of ../table.h, for those who are alone."""

    def __init__(self, path, seat):
        self.file = os.open(path, os.O_RDWR)
        self.seat = seat
        self.wrong = 0

    def check(self):
        seats = os.pread(self.file, SEATS, HEAD)
        self.wrong += sum(digit - ord("0") for digit in seats) > 9

    def sit(self):
        os.pwrite(self.file, b"9", HEAD + self.seat)
        self.check()
        count, last = os.pread(self.file, HEAD, 0).split()
        head = b"%020d %020d\n" % (int(count) + 1, int(last))
        os.pwrite(self.file, head, 0)

    def rise(self):
        self.check()
        os.pwrite(self.file, b"0", HEAD + self.seat)


def take(server, name, wait_ms, ttl_ms, **how):
    lock = server.lock(name, timeout=(ttl_ms or 30000) / 1000, **how or {"sleep": 0.01})
    wait = None if wait_ms < 0 else wait_ms / 1000
    if not lock.acquire(blocking=wait_ms != 0, blocking_timeout=wait or None):
        return "busy" if wait_ms == 0 else "timeout"
    held[name] = lock
    return "held 0"


def drop(name):
    try:
        held.pop(name).release()
    except redis.exceptions.LockError:
        return "lost"
    return "dropped"


def loop(server, name, milliseconds, path, seat, contest):
    how = {"thread_local": True} if contest else {}  # and all else by default
    longest = 0.0
    end = time.monotonic() + milliseconds / 1000
    table = Table(path, seat)
    rounds = 0
    while time.monotonic() < end:
        since = time.monotonic()
        answer = take(server, name, 60000, 30000, **how)
        if answer != "held 0":
            return answer
        longest = max(longest, time.monotonic() - since)
        table.sit()
        if contest:
            time.sleep(CONTEST_HOLD)  # pause: what is done under the lock
        table.rise()
        rounds += 1
        answer = drop(name)
        if answer != "dropped":
            return answer
    return f"done {rounds} {table.wrong} {longest * 1000:.0f}"


def obey(server, word):
    if word[0] == "take":
        return take(server, word[2], int(word[3]), int(word[4]))
    if word[0] == "drop":
        return drop(word[2])
    if word[0] == "state":
        return "held" if word[2] in held and held[word[2]].owned() else "lost"
    if word[0] in ("loop", "contest"):
        contest = word[0] == "contest"
        return loop(server, word[2], int(word[3]), word[4], int(word[5]), contest)
    return "what?"


def main():
    server = redis.Redis(host="127.0.0.1", port=int(sys.argv[1]))
    print("ready redis-py", redis.__version__, flush=True)
    for line in sys.stdin:
        try:
            print(obey(server, line.split()), flush=True)
        except redis.exceptions.RedisError as error:
            print("error", error, flush=True)


main()
