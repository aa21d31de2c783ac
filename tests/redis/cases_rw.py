# SPDX-License-Identifier: MIT
"""take_rw, withdraw_rw, downgrade_rw: the read-write lock."""

from cases_mutex import JAVA, JAVA2, calls, refused
from world import owner


def java_reads(w, who=JAVA, ttl=30000, holds=1):
    """Redisson's read acquire, `holds` times."""
    w.redis("HSET", w.name, "mode", "read")
    w.redis("HINCRBY", w.name, who, holds)
    for hold in range(1, holds + 1):
        w.redis("SET", w.reader_key(who, hold), 1, "PX", ttl)
    if w.redis("PTTL", w.name) < ttl:
        w.redis("PEXPIRE", w.name, ttl)


def case_write(w):
    reply = w.take_rw(1, "w", reserve=2)
    calls(w, 8)
    assert reply[0] == 1 and reply[2:4] == [2, 30000]
    assert w.hash(w.name) == {"mode": "write", owner(1) + ":write": "1"}
    assert w.record(1)[:2] == ["h", "w"] and 29000 < w.redis("PTTL", w.name) <= 30000
    again = w.take_rw(1, "w", reserve=2)
    assert again[:4] == reply[:4] and w.redis("PTTL", w.info) > 29000
    assert w.take_rw(1, "w", ttl=60000)[3] == 60000
    assert w.redis("PTTL", w.name) > 59000 < w.redis("PTTL", w.info)
    assert w.keys() == sorted([w.name, w.info])
    assert w.take_rw(2, "r", flags="t")[0] == 3 and w.take_rw(2, "w", flags="t")[0] == 3
    java = w.listen(w.rw_channel)
    assert w.withdraw_rw(1, "w") == 1 and java.messages() == [(w.rw_channel, "1")]
    assert w.withdraw_rw(1, "w") == 0 and w.keys() == []


def case_readers_share(w):
    first, second = w.take_rw(1, "r"), w.take_rw(2, "r", ttl=60000)
    assert first[0] == second[0] == 1 and second[1] > first[1]
    assert w.hash(w.name) == {"mode": "read", owner(1): "1", owner(2): "1"}
    assert 59000 < w.redis("PTTL", w.name) and w.redis("PTTL", w.reader_key(1)) <= 30000
    w.redis("PEXPIRE", w.reader_key(1), 1000)
    assert w.take_rw(1, "r")[1] == first[1] and w.redis("PTTL", w.reader_key(1)) > 29000
    java = w.listen(w.rw_channel)
    assert w.withdraw_rw(1, "r") == 1 and java.messages() == []
    assert w.withdraw_rw(2, "r") == 1 and java.messages() == [(w.rw_channel, "0")]
    assert w.keys() == []


def case_writer_waits_and_readers_behind(w):
    w.take_rw(1, "r")
    reply = w.take_rw(2, "w")
    assert reply[0] == 2 and reply[2:4] == [0, 0] and 29000 < reply[1] <= 30000
    assert w.take_rw(3, "r")[2:4] == [1, 0] and w.take_rw(4, "r")[2:4] == [2, 0]
    assert w.take_rw(4, "r", flags="t")[0] == 3
    assert w.withdraw_rw(1, "r") == 1
    assert w.heard()[0][1].startswith("g 2 " + owner(2))
    assert w.hash(w.name) == {"mode": "write", owner(2) + ":write": "1"}
    assert w.withdraw_rw(2, "w") == 1
    assert [m[1][:3] for m in w.heard()] == ["g 3", "g 4"]
    assert w.hash(w.name) == {"mode": "read", owner(3): "1", owner(4): "1"}
    assert w.withdraw_rw(3, "r") == 1 and w.withdraw_rw(4, "r") == 1 and w.keys() == []


def case_writer_leaves_queue(w):
    w.take_rw(1, "r")
    w.take_rw(2, "w")
    w.take_rw(3, "r")
    assert w.withdraw_rw(2, "w") == 1 and w.withdraw_rw(2, "w") == 0
    assert w.heard()[-1][1].startswith("g 3 ") and owner(3) in w.hash(w.name)
    w.withdraw_rw(1, "r")
    w.withdraw_rw(3, "r")
    assert w.keys() == []


def case_dead_reader_is_purged(w):
    java_reads(w, JAVA, 20, 2)
    w.take_rw(1, "r", ttl=60000)
    w.pass_time(25)
    w.redis("PEXPIRE", w.reader_key(1), 1000)
    reply = w.take_rw(2, "w")
    assert reply[0] == 2 and 0 < reply[1] <= 1000 and reply[2:4] == [0, 0], reply
    assert JAVA not in w.hash(w.name)
    w.redis("PEXPIRE", w.reader_key(1), 20)
    w.pass_time(25)
    assert w.take_rw(2, "w")[0] == 1 and w.record(1) is None
    assert w.withdraw_rw(1, "r") == 0 and w.withdraw_rw(2, "w") == 1 and w.keys() == []


def case_dead_reader_of_ours(w):
    w.take_rw(1, "r")
    w.take_rw(2, "r")
    w.redis("DEL", w.reader_key(1))
    assert w.take_rw(3, "w")[0] == 2
    assert w.record(1) is None and w.hash(w.name) == {"mode": "read", owner(2): "1"}


def case_dead_reader_at_release(w):
    java_reads(w, JAVA, 20)
    w.take_rw(1, "r")
    w.take_rw(2, "w")
    w.pass_time(25)
    w.withdraw_rw(1, "r")
    assert w.hash(w.name) == {"mode": "write", owner(2) + ":write": "1"}


def case_live_foreign_reader_stays(w):
    java_reads(w, JAVA, 30000, 3)
    w.redis("DEL", w.reader_key(JAVA, 1))
    reply = w.take_rw(1, "w")
    assert reply[0] == 2 and reply[2:4] == [0, 1] and w.hash(w.name)[JAVA] == "3"
    w.redis("PERSIST", w.reader_key(JAVA, 2))
    assert w.take_rw(1, "w")[0] == 2
    w.redis("HSET", w.info, "#run", 3)
    w.withdraw_rw(1, "w")
    assert w.redis("EXISTS", w.info) == 0
    assert w.take_rw(2, "r")[0] == 1 and w.withdraw_rw(2, "r") == 1
    assert w.keys() == sorted([w.name, w.reader_key(JAVA, 2), w.reader_key(JAVA, 3)])


def case_foreign_writer(w):
    w.redis("HSET", w.name, "mode", "write", JAVA + ":write", 2, JAVA, 1)
    w.redis("PEXPIRE", w.name, 30000)
    assert w.take_rw(1, "r")[2:4] == [0, 1] and w.take_rw(2, "w")[2:4] == [1, 0]
    w.redis("DEL", w.name)
    assert w.take_rw(1, "r")[0] == 1
    w.withdraw_rw(1, "r")
    assert owner(2) + ":write" in w.hash(w.name)


def case_downgrade(w):
    token = w.take_rw(1, "w")[1]
    w.take_rw(2, "r")
    w.take_rw(3, "w")
    java = w.listen(w.rw_channel)
    assert w.downgrade(1, 50000) == 1 and w.redis("PTTL", w.name) > 49000
    assert java.messages() == [(w.rw_channel, "1")]
    assert w.hash(w.name) == {"mode": "read", owner(1): "1", owner(2): "1"}
    assert w.record(1)[:2] == ["h", "r"] and w.record(1)[5] == str(token)
    assert w.redis("PTTL", w.reader_key(1)) > 49000
    assert w.heard()[0][1].startswith("g 2 ")
    assert w.downgrade(1) == 1 and w.downgrade(3) == 0 and w.downgrade(9) == 0
    # a renewal on its way when the writer turned: the reader has the lease
    assert w.renew(("w", 1, 70000)) == [1] and w.redis("PTTL", w.reader_key(1)) > 69000
    w.withdraw_rw(1, "r")
    w.withdraw_rw(2, "r")
    assert owner(3) + ":write" in w.hash(w.name)
    w.withdraw_rw(3, "w")
    assert w.keys() == []


def case_expired_writer(w):
    w.take_rw(1, "w", ttl=20)
    w.take_rw(2, "w")
    w.pass_time(30)
    assert w.take_rw(3, "r")[0] == 2 and w.heard()[0][1].startswith("g 2 ")
    w.withdraw_rw(2, "w")
    w.withdraw_rw(3, "r")
    assert w.keys() == [] and w.withdraw_rw(1, "w") == 0


def case_open_round(w):
    java = w.listen(w.rw_channel)
    w.take_rw(1, "w")
    holder = 1
    for _ in range(8):
        w.take_rw(3 - holder, "w")
        w.withdraw_rw(holder, "w")
        holder = 3 - holder
    assert java.messages() == [] and w.take_rw(2, "w")[0] == 2
    w.withdraw_rw(1, "w")
    assert java.messages() == [(w.rw_channel, "1")] and w.redis("EXISTS", w.name) == 0
    java_reads(w)
    assert w.take_rw(2, "w")[2:4] == [0, 1]
    w.redis("DEL", w.name, w.reader_key(JAVA))
    w.pass_time(25)
    assert w.take_rw(2, "w")[0] == 1 and w.withdraw_rw(2, "w") == 1 and w.keys() == []


def case_renew(w):
    w.take_rw(1, "r", ttl=60000)
    w.take_rw(2, "r", ttl=5000)
    assert w.renew(("r", 2, 10000), ("r", 1, 0), ("r", 3, 5000)) == [1, 1, 0]
    assert w.redis("PTTL", w.name) > 50000 and w.redis("PTTL", w.reader_key(2)) > 9000
    assert w.renew(("r", 2, 90000)) == [1] and w.redis("PTTL", w.name) > 80000
    w.redis("DEL", w.reader_key(1))
    assert w.renew(("r", 1, 60000), ("r", 1, 0)) == [0, 0]
    w.redis("DEL", w.name)
    w.take_rw(3, "w")
    assert w.renew(("w", 3, 0)) == [1] and w.redis("PTTL", w.name) <= 30000
    assert w.renew(("w", 3, 60000), ("w", 2, 60000)) == [1, 0]
    assert w.redis("PTTL", w.name) > 59000
    assert w.renew(("w", 3, 5000)) == [1] and w.redis("PTTL", w.name) <= 5000
    w.redis("HSET", w.name, "java:1", 1)  # the writer reads as well, in Redisson's way
    assert w.renew(("w", 3, 60000), ("w", 3, 5000)) == [1, 1]
    assert w.redis("PTTL", w.name) > 59000


def case_tagged_name(w):
    w.name = "{tag}x"
    assert w.take_rw(1, "r")[0] == 1
    assert w.redis("EXISTS", "{tag}x:" + owner(1) + ":rwlock_timeout:1") == 1
    w.withdraw_rw(1, "r")
    assert w.keys() == []


def case_wrong_kinds(w):
    for make in (("SET", w.name, "5"), ("HSET", w.name, JAVA, 1),
                 ("HSET", w.name, "holdfast_version", 1, "holdfast_value", "x")):
        w.redis("DEL", w.name)
        w.redis(*make)
        for kind in "rw":
            refused("mismatch", w.take_rw, 1, kind)
            assert w.withdraw_rw(1, kind) == 0 and w.downgrade(1) == 0
        assert w.keys() == [w.name]
