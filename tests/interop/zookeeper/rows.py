# SPDX-License-Identifier: MIT
"""What holdfast and the others must make of each other, row by row.

`run` has the two sides (ours, theirs), the server, and fresh names. A kind may have
another word on either side: run.kind(side, kind). `first` holds, `second` comes after.
"""
import os
import signal
import time

from actors import Wrong, expect, until

QUICK = 2.0  # woken by an event, not by the end of a session of 10 s
SESSION = 3.0  # of those that are killed, in seconds
GIVEN_ON = SESSION + 1.2  # until a dead one's lock is had: ticks, and a busy machine


def until_queued(run, name, count, part=""):
    """Until `count` nodes are there, and somebody watches one of them. The waiter of a
    semaphore has its node in `part` of the folder, and watches no node."""

    def there():
        nodes = [node for node in run.server.nodes(name) if part in node]
        return len(nodes) >= count and (part or run.server.watched(name))

    until(there, 5, f"{count} nodes of {name}")
    time.sleep(0.05)  # pause: from the watch to sleep there is nothing to be seen


def until_waiting(run, kind, name, holders=1):
    """Until one waits beside `holders`."""
    if kind.startswith(("permits", "semmutex")):
        until_queued(run, name, 1, run.queue)
    else:
        until_queued(run, name, holders + 1)


def woken(actor, since, within=QUICK, who="the waiter"):
    answer, when = actor.get(within + 30)
    expect(answer.split()[0], "held", f"{who} ({answer})")
    if when - since > within:
        raise Wrong(f"{who} came after {when - since:.2f} s, must be within {within} s")
    return f"{(when - since) * 1000:.0f} ms"


# ---- One holds, the other tries, waits, is woken -------------------------------------


def hand_over(run, first, second, kind, other=None, name=None):
    name = name or run.name()
    held, wanted = run.kind(first, kind), run.kind(second, other or kind)
    holder, waiter = first.actor(), second.actor()
    holder.must_take(held, name, 5000 if held == "leader" else 0)
    if wanted != "leader":
        expect(waiter.take(wanted, name), "busy", "a try")
        expect(waiter.take(wanted, name, 100), "timeout", "a short wait")
    waiter.send(f"take {wanted} {name} 20000 30000")
    until_waiting(run, kind, name.split("+")[0])
    since = time.monotonic()
    holder.must_drop(held, name)
    seen = woken(waiter, since)
    if held != "leader":
        expect(holder.take(held, name), "busy", "a try of the former holder")
    waiter.must_drop(wanted, name)
    return seen


def twice(run, first, second, kind, other=None):
    """Taken twice, it is free after the second release, not after the first."""
    name = run.name()
    held, wanted = run.kind(first, kind), run.kind(second, other or "mutex")
    holder, waiter = first.actor(), second.actor()
    holder.must_take(held, name)
    holder.must_take(held, name)
    waiter.send(f"take {wanted} {name} 20000 30000")
    until_queued(run, name, 2)
    holder.must_drop(held, name)
    expect(second.actor().take(wanted, name), "busy", "a try after the first release")
    since = time.monotonic()
    holder.must_drop(held, name)
    seen = woken(waiter, since)
    waiter.must_drop(wanted, name)
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


def in_order(run, first, second, kind, count=8):
    """First come, first served, whoever comes."""
    name = run.name()
    holder = first.actor()
    holder.must_take("mutex", name)
    line = []
    for place in range(count):
        side = second if place % 2 == 0 else first
        line.append((side.actor(), run.kind(side, kind)))
        line[-1][0].send(f"take {line[-1][1]} {name} 30000 30000")
        until_queued(run, name, place + 2)
    holder.must_drop("mutex", name)
    for place, (actor, word) in enumerate(line):
        expect(actor.get()[0].split()[0], "held", f"number {place}")
        time.sleep(0.02)  # pause: so that a wrong one would show
        early = [n for n, (other, _) in enumerate(line) if not other.answers.empty()]
        expect(early, [], f"let in while number {place} holds")
        actor.must_drop(word, name)
    return f"{count} in order"


def tokens_grow(run, kind):
    """One number fences both: the czxid of the holder's node."""
    name = run.name()
    sides = [run.ours.actor(), run.theirs.actor()]
    last = 0
    for i in range(12):
        actor = sides[(i // 2) % 2]
        token = actor.must_take(kind, name, 5000)
        if token <= last:
            raise Wrong(f"token {token} after {last}")
        last = token
        actor.must_drop(kind, name)
    return "12 in order"


# ---- Readers and writers -------------------------------------------------------------


def shared(run, first, second):
    """Two readers are in at once; a writer waits for both."""
    name = run.name()
    a, b, writer = first.actor(), second.actor(), first.actor()
    a.must_take("read", name)
    b.must_take("read", name)
    expect(writer.take("write", name), "busy", "a try to write")
    a.must_drop("read", name)
    writer.send(f"take write {name} 20000 30000")
    until_queued(run, name, 2)
    since = time.monotonic()
    b.must_drop("read", name)
    seen = woken(writer, since)
    writer.must_drop("write", name)
    return seen


def behind_a_writer(run, first, second):
    """A reader that comes after a waiting writer does not overtake it."""
    name = run.name()
    reader, writer, late = first.actor(), second.actor(), first.actor()
    reader.must_take("read", name)
    writer.send(f"take write {name} 20000 30000")
    until_queued(run, name, 2)
    expect(late.take("read", name), "busy", "a try to read")
    late.send(f"take read {name} 20000 30000")
    until_queued(run, name, 3)
    since = time.monotonic()
    reader.must_drop("read", name)
    seen = woken(writer, since)
    expect(late.answers.empty(), True, "the reader waits")
    since = time.monotonic()
    writer.must_drop("write", name)
    seen += " " + woken(late, since)
    late.must_drop("read", name)
    return seen


def read_in_write(run, first, second):
    """Curator lets a writer read; the release of that leaves the write lock alone."""
    name = run.name()
    holder, waiter = first.actor(), second.actor()
    holder.must_take("write", name)
    holder.must_take("read", name)
    holder.must_drop("read", name)
    expect(waiter.take("read", name), "busy", "a try to read")
    waiter.send(f"take read {name} 20000 30000")
    until_queued(run, name, 2)
    since = time.monotonic()
    holder.must_drop("write", name)
    seen = woken(waiter, since)
    waiter.must_drop("read", name)
    return seen


def downgrade(run, first, second):
    """A waiting reader is let in by the downgrade, a writer by the release."""
    name = run.name()
    holder, reader, writer = first.actor(), second.actor(), second.actor()
    holder.must_take("write", name)
    expect(reader.take("read", name), "busy", "a try to read")
    reader.send(f"take read {name} 20000 30000")
    until_queued(run, name, 2)
    since = time.monotonic()
    expect(holder.ask(f"downgrade rw {name}"), "downgraded", "downgrade")
    seen = woken(reader, since)
    expect(writer.take("write", name), "busy", "a try to write")
    reader.must_drop("read", name)
    expect(writer.take("write", name), "busy", "a try to write")
    writer.send(f"take write {name} 20000 30000")
    until_queued(run, name, 2)
    since = time.monotonic()
    holder.must_drop("read", name)
    seen += " " + woken(writer, since)
    writer.must_drop("write", name)
    return seen


def downgrade_before_writer(run, first, second):
    """A writer that waits during the downgrade goes on waiting. Curator before 5.5
    goes to the end of the queue and lets it in (CURATOR-621)."""
    name = run.name()
    holder, writer = first.actor(), second.actor()
    holder.must_take("write", name)
    writer.send(f"take write {name} 20000 30000")
    until_queued(run, name, 2)
    expect(holder.ask(f"downgrade rw {name}"), "downgraded", "downgrade")
    time.sleep(0.3)  # pause: so that a writer let in would show
    let_in = not writer.answers.empty()
    expect(let_in, first is run.theirs and run.leaves_its_place, "the writer is in")
    since = time.monotonic()
    holder.must_drop("read", name)
    seen = woken(writer, since)
    writer.must_drop("write", name)
    return "admitted, CURATOR-621" if let_in else seen


# ---- Semaphores ----------------------------------------------------------------------


def several(run, first, second):
    """Three of five, two of five, none of five; a waiter for three gets three."""
    name = run.name()
    a, b, c = first.actor(), second.actor(), second.actor()
    a.must_take("permits:3:5", name)
    b.must_take("permits:1:5", name)
    c.must_take("permits:1:5", name)
    expect(b.take("permits:1:5", name), "busy", "a sixth")
    waiter = second.actor()
    waiter.send(f"take permits:3:5 {name} 20000 30000")
    until_waiting(run, "permits", name)
    since = time.monotonic()
    a.must_drop("permits:3:5", name)
    seen = woken(waiter, since)
    expect(a.take("permits:1:5", name), "busy", "a sixth")
    b.must_drop("permits:1:5", name)
    c.must_drop("permits:1:5", name)
    waiter.must_drop("permits:3:5", name)
    b.must_take("permits:5:5", name, 2000)
    b.must_drop("permits:5:5", name)
    return seen


# ---- Revocation ----------------------------------------------------------------------


def revoked(run, first, second, kind):
    """Who waits asks, who holds is told and lets go. Curator listens if that was
    wished for before the lock was taken, holdfast if it was wished for after."""
    name = run.name()
    holder, waiter, third = first.actor(), second.actor(), second.actor()
    if first is run.theirs:
        expect(holder.ask(f"watch {kind} {name}"), "watched", "watch")
    holder.must_take(kind, name)
    if first is run.ours:
        expect(holder.ask(f"watch {kind} {name}"), "watched", "watch")
    wanted = "write" if kind == "read" else kind
    waiter.send(f"take {wanted} {name} 20000 30000")
    until_queued(run, name, 2)
    expect(third.ask(f"revoke {kind} {name}"), "asked", "revoke")
    expect(holder.ask(f"revoked {kind} {name} 2000"), "revoked", "the holder")
    time.sleep(0.05)  # pause: so that a waiter let in by it would show
    expect(waiter.answers.empty(), True, "still waiting")
    since = time.monotonic()
    holder.must_drop(kind, name)
    seen = woken(waiter, since)
    waiter.must_drop(wanted, name)
    return seen


# ---- Crashes -------------------------------------------------------------------------


def killed(run, first, second, kinds):
    """A killed holder's locks are had when its session ends."""
    names = {kind: run.name() for kind in kinds}
    victims = first.again()
    waiting = {}
    for kind in kinds:
        victims.actor().must_take(run.kind(first, kind), names[kind], 2000)
    for kind in kinds:
        wanted = run.kind(second, "write" if kind == "read" else kind)
        waiting[kind] = (second.actor(), wanted)
        waiting[kind][0].send(f"take {wanted} {names[kind]} 20000 30000")
    for kind in kinds:
        until_waiting(run, kind, names[kind])
    since = time.monotonic()
    victims.kill()
    slowest = 0.0
    for kind, (actor, wanted) in waiting.items():
        woken(actor, since, GIVEN_ON, who=kind)
        slowest = max(slowest, time.monotonic() - since)
        actor.must_drop(wanted, names[kind])
    return f"{slowest:.1f} s"


def killed_waiter(run, first, second):
    """A waiter that died in the queue keeps its place until its session ends."""
    name = run.name()
    holder, victims, waiter = second.actor(), first.again(), second.actor()
    holder.must_take("mutex", name)
    victims.actor().send(f"take mutex {name} 20000 30000")
    until_queued(run, name, 2)
    waiter.send(f"take mutex {name} 20000 30000")
    until_queued(run, name, 3)
    victims.kill()
    since = time.monotonic()
    holder.must_drop("mutex", name)
    seen = woken(waiter, since, GIVEN_ON)
    waiter.must_drop("mutex", name)
    return seen


def stopped(run):
    """A holdfast process that was stopped for longer than its session knows that it
    has lost the lock, and does not touch the next holder's."""
    name = run.name()
    victims, waiter = run.ours.again(), run.theirs.actor()
    holder = victims.actor()
    holder.must_take("mutex", name)
    waiter.send(f"take mutex {name} 20000 30000")
    until_queued(run, name, 2)
    since = time.monotonic()
    os.kill(holder.process.child.pid, signal.SIGSTOP)
    seen = woken(waiter, since, GIVEN_ON)
    os.kill(holder.process.child.pid, signal.SIGCONT)
    expect(holder.ask(f"state mutex {name}"), "lost", "the stopped holder")
    expect(holder.ask(f"drop mutex {name}").split()[0], "HF_ELOST", "its release")
    expect(run.theirs.actor().take("mutex", name), "busy", "a try")
    waiter.must_drop("mutex", name)
    return seen


def folder_stays(run, kind):
    """A kazoo object makes sure of its folder once: it has to stay when it is empty."""
    name = run.name()
    ours, theirs = run.ours.actor(), run.theirs.actor()
    for actor in (ours, theirs):
        actor.must_take(kind, name)
        actor.must_drop(kind, name)
    time.sleep(2.5)  # pause: the server looks for empty containers each second
    theirs.must_take(kind, name)
    theirs.must_drop(kind, name)
    return ""


# ---- What each sees of the other -----------------------------------------------------


def refused(run):
    """Another kind on a name that Curator holds is refused, not mixed in."""
    mutex, rw, count = run.name(), run.name(), run.name()
    holder, other = run.theirs.actor(), run.ours.actor()
    holder.must_take("mutex", mutex)
    holder.must_take("read", rw)
    holder.must_take("permits:1:2", count)
    tries = [("read", mutex), ("mutex", rw), ("write", count), ("permits:1:2", mutex)]
    for kind, name in tries:
        answer = other.take(kind, name)
        expect(answer.split()[0], "HF_EMISMATCH", f"{kind} on another kind")
    holder.must_drop("mutex", mutex)
    holder.must_drop("read", rw)
    holder.must_drop("permits:1:2", count)
    return ""


def seen_by_us(run):
    """Curator's holders and waiters show in hf_inspect. Who waits for a permit of
    Curator's has made its lease already and shows as both."""
    looker = run.ours.actor()
    for kind in ["mutex", "write", "permits:1:1"]:
        name = run.name()
        holder, waiter = run.theirs.actor(), run.theirs.actor()
        holder.must_take(kind, name)
        expect(looker.ask(f"who {name}"), "holders 1 waiters 0", kind)
        waiter.send(f"take {kind} {name} 20000 30000")
        until_waiting(run, kind, name)
        holders = 2 if "permits" in kind else 1
        expect(looker.ask(f"who {name}"), f"holders {holders} waiters 1", kind)
        holder.must_drop(kind, name)
        woken(waiter, time.monotonic())
        waiter.must_drop(kind, name)
        expect(looker.ask(f"who {name}"), "holders 0 waiters 0", f"{kind}, free")
    return ""


def seen_by_them(run):
    """holdfast's holders and waiters are participants to Curator."""
    looker = run.theirs.actor()
    for kind in ["mutex", "write"]:
        name = run.name()
        holder, waiter = run.ours.actor(), run.ours.actor()
        holder.must_take(kind, name)
        waiter.send(f"take {kind} {name} 20000 30000")
        until_waiting(run, kind, name)
        expect(looker.ask(f"participants {kind} {name}"), "count 2", kind)
        holder.must_drop(kind, name)
        woken(waiter, time.monotonic())
        waiter.must_drop(kind, name)
    name = run.name()
    holder.must_take("permits:3:5", name)
    expect(looker.ask(f"participants permits:1:5 {name}"), "count 3", "permits")
    holder.must_drop("permits:3:5", name)
    return ""
