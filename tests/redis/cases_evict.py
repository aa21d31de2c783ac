# SPDX-License-Identifier: MIT
"""evict, revoke, adopt, inspect: every kind."""

from cases_mutex import JAVA, java_queues, java_takes
from cases_rw import java_reads
from world import owner, raw


WHO = " db3\x1f8123\x1fbreak\x1f"


def lost(w, number):
    line = f"l {number} {owner(number)}"
    return (f"holdfast:{number % 10}", line + WHO) in w.heard()


def case_evict_mutex(w):
    for kind, seven in (("m", 7), ("f", 77)):
        token = w.take(1, kind, reserve=10)[1]
        w.take(2, kind)
        assert w.evict(token - 1) == 0 and w.evict(token + 10) == 0
        assert w.hash(w.name) == {owner(1): "1"} and w.heard() == []
        assert w.evict(token + 9, request=seven) == 2  # its client knows whether it is that one
        line = f"e 1 {owner(1)} {token + 9} {token} " + "%032x" % seven
        assert w.heard() == [("holdfast:1", line + WHO)]
        assert w.evict(token + 9, sure="x", request=7777) == 0
        assert w.evict(token + 9, request=7777) == 0 and w.heard() == []
        w.redis("DEL", w.done(7777))
        w.run("renew", [w.name, w.info, w.name], kind, owner(1), 0, token + 3)
        assert w.evict(token + 2) == 0 and w.evict(token + 3) == 2
        w.heard()
        assert w.evict(token + 3, sure="y", request=seven) == 1
        assert w.evict(token + 3, request=seven) == 1 and w.evict(token) == 0
        heard = w.heard()
        assert len(heard) == 1 and heard[0][1].startswith("g 2 ")
        assert w.hash(w.name) == {owner(2): "1"} and w.withdraw(1, kind) == 0
        w.withdraw(2, kind)
        assert w.keys() == []


def case_evict_rw(w):
    token = w.take_rw(1, "w")[1]
    w.take_rw(2, "r")
    assert w.evict(token) == 1 and lost(w, 1) and owner(2) in w.hash(w.name)
    token = int(w.record(2)[5])
    w.take_rw(3, "w")
    assert w.evict(token) == 1 and lost(w, 2) and owner(3) + ":write" in w.hash(w.name)
    w.withdraw_rw(3, "w")
    assert w.keys() == []


def case_evict_permits(w):
    for kind in "pe":
        token = w.take_count(1, kind, limit=1)[1]
        w.take_count(2, kind, limit=1)
        assert w.evict(token) == 1 and lost(w, 1) and w.record(2)[0] == "h"
        assert w.evict(token) == 0 and w.withdraw_count(1, kind) == 0
        w.withdraw_count(2, kind)
        assert w.keys() == []


def case_evict_simple(w):
    token = w.simple_take(1)[1]
    w.simple_take(2)
    assert w.evict(token, "s") == 1 and w.redis("GET", w.name) == "%032x" % 2
    w.simple_withdraw(2)
    assert w.keys() == []


def case_evict_redisson(w):
    java_takes(w)
    w.redis("SET", w.token, 41)
    assert w.evict(42) == 0 and w.evict(41) == 1 and w.keys() == []
    java_takes(w)
    w.take(2)
    assert w.evict(41) == 1 and w.hash(w.name) == {owner(2): "1"}
    w.withdraw(2)
    java_reads(w)
    w.redis("SET", w.token, 43)
    assert w.evict(43) == 0 and JAVA in w.hash(w.name)


def case_evict_expired(w):
    token = w.take(1, ttl=20)[1]
    w.take(2)
    w.pass_time(25)
    assert w.evict(token) == 0 and w.heard() == []


def case_revoke(w):
    token = w.take(1)[1]
    w.take(2)
    assert w.revoke(token) == 1 and w.revoke() == 1 and w.revoke(token + 1) == 0
    assert w.heard() == [("holdfast:1", f"r 1 {owner(1)} {asked} {token}")
                         for asked in (token, 0)]
    w.redis("DEL", w.name)
    assert w.revoke() == 0
    w.redis("FLUSHALL")
    w.take_rw(1, "r")
    w.take_rw(2, "r")
    assert w.revoke() == 2 and len(w.heard()) == 2
    w.redis("FLUSHALL")
    w.take_rw(1, "w")
    assert w.revoke() == 1
    w.redis("FLUSHALL")
    w.take_count(1)
    w.take_count(2)
    assert w.revoke() == 2
    w.redis("FLUSHALL")
    w.simple_take(1)
    assert w.revoke() == 1


def lease(w, keys, kind, number):
    """What is left of the hold's own lease on the server."""
    if kind == "r":
        return w.redis("PTTL", w.reader_key(number))
    if kind in "pe":
        member = raw(number) if kind == "e" else owner(number)
        return int(w.redis("ZSCORE", keys[-1], member) or 0) - w.ms()
    return w.redis("PTTL", w.name)


def adopt(w, keys, kind, take, withdraw):
    token, span = take(1)[1:3]
    assert span == 4 and w.adopt(keys, 9, 2, kind, token) is None
    for wrong in (token - 1, token + 4, 0, -1, 2**63 - 1, -(2**63)):
        assert w.adopt(keys, 1, 2, kind, wrong) is None, wrong
    assert w.adopt(keys, 1, 2, kind, token + 2)[:3] == [token + 2, 1, 40000]
    who = owner(1) if kind != "s" else "%032x" % 1
    assert w.heard() == [("holdfast:1", "l 1 " + who)]
    assert w.redis("HEXISTS", w.info, who) == 0
    # A repeated request gives a fresh lease under the same token.
    assert lease(w, keys, kind, 2) > 39000
    assert w.adopt(keys, 1, 2, kind, token + 2, ttl=90000)[:3] == [token + 2, 1, 90000]
    assert lease(w, keys, kind, 2) > 89000 and w.heard() == []
    assert kind in "pe" or w.redis("PTTL", w.info) > 89000
    assert w.adopt(keys, 1, 2, kind, token + 1) is None
    assert withdraw(1) == 0 and take(2)[:3] == [1, token + 2, 1]
    assert w.redis("HLEN", w.info) >= 1 and withdraw(2) == 1 and w.keys() == [], w.keys()
    adopt_of_lost(w, keys, kind, take)


def case_adopt_another_kind(w):
    """A damaged id: there is no hold of its kind."""
    takes = {"m": w.take, "f": w.take, "r": w.take_rw, "w": w.take_rw,
             "p": w.take_count, "e": w.take_count}
    keys = {"m": w.mutex_keys(), "f": w.mutex_keys(), "r": w.rw_keys(), "w": w.rw_keys(),
            "p": w.count_keys("p"), "e": w.count_keys("e")}
    for kind, take in takes.items():
        token = take(1, kind)[1]
        before = w.hash(w.info), w.redis("TYPE", w.name), w.redis("PTTL", w.name)
        for other in takes.keys() - kind:
            assert w.adopt(keys[other], 1, 2, other, token, ttl=90000) is None, other
        after = w.hash(w.info), w.redis("TYPE", w.name), w.redis("PTTL", w.name)
        assert before[:2] == after[:2] and after[2] <= before[2] and w.heard() == []
        assert w.adopt(keys[kind], 1, 2, kind, token)[0] == token
        w.redis("FLUSHALL")
        w.heard()


def adopt_of_lost(w, keys, kind, take):
    """A repeated request after the hold has expired fails, whatever is in INFO."""
    token = take(1)[1]
    w.adopt(keys, 1, 2, kind, token)
    if kind == "r":
        w.redis("DEL", w.reader_key(2))
    elif kind in "pe":
        w.redis("DEL", keys[-1])
    else:
        w.redis("DEL", w.name)
    assert w.adopt(keys, 1, 2, kind, token) is None and w.heard() != []
    if kind in "mfws":
        assert w.redis("EXISTS", w.name) == 0
    w.redis("FLUSHALL")


def case_adopt(w):
    for kind in "mf":
        adopt(w, w.mutex_keys(), kind, lambda n: w.take(n, kind, reserve=4),
              lambda n: w.withdraw(n, kind))
    for kind in "rw":
        adopt(w, w.rw_keys(), kind, lambda n: w.take_rw(n, kind, reserve=4),
              lambda n: w.withdraw_rw(n, kind))
    for kind in "pe":
        adopt(w, w.count_keys(kind), kind, lambda n: w.take_count(n, kind, reserve=4),
              lambda n: w.withdraw_count(n, kind))
    adopt(w, w.rw_keys()[:4], "s", lambda n: w.simple_take(n, reserve=4), w.simple_withdraw)


def rows(w):
    return [row[:3] + row[4:7] for row in w.inspect()]


def case_inspect_mutex(w):
    assert w.inspect() == []
    token = w.take(1)[1]
    w.take(2)
    w.take(3, "f")
    java_queues(w, JAVA)
    assert rows(w) == [["h", "m", owner(1), 1, 0, 0], ["w", "m", owner(2), 1, 0, 0],
                       ["w", "f", owner(3), 1, 0, 1], ["w", "f", JAVA, 1, 0, 2]]
    holder, waiter, _, java = w.inspect()
    assert holder[3] == token and 0 <= holder[7] < 1000 and 29000 < holder[8] <= 30000
    assert holder[9] == "host\x1f1\x1fprog\x1fa note" and waiter[8] == -1
    assert java[7] == -1 and java[9] == JAVA


def case_inspect_foreign(w):
    java_takes(w, count=2)
    w.redis("SET", w.token, 7)
    assert [r[:7] for r in w.inspect()] == [["h", "m", JAVA, 7, 2, 0, 0]]
    w.redis("DEL", w.name)
    java_reads(w)
    assert rows(w) == [["h", "r", JAVA, 1, 0, 0]] and w.inspect()[0][8] > 29000


def case_inspect_pages(w):
    w.take(0)
    for i in range(1, 300):
        w.redis("RPUSH", w.queue, owner(i))
    for i in range(300, 400):
        w.redis("RPUSH", w.fair, owner(i))
    assert [r[6] for r in w.inspect()] == [0] + list(range(399))
    w.redis("FLUSHALL")
    w.redis("HSET", w.name, "mode", "read")
    readers = [owner(i) for i in range(400)]
    for fields in (400, 1000):  # scanned in one step, and in many
        readers = [owner(i) for i in range(fields)]
        for reader in readers:
            w.redis("HSET", w.name, reader, 1)
        assert sorted(r[2] for r in w.inspect()) == readers
    w.redis("FLUSHALL")
    for i in range(400):
        w.redis("ZADD", w.permits, w.ms() + 90000, owner(i))
        w.redis("ZADD", w.timeout, w.ms() + 90000, raw(i))
    found = [r[2] for r in w.inspect()]
    assert sorted(found[:400]) == sorted(found[400:]) == [owner(i) for i in range(400)]


def case_inspect_no_lock(w):
    """There are no rows for the keys of an application."""
    for fields in (["age", 30], ["age", 30, "name", "x"], [JAVA, "x"], [JAVA, "-1"],
                   [JAVA, 1, "age", 2], [JAVA + ":write", 1], ["mode", "dark"],
                   ["mode", "read", "age", 2], ["a:1", 1]):
        w.redis("HSET", w.name, *fields)
        assert w.inspect() == [], fields
        w.redis("DEL", w.name)
    w.redis("SET", w.name, "x" * 5000)
    assert w.inspect() == []
    w.redis("DEL", w.name)
    w.redis("RPUSH", w.name, "x")
    assert w.inspect() == []
    for key in (w.info, w.queue, w.fair, w.permits, w.timeout):
        w.redis("SET", key, "x")
    assert w.inspect() == []
    w.redis("DEL", w.name)
    java_takes(w, count=2)
    w.redis("RPUSH", w.token, "x")
    assert [r[:7] for r in w.inspect()] == [["h", "m", JAVA, 0, 2, 0, 0]]


def case_inspect_others(w):
    w.take_rw(1, "w")
    assert rows(w) == [["h", "w", owner(1), 1, 0, 0]]
    w.redis("FLUSHALL")
    w.take_count(1, permits=2)
    assert rows(w) == [["h", "p", owner(1), 2, 3, 0]] and w.inspect()[0][8] > 29000
    w.redis("FLUSHALL")
    w.take_count(1, "e")
    w.redis("ZADD", w.timeout, w.ms() + 90000, raw(0xFE00))
    assert rows(w) == [["h", "e", owner(1), 1, 3, 0],
                       ["h", "e", owner(0xFE00), 1, 3, 0]]
    w.redis("ZADD", w.timeout, w.ms() - 1, raw(1))  # over: not a holder any more
    w.redis("ZADD", w.timeout, "-inf", raw(0xFE01))
    assert rows(w) == [["h", "e", owner(0xFE00), 1, 3, 0]]
    w.redis("FLUSHALL")
    w.take_count(1, permits=2)
    w.redis("ZADD", w.permits, w.ms(), owner(1))
    assert rows(w) == []
    w.redis("FLUSHALL")
    w.latch_set(4, 1)
    w.latch_wait(1)
    assert rows(w) == [["l", "l", "", 4, 0, 0], ["w", "l", owner(1), 1, 0, 0]]
    w.redis("FLUSHALL")
    version = w.cell_set(0, 1, b"x")[1]
    assert w.inspect()[0][:4] == ["c", "c", "", version]
    w.redis("FLUSHALL")
    w.redis("SET", w.name, 5)
    assert rows(w) == [["s", "p", "", 5, 0, 0]]
    w.redis("FLUSHALL")
    w.simple_take(1)
    assert rows(w) == [["h", "m", "%032x" % 1, 1, 0, 0]]
