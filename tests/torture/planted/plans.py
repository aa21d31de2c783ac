# SPDX-License-Identifier: MIT
"""The table of planted locks: what each is, how it is loaded, what has to catch it."""

from dataclasses import dataclass
from typing import Callable

import schedules as s


@dataclass
class Plan:
    name: str
    wrong: str  # the mistake, in a few words
    catch: str  # the checks that may find it: "K1" or "K3 K4"
    schedule: Callable
    driver: str = ""  # the name, unless it says otherwise
    store: str = "redis"  # redis, redis-three, redis-replica, zookeeper, file, mem
    kind: str = "mutex"
    options: str = ""  # of the URL of the correct lock
    control: str = "holdfast"  # the correct lock on the same schedule
    forgiven: str = ""  # what no lock of that store can keep on this schedule
    ttl: int = 300
    hold: str = "2000-15000"  # us
    think: str = "0-2000"  # us
    long_hold: int = 0  # one hold in so many lasts twice the lease
    timeout: int = 8000  # the long one; more than a stuck run is given
    processes: int = 3
    threads: int = 2
    share: bool = False  # threads share one client
    grace: int = 1000
    point: str = ""  # PLANTED_POINT
    skew_ms: int = 0  # how far the clock of one worker is ahead
    suspect: bool = False  # K7 also by time alone
    moves: str = ""  # what workers do beside taking and releasing: "evict,adopt"
    round_s: float = 3  # faults for so long before the first look

    def __post_init__(self):
        self.driver = self.driver or self.name


PLANS = [
    Plan("setnx-forever", "SETNX without expiry", "K8", s.kills, hold="5000-20000"),
    Plan("setnx-then-expire", "SETNX, then EXPIRE: killed in between", "K8", s.kills,
         point="before-expire:kill:30"),
    Plan("get-then-set", "looks, then takes: two commands", "K1", s.quiet),
    Plan("getset-client-clock", "expiry judged by clients' clocks", "K1", s.quiet,
         skew_ms=1000),
    Plan("del-without-owner", "releases by DEL, whose it may be", "K1", s.pauses),
    Plan("get-then-del", "owner checked, then deleted: two commands", "K1", s.pauses,
         point="before-del:pause:20:400"),
    Plan("lease-never-looked-at", "works on when the lease is over", "K1", s.quiet,
         long_hold=8),
    Plan("validity-from-reply", "validity counted from the reply", "K1", s.late_replies,
         processes=4, threads=1, hold="20000-60000", think="100000-300000"),
    Plan("seconds-for-milliseconds", "1500 ms asked for as EX 1", "K1", s.quiet,
         ttl=1500, hold="900000-1300000", processes=2, threads=1, round_s=4),
    Plan("owner-is-the-process", "reentrant by process id", "K1", s.quiet, threads=3),
    Plan("watchdog-blind", "renews whosever lock it is", "K1", s.pauses,
         threads=1, hold="20000-90000", long_hold=3),
    Plan("watchdog-after-release", "a renewal comes after the release", "K10", s.quiet,
         processes=2, threads=1, hold="60000-110000", think="20000-80000",
         point="before-renewal:pause:2:60"),
    Plan("release-sent-again", "a release is repeated, with the client's id", "K1",
         s.stalls),
    Plan("timeout-leaves-a-lock", "says timeout, has the lock", "K8 K10", s.stalls,
         ttl=4000, grace=100),
    Plan("busy-from-memory", "says busy without asking", "K10", s.quiet, processes=2,
         threads=1, hold="500-3000", think="3000-10000"),
    Plan("token-never-grows", "nothing to fence with", "K4", s.pauses),
    Plan("counter-token", "token counter is lost in a restart", "K3 K4", s.restarts,
         round_s=4),
    Plan("replica-failover", "replica had not heard of the lock", "K1 K3 K4",
         s.failovers, driver="counter-token", store="redis-replica", forgiven="K1",
         hold="50000-150000", round_s=5),
    Plan("redlock-restarted-member", "members come back empty at once", "K1",
         s.member_restarts, store="redis-three", control="redlock",
         forgiven="K10", ttl=600,
         hold="150000-400000", threads=1, round_s=6),
    Plan("semaphore-leak", "permits of the dead are gone", "K8", s.kills,
         kind="permits"),
    Plan("semaphore-expiring-counter", "the counter expires, not the permits", "K1",
         s.quiet, kind="permits", long_hold=4, ttl=200, hold="5000-50000",
         think="0-50000"),
    Plan("semaphore-look-then-take", "looks, then counts: two commands", "K1", s.quiet,
         kind="permits"),
    Plan("rw-two-counters", "reader and writer look past each other", "K1", s.quiet,
         kind="rw"),
    Plan("fair-queue-of-the-dead", "a dead waiter keeps its place", "K8", s.kills,
         kind="fair"),
    Plan("pidfile", "two remove the file of a dead process", "K1", s.kills,
         store="file", point="before-unlink:pause:2:30", ttl=0),
    Plan("flock-and-unlink", "the lock file is removed at the end", "K1", s.quiet,
         store="file", options="?layout=flock", ttl=0),
    Plan("zookeeper-create-repeated", "a create is repeated without a look", "K8",
         s.cuts, store="zookeeper", control="zookeeper-looks-first", ttl=1000),
    Plan("zookeeper-expiry-unheard", "goes on when its session is over", "K1",
         s.pauses, store="zookeeper", ttl=800),
    Plan("evict-whoever", "evicts whose turn it is by now", "K12", s.quiet,
         moves="evict", hold="500-5000"),
    Plan("adopt-keeps-old", "the former handle keeps what was adopted", "K1 K12",
         s.quiet, moves="adopt", hold="500-5000"),
    Plan("leave-lets-go", "what is left behind is free", "K1", s.quiet,
         forgiven="K11",  # records of what was left expire after two minutes
         moves="adopt,leave", hold="500-5000"),
    Plan("extend-not-sent", "counts on a lease that it did not ask for", "K1", s.quiet,
         moves="extend", ttl=100, hold="20000-180000", round_s=6),
    Plan("downgrade-lets-go", "a writer lets go to become a reader", "K1", s.quiet,
         moves="downgrade", kind="rw", hold="500-5000"),
]

SHORT = ["get-then-set", "setnx-forever", "busy-from-memory", "token-never-grows",
         "adopt-keeps-old"]
