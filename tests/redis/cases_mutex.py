# SPDX-License-Identifier: MIT
"""take_mutex, withdraw_mutex: mutex and fair lock, alone and beside Redisson."""

import resp
from world import owner

JAVA = "11111111-2222-4333-8444-555555555555:77"
JAVA2 = "11111111-2222-4333-8444-666666666666:5"


def java_takes(w, who=JAVA, ttl=30000, count=1):
    """Redisson's acquire of a free RLock."""
    assert w.redis("EXISTS", w.name) == 0
    w.redis("HINCRBY", w.name, who, count)
    w.redis("PEXPIRE", w.name, ttl)


def java_leaves(w):
    w.redis("DEL", w.name)
    w.redis("PUBLISH", w.channel, 0)


def refused(word, function, *args, **more):
    try:
        function(*args, **more)
    except resp.Error as error:
        assert str(error).startswith("HOLDFAST " + word), error
        return
    raise AssertionError("not refused")


def calls(w, most):
    if w.run.traced:
        if w.run.verbose:
            print(f"# {w.run.calls} calls (at most {most})")
        assert w.run.calls <= most, w.run.calls


def case_free(w):
    before, reply = w.us(), w.take(1, reserve=5)
    calls(w, 7)
    assert reply[0] == 1 and reply[2:4] == [5, 30000], reply
    assert before <= reply[1] <= w.us() and w.ms() - 1000 < reply[4] <= w.ms()
    assert w.hash(w.name) == {owner(1): "1"}
    assert 29000 < w.redis("PTTL", w.name) <= 30000
    assert 29000 < w.redis("PTTL", w.info) <= 30000
    record = w.record(1)
    assert record[:5] == ["h", "m", "1", "30000", "5"]
    assert record[5:8] == [str(reply[1]), "5", str(reply[4])]
    assert record[8:] == ["holdfast:1", "1", "host\x1f1\x1fprog\x1fa note"], record
    assert w.redis("GET", w.token) == str(reply[1] + 4)
    assert w.keys() == sorted([w.name, w.info])
    java = w.listen(w.channel)
    assert w.withdraw(1) == 1
    calls(w, 5)
    assert w.keys() == [] and java.messages() == [(w.channel, "0")]
    assert w.redis("DBSIZE") == 1 and w.redis("TTL", w.token) == -1


def case_take_again(w):
    first = w.take(1, reserve=3)
    w.redis("PEXPIRE", w.name, 1000)
    again = w.take(1, reserve=3)
    assert again[:4] == first[:4] and again[4] >= first[4]
    assert w.redis("PTTL", w.name) > 29000
    assert w.hash(w.name) == {owner(1): "1"}
    assert w.withdraw(1) == 1 and w.withdraw(1) == 0 and w.keys() == []


def case_take_again_longer(w):
    w.take(1)
    assert w.take(1, ttl=90000)[3] == 90000
    assert w.redis("PTTL", w.info) > 89000 and w.redis("PTTL", w.name) > 89000


def case_take_again_without_record(w):
    first = w.take(1)
    w.redis("DEL", w.info)
    again = w.take(1)
    assert again[0] == 1 and again[1] > first[1] and w.record(1)[0] == "h"
    assert 29000 < w.redis("PTTL", w.info) <= 30000
    assert w.withdraw(1) == 1 and w.keys() == []


def case_try(w):
    assert w.take(1, flags="t")[0] == 1
    reply = w.take(2, flags="t")
    assert reply[0] == 3 and 29000 < reply[1] <= 30000 and len(reply) == 2
    assert w.take(3, flags="t", kind="f")[0] == 3
    assert w.record(2) is None and w.keys() == sorted([w.name, w.info])


def case_queue_and_hand_over(w):
    w.take(1)
    for number in (2, 3):
        reply = w.take(number, ttl=10000 * number, reserve=4)
        assert reply[0] == 2 and 29000 < reply[1] <= 30000, reply
        assert reply[2:4] == [number - 2, 0] and abs(reply[4] - w.ms()) < 1000
    again = w.take(3, ttl=30000, reserve=4)
    assert again[0] == 2 and again[2:4] == [1, 0]
    assert w.line() == [owner(2), owner(3)] and w.record(3)[:7] == \
        ["w", "m", "1", "30000", "4", "0", "0"]
    assert 119000 < w.redis("PTTL", w.queue) <= 120000
    assert 149000 < w.redis("PTTL", w.info) <= 150000
    assert w.heard() == []
    assert w.withdraw(1) == 1
    calls(w, 10)
    channel, message = w.heard().pop()
    words = message.split(" ")
    assert channel == "holdfast:2" and words[:3] == ["g", "2", owner(2)], message
    assert words[4:6] == ["4", "20000"] and abs(int(words[6]) - w.ms()) < 1000
    assert w.hash(w.name) == {owner(2): "1"} and w.line() == [owner(3)]
    assert 19000 < w.redis("PTTL", w.name) <= 20000
    record = w.record(2)
    assert record[0] == "h" and record[5:7] == words[3:5] and w.record(1) is None
    # A repeated attempt answers what was pushed.
    reply = w.take(2, ttl=20000, reserve=4)
    assert reply[:4] == [1, int(words[3]), 4, 20000]
    assert w.withdraw(2) == 1 and w.withdraw(3) == 1 and w.keys() == []


def case_since_is_kept(w):
    w.take(1)
    w.take(2)
    since = w.record(2)[7]
    w.pass_time(3)
    w.take(2)
    assert w.record(2)[7] == since


def case_unknown_withdraws(w):
    w.take(1)
    w.take(2)
    before = w.hash(w.name), w.hash(w.info), w.line()
    assert w.withdraw(9) == 0 and w.withdraw(9, "f") == 0
    assert before == (w.hash(w.name), w.hash(w.info), w.line()) and w.heard() == []


def case_waiter_leaves(w):
    w.take(1)
    for number in (2, 3, 4):
        w.take(number)
    assert w.withdraw(3) == 1 and w.withdraw(3) == 0
    assert w.line() == [owner(2), owner(4)] and w.heard() == []
    assert w.withdraw(2) == 1 and w.heard() == [("holdfast:4", "n 4 " + owner(4))]
    assert w.withdraw(4) == 1 and w.hash(w.info).keys() >= {owner(1)} and w.line() == []
    assert w.withdraw(1) == 1 and w.keys() == []


def case_dead_waiter_is_skipped(w):
    w.take(1)
    for number in (5, 6, 2):  # no client is subscribed to inboxes 5 and 6
        w.take(number)
    w.withdraw(1)
    assert w.hash(w.name) == {owner(2): "1"} and len(w.heard()) == 1
    assert w.line() == [] and w.record(5) is None and w.record(6) is None
    w.withdraw(2)
    assert w.keys() == []


def case_only_dead_waiters(w):
    w.take(1)
    w.take(5)
    w.take(6, kind="f")
    java = w.listen(w.channel)
    w.withdraw(1)
    assert w.keys() == [] and java.messages() == [(w.channel, "0")]


def case_dead_head_after_leave(w):
    w.take(1)
    for number in (2, 5, 3):
        w.take(number)
    w.withdraw(2)
    assert w.line() == [owner(3)] and w.heard() == [("holdfast:3", "n 3 " + owner(3))]


def case_expired_holder(w):
    w.take(1, ttl=20)
    w.take(2)
    w.take(3)
    w.pass_time(30)
    w.redis("PEXPIRE", w.info, 1000)
    reply = w.take(2)
    assert reply[0] == 1 and w.record(1) is None and w.line() == [owner(3)]
    assert w.redis("PTTL", w.info) > 29000
    assert w.withdraw(1) == 0 and w.hash(w.name) == {owner(2): "1"}
    w.withdraw(2)
    w.withdraw(3)
    assert w.keys() == []


def case_same_id_again(w):
    """A ticket that held, left and queues again is no stale holder."""
    w.take(1)
    w.withdraw(1)
    java_takes(w)
    w.take(2)
    w.redis("HSET", w.info, "#last", owner(1))
    w.take(1)
    java_leaves(w)
    assert w.take(2)[0] == 1 and w.record(1)[0] == "w"


def case_repair_for_another(w):
    """The lock is free, the head does not know: the next attempt grants it."""
    w.take(1)
    w.take(2)
    w.redis("DEL", w.name)
    assert w.take(3, flags="t")[0] == 3
    assert w.heard()[0][1].startswith("g 2 " + owner(2))
    reply = w.take(3)
    assert reply[0] == 2 and reply[2] == 0 and w.line() == [owner(3)]
    w.redis("DEL", w.name)
    w.redis("DEL", w.queue)  # as after 120 s of silence
    assert w.take(4)[0] == 1


def case_queue_lost(w):
    w.take(1)
    w.take(2)
    w.redis("DEL", w.queue)
    assert w.take(2)[2] == 0 and w.line() == [owner(2)]
    w.redis("DEL", w.info)
    assert w.take(2)[0] == 2
    w.withdraw(1)
    assert w.hash(w.name) == {owner(2): "1"}
    # The second entry of 2 in the queue must not grant again.
    assert w.withdraw(2) == 1 and w.keys() == []


def case_foreign_holder(w):
    java_takes(w, count=3)
    reply = w.take(1)
    assert reply[0] == 2 and reply[2:4] == [0, 1] and 29000 < reply[1] <= 30000
    assert w.take(2)[2:4] == [1, 0]
    assert w.take(3, flags="t")[0] == 3
    assert w.hash(w.name) == {JAVA: "3"}
    java_leaves(w)
    assert w.take(1)[0] == 1
    assert w.withdraw(1) == 1 and w.hash(w.name) == {owner(2): "1"}
    w.withdraw(2)
    assert w.keys() == []


def case_foreign_holder_without_ttl(w):
    w.redis("HSET", w.name, JAVA, 1)
    assert w.take(1)[:4] == [2, -1, 0, 1]
    assert w.take(2, flags="t") == [3, -1]
    assert w.take(3, kind="f")[:4] == [2, -1, 1, 1]


def case_unlock_latches_do_not_matter(w):
    w.redis("SET", "redisson_unlock_latch:{lock}:00ff", 0, "PX", 16000)
    w.take(1)
    w.withdraw(1)
    assert w.keys() == ["redisson_unlock_latch:{lock}:00ff"]


def chain(w, rounds):
    """Hands the lock on so many times, with a waiter always there. The last holder."""
    holder = 1
    for _ in range(rounds):
        following = 3 - holder
        assert w.take(following)[0] == 2
        assert w.withdraw(holder) == 1
        if w.hash(w.name) != {owner(following): "1"}:
            return following, False
        holder = following
    return holder, True


def case_no_round_without_listener(w):
    w.take(1)
    holder, direct = chain(w, 20)
    assert direct and holder == 1
    assert int(w.redis("HGET", w.info, "#run")) <= 8


def case_open_round(w):
    java = w.listen(w.channel)
    w.take(1)
    holder, direct = chain(w, 8)
    assert direct and holder == 1 and java.messages() == []
    w.heard()
    assert w.take(2)[0] == 2 and w.take(3)[0] == 2 and w.withdraw(1) == 1
    assert w.redis("EXISTS", w.name) == 0 and java.messages() == [(w.channel, "0")]
    assert w.heard() == [("holdfast:2", "n 2 " + owner(2))]
    reply = w.take(2)
    if reply[0] == 2:  # the window may be over on a slow machine
        assert 0 < reply[1] <= 20 and reply[2:4] == [0, 1]
        assert w.take(4, flags="t")[0] == 3
    java_takes(w)
    assert w.take(2)[2:4] == [0, 1]
    java_leaves(w)
    w.pass_time(25)
    assert w.take(2)[0] == 1
    assert w.withdraw(2) == 1 and w.hash(w.name) == {owner(3): "1"}
    w.withdraw(3)
    assert w.keys() == []


def case_open_round_unused(w):
    w.listen(w.channel)
    w.take(1)
    chain(w, 8)
    w.take(2)
    w.withdraw(1)
    w.pass_time(25)
    assert w.take(3)[0] == 2 and w.hash(w.name) == {owner(2): "1"}


def case_queue_expires_after_an_open_round(w):
    """Its only waiter was taken out of the queue and put back."""
    w.listen(w.channel)
    w.take(1)
    chain(w, 8)
    w.take(2)
    w.withdraw(1)
    assert w.line() == [owner(2)] and 119000 < w.redis("PTTL", w.queue) <= 120000


def case_wrong_kinds(w):
    for make in (("SET", w.name, "5"), ("HSET", w.name, "mode", "read", JAVA, 1),
                 ("HSET", w.name, "holdfast_version", 1, "holdfast_value", "x"),
                 ("RPUSH", w.name, "x")):
        w.redis("DEL", w.name)
        w.redis(*make)
        for kind in "mf":
            refused("mismatch", w.take, 1, kind)
            assert w.withdraw(1, kind) == 0
        assert w.keys() == [w.name]


def case_waiter_of_another_kind(w):
    """The name was a read-write lock when 2 began to wait. It is notified."""
    w.take_rw(1, "w")
    w.take_rw(2, "w")
    w.redis("DEL", w.name)
    assert w.take(3)[0] == 1 and w.heard() == [("holdfast:2", "n 2 " + owner(2))]
    refused("mismatch", w.take_rw, 2, "w")


def case_corrupt_token(w):
    for bad in ("9007199254740991", "abc", "-5", "12345678901234567890"):
        w.redis("SET", w.token, bad)
        refused("corrupt", w.take, 1)
        assert w.redis("GET", w.token) == bad and w.keys() == []
    w.redis("DEL", w.token)
    w.redis("RPUSH", w.token, "x")
    refused("corrupt", w.take, 1)
    assert w.keys() == []


def case_corrupt_token_at_release(w):
    java = w.listen(w.channel)
    for kind in "mf":
        w.take(1, kind)
        w.take(2, kind)
        java.messages()
        w.redis("SET", w.token, "abc")
        assert w.withdraw(1, kind) == 1 and w.redis("EXISTS", w.name) == 0
        heard = w.heard()
        assert java.messages() == [(w.channel, "0")] and heard == [], (kind, heard)
        refused("corrupt", w.take, 2, kind)
        w.redis("DEL", w.token)
        assert w.take(2, kind)[0] == 1 and w.withdraw(2, kind) == 1 and w.keys() == []


# ---- Fair --------------------------------------------------------------------------


def fair_line(w):
    return w.redis("LRANGE", w.fair, 0, -1)


def score(w, who):
    who = owner(who) if isinstance(who, int) else who
    return int(w.redis("ZSCORE", w.patience, who))


def java_queues(w, who, patience=300000):
    """Redisson's acquire of a fair lock that is not free: joins the queue."""
    last, now = w.redis("LINDEX", w.fair, -1), w.ms()
    base = score(w, last) - now if last else max(0, w.redis("PTTL", w.name))
    w.redis("ZADD", w.patience, base + patience + now, who)
    w.redis("RPUSH", w.fair, who)


def java_takes_fair(w, who, patience=300000):
    assert w.redis("EXISTS", w.name) == 0 and w.redis("LINDEX", w.fair, 0) == who
    w.redis("LPOP", w.fair)
    w.redis("ZREM", w.patience, who)
    for other in w.redis("ZRANGE", w.patience, 0, -1):
        w.redis("ZINCRBY", w.patience, -patience, other)
    java_takes(w, who)


def case_fair_order(w):
    w.take(1, "f")
    assert w.keys() == sorted([w.name, w.info])
    for number in (2, 3, 4):
        reply = w.take(number, "f")
        assert reply[0] == 2 and reply[2:4] == [number - 2, 0]
    assert fair_line(w) == [owner(n) for n in (2, 3, 4)]
    now = w.ms()
    for i, number in enumerate((2, 3, 4)):
        assert abs(score(w, number) - now - 30000 - 30000 * (i + 1)) < 1000
    assert w.withdraw(1, "f") == 1
    assert w.heard()[0][1].startswith("g 2 " + owner(2))
    assert fair_line(w) == [owner(3), owner(4)]
    assert w.redis("ZCARD", w.patience) == 2
    assert 149000 < w.redis("PTTL", w.info) <= 150000
    for i, number in enumerate((3, 4)):
        assert abs(score(w, number) - now - 30000 - 30000 * (i + 1)) < 1000
    assert w.withdraw(4, "f") == 1 and w.withdraw(4, "f") == 0 and w.heard() == []
    assert w.withdraw(2, "f") == 1 and w.hash(w.name) == {owner(3): "1"}
    assert w.withdraw(3, "f") == 1 and w.keys() == []


def case_fair_score_goes_up(w):
    w.take(1, "f", ttl=1000)
    w.take(2, "f")
    before = score(w, 2)
    w.redis("PEXPIRE", w.name, 60000)
    w.take(2, "f")
    assert score(w, 2) > before + 50000 and fair_line(w) == [owner(2)]
    top = score(w, 2)
    w.redis("PEXPIRE", w.name, 1000)
    w.take(2, "f")
    assert score(w, 2) == top


def case_fair_head_leaves(w):
    w.take(1, "f")
    for number in (2, 5, 3):
        w.take(number, "f")
    assert w.withdraw(2, "f") == 1
    assert fair_line(w) == [owner(3)]
    assert w.heard() == [("holdfast:3", "n 3 " + owner(3))]
    assert w.record(5) is None
    w.withdraw(1, "f")
    assert w.hash(w.name) == {owner(3): "1"}
    w.withdraw(3, "f")
    assert w.keys() == []


def case_fair_only_waiter_leaves(w):
    """No waiter is behind it, so none is notified; a repeat would hide an error."""
    w.take(1, "f")
    assert w.take(2, "f")[0] == 2
    assert w.withdraw(2, "f") == 1
    assert fair_line(w) == [] and w.record(2) is None and w.heard() == []
    assert w.hash(w.name) == {owner(1): "1"}
    w.withdraw(1, "f")
    assert w.keys() == []


def case_fair_head_leaves_redisson_behind(w):
    java = w.listen(w.channel + ":" + JAVA)
    w.take(1, "f")
    w.take(2, "f")
    java_queues(w, JAVA)
    before = score(w, JAVA)
    assert w.withdraw(2, "f") == 1 and score(w, JAVA) == before - 30000
    assert java.messages() == [(w.channel + ":" + JAVA, "0")]


def case_fair_stale_heads(w):
    w.take(1, "f")
    java_queues(w, JAVA)
    w.take(2, "f")
    w.redis("ZADD", w.patience, w.ms() - 1, JAVA)
    assert w.take(2, "f")[2:4] == [0, 0] and fair_line(w) == [owner(2)]
    w.redis("ZADD", w.patience, w.ms() - 1, owner(2))
    w.take(3, "f")
    assert fair_line(w) == [owner(3)] and w.record(2) is None
    assert w.take(2, "f")[2] == 1
    w.withdraw(1, "f")
    assert w.hash(w.name) == {owner(3): "1"}


def case_fair_head_without_score(w):
    w.take(1, "f")
    w.redis("RPUSH", w.fair, JAVA)
    reply = w.take(2, "f")
    assert reply[0] == 2 and reply[2:4] == [1, 1]
    java = w.listen(w.channel + ":" + JAVA)
    w.withdraw(1, "f")
    assert java.messages() == [(w.channel + ":" + JAVA, "0")]
    reply = w.take(2, "f")
    assert reply[0] == 2 and reply[1] == 1000 and reply[2:4] == [1, 1]
    assert w.redis("ZSCORE", w.patience, JAVA) is None
    assert w.withdraw(2, "f") == 1 and w.keys() == [w.fair]


def case_fair_mixed_with_redisson(w):
    java = w.listen(w.channel + ":" + JAVA, w.channel + ":" + JAVA2)
    w.take(1, "f")
    java_queues(w, JAVA)
    assert w.take(2, "f")[2:4] == [1, 1]
    java_queues(w, JAVA2)
    assert w.take(3, "f")[2:4] == [3, 1]
    w.withdraw(1, "f")
    assert java.messages() == [(w.channel + ":" + JAVA, "0")] and w.heard() == []
    java_takes_fair(w, JAVA)
    assert w.take(2, "f")[2:4] == [0, 1]
    # Redisson's own unlock notifies the head on its channel, to which we subscribed.
    w.redis("DEL", w.name)
    assert w.take(2, "f")[0] == 1
    assert fair_line(w) == [JAVA2, owner(3)]
    w.withdraw(2, "f")
    assert java.messages() == [(w.channel + ":" + JAVA2, "0")]
    java_takes_fair(w, JAVA2)
    w.redis("DEL", w.name)
    assert w.take(3, "f")[0] == 1 and w.withdraw(3, "f") == 1
    assert w.keys() == [], w.keys()


def case_fair_newcomer_waits_for_redisson(w):
    java_takes(w)
    java_queues(w, JAVA2)
    w.redis("DEL", w.name)
    for kind in "fm":
        assert w.take(2, kind, flags="t") == [3, 1000]
        reply = w.take(1, kind)
        assert reply[:2] == [2, 1000] and reply[3] == 1, reply
        assert w.withdraw(1, kind) == 1
    java_takes_fair(w, JAVA2)
    w.redis("DEL", w.name)
    assert w.keys() == []


def case_mutex_and_fair_meet(w):
    w.take(1)
    assert w.take(2, "f")[2:4] == [0, 0]
    assert w.take(3)[2:4] == [1, 0]
    assert w.take(4, "f")[2:4] == [2, 0]
    w.withdraw(1)
    assert w.hash(w.name) == {owner(3): "1"}
    w.withdraw(3)
    assert w.hash(w.name) == {owner(2): "1"}
    assert w.take(1)[0] == 2
    w.withdraw(2, "f")
    assert w.hash(w.name) == {owner(4): "1"}
    w.withdraw(4, "f")
    assert w.hash(w.name) == {owner(1): "1"}
    w.withdraw(1)
    assert w.keys() == []


def case_fair_gets_its_turn(w):
    w.take(1)
    w.take(4, "f")
    holder, direct = chain(w, 30)
    assert not direct and w.hash(w.name) == {owner(4): "1"}


def case_mutex_gets_its_turn(w):
    w.take(1, "f")
    w.take(4)
    holder, rounds = 1, 0
    while w.hash(w.name) != {owner(4): "1"}:
        w.take(3 - holder, "f")
        w.withdraw(holder, "f")
        holder, rounds = 3 - holder, rounds + 1
        assert rounds < 12
    assert w.redis("HGET", w.info, "#run") == "1"


# ---- Renewal -----------------------------------------------------------------------


def case_renew(w):
    w.take(1, ttl=1000)
    w.take(2)
    assert w.renew(("m", 1, 60000), ("m", 2, 60000), ("m", 3, 60000)) == [1, 0, 0]
    assert 59000 < w.redis("PTTL", w.name) <= 60000
    w.withdraw(2)
    w.redis("PEXPIRE", w.info, 1000)
    assert w.renew(("m", 1, 2000)) == [1]
    assert 1000 < w.redis("PTTL", w.name) <= 2000
    assert 1000 < w.redis("PTTL", w.info) <= 2000
    assert w.renew(("m", 1, 0)) == [1] and w.redis("PTTL", w.name) <= 2000
    w.redis("DEL", w.name)
    w.redis("SET", w.name, "x")
    assert w.renew(("m", 1, 2000), ("f", 1, 0)) == [0, 0]


def case_open_round_of_a_clock_set_back(w):
    """The end of an open round is no further away than it can be."""
    for take in (w.take, lambda n: w.take_rw(n, "w"), w.take_count):
        w.redis("FLUSHALL")
        w.redis("HSET", w.info, "#open", w.ms() + 3600000)
        if take == w.take_count:
            w.redis("SET", w.name, 3)
        assert take(1)[0] == 1
