# SPDX-License-Identifier: MIT
"""Mutants: holdfast itself, made wrong in one place.

The tree is copied, one text in it replaced, the worker built and put under load; the
checks must find it. So the gate is shown to watch our own code and not only the locks
that were written to be caught. A text that is not in its file, exactly once, is an
error: the code has moved on and the mutant has to move with it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from copy import copy
from dataclasses import dataclass

import schedules as s
from plans import Plan

TREE = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))


@dataclass
class Mutant:
    name: str
    wrong: str
    file: str
    old: str
    new: str
    plan: Plan

    def __post_init__(self):
        self.plan.name, self.plan.wrong = self.name, self.wrong
        self.plan.driver = "holdfast"
        self.catch = self.plan.catch


def under(catch, schedule, **settings):
    return Plan("", "", catch, schedule, **settings)


def in_process(catch, kind, **settings):
    """The mem store: one process, whose threads have a client each."""
    return under(catch, s.quiet, store="mem", kind=kind, processes=1, threads=6, ttl=0,
                 hold="100-2000", think="0-500", **settings)


MUTANTS = [
    Mutant("m-validity-from-reply", "validity counted from the reply",
           "src/backends/redis/tickets.c",
           "number_at(nodes, 3), sent_ns))",
           "number_at(nodes, 3), me->host->ops->now(me->host)))",
           under("K1", s.late_replies, processes=4, threads=1, hold="20000-60000",
                 think="100000-300000")),
    Mutant("m-late-push-believed", "a grant counts from when it is read",
           "src/backends/redis/listen.c",
           "    if (me->host->ops->now(me->host) - asked > grant.ttl_ns / 4)\n",
           "    grant.since_ns = me->host->ops->now(me->host);\n    if (false)\n",
           under("K1", s.pauses)),
    Mutant("m-believes-too-long", "believes twice the lease",
           "src/core/claim.c",
           "claim->valid_until = lease.since_ns + lease.ttl_ns - hf__drift(lease.ttl_ns);",
           "claim->valid_until = lease.since_ns + 2 * lease.ttl_ns;",
           under("K1", s.pauses, hold="20000-90000")),
    Mutant("m-handoff-same-token", "a hand-off keeps the token",
           "src/core/claim.c", "    claim->token++;\n", "",
           in_process("K3", "mutex", share=True)),
    Mutant("m-anybody-reenters", "any thread may re-enter",
           "src/core/claim_table.c",
           "hf__same_owner(claim->owner, owner);", "true;",
           in_process("K1 K3", "reentrant", share=True)),
    Mutant("m-reader-past-writer", "a reader is let in beside a writer",
           "src/kit/admit.c", "ahead->exclusive ? HF_WATCH_WRITER : HF_IN;", "HF_IN;",
           in_process("K1", "rw")),
    Mutant("m-one-permit-more", "one permit more than there are",
           "src/kit/admit.c", "ahead->permits + permits > limit ?",
           "ahead->permits + permits > limit + 1 ?", in_process("K1", "permits")),
    Mutant("m-permits-leak", "one permit comes back of many",
           "src/backends/memory/memory_queue.c",
           "tally->permits -= entry->permits;", "tally->permits -= 1;",
           in_process("K8", "permits")),
    Mutant("m-grant-not-told", "a waiter is let in and not woken",
           "src/backends/memory/memory_queue.c",
           "        hf__memory_post(me, entry, MEMORY_GRANTED);\n", "",
           in_process("K8", "mutex")),
    Mutant("m-fair-is-lifo", "the last to come is served first",
           "src/backends/memory/memory_queue.c",
           "hf__list_push_back(&name->waiters, &entry->in_queue);",
           "hf__list_push_front(&name->waiters, &entry->in_queue);",
           in_process("K7", "fair", suspect=True)),
    Mutant("m-dead-holder-stays", "a dead holder's queue entry is kept",
           "src/backends/file/sessions.c",
           "return e->state == ENTRY_WAITING || (e->flags & kept) != kept;",
           "return e->state == ENTRY_WAITING || (e->flags & kept) > kept;",
           under("K8", s.kills, store="file", ttl=0)),
    Mutant("m-living-holder-reaped", "a living holder is taken for dead",
           "src/backends/file/sessions.c",
           "__atomic_load_n(&s->state, __ATOMIC_ACQUIRE) != SESSION_FREE &&\n"
           "           !hf__file_session_locked(me, session);",
           "__atomic_load_n(&s->state, __ATOMIC_ACQUIRE) != SESSION_FREE;",
           under("K1", s.kills, store="file", ttl=0)),
    Mutant("m-held-word-is-open", "the fast path takes what is held",
           "src/backends/file/lock_word.h",
           "if (word & (WORD_HELD | WORD_SLOW | WORD_IMPATIENT))",
           "if (word & (WORD_SLOW | WORD_IMPATIENT))",
           under("K1", s.quiet, store="file", ttl=0, processes=2, threads=1,
                 hold="100-1000", think="0-500")),
    Mutant("m-flock-shared", "flock(2) shared, for a mutex",
           "src/backends/file/flock.c",
           "ticket->kind == HF_READ ? LOCK_SH : LOCK_EX;",
           "ticket->kind != HF_WRITE ? LOCK_SH : LOCK_EX;",
           under("K1", s.quiet, store="file", options="?layout=flock", ttl=0)),
    Mutant("m-release-of-anybody", "releases the mutex, whose it may be",
           "src/backends/redis/scripts/withdraw_mutex.lua",
           "redis.pcall('HDEL', K.name, me) == 1",
           "redis.pcall('DEL', K.name) == 1",
           under("K1", s.pauses)),
    Mutant("m-simple-release-of-anybody", "the same in the simple layout",
           "src/backends/redis/scripts/part_simple.lua",
           "if redis.pcall('GET', K.name) ~= owner then",
           "if not redis.pcall('GET', K.name) then",
           under("K1", s.pauses, options="?layout=simple")),
    Mutant("m-permits-given-back-twice", "gives back permits that are not out",
           "src/backends/redis/scripts/part_count.lua",
           "    if redis.pcall('ZREM', K.zset, member(owner)) ~= 1 then\n"
           "        return false\n    end\n",
           "    redis.pcall('ZREM', K.zset, member(owner))\n",
           under("K1 K9", s.pauses, kind="permits")),
    Mutant("m-writer-beside-readers", "a writer is let in beside readers",
           "src/backends/redis/scripts/part_rw.lua",
           "return r.kind == 'w' and not mode",
           "return r.kind == 'w' and mode ~= 'write'",
           under("K1", s.quiet, kind="rw")),
    Mutant("m-rw-release-of-anybody", "a late writer lets readers in",
           "src/backends/redis/scripts/part_rw.lua",
           "    if redis.pcall('HDEL', K.name, field) ~= 1 then\n"
           "        return false\n    end\n",
           "    redis.pcall('HDEL', K.name, field)\n",
           under("K1", s.pauses, kind="rw")),
    Mutant("m-token-stands-still", "every grant has the same token",
           "src/backends/redis/scripts/part_base.lua",
           "    return token, span\n", "    return '7', '1'\n",
           under("K3", s.quiet, kind="rw")),
    Mutant("m-grant-without-lease", "the key of a grant never expires",
           "src/backends/redis/scripts/part_own.lua",
           "redis.pcall('PEXPIRE', K.name, r.ttl) == 1", "true",
           under("K8", s.kills)),
    Mutant("m-withdrawal-forgets", "who gave up stays in the queue",
           "src/backends/redis/scripts/part_queue.lua",
           "    local found = call('LREM', K.queue, 1, me)\n"
           "    call('HDEL', K.info, me)\n",
           "    local found = 1\n",
           under("K8 K10", s.quiet, round_s=5, ttl=4000, grace=100,
                 hold="60000-150000")),
]


class Scratch:
    """A copy of the tree with a build of its own, in which one text is changed."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="mutants-")
        self.tree = os.path.join(self.directory, "tree")
        self.build = os.path.join(self.directory, "build")
        shutil.copytree(TREE, self.tree, symlinks=True,
                        ignore=shutil.ignore_patterns("build*", ".git"))
        self.call("meson", "setup", self.build, self.tree)

    def call(self, *command):
        done = subprocess.run(command, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}:\n{done.stdout[-2000:]}")

    def make(self):
        self.call("ninja", "-C", self.build, "-j2",
                  "tests/torture/planted/worker-planted")

    def apply(self, mutant):
        """Replaces the text; returns what puts it back."""
        path = os.path.join(self.tree, mutant.file)
        with open(path, encoding="utf-8") as file:
            before = file.read()
        if before.count(mutant.old) != 1:
            raise RuntimeError(f"{mutant.name}: its text is in {mutant.file} "
                               f"{before.count(mutant.old)} times, not once")
        self.write(path, before.replace(mutant.old, mutant.new))
        return lambda: self.write(path, before)

    @staticmethod
    def write(path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def close(self):
        shutil.rmtree(self.directory, ignore_errors=True)


def run_one(mutant, scratch, gate):
    tools = copy(gate.tools)
    tools.worker = os.path.join(scratch.build, "tests/torture/planted/worker-planted")
    put_back = scratch.apply(mutant)
    try:
        scratch.make()
        return gate.passes(mutant.plan, tools)
    finally:
        put_back()


def run(mutants, gate):
    """How many were caught. Says so when one does not apply, or does not compile."""
    scratch, caught = Scratch(), 0
    try:
        for mutant in mutants:
            try:
                caught += run_one(mutant, scratch, gate)
            except RuntimeError as why:
                print(f"{mutant.name}: ERROR: {why}")
    finally:
        scratch.close()
    return caught


def stale():
    """The mutants whose text is not in its file, exactly once."""
    for mutant in MUTANTS:
        path = os.path.join(TREE, mutant.file)
        text = ""
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                text = file.read()
        if text.count(mutant.old) != 1:
            yield mutant


if __name__ == "__main__":
    lost = [mutant.name for mutant in stale()]
    for number, mutant in enumerate(MUTANTS, 1):
        verdict = "not ok" if mutant.name in lost else "ok"
        print(f"{verdict} {number} - {mutant.name}: its text is in {mutant.file} once")
    print(f"1..{len(MUTANTS)}")
    sys.exit(bool(lost))
