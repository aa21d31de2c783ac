# SPDX-License-Identifier: MIT
"""What holdfast with layout=simple and the SET NX PX libraries must make of each other.

redis-py and node-redlock look again and again; holdfast looks when the lease ends, and
now and then in between. So a hand-over takes as long as a look.
"""
import time

from actors import expect
from redisson import woken

LOOK = 1.5  # seconds until a free lock is noticed
LEASE = 2.0


def hand_over(run, first, second):
    name = run.name()
    holder, waiter = first.actor(), second.actor()
    holder.must_take("mutex", name)
    expect(waiter.take("mutex", name), "busy", "a try")
    expect(waiter.take("mutex", name, 300), "timeout", "a short wait")
    waiter.send(f"take mutex {name} 20000 30000")
    time.sleep(0.3)  # pause: these waiters cannot be seen from outside
    since = time.monotonic()
    holder.must_drop("mutex", name)
    seen = woken(waiter, since, LOOK)
    expect(holder.take("mutex", name), "busy", "a try of the former holder")
    waiter.must_drop("mutex", name)
    holder.must_take("mutex", name)
    holder.must_drop("mutex", name)
    return seen


def killed(run, first, second):
    """A killed holder's lock is had within its lease."""
    name = run.name()
    victims, waiter = first.again(), second.actor()
    victims.actor().must_take("mutex", name, 0, round(LEASE * 1000))
    expect(waiter.take("mutex", name), "busy", "a try")
    waiter.send(f"take mutex {name} 20000 30000")
    since = time.monotonic()
    victims.kill()
    seen = woken(waiter, since, LEASE + 1)
    waiter.must_drop("mutex", name)
    return seen


def renewed(run):
    """holdfast's watchdog holds it for three leases."""
    name = run.name()
    holder, other = run.ours.actor(), run.theirs.actor()
    holder.must_take("mutex", name, 0, round(LEASE * 1000))
    end = time.monotonic() + 3 * LEASE
    while time.monotonic() < end:
        expect(other.take("mutex", name), "busy", "a try")
        time.sleep(0.1)  # pause: between two tries
    holder.must_drop("mutex", name)
    return ""


def expired(run):
    """Their lease ends by itself; the late release does not touch the next holder."""
    name = run.name()
    holder, waiter = run.theirs.actor(), run.ours.actor()
    holder.must_take("mutex", name, 0, 700)
    waiter.must_take("mutex", name, 10000)
    expect(holder.ask(f"drop mutex {name}"), "lost", "the late release")
    expect(holder.take("mutex", name), "busy", "a try")
    waiter.must_drop("mutex", name)
    return ""
