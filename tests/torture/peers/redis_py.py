#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""redis-py's Lock behind a pipe: redis_py.py redis://HOST:PORT/ TTL_MS.

Lines as driver_peer.c tells. The lock is used as its documentation shows: `timeout` is
the lease, `owned()` asks the server, `release()` says so if the lock was lost. Waiting
polls ten times a second, which is the library's default. Its socket timeouts are off by
default; here they are on, because a cut connection would otherwise hang for minutes.
"""
import sys

import redis
from redis.exceptions import LockError, RedisError

SOCKET_SECONDS = 0.4


class Peer:
    def __init__(self, url):
        self.client = redis.Redis.from_url(url, socket_timeout=SOCKET_SECONDS,
                                           socket_connect_timeout=SOCKET_SECONDS)
        self.lock = None

    def acquire(self, name, timeout_ms, ttl_ms):
        lock = self.client.lock(name, timeout=int(ttl_ms) / 1000)
        try:
            wait = int(timeout_ms) / 1000
            got = (lock.acquire(blocking_timeout=wait) if wait
                   else lock.acquire(blocking=False))
        except RedisError as error:
            return f"unknown {error}"
        if not got:
            return "timeout" if wait else "busy"
        self.lock = lock
        return "ok"

    def release(self):
        lock, self.lock = self.lock, None
        if not lock:
            return "late"
        try:
            lock.release()
            return "ok"
        except LockError:
            return "late"
        except RedisError as error:
            return f"unknown {error}"

    def held(self):
        if not self.lock:
            return "no"
        try:
            return "yes" if self.lock.owned() else "no"
        except RedisError:
            return "yes"  # nobody told it otherwise


def main():
    peer = Peer(sys.argv[1])
    for line in sys.stdin:
        verb, *words = line.split()
        print(getattr(peer, verb)(*words), flush=True)


main()
