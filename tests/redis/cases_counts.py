# SPDX-License-Identifier: MIT
"""take_permits, withdraw_permits: semaphores and expiring permits."""

from cases_mutex import calls, refused
from world import owner, raw


def free(w):
    return w.redis("GET", w.name)


def case_take_and_leave(w):
    reply = w.take_count(1, permits=2, reserve=3)
    calls(w, 23)
    assert reply[0] == 1 and reply[2:4] == [3, 30000] and free(w) == "1"
    assert abs(int(w.redis("ZSCORE", w.permits, owner(1))) - w.ms() - 30000) < 1000
    assert w.record(1)[:3] == ["h", "p", "2"]
    assert w.take_count(1, permits=2, reserve=3)[:4] == reply[:4] and free(w) == "1"
    assert w.take_count(1, permits=2, ttl=60000)[3] == 60000
    assert int(w.redis("ZSCORE", w.permits, owner(1))) > w.ms() + 50000
    assert w.keys() == sorted([w.name, w.info, w.permits])
    java = w.listen(w.sc_channel)
    assert w.withdraw_count(1) == 1 and java.messages() == [(w.sc_channel, "3")]
    calls(w, 12)
    assert w.keys() == sorted([w.name, w.info]) and free(w) == "3"  # java comes for it
    w.redis("CLIENT", "KILL", "TYPE", "pubsub")
    assert w.take_count(1)[0] == 1 and w.withdraw_count(1) == 1
    assert w.keys() == [] and w.withdraw_count(1) == 0 and w.keys() == []


def case_weights_and_head_of_line(w):
    w.take_count(1, permits=2)
    reply = w.take_count(2, permits=2)
    assert reply[0] == 2 and reply[2:4] == [0, 0] and 29000 < reply[1] <= 30000, reply
    assert w.take_count(3, permits=1)[2:4] == [1, 0] and free(w) == "1"
    assert w.take_count(4, permits=1, flags="t")[0] == 3
    assert w.take_count(3, permits=1)[2] == 1
    w.withdraw_count(1)
    assert [m[1][:3] for m in w.heard()] == ["g 2", "g 3"] and free(w) == "0"
    assert w.withdraw_count(2) == 1 and w.withdraw_count(3) == 1 and w.keys() == []


def case_waiter_leaves(w):
    w.take_count(1, permits=2)
    w.take_count(2, permits=3)
    w.take_count(3, permits=1)
    assert w.withdraw_count(2) == 1
    assert any(m[1].startswith("g 3 ") for m in w.heard()) and free(w) == "0"
    assert w.withdraw_count(2) == 0 and w.withdraw_count(9) == 0
    w.withdraw_count(1)
    w.withdraw_count(3)
    assert w.keys() == []


def case_dead_waiter(w):
    w.take_count(1, permits=3)
    w.take_count(5, permits=3)
    w.take_count(2, permits=1)
    w.withdraw_count(1)
    assert w.record(5) is None and free(w) == "2" and w.record(2)[0] == "h"
    w.withdraw_count(2)
    assert w.keys() == []


def case_reclaim(w):
    w.take_count(1, permits=2, ttl=20)
    reply = w.take_count(2, permits=3)
    assert reply[0] == 2 and 0 <= reply[1] <= 20
    w.pass_time(25)
    assert w.renew(("p", 1, 30000)) == [0]
    assert w.take_count(2, permits=3)[0] == 1 and free(w) == "0" and w.record(1) is None
    assert w.withdraw_count(1) == 0 and w.withdraw_count(2) == 1 and w.keys() == []


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
    assert w.withdraw_count(1) == 1
    assert w.take_count(1, limit=4)[0] == 1 and free(w) == "3"
    w.take_count(2, limit=4, permits=2, ttl=1)
    w.withdraw_count(1)
    w.pass_time(3)
    assert w.take_count(1, limit=6)[0] == 1 and free(w) == "5"
    w.withdraw_count(1)
    assert w.keys() == []


def case_wrong_kinds(w):
    for make in (("HSET", w.name, "a", 1), ("SET", w.name, "00ff" * 8)):
        w.redis("DEL", w.name)
        w.redis(*make)
        refused("mismatch", w.take_count, 1)
        assert w.withdraw_count(1) == 0 and w.keys() == [w.name]


def case_redissons_counter(w):
    w.redis("SET", w.name, 2)
    assert w.take_count(1, permits=2, limit=7)[0] == 1 and free(w) == "0"
    assert w.take_count(2, limit=9)[2:4] == [0, 1]
    refused("mismatch", w.take_count, 3, "e")
    w.redis("INCRBY", w.name, 1)  # Redisson's release; it publishes, we ask again
    assert w.take_count(2, limit=9)[0] == 1
    w.withdraw_count(1)
    w.withdraw_count(2)
    assert w.keys() == [w.name] and free(w) == "3"
    w.redis("SET", w.name, -2)
    assert w.take_count(1)[0] == 2 and w.withdraw_count(1) == 1 and w.keys() == [w.name]


def case_redisson_uses_our_counter(w):
    w.take_count(1)
    w.redis("DECRBY", w.name, 2)
    assert w.take_count(2)[2:4] == [0, 1]
    w.withdraw_count(2)
    assert w.withdraw_count(1) == 1 and free(w) == "1"
    assert w.redis("TTL", w.name) == -1
    w.redis("INCRBY", w.name, 2)
    assert w.take_count(1)[0] == 1 and w.withdraw_count(1) == 1 and w.keys() == []


def case_new_head_is_told_of_redisson(w):
    w.take_count(1, permits=2)
    w.redis("DECRBY", w.name, 1)
    w.take_count(2, permits=1)
    w.take_count(3, permits=3)
    w.withdraw_count(1)
    assert [m[1][:3] for m in w.heard()] == ["g 2", "n 3"]


def case_counter_deleted(w):
    w.take_count(1, permits=2)
    w.redis("DEL", w.name)
    assert w.take_count(2)[0] == 1 and free(w) == "0"
    w.withdraw_count(1)
    w.withdraw_count(2)
    assert w.keys() == []


def case_counter_deleted_under_a_waiter(w):
    w.redis("SET", w.name, 0)
    assert w.take_count(1)[0] == 2
    w.redis("DEL", w.name)
    assert w.withdraw_count(1) == 1 and w.keys() == []


def case_open_round(w):
    java = w.listen(w.sc_channel)
    w.take_count(1, limit=1)
    holder = 1
    for _ in range(8):
        w.take_count(3 - holder, limit=1)
        w.withdraw_count(holder)
        holder = 3 - holder
    assert java.messages() == []
    w.take_count(2, limit=1)
    w.withdraw_count(1)
    assert java.messages() == [(w.sc_channel, "1")] and free(w) == "1"
    w.pass_time(25)
    assert w.take_count(2, limit=1)[0] == 1 and w.withdraw_count(2) == 1
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
    assert w.withdraw_count(ID, "e") == 1 and w.heard()[0][1].startswith("g 2 ")
    assert w.redis("ZCARD", w.timeout) == 1
    assert w.withdraw_count(ID, "e") == 0 and w.withdraw_count(2, "e") == 1 and w.keys() == []


def case_expiring_reclaim(w):
    w.take_count(ID, "e", limit=2, ttl=20)
    w.redis("ZADD", w.timeout, w.ms() + 20, b"\xff" * 16)  # Redisson's
    w.redis("DECR", w.name)
    assert w.take_count(2, "e", limit=2)[2:4] == [0, 1]
    w.pass_time(25)
    assert w.take_count(2, "e", limit=2)[0] == 1 and free(w) == "1"
    assert w.redis("ZCARD", w.timeout) == 1 and w.record(ID) is None
    w.withdraw_count(2, "e")
    assert w.keys() == []


def case_expiring_beside_redisson(w):
    w.redis("SET", w.name, 1)
    w.redis("ZADD", w.timeout, 922337203685477, b"\xfe" * 16)
    assert w.take_count(1, "e", limit=5)[0] == 1
    assert w.take_count(2, "e", limit=5)[2:4] == [0, 1]
    w.withdraw_count(1, "e")
    w.withdraw_count(2, "e")
    assert free(w) == "1" and w.keys() == sorted([w.name, w.timeout])


def java_reclaims(w):
    """What Redisson does with expired permits before it takes one."""
    late = w.redis("ZRANGEBYSCORE", w.timeout, 0, w.ms())
    for member in late:
        w.redis("ZREM", w.timeout, member)
        w.redis("INCRBY", w.name, 1)


def dead(w):
    return [number for number in range(10, 30) if w.record(number)]


def case_expired_and_taken_over_by_redisson(w):
    """Records of the dead go when Redisson has taken their permits back."""
    w.take_count(1, "e", limit=3)
    for number in range(10, 20):
        assert w.take_count(number, "e", limit=3, ttl=1)[0] == 1
        w.pass_time(2)
        java_reclaims(w)
    assert w.take_count(2, "e", limit=3)[0] == 1
    assert dead(w) == [] and w.redis("HGET", w.info, "#held") == "2"
    assert w.take_count(3, "e", limit=3)[0] == 1
    assert w.take_count(4, "e", limit=3)[2:4] == [0, 0]
    for number in (1, 2, 3, 4):
        assert w.withdraw_count(number, "e") == 1
    assert w.keys() == []


def case_late_permits_of_redisson_are_not_ours(w):
    """A permit of Redisson's that expired, and that we take back, is not counted off from
    those that our records hold: the others keep theirs."""
    w.redis("SET", w.name, 5)
    w.take_count(1, "e")
    w.take_count(10, "e", ttl=1)
    for score, member in ((30000, b"\xfe" * 16), (1, b"\xfd" * 16)):
        w.redis("ZADD", w.timeout, w.ms() + score, member)
        w.redis("DECRBY", w.name, 1)
    w.pass_time(2)
    assert w.take_count(2, "e")[0] == 1 and free(w) == "2", free(w)
    assert dead(w) == [] and w.redis("HGET", w.info, "#held") == "2"
    assert w.withdraw_count(2, "e") == 1 and w.record(1)[0] == "h"


def case_made_again_over_the_dead(w):
    """A counter that was deleted starts with what is not held by the living."""
    for kind in "pe":
        w.take_count(1, kind, limit=3)
        for number in (10, 11):
            w.take_count(number, kind, limit=3, ttl=1)
        w.pass_time(2)
        if kind == "e":
            java_reclaims(w)
        w.redis("DEL", w.name)
        assert w.take_count(2, kind, limit=3)[0] == 1 and free(w) == "1", free(w)
        assert dead(w) == [] and w.redis("HGET", w.info, "#held") == "2"
        for number in (1, 2):
            assert w.withdraw_count(number, kind) == 1
        assert w.keys() == []


def case_deleted_by_redisson_and_made_again(w):
    """Redisson deletes an expiring semaphore with its permits; the holders are lost."""
    for number in (10, 11, 12):
        w.take_count(number, "e", limit=3)
    w.redis("DEL", w.name, w.timeout)
    for number in (1, 2, 3):
        assert w.take_count(number, "e", limit=3)[0] == 1
    assert free(w) == "0" and dead(w) == []
    for number in (1, 2, 3):
        w.withdraw_count(number, "e")
    assert w.keys() == []


def case_made_again_beside_redisson(w):
    """A permit that a client of Redisson's holds is out after the counter was deleted."""
    w.take_count(1, "e", limit=3)
    w.redis("ZADD", w.timeout, w.ms() + 30000, b"\xfe" * 16)
    w.redis("DEL", w.name)
    assert w.take_count(2, "e", limit=3)[0] == 1 and free(w) == "0", free(w)
    assert w.take_count(3, "e", limit=3, flags="t")[0] == 3


def case_last_leaves_beside_the_dead(w):
    """A holder died and Redisson took its permit back: the last of ours that leaves takes
    the record along, whoever made the counter."""
    for made_by_redisson in (False, True):
        if made_by_redisson:
            w.redis("SET", w.name, 3)
        w.take_count(1, "e", limit=3)
        w.take_count(10, "e", limit=3, ttl=1)
        w.pass_time(2)
        java_reclaims(w)
        assert w.withdraw_count(1, "e") == 1
        assert w.keys() == ([w.name] if made_by_redisson else []), w.keys()


DAY = 86400000


def lives(w, *keys):
    return [w.redis("PTTL", key) for key in keys]


def case_keys_outlive_the_last_lease_only(w):
    """Killed holders and waiters: all that is left of a counter of ours goes, at once."""
    for kind in "pe":
        keys = w.name, w.info, w.permits if kind == "p" else w.timeout
        w.take_count(1, kind, limit=1, ttl=30000)
        assert max(lives(w, *keys)) - min(lives(w, *keys)) < 1000
        assert all(DAY < ttl <= DAY + 30000 for ttl in lives(w, *keys)), lives(w, *keys)
        w.take_count(2, kind, limit=1, ttl=2 * DAY)  # raised by a longer one, not lowered
        assert all(2 * DAY < ttl for ttl in lives(w, *keys))
        w.take_count(3, kind, limit=1, ttl=1000)
        w.renew((kind, 1, 1000))
        assert all(2 * DAY < ttl for ttl in lives(w, *keys))
        w.renew((kind, 1, 5 * DAY))
        assert all(5 * DAY < ttl for ttl in lives(w, *keys))
        w.withdraw_count(1, kind)
        assert all(2 * DAY < ttl for ttl in lives(w, *keys))
        w.withdraw_count(2, kind)
        w.withdraw_count(3, kind)
        assert w.keys() == []


def case_keys_stay_for_a_permit_without_lease(w):
    """Redisson's semaphore has no leases: what counts its permits must not expire."""
    keys = w.name, w.info, w.permits
    w.take_count(1)
    assert -1 not in lives(w, *keys)
    w.redis("DECRBY", w.name, 1)
    w.take_count(2)
    assert set(lives(w, *keys)) == {-1}
    w.redis("INCRBY", w.name, 1)
    w.take_count(1)
    assert -1 not in lives(w, *keys)
    w.redis("DECRBY", w.name, 1)
    w.take_count(3)
    assert w.withdraw_count(1) == 1 and set(lives(w, *keys)) == {-1}


def case_counter_of_redisson(w):
    """INFO of an expiring semaphore goes with its leases; permits without a lease on
    Redisson's side stay with what gives them back."""
    w.redis("SET", w.name, 3)
    w.take_count(1, "e", ttl=30000)
    assert lives(w, w.name, w.timeout) == [-1, -1]
    assert 30000 < w.redis("PTTL", w.info) <= 150000
    w.renew(("e", 1, 500000))
    assert w.redis("PTTL", w.info) > 499000
    w.withdraw_count(1, "e")
    assert w.keys() == [w.name]
    w.take_count(1, "p", permits=3)
    assert lives(w, w.name, w.info, w.permits) == [-1, -1, -1]
    w.take_count(2, "p")
    assert w.redis("PTTL", w.info) == -1
    w.withdraw_count(1, "p")
    w.withdraw_count(2, "p")
    w.redis("DECRBY", w.name, 3)
    w.take_count(2, "p")
    assert 0 < w.redis("PTTL", w.info) <= 150000
