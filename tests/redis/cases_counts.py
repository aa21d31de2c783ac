# SPDX-License-Identifier: MIT
"""take_permits, leave_permits: semaphores and expiring permits."""

from cases_mutex import calls, refused
from world import owner, raw


def free(w):
    return w.redis("GET", w.name)


def case_take_and_leave(w):
    reply = w.take_count(1, permits=2, reserve=3)
    calls(w, 16)
    assert reply[0] == 1 and reply[2:4] == [3, 30000] and free(w) == "1"
    assert abs(int(w.redis("ZSCORE", w.permits, owner(1))) - w.ms() - 30000) < 1000
    assert w.record(1)[:3] == ["h", "p", "2"]
    assert w.take_count(1, permits=2, reserve=3)[:4] == reply[:4] and free(w) == "1"
    assert w.take_count(1, permits=2, ttl=60000)[3] == 60000
    assert int(w.redis("ZSCORE", w.permits, owner(1))) > w.ms() + 50000
    assert w.keys() == sorted([w.name, w.info, w.permits])
    java = w.listen(w.sc_channel)
    assert w.leave_count(1) == 1 and java.messages() == [(w.sc_channel, "3")]
    calls(w, 12)
    assert w.keys() == sorted([w.name, w.info]) and free(w) == "3"  # java comes for it
    w.redis("CLIENT", "KILL", "TYPE", "pubsub")
    assert w.take_count(1)[0] == 1 and w.leave_count(1) == 1
    assert w.keys() == [] and w.leave_count(1) == 0 and w.keys() == []


def case_weights_and_head_of_line(w):
    w.take_count(1, permits=2)
    reply = w.take_count(2, permits=2)
    assert reply[0] == 2 and reply[2:4] == [0, 0] and 29000 < reply[1] <= 30000, reply
    assert w.take_count(3, permits=1)[2:4] == [1, 0] and free(w) == "1"
    assert w.take_count(4, permits=1, flags="t")[0] == 3
    assert w.take_count(3, permits=1)[2] == 1
    w.leave_count(1)
    assert [m[1][:3] for m in w.heard()] == ["g 2", "g 3"] and free(w) == "0"
    assert w.leave_count(2) == 1 and w.leave_count(3) == 1 and w.keys() == []


def case_waiter_leaves(w):
    w.take_count(1, permits=2)
    w.take_count(2, permits=3)
    w.take_count(3, permits=1)
    assert w.leave_count(2) == 1
    assert any(m[1].startswith("g 3 ") for m in w.heard()) and free(w) == "0"
    assert w.leave_count(2) == 0 and w.leave_count(9) == 0
    w.leave_count(1)
    w.leave_count(3)
    assert w.keys() == []


def case_dead_waiter(w):
    w.take_count(1, permits=3)
    w.take_count(5, permits=3)
    w.take_count(2, permits=1)
    w.leave_count(1)
    assert w.record(5) is None and free(w) == "2" and w.record(2)[0] == "h"
    w.leave_count(2)
    assert w.keys() == []


def case_reclaim(w):
    w.take_count(1, permits=2, ttl=20)
    reply = w.take_count(2, permits=3)
    assert reply[0] == 2 and 0 <= reply[1] <= 20
    w.pass_time(25)
    assert w.renew(("p", 1, 30000)) == [0]
    assert w.take_count(2, permits=3)[0] == 1 and free(w) == "0" and w.record(1) is None
    assert w.leave_count(1) == 0 and w.leave_count(2) == 1 and w.keys() == []


def case_reclaim_many(w):
    for number in range(10, 260):
        w.take_count(number, limit=250, ttl=1)
    w.pass_time(3)
    w.take_count(1, limit=250)
    w.take_count(2, limit=250)
    w.take_count(3, limit=250)
    assert free(w) == "247" and w.redis("ZCARD", w.permits) == 3


def case_limit(w):
    w.take_count(1)
    refused("mismatch", w.take_count, 2, limit=4)
    refused("mismatch", w.take_count, 2, kind="e", limit=3)
    assert w.leave_count(1) == 1
    assert w.take_count(1, limit=4)[0] == 1 and free(w) == "3"
    w.take_count(2, limit=4, permits=2, ttl=1)
    w.leave_count(1)
    w.pass_time(3)
    assert w.take_count(1, limit=6)[0] == 1 and free(w) == "5"
    w.leave_count(1)
    assert w.keys() == []


def case_wrong_kinds(w):
    for make in (("HSET", w.name, "a", 1), ("SET", w.name, "00ff" * 8)):
        w.redis("DEL", w.name)
        w.redis(*make)
        refused("mismatch", w.take_count, 1)
        assert w.leave_count(1) == 0 and w.keys() == [w.name]


def case_redissons_counter(w):
    w.redis("SET", w.name, 2)
    assert w.take_count(1, permits=2, limit=7)[0] == 1 and free(w) == "0"
    assert w.take_count(2, limit=9)[2:4] == [0, 1]
    refused("mismatch", w.take_count, 3, "e")
    w.redis("INCRBY", w.name, 1)  # Redisson's release; it publishes, we look again
    assert w.take_count(2, limit=9)[0] == 1
    w.leave_count(1)
    w.leave_count(2)
    assert w.keys() == [w.name] and free(w) == "3"
    w.redis("SET", w.name, -2)
    assert w.take_count(1)[0] == 2 and w.leave_count(1) == 1 and w.keys() == [w.name]


def case_redisson_uses_our_counter(w):
    w.take_count(1)
    w.redis("DECRBY", w.name, 2)
    assert w.take_count(2)[2:4] == [0, 1]
    w.leave_count(2)
    assert w.leave_count(1) == 1 and free(w) == "1"
    assert w.redis("TTL", w.name) == -1
    w.redis("INCRBY", w.name, 2)
    assert w.take_count(1)[0] == 1 and w.leave_count(1) == 1 and w.keys() == []


def case_new_head_is_told_of_redisson(w):
    w.take_count(1, permits=2)
    w.redis("DECRBY", w.name, 1)
    w.take_count(2, permits=1)
    w.take_count(3, permits=3)
    w.leave_count(1)
    assert [m[1][:3] for m in w.heard()] == ["g 2", "n 3"]


def case_counter_deleted(w):
    w.take_count(1, permits=2)
    w.redis("DEL", w.name)
    assert w.take_count(2)[0] == 1 and free(w) == "0"
    w.leave_count(1)
    w.leave_count(2)
    assert w.keys() == []


def case_counter_deleted_under_a_waiter(w):
    w.redis("SET", w.name, 0)
    assert w.take_count(1)[0] == 2
    w.redis("DEL", w.name)
    assert w.leave_count(1) == 1 and w.keys() == []


def case_open_round(w):
    java = w.listen(w.sc_channel)
    w.take_count(1, limit=1)
    holder = 1
    for _ in range(8):
        w.take_count(3 - holder, limit=1)
        w.leave_count(holder)
        holder = 3 - holder
    assert java.messages() == []
    w.take_count(2, limit=1)
    w.leave_count(1)
    assert java.messages() == [(w.sc_channel, "1")] and free(w) == "1"
    w.pass_time(25)
    assert w.take_count(2, limit=1)[0] == 1 and w.leave_count(2) == 1
    assert free(w) == "1" and java.messages() == [(w.sc_channel, "1")]


def case_corrupt_token(w):
    w.redis("SET", w.token, "abc")
    refused("corrupt", w.take_count, 1)
    assert w.keys() == []


# ---- Expiring ----------------------------------------------------------------------

ID = 0x00FF00FE0D0A20257F80C3A9E2000001  # bytes a script could stumble over


def case_expiring(w):
    reply = w.take_count(ID, "e", limit=1)
    assert reply[0] == 1 and w.redis("ZRANGE", w.timeout, 0, -1) == [raw(ID)]
    assert abs(int(w.redis("ZSCORE", w.timeout, raw(ID))) - w.ms() - 30000) < 1000
    assert w.take_count(ID, "e", limit=1)[:2] == reply[:2]
    waiting = w.take_count(2, "e", limit=1)
    assert waiting[0] == 2 and 29000 < waiting[1] <= 30000 and waiting[2:4] == [0, 0]
    assert w.renew(("e", ID, 60000), ("e", 2, 60000)) == [1, 0]
    assert int(w.redis("ZSCORE", w.timeout, raw(ID))) > w.ms() + 50000
    assert w.leave_count(ID, "e") == 1 and w.heard()[0][1].startswith("g 2 ")
    assert w.redis("ZCARD", w.timeout) == 1
    assert w.leave_count(ID, "e") == 0 and w.leave_count(2, "e") == 1 and w.keys() == []


def case_expiring_reclaim(w):
    w.take_count(ID, "e", limit=2, ttl=20)
    w.redis("ZADD", w.timeout, w.ms() + 20, b"\xff" * 16)  # Redisson's
    w.redis("DECR", w.name)
    assert w.take_count(2, "e", limit=2)[2:4] == [0, 1]
    w.pass_time(25)
    assert w.take_count(2, "e", limit=2)[0] == 1 and free(w) == "1"
    assert w.redis("ZCARD", w.timeout) == 1 and w.record(ID) is None
    w.leave_count(2, "e")
    assert w.keys() == []


def case_expiring_beside_redisson(w):
    w.redis("SET", w.name, 1)
    w.redis("ZADD", w.timeout, 922337203685477, b"\xfe" * 16)
    assert w.take_count(1, "e", limit=5)[0] == 1
    assert w.take_count(2, "e", limit=5)[2:4] == [0, 1]
    w.leave_count(1, "e")
    w.leave_count(2, "e")
    assert free(w) == "1" and w.keys() == sorted([w.name, w.timeout])
