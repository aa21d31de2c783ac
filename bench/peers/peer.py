#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""redis-py at work: peer.py PORT.

Says "ready". For each line `NAME MS` it takes and releases that lock for so long and
answers with how often, and its longest wait in microseconds.
"""
import sys
import time

import redis


def work(client, name, seconds):
    lock = client.lock(name, timeout=30)
    count, longest = 0, 0.0
    now = time.monotonic()
    end = now + seconds
    while now < end:
        lock.acquire()
        longest = max(longest, time.monotonic() - now)
        lock.release()
        count += 1
        now = time.monotonic()
    return count, longest


def main():
    client = redis.Redis(port=int(sys.argv[1]))
    client.ping()
    print("ready", flush=True)
    for line in sys.stdin:
        name, ms = line.split()
        count, longest = work(client, name, int(ms) / 1000)
        print(count, round(longest * 1e6), flush=True)


main()
