# SPDX-License-Identifier: MIT
"""What holdfast with layout=simple and the SET NX PX libraries must make of each other.

redis-py, redsync and node-redlock look again and again; holdfast looks when the lease ends, and
now and then in between. So a hand-over takes as long as a look.
"""
import time

import contend
from actors import Side, Wrong, expect
from redisson import woken

LOOK = 1.5  # seconds until a free lock is noticed
LEASE = 2.0
LONGEST = 3.0  # that a stranger may wait while holdfast clients contend


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


def one_contest(run, seconds, each):
    """What was seen, and the longest wait of theirs."""
    name, path = run.name(), contend.new_table(run)
    actors = [side.actor() for side in [run.ours, run.theirs] for _ in range(each)]
    for seat, actor in enumerate(actors):
        actor.send(f"contest mutex {name} {seconds * 1000:.0f} {path} {seat}")
    rounds, waits = [], []
    for actor in actors:
        answer = actor.get(seconds + 70)[0].split()
        expect(answer[0], "done", f"a contender: {' '.join(answer)}")
        expect(answer[2], "0", "what a contender saw go wrong")
        rounds.append(int(answer[1]))
        waits.append(int(answer[3]) / 1000)
    expect(contend.counted(path), sum(rounds), "the counter")
    share = sum(rounds[each:]) / sum(rounds)
    seen = f"{sum(rounds[:each])} + {sum(rounds[each:])}, theirs {share:.0%}"
    seen += f", longest wait {max(waits[:each]):.1f} s and {max(waits[each:]):.1f} s"
    return seen, max(waits[each:])


def contest(run, seconds, each=3):
    """Both in a tight loop, theirs with the delays they have by default. A machine that
    is busy with something else can make one wait long, so a second contest decides."""
    seen, longest = one_contest(run, seconds, each)
    if longest > LONGEST:
        again, longest = one_contest(run, seconds, each)
        seen = f"{seen}; once more: {again}"
    if longest > LONGEST:
        raise Wrong(f"too long a wait: {seen}")
    return seen


def cost(run, seconds, each=3):
    """What holdfast clients alone lose by leaving room for foreign clients."""
    rounds = {"on": 0, "off": 0}
    command, url = run.ours.command
    for option in ["on", "off"] * 4:
        name, path = run.name(), contend.new_table(run)
        side = Side("holdfast", [command, f"{url}&strangers={option}"], run.log)
        actors = [side.actor() for _ in range(each)]
        for seat, actor in enumerate(actors):
            actor.send(f"contest mutex {name} {seconds * 250:.0f} {path} {seat}")
        for actor in actors:
            rounds[option] += int(actor.get(seconds + 70)[0].split()[1])
        side.close()
    lost = 1 - rounds["on"] / rounds["off"]
    return f"{rounds['on']} instead of {rounds['off']}, {lost:.0%} less"
