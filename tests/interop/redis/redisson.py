# SPDX-License-Identifier: MIT
"""What holdfast and Redisson must make of each other, kind by kind.

Every function named in ROWS is one row, played with either side first where it says so.
`run` has the two sides (ours, theirs), the server, and fresh names.
"""
import re
import time

from actors import Wrong, expect, until

LEASE = 3.0  # the watchdog's lease on both sides, in seconds
QUICK = 1.0  # woken by a message, not by the end of a lease of 30 s


def derived(prefix, name):
    return f"{prefix}:{name}" if "{" in name else f"{prefix}:{{{name}}}"


def channel(kind, name):
    word = kind.split(":")[0]
    if word == "latch":
        return f"redisson_countdownlatch__channel__{{{name}}}"
    prefix = {"read": "redisson_rwlock", "write": "redisson_rwlock"}
    prefix.update(permits="redisson_sc", expiring="redisson_sc")
    return derived(prefix.get(word, "redisson_lock__channel"), name)


def waiters(run, kind, name):
    """How many are seen to wait: in a queue, or else as listeners."""
    call = run.server.call
    queued = call("LLEN", derived("redisson_lock_queue", name))
    queued += call("LLEN", derived("holdfast_queue", name))
    return max(queued, call("PUBSUB", "NUMSUB", channel(kind, name))[1])


def until_waiting(run, kind, name, count=1):
    until(lambda: waiters(run, kind, name) >= count, 5, f"{count} to wait for {kind}")
    time.sleep(0.1)  # pause: from listening to sleep there is nothing to be seen


def woken(actor, since, within=QUICK, word="held", who="the waiter"):
    answer, when = actor.get(within + 30)
    expect(answer.split()[0], word, who)
    if when - since > within:
        raise Wrong(f"{who} came after {when - since:.2f} s, must be within {within} s")
    return f"{(when - since) * 1000:.0f} ms"


def prepare(run, kind, name):
    """Semaphores are made by Redisson's own call, as its users do."""
    word, *numbers = kind.split(":")
    if word in ("permits", "expiring"):
        answer = run.theirs.actor().ask(f"{word}-set {name} {numbers[-1]}")
        expect(answer, "set", f"{word}-set")


# ---- One holds, the other tries, waits, is woken -------------------------------------


def hand_over(run, first, second, kind, other=None, name=None):
    other = other or kind
    name = name or run.name()
    holder, waiter = first.actor(), second.actor()
    prepare(run, kind, name)
    holder.must_take(kind, name)
    expect(waiter.take(other, name), "busy", "a try")
    waiter.send(f"take {other} {name} 20000 30000")
    until_waiting(run, other, name.split("+")[0])
    since = time.monotonic()
    holder.must_drop(kind, name)
    seen = woken(waiter, since)
    expect(holder.take(kind, name), "busy", "a try of the former holder")
    waiter.must_drop(other, name)
    return seen


def shared(run, first, second):
    """Two readers are in at once; a writer waits for both."""
    name = run.name()
    a, b, writer = first.actor(), second.actor(), first.actor()
    a.must_take("read", name)
    b.must_take("read", name)
    expect(writer.take("write", name), "busy", "a try to write")
    a.must_drop("read", name)
    writer.send(f"take write {name} 20000 30000")
    until_waiting(run, "write", name)
    since = time.monotonic()
    b.must_drop("read", name)
    seen = woken(writer, since)
    writer.must_drop("write", name)
    return seen


def joined(run):
    """Redisson's reader comes in beside ours, past our writer; the last one to leave is
    Redisson's, and our writer hears of it."""
    name = run.name()
    ours, theirs, writer = run.ours.actor(), run.theirs.actor(), run.ours.actor()
    ours.must_take("read", name)
    writer.send(f"take write {name} 20000 30000")
    until_waiting(run, "write", name)
    theirs.must_take("read", name)
    ours.must_drop("read", name)
    time.sleep(0.1)  # pause: so that the writer has heard what there is to hear
    since = time.monotonic()
    theirs.must_drop("read", name)
    seen = woken(writer, since)
    writer.must_drop("write", name)
    return seen


def part_of_multi(run, first, second):
    """Who gets one of two names only has neither."""
    a, b = run.name(), run.name()
    holder, other, third = first.actor(), second.actor(), first.actor()
    holder.must_take("mutex", b)
    expect(other.take("multi", f"{a}+{b}"), "busy", "a try of both")
    third.must_take("mutex", a)
    third.must_drop("mutex", a)
    holder.must_drop("mutex", b)
    other.must_take("multi", f"{a}+{b}")
    expect(third.take("mutex", a), "busy", "a try of the first")
    expect(third.take("mutex", b), "busy", "a try of the second")
    other.must_drop("multi", f"{a}+{b}")
    return ""


def made_by_us(run, kind):
    """A semaphore that Redisson finds already there."""
    name = run.name()
    holder, waiter = run.ours.actor(), run.theirs.actor()
    holder.must_take(kind, name)
    expect(waiter.take(kind, name), "busy", "a try")
    waiter.send(f"take {kind} {name} 20000 30000")
    until_waiting(run, kind, name)
    since = time.monotonic()
    holder.must_drop(kind, name)
    seen = woken(waiter, since)
    expect(holder.take(kind, name), "busy", "a try of the former holder")
    waiter.must_drop(kind, name)
    holder.must_take(kind, name)
    holder.must_drop(kind, name)
    return seen


# ---- Reentrancy ----------------------------------------------------------------------


def twice(run, first, second, kind, other=None):
    """Taken twice, it is free after the second release, not after the first."""
    name = run.name()
    other = other or kind
    mine = "reentrant" if first is run.ours else kind
    holder, waiter = first.actor(), second.actor()
    holder.must_take(mine, name)
    holder.must_take(mine, name)
    if first is run.theirs:
        expect(holder.ask(f"count {kind} {name}"), "count 2", "the hold count")
    waiter.send(f"take {other} {name} 20000 30000")
    until_waiting(run, other, name)
    holder.must_drop(mine, name)
    expect(second.actor().take(other, name), "busy", "a try after the first release")
    since = time.monotonic()
    holder.must_drop(mine, name)
    seen = woken(waiter, since)
    waiter.must_drop(other, name)
    return seen


def read_in_write(run):
    """Redisson lets a writer read; its read release leaves the write lock alone."""
    name = run.name()
    holder, waiter = run.theirs.actor(), run.ours.actor()
    holder.must_take("write", name)
    holder.must_take("read", name)
    holder.must_drop("read", name)
    expect(waiter.take("read", name), "busy", "a try to read")
    waiter.send(f"take read {name} 20000 30000")
    until_waiting(run, "read", name)
    since = time.monotonic()
    holder.must_drop("write", name)
    seen = woken(waiter, since)
    waiter.must_drop("read", name)
    return seen


# ---- Leases and crashes --------------------------------------------------------------


def kept_alive(run, first, second):
    """A lease of 3 s, renewed by the watchdog, is held for three of them."""
    kinds = ["mutex", "fair", "read", "write", "fenced"]
    names = {kind: run.name() for kind in kinds}
    ttl = round(LEASE * 1000) if first is run.ours else 0
    holders = {kind: first.actor() for kind in kinds}
    tries = {kind: "write" if kind == "read" else kind for kind in kinds}
    other = second.actor()
    for kind in kinds:
        holders[kind].must_take(kind, names[kind], 0, ttl)
    end = time.monotonic() + 3 * LEASE + 0.5
    while time.monotonic() < end:
        for kind in kinds:
            expect(other.take(tries[kind], names[kind]), "busy", f"a try of {kind}")
        time.sleep(0.25)  # pause: between two rounds of tries
    for kind in kinds:
        expect(holders[kind].ask(f"state {kind} {names[kind]}"), "held", kind)
        holders[kind].must_drop(kind, names[kind])
    return ", ".join(kinds)


def sleeps_in(side):
    """Redisson 3.27: a fair waiter that looks just before a lease ends reckons with a
    negative time and sleeps on, also when it is among its own kind."""
    return "Redisson 3." in side.title


def killed(run, first, second):
    """A killed holder's locks are had within its lease."""
    kinds = ["mutex", "fair", "read", "write", "fenced", "expiring:1"]
    if sleeps_in(second):
        kinds.remove("fair")
    names = {kind: run.name() for kind in kinds}
    victims = first.again()
    waiting = {}
    for kind in kinds:
        prepare(run, kind, names[kind])
        ttl = round(LEASE * 1000) if first is run.ours or ":" in kind else 0
        victims.actor().must_take(kind, names[kind], 0, ttl)
    for kind in kinds:
        wanted = "write" if kind == "read" else kind
        waiting[kind] = second.actor()
        waiting[kind].send(f"take {wanted} {names[kind]} 20000 30000")
    for kind in kinds:
        until_waiting(run, kind, names[kind])
    since = time.monotonic()
    victims.kill()
    slowest = 0.0
    for kind in kinds:
        woken(waiting[kind], since, LEASE + 1, who=kind)
        slowest = max(slowest, time.monotonic() - since)
    return f"{slowest:.1f} s" + (", not fair" if "fair" not in kinds else "")


def killed_permits(run):
    """Permits of a killed holdfast process come back; Redisson's own never would."""
    name, kind = run.name(), "permits:2:3"
    prepare(run, kind, name)
    victims = run.ours.again()
    victims.actor().must_take(kind, name, 0, round(LEASE * 1000))
    waiter = run.ours.actor()
    waiter.send(f"take {kind} {name} 20000 30000")
    until_waiting(run, kind, name)
    since = time.monotonic()
    victims.kill()
    seen = woken(waiter, since, LEASE + 1)
    other = run.theirs.actor()
    expect(other.ask(f"permits-left {name}"), "left 1", "Redisson sees")
    waiter.must_drop(kind, name)
    expect(other.ask(f"permits-left {name}"), "left 3", "Redisson sees")
    return seen


def killed_waiter(run, first, second):
    """A waiter that died in the queue keeps nobody from being next."""
    name = run.name()
    holder, victims, waiter = second.actor(), first.again(), second.actor()
    holder.must_take("mutex", name)
    victims.actor().send(f"take mutex {name} 20000 30000")
    until_waiting(run, "mutex", name)
    victims.kill()
    waiter.send(f"take mutex {name} 20000 30000")
    until_waiting(run, "mutex", name)
    since = time.monotonic()
    holder.must_drop("mutex", name)
    seen = woken(waiter, since)
    waiter.must_drop("mutex", name)
    return seen


def killed_fair_waiter(run, first, second):
    """A dead one in the fair queue: at once if it was ours, as Redisson's patience with
    its own ends, and nobody asks in a busy loop meanwhile."""
    name, patience = run.name(), 4
    holder, victims, waiter = run.ours.actor(), first.again(), second.actor()
    queue = derived("redisson_lock_queue", name)
    holder.must_take("fair", name, 0, round(LEASE * 1000))
    victims.actor().send(f"take fair {name} {patience * 1000} 30000")
    until(lambda: run.server.call("LLEN", queue) == 1, 5, "the first in the queue")
    victims.kill()
    waiter.send(f"take fair {name} 20000 30000")
    until(lambda: run.server.call("LLEN", queue) == 2, 5, "the second in the queue")
    before = commands(run)
    since = time.monotonic()
    holder.must_drop("fair", name)
    ours = first is run.ours
    seen = woken(waiter, since, QUICK if ours else LEASE + patience + 1)
    asked = commands(run) - before
    if asked > 500:
        raise Wrong(f"{asked} commands while waiting")
    waiter.must_drop("fair", name)
    return f"{seen}, {asked} commands"


def commands(run):
    stats = run.server.call("INFO", "commandstats")
    return sum(int(count) for count in re.findall(r":calls=(\d+)", stats))


# ---- Order, tokens, permits ----------------------------------------------------------


def fair_order(run, first, second):
    """First come, first served, whoever comes."""
    name = run.name()
    holder = first.actor()
    holder.must_take("fair", name)
    line = [(second if i % 2 == 0 else first).actor() for i in range(8)]
    queue = derived("redisson_lock_queue", name)
    for place, actor in enumerate(line):
        actor.send(f"take fair {name} 30000 30000")
        until(lambda: run.server.call("LLEN", queue) > place, 5, "a place in the queue")
    holder.must_drop("fair", name)
    for place, actor in enumerate(line):
        answer = actor.get()[0]
        expect(answer.split()[0], "held", f"number {place}")
        time.sleep(0.02)  # pause: so that a wrong one would show
        early = [n for n, other in enumerate(line) if not other.answers.empty()]
        expect(early, [], f"let in while number {place} holds")
        actor.must_drop("fair", name)
    return "8 in order"


def tokens_grow(run):
    """Fencing tokens grow over both libraries."""
    name = run.name()
    sides = [run.ours.actor(), run.theirs.actor()]
    last = 0
    for i in range(12):
        actor = sides[(i // 2) % 2]
        token = actor.must_take("fenced", name, 5000)
        if token <= last:
            raise Wrong(f"token {token} after {last}")
        last = token
        actor.must_drop("fenced", name)
    return "12 in order"


def several(run, first, second):
    """Three of five, two of five, none of five; a waiter for two gets two."""
    name = run.name()
    prepare(run, "permits:1:5", name)
    a, b, looker = first.actor(), second.actor(), run.theirs.actor()
    a.must_take("permits:3:5", name)
    b.must_take("permits:2:5", name)
    expect(b.take("permits:1:5", name), "busy", "a sixth")
    expect(looker.ask(f"permits-left {name}"), "left 0", "Redisson sees")
    waiter = second.actor()
    waiter.send(f"take permits:3:5 {name} 20000 30000")
    until_waiting(run, "permits", name)
    since = time.monotonic()
    a.must_drop("permits:3:5", name)
    seen = woken(waiter, since)
    waiter.must_drop("permits:3:5", name)
    b.must_drop("permits:2:5", name)
    expect(looker.ask(f"permits-left {name}"), "left 5", "Redisson sees")
    return seen


# ---- Latch, downgrade ----------------------------------------------------------------


def latch(run, first, second):
    """One sets and waits, the other counts down; both waits end."""
    name = run.name()
    setter, counter = first.actor(), second.actor()
    waiting = [first.actor(), second.actor()]
    expect(setter.ask(f"latch-set {name} 3"), "set", "set")
    expect(counter.ask(f"latch-set {name} 2"), "busy", "set again")
    expect(counter.ask(f"latch-count {name}"), "left 3", "the count")
    for number, actor in enumerate(waiting):
        actor.send(f"latch-wait {name} 20000")
        until_waiting(run, "latch", name, number + 1)
    expect(counter.ask(f"latch-down {name} 2"), "left 1", "count down")
    time.sleep(0.1)  # pause: so that a wait ended too early would show
    expect([w.answers.empty() for w in waiting], [True, True], "still waiting")
    since = time.monotonic()
    expect(counter.ask(f"latch-down {name} 1"), "left 0", "count down")
    seen = [woken(actor, since, word="open") for actor in waiting]
    expect(setter.ask(f"latch-wait {name} 1000"), "open", "wait again")
    return " ".join(seen)


def downgrade_ours(run):
    """Redisson's reader is let in at the downgrade, its writer after the release."""
    name = run.name()
    holder, reader, writer = run.ours.actor(), run.theirs.actor(), run.theirs.actor()
    holder.must_take("write", name)
    expect(reader.take("read", name), "busy", "a try to read")
    reader.send(f"take read {name} 20000 30000")
    until_waiting(run, "read", name)
    since = time.monotonic()
    expect(holder.ask(f"downgrade rw {name}"), "downgraded", "downgrade")
    seen = woken(reader, since)
    expect(writer.take("write", name), "busy", "a try to write")
    reader.must_drop("read", name)
    expect(writer.take("write", name), "busy", "a try to write")
    writer.send(f"take write {name} 20000 30000")
    until_waiting(run, "write", name)
    since = time.monotonic()
    holder.must_drop("read", name)
    seen += " " + woken(writer, since)
    writer.must_drop("write", name)
    return seen


def downgrade_theirs(run):
    """Redisson tells nobody of its downgrade: a waiting reader looks by itself."""
    name = run.name()
    holder, reader, writer = run.theirs.actor(), run.ours.actor(), run.ours.actor()
    holder.must_take("write", name, 0, 0)
    expect(reader.take("read", name), "busy", "a try to read")
    reader.send(f"take read {name} 20000 30000")
    until_waiting(run, "read", name)
    since = time.monotonic()
    expect(holder.ask(f"downgrade rw {name}"), "downgraded", "downgrade")
    seen = woken(reader, since, LEASE + 1)
    expect(writer.take("write", name), "busy", "a try to write")
    reader.must_drop("read", name)
    expect(writer.take("write", name), "busy", "a try to write")
    writer.send(f"take write {name} 20000 30000")
    until_waiting(run, "write", name)
    since = time.monotonic()
    holder.must_drop("read", name)
    seen += " " + woken(writer, since)
    writer.must_drop("write", name)
    return seen


# ---- What holdfast sees --------------------------------------------------------------


def refused(run):
    """Another kind on a name that Redisson holds is refused, not mixed in."""
    mutex, rw, count = run.name(), run.name(), run.name()
    holder, other = run.theirs.actor(), run.ours.actor()
    holder.must_take("mutex", mutex)
    holder.must_take("read", rw)
    prepare(run, "permits:1:2", count)
    for kind, name in [("read", mutex), ("mutex", rw), ("write", count)]:
        answer = other.take(kind, name)
        expect(answer.split()[0], "HF_EMISMATCH", f"{kind} on another kind")
    holder.must_drop("mutex", mutex)
    holder.must_drop("read", rw)
    return ""


def seen_by_inspect(run):
    """Redisson's holders and fair waiters show in hf_inspect."""
    name, fair = run.name(), run.name()
    holder, waiter, looker = run.theirs.actor(), run.theirs.actor(), run.ours.actor()
    holder.must_take("mutex", name)
    expect(looker.ask(f"who {name}"), "holders 1 waiters 0", "mutex")
    holder.must_take("fair", fair)
    waiter.send(f"take fair {fair} 20000 30000")
    until_waiting(run, "fair", fair)
    expect(looker.ask(f"who {fair}"), "holders 1 waiters 1", "fair")
    holder.must_drop("fair", fair)
    woken(waiter, time.monotonic())
    waiter.must_drop("fair", fair)
    holder.must_drop("mutex", name)
    expect(looker.ask(f"who {name}"), "holders 0 waiters 0", "mutex, free")
    return ""


def spin(run, first, second):
    """Redisson's spin lock shares the mutex; it is polled for, never told."""
    name = run.name()
    kinds = ["spin" if side is run.theirs else "mutex" for side in (first, second)]
    holder, waiter = first.actor(), second.actor()
    holder.must_take(kinds[0], name, 0, 30000)
    expect(waiter.take(kinds[1], name), "busy", "a try")
    waiter.send(f"take {kinds[1]} {name} 20000 30000")
    if second is run.ours:
        until_waiting(run, "mutex", name)
    since = time.monotonic()
    holder.must_drop(kinds[0], name)
    seen = woken(waiter, since, 3)
    waiter.must_drop(kinds[1], name)
    return seen
