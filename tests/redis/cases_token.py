# SPDX-License-Identifier: MIT
"""Token numbers: they only grow, and stay near the clock."""


def case_grows(w):
    last = 0
    for _ in range(50):
        token, span = w.take(1, reserve=3)[1:3]
        assert token > last
        last = token + span - 1
        assert int(w.redis("GET", w.token)) == last
        w.withdraw(1)


def case_grows_after_flushall(w):
    token, span = w.take(1, reserve=5)[1:3]
    w.redis("FLUSHALL")
    while w.us() <= token + span:
        pass
    assert w.take(1)[1] >= token + span


def case_near_the_clock(w):
    """However often it is asked for many, the counter is at most one reserve ahead."""
    last = 0
    for _ in range(20):
        token, span = w.take(1, reserve=100000)[1:3]
        assert token > last and token + span - 1 <= w.us() + 100000
        assert span in (1, 100000)
        last = token + span - 1
        w.withdraw(1)


def case_ahead_of_the_clock(w):
    ahead = w.us() + 10 ** 9
    w.redis("SET", w.token, ahead)
    assert w.take(1, reserve=7)[1:3] == [ahead + 1, 1]
    assert w.redis("GET", w.token) == str(ahead + 1)


def case_redissons_numbers(w):
    w.redis("SET", w.token, 12, "PX", 60000)
    before = w.us()
    assert w.take(1)[1] >= before and w.redis("TTL", w.token) == -1
    w.withdraw(1)
    token = int(w.redis("INCR", w.token))
    assert w.take(1)[1] > token


def case_a_script_that_is_not_known(w):
    w.redis("SCRIPT", "FLUSH")
    try:
        w.take(1)
        raise AssertionError("known after all")
    except Exception as error:
        assert str(error).startswith("NOSCRIPT"), error
    w.run.load()
    assert w.take(1)[0] == 1


DAY = 86400000


def case_simple_forgets_its_token(w):
    """A day after the lease; a client of Redisson's layout keeps it."""
    first = w.simple_take(1, ttl=30000)[1]
    assert DAY < w.redis("PTTL", w.token) <= DAY + 30000
    w.simple_take(2, ttl=5 * DAY)
    w.simple_withdraw(1)
    assert w.redis("PTTL", w.token) > 5 * DAY
    second = int(w.redis("HGET", w.info, "%032x" % 2).split()[5])
    w.simple_take(3)
    assert w.evict(second, "s") == 1 and DAY < w.redis("PTTL", w.token) <= DAY + 30000
    w.simple_withdraw(3)
    w.redis("DEL", w.token)  # as if the day were over
    third = w.simple_take(1)[1]
    assert first < second < third
    w.simple_withdraw(1)
    assert w.take(1)[1] > third and w.redis("PTTL", w.token) == -1
