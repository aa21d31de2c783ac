# SPDX-License-Identifier: MIT
"""Latches, cells, and locks of the simple layout."""

from cases_mutex import calls, refused
from world import owner


def gone(w):
    """What is left but the notes that a request was done, which expire."""
    left = [k for k in w.keys() if not k.startswith("holdfast_done:")]
    for key in w.keys():
        assert key in left or 0 < w.redis("PTTL", key) <= 60000
    return left


# ---- Latch -------------------------------------------------------------------------


def case_latch(w):
    java = w.listen(w.latch_channel)
    assert w.latch_wait(1) == [1] and w.keys() == []
    assert w.latch_set(3, 1) == 1 and java.messages() == [(w.latch_channel, "1")]
    assert w.latch_set(3, 1) == 1 and w.latch_set(2, 2) == 0 and java.messages() == []
    assert w.redis("PTTL", w.info) > 0
    reply = w.latch_wait(1)
    assert reply[:4] == [2, -1, 0, 1] and w.latch_wait(2)[2] == 1
    assert w.latch_wait(1)[2] == 0
    assert w.latch_wait(3, "t") == [3]
    assert w.latch_down(1, 3) == 2 and w.latch_down(1, 3) == 2
    assert java.messages() == [] and w.heard() == []
    assert w.latch_down(5, 4) == 0 and java.messages() == [(w.latch_channel, "0")]
    assert w.heard() == [("holdfast:1", "o 1 " + owner(1)),
                         ("holdfast:2", "o 2 " + owner(2))]
    assert w.latch_down(5, 4) == 0 and w.latch_down(1, 5) == 0
    assert 0 < w.redis("PTTL", w.opened) <= 60000
    assert java.messages() == [] and w.heard() == []
    # A repeat sees it open though it was set again.
    assert w.latch_set(1, 6) == 1 and w.latch_wait(1) == [1] and w.latch_wait(3)[0] == 2
    assert w.latch_withdraw(3) == 1 and w.latch_withdraw(3) == 0
    assert w.latch_withdraw(1) == 1 and w.latch_withdraw(2) == 1 and w.latch_withdraw(2) == 0
    assert w.latch_down(1, 7) == 0 and gone(w) == []


def case_latch_exactly(w):
    java = w.listen(w.latch_channel)
    w.latch_set(2, 1)
    assert w.latch_down(2, 2) == 0
    assert java.messages() == [(w.latch_channel, "1"), (w.latch_channel, "0")]
    assert gone(w) == []


def case_latch_stays_one(w):
    """Withdrawing a waiter of another kind deletes no note."""
    w.latch_set(2, 1)
    for withdraw in (lambda: w.withdraw(1), lambda: w.withdraw(1, "f"),
                     lambda: w.withdraw_rw(1, "w"), lambda: w.withdraw_count(1),
                     lambda: w.withdraw_count(1, "e")):
        assert withdraw() == 0
        refused("mismatch", w.take_count, 2, permits=2)
    assert w.redis("GET", w.name) == "2"
    assert w.latch_down(2, 2) == 0 and gone(w) == []


def case_latch_of_redisson(w):
    w.redis("SET", w.name, 2)
    assert w.latch_wait(1)[0] == 2 and w.latch_wait(2)[0] == 2
    assert 0 < w.redis("PTTL", w.info) <= 150000
    w.redis("DEL", w.name)  # its last countDown
    assert w.latch_wait(1) == [1]
    assert ("holdfast:2", "o 2 " + owner(2)) in w.heard()
    assert w.latch_withdraw(1) == 1 and w.latch_withdraw(2) == 1 and w.keys() == []
    w.redis("SET", w.name, 2)
    assert w.latch_wait(1)[0] == 2 and w.latch_withdraw(1) == 1 and w.keys() == [w.name]
    assert w.latch_down(2, 9) == 0 and gone(w) == []


def case_latch_opened_by_redisson_and_set_again(w):
    w.latch_set(1, 1)
    w.latch_wait(1)
    w.latch_wait(2)
    w.redis("DEL", w.name)
    assert w.latch_set(1, 2) == 1
    assert [m[1][:3] for m in w.heard()] == ["o 1", "o 2"] and w.latch_wait(2) == [1]
    w.latch_wait(3)
    w.redis("DEL", w.name)
    for number in (1, 2, 3):
        assert w.latch_withdraw(number) == 1
    assert gone(w) == []


def case_latch_get(w):
    assert w.latch_get() == 0 and w.keys() == []
    w.latch_set(3, 1)
    assert w.latch_get() == 3
    calls(w, 2)
    assert w.redis("GET", w.name) == "3"
    w.latch_down(2, 2)
    assert w.latch_get() == 1
    w.latch_down(2, 3)
    assert w.latch_get() == 0
    w.redis("SET", w.name, 7)  # one of Redisson's
    assert w.latch_get() == 7
    w.redis("SET", w.name, "9" * 40)
    assert w.latch_get() == 2 ** 53


def case_latch_mismatch(w):
    for make in (("HSET", w.name, "a", 1), ("SET", w.name, "abc")):
        w.redis("DEL", w.name)
        w.redis(*make)
        refused("mismatch", w.latch_set, 1, 1)
        refused("mismatch", w.latch_down, 1, 1)
        refused("mismatch", w.latch_wait, 1)
        refused("mismatch", w.latch_get)
        assert w.keys() == [w.name]
    w.redis("DEL", w.name)
    w.take_count(1)
    refused("mismatch", w.latch_set, 1, 1)
    refused("mismatch", w.latch_down, 1, 1)
    refused("mismatch", w.latch_get)
    w.withdraw_count(1)
    w.latch_set(1, 1)
    refused("mismatch", w.take_count, 1)
    refused("mismatch", w.take, 1)


# ---- Cell --------------------------------------------------------------------------


def case_cell(w):
    value = bytes(range(256))
    assert w.cell_get() is None
    done, first = w.cell_set(0, 1, value)
    assert done == 1 and w.cell_get() == [first, value]
    assert w.cell_set(0, 1, value) == [1, first]
    assert w.cell_set(0, 2, b"x") == [0, first]
    assert w.cell_set(first - 1, 3, b"x") == [0, first]
    assert w.cell_get() == [first, value]
    done, second = w.cell_set(first, 4, b"")
    assert done == 1 and second > first and w.cell_get() == [second, ""]
    assert w.hash(w.name) == {"holdfast_version": str(second), "holdfast_value": ""}
    assert w.cell_set(first, 5, remove=1) == [0, second]
    assert w.cell_set(second, 6, remove=1) == [1, 0] and w.cell_get() is None
    assert w.cell_set(second, 6, remove=1) == [1, 0]
    done, third = w.cell_set(0, 7, b"x")
    assert done == 1 and third > second
    w.cell_set(third, 8, remove=1)
    assert gone(w) == []


def case_cell_mismatch(w):
    for make in (("HSET", w.name, "a", 1), ("SET", w.name, "1")):
        w.redis("DEL", w.name)
        w.redis(*make)
        refused("mismatch", w.cell_set, 0, 1, b"x")
        refused("mismatch", w.cell_get)
        assert w.keys() == [w.name]
    w.redis("DEL", w.name)
    w.redis("SET", w.token, "abc")
    refused("corrupt", w.cell_set, 0, 1, b"x")
    assert w.keys() == []


# ---- Simple layout -----------------------------------------------------------------


def case_simple(w):
    first = w.simple_take(1, reserve=2)
    calls(w, 8)
    assert first[0] == 1 and first[2:4] == [2, 30000]
    assert w.redis("GET", w.name) == "%032x" % 1 and w.redis("PTTL", w.name) > 29000
    assert 29000 < w.redis("PTTL", w.info) <= 30000
    w.redis("PEXPIRE", w.name, 1000)
    assert w.simple_take(1, reserve=2)[:4] == first[:4]
    assert w.redis("PTTL", w.name) > 29000
    assert w.simple_take(2, flags="t")[0] == 3
    assert w.simple_take(5)[2] == 0 and w.simple_take(2)[2:4] == [1, 0]
    assert w.simple_withdraw(9) == 0 and w.simple_withdraw(1) == 1 and w.simple_withdraw(1) == 0
    assert w.heard()[0][1].startswith("g 2 %032x " % 2)
    assert w.redis("GET", w.name) == "%032x" % 2 and w.line() == []
    assert w.simple_take(2)[0] == 1
    keys = [w.name, w.info, w.name]
    assert w.run("renew", keys, "s", "%032x" % 2, 60000, 0) == [1]
    assert w.redis("PTTL", w.name) > 59000 < w.redis("PTTL", w.info)
    assert w.run("renew", keys, "s", "%032x" % 1, 60000, 0) == [0]
    assert w.simple_take(3)[0] == 2 and w.simple_withdraw(3) == 1
    assert w.simple_withdraw(2) == 1 and w.keys() == []


def case_simple_foreign(w):
    w.redis("SET", w.name, "theirs", "NX", "PX", 20)
    reply = w.simple_take(1)
    assert reply[0] == 2 and 0 < reply[1] <= 20 and reply[2:4] == [0, 1]
    w.pass_time(25)
    assert w.simple_take(1)[0] == 1
    w.redis("DEL", w.name)
    assert w.simple_take(2)[0] == 1 and w.simple_withdraw(1) == 0
    assert w.simple_withdraw(2) == 1 and w.keys() == []
    w.redis("HSET", w.name, "a", 1)
    refused("mismatch", w.simple_take, 1)
    assert w.simple_withdraw(1) == 0 and w.keys() == [w.name]


def case_latch_opened_by_redisson_leaves_little(w):
    """INFO only notes the kind: for an hour after holdfast's last use."""
    w.latch_set(2, 1)
    assert 3500000 < w.redis("PTTL", w.info) <= 3600000
    w.redis("PEXPIRE", w.info, 1000)
    assert w.latch_down(1, 2) == 1 and w.redis("PTTL", w.info) > 3500000
    w.redis("PEXPIRE", w.info, 9000000)
    w.redis("DEL", w.name)
    assert w.latch_wait(1) == [1]
    assert w.redis("EXISTS", w.info) == 0


def simple_shut(w, ms=10000):
    """The key was never left open for so long."""
    w.redis("HSET", w.info, "#shut", w.ms() - ms)


def case_simple_window(w):
    """After many grants in a row the key is left free; no waiter of ours takes it."""
    for number in (1, 2, 3, 4):
        w.simple_take(number)
    w.simple_withdraw(1)
    assert w.hash(w.info)["#shut"] and w.redis("GET", w.name) == "%032x" % 2
    w.heard()
    simple_shut(w)
    assert w.simple_withdraw(2) == 1 and w.redis("EXISTS", w.name) == 0
    told = [line.split() for _, line in w.heard()]
    assert [words[:3] for words in told] == [["w", str(n), "%032x" % n] for n in (3, 4)]
    assert 0 < int(told[0][3]) < int(told[1][3]) <= 400
    reply = w.simple_take(1)
    assert reply[0] == 2 and 0 < reply[1] <= 300 and reply[2:4] == [2, 0]
    assert w.simple_take(3)[0] == 2 and w.simple_take(5, flags="t")[0] == 3
    assert w.heard() == []
    w.redis("HSET", w.info, "#open", w.ms() - 1)
    assert w.simple_take(1)[0] == 2
    assert w.heard()[0][1].startswith("g 3 %032x " % 3)
    assert "#open" not in w.hash(w.info)
    for number in (3, 4, 1):
        assert w.simple_withdraw(number) == 1
    assert w.keys() == []


def case_simple_window_foreign(w):
    """A foreign client is seen; when it releases, there is a window again."""
    for number in (1, 2, 3):
        w.simple_take(number)
    simple_shut(w)
    w.simple_withdraw(1)
    w.redis("SET", w.name, "theirs", "NX", "PX", 30000)
    reply = w.simple_take(2)
    assert reply[0] == 2 and reply[2] == 0 and 1 < reply[3] < 20
    assert w.simple_take(2)[3] == 1 and w.simple_take(3)[3] == 0
    w.redis("SET", w.name, "their next", "PX", 30000)
    assert 1 < w.simple_take(2)[3] < 20
    w.redis("DEL", w.name)
    w.redis("HSET", w.info, "#open", w.ms() + 300)
    assert w.simple_take(2)[0] == 1
    w.simple_withdraw(2)
    assert w.redis("EXISTS", w.name) == 0 and w.simple_take(3)[0] == 2
    w.redis("HSET", w.info, "#open", w.ms() - 1)
    assert w.simple_take(3)[0] == 1
    w.simple_take(1)
    simple_shut(w, 200)  # they are near: the next window is not far
    w.simple_withdraw(3)
    assert w.redis("EXISTS", w.name) == 0


def case_simple_window_none(w):
    """No window: no foreign clients, no waiters, or the clock was set back."""
    w.simple_take(1)
    w.simple_take(2)
    simple_shut(w)
    w.simple_withdraw(1, 0)
    assert w.redis("GET", w.name) == "%032x" % 2
    simple_shut(w)
    w.simple_withdraw(2)
    assert w.keys() == [] and w.simple_take(1)[0] == 1
    w.simple_take(2)
    w.redis("HSET", w.info, "#open", w.ms() + 3600000)
    w.simple_withdraw(1)
    assert w.redis("GET", w.name) == "%032x" % 2
    w.simple_take(3)
    w.redis("HSET", w.info, "#shut", w.ms() + 3600000)
    w.simple_withdraw(2)
    assert w.redis("GET", w.name) == "%032x" % 3
    assert int(w.redis("HGET", w.info, "#shut")) <= w.ms()  # it counts from now
    w.simple_take(2)
    w.simple_withdraw(3)
    w.simple_take(3)
    simple_shut(w)
    w.simple_withdraw(2)
    assert w.redis("EXISTS", w.name) == 0
    w.redis("LPOP", w.queue)
    assert w.simple_take(4)[0] == 1  # no waiter left: not kept out by the window
