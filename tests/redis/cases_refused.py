# SPDX-License-Identifier: MIT
"""An ACL forbids one command of a script, each in turn: no key stays for ever, and no
client gets a grant without a hold."""

import resp
from world import Runner, owner

COMMANDS = """DECRBY DEL EXISTS GET GETSET HDEL HEXISTS HGET HGETALL HINCRBY HKEYS HLEN HMGET
HSET INCRBY LINDEX LLEN LPOP LPUSH LRANGE LREM PERSIST PEXPIRE PEXPIREAT PTTL PUBLISH
RPUSH SET TIME ZADD ZCARD ZRANGE ZRANGEBYSCORE ZREM ZREMRANGEBYSCORE ZSCORE""".split()


class Refusal:
    """The same world for a user that may use all commands but one."""

    def __init__(self, w):
        self.w, self.all = w, w.run
        w.redis("ACL", "SETUSER", "app", "on", "nopass", "~*", "&*", "+@all")
        client = resp.Client(w.server.path)
        client("AUTH", "app", "any")
        self.some = Runner(client, False)

    def ask(self, command, function, *args, **more):
        """The answer, or None if it was refused."""
        self.w.redis("ACL", "SETUSER", "app", f"-{command.lower()}")
        self.w.run = self.some
        try:
            return function(*args, **more)
        except resp.Error as error:
            # Scripts that check the type of a key may fail with a mismatch.
            words = ("NOPERM", "can't run this command", "mismatch")
            assert any(word in str(error) for word in words), error
            return None
        finally:
            self.w.run = self.all
            self.w.redis("ACL", "SETUSER", "app", f"+{command.lower()}")

    def close(self):
        self.some.client.close()


def each(w, test):
    """test(refusal, command) for each command, on an empty server."""
    if w.run.traced or int(w.redis("INFO", "server").split("redis_version:")[1][0]) < 6:
        return
    refusal = Refusal(w)
    refusals = 0
    for command in COMMANDS:
        w.redis("FLUSHALL")
        w.heard()
        refusals += test(refusal, command) is None
    refusal.close()
    assert refusals >= 2, "nothing was refused"


def bounded(w, command):
    """No lock and no hold of a reader lives for ever."""
    for key in w.redis("KEYS", f"*{w.name}*"):
        if key == w.name or "rwlock_timeout" in key:
            left = w.redis("PTTL", key)
            assert left != -1, f"-{command}: {key} has no lease"


def told(w, command, holds):
    """A client that got a grant holds."""
    for _, line in w.heard():
        if line.startswith("g "):
            number = int(line.split()[1])
            assert holds(number), f"-{command}: {line}"


def takes(w, take):
    def test(refusal, command):
        reply = refusal.ask(command, take, 1)
        bounded(w, command)
        granted = reply and reply[0] == 1
        assert not granted or w.redis("EXISTS", w.name) == 1, f"-{command}: no hold"
        return reply

    each(w, test)


def case_take_mutex(w):
    for kind in "mf":
        takes(w, lambda n: w.take(n, kind))


def case_take_rw(w):
    for kind in "rw":
        takes(w, lambda n: w.take_rw(n, kind))


def case_take_simple(w):
    takes(w, w.simple_take)


def case_join_readers(w):
    def test(refusal, command):
        w.take_rw(2, "r", ttl=100)
        reply = refusal.ask(command, w.take_rw, 1, "r", ttl=90000)
        bounded(w, command)
        return reply

    each(w, test)


def case_renewed_by_take(w):
    def test(refusal, command):
        w.take(1)
        reply = refusal.ask(command, w.take, 1)
        bounded(w, command)
        return reply

    each(w, test)


def hands_over(w, take, withdraw, holds):
    """The holder's rights are cut while another client waits."""

    def test(refusal, command):
        take(1)
        assert take(2)[0] == 2
        reply = refusal.ask(command, withdraw, 1)
        bounded(w, command)
        told(w, command, holds)
        return reply

    each(w, test)


def case_withdraw_mutex(w):
    for kind in "mf":
        hands_over(w, lambda n: w.take(n, kind), lambda n: w.withdraw(n, kind),
                   lambda n: owner(n) in w.hash(w.name))


def case_withdraw_rw(w):
    for first, second in ("ww", "wr", "rw"):
        def take(number):
            return w.take_rw(number, first if number == 1 else second)

        field = ":write" if second == "w" else ""
        hands_over(w, take, lambda n: w.withdraw_rw(n, first),
                   lambda n: owner(n) + field in w.hash(w.name))


def case_leave_simple(w):
    hands_over(w, w.simple_take, w.simple_withdraw,
               lambda n: w.redis("GET", w.name) == "%032x" % n)


def all_come_back(w, kind, command):
    """When every lease is over all the permits can be had, and no more than those. On a
    busy machine the new leases may be over before all has been asked: then once more."""
    while True:
        w.pass_time(25)
        begin = w.ms()
        for number in (3, 4):
            reply = w.take_count(number, kind, limit=2, ttl=20)
            assert reply[0] == 1, f"-{command}: {reply}"
        last = w.take_count(5, kind, limit=2, flags="t", ttl=20)[0]
        if last == 3:
            return
        assert w.ms() - begin >= 20, command


def case_permits(w):
    for kind in "pe":
        def take(refusal, command):
            reply = refusal.ask(command, w.take_count, 1, kind, limit=2, ttl=20)
            all_come_back(w, kind, command)
            return reply

        def withdraw(refusal, command):
            for number in (1, 2):
                w.take_count(number, kind, limit=2, ttl=20)
            w.take_count(6, kind, limit=2, ttl=20)
            reply = refusal.ask(command, w.withdraw_count, 1, kind)
            w.redis("DEL", w.queue)
            all_come_back(w, kind, command)
            return reply

        each(w, take)
        each(w, withdraw)


def case_adopt(w):
    keys = {"m": w.mutex_keys(), "w": w.rw_keys(), "r": w.rw_keys()}
    for kind, take in (("m", w.take), ("w", w.take_rw), ("r", w.take_rw)):
        def test(refusal, command):
            token = take(1, kind)[1]
            reply = refusal.ask(command, w.adopt, keys[kind], 1, 2, kind, token)
            bounded(w, command)
            if reply is None:
                assert w.renew((kind, 1, 0)) == [1], f"-{command}: moved without an answer"
            return reply

        each(w, test)


def case_downgrade(w):
    """What is refused has not happened: the caller goes on as a writer."""
    def test(refusal, command):
        w.take_rw(1, "w")
        w.take_rw(2, "r")
        reply = refusal.ask(command, w.downgrade, 1)
        bounded(w, command)
        told(w, command, lambda n: owner(n) in w.hash(w.name))
        fields = w.hash(w.name)
        if reply != 1:
            assert fields["mode"] == "write" and owner(1) + ":write" in fields, command
            assert owner(2) not in fields, command
        else:
            assert fields["mode"] == "read" and owner(1) in fields, command
            assert w.renew(("r", 1, 0)) == [1], command
        return reply

    each(w, test)


def case_downgrade_without_lease(w):
    """A lease of 0 is no lease: the writer stays what it is."""
    w.take_rw(1, "w")
    try:
        w.downgrade(1, ttl=0)
        raise AssertionError("a lease of 0 was taken")
    except resp.Error:
        pass
    assert w.hash(w.name) == {"mode": "write", owner(1) + ":write": "1"}
    assert w.redis("PTTL", w.name) > 29000 and w.withdraw_rw(1, "w") == 1
    assert w.keys() == []
