# SPDX-License-Identifier: MIT
"""The scripts, called as the library calls them, on one lock name of a private server.

A World is a name with its keys, a listener for messages, and one method per script. In
traced mode a script runs inside a wrapper that notes every redis.call(), so that each
key it touches can be held against those it declared."""

import importlib.util
import json
import os
import time

import resp

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))

TRACE = """local real, trace = redis, {}
local function noted(what)
return function(...)
trace[#trace + 1] = {...}
return real[what](...)
end
end
local redis = {call = noted('call'), pcall = noted('pcall')}
setmetatable(redis, {__index = real})
local function body()
%s
end
local reply = body()
for i, one in ipairs(trace) do for j, word in ipairs(one) do
one[j] = string.gsub(tostring(word), '[^ -~]', '?')
end end
real.call('SET', 'trace', cjson.encode(trace))
return reply
"""

# Commands all of whose arguments are keys; others have one, the first.
ALL_KEYS = ("EXISTS", "DEL")
NO_KEYS = ("TIME", "PUBLISH")


def load_scripts():
    path = os.path.join(TOP, "tools", "embed-scripts.py")
    spec = importlib.util.spec_from_file_location("embed", path)
    embed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(embed)
    directory = os.path.join(TOP, "src", "backends", "redis", "scripts")
    return embed, embed.load(directory)


def owner(number):
    """The owner of the ticket with that number as its id."""
    text = "%032x" % number
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])) + ":1"


def raw(number):
    return number.to_bytes(16, "big")


class Runner:
    """Runs scripts by SHA, traced or not."""

    def __init__(self, client, traced):
        self.client, self.traced, self.calls, self.shas = client, traced, 0, {}
        self.load()

    def load(self):
        embed, scripts = load_scripts()
        for name, text in scripts.items():
            body = TRACE.replace("%s", text) if self.traced else text
            self.shas[name] = self.client("SCRIPT", "LOAD", body)
            if not self.traced and self.shas[name] != embed.sha1(text):
                raise AssertionError(f"{name}: embedded SHA1 differs from the server's")

    def __call__(self, script, keys, *args):
        try:
            return self.client("EVALSHA", self.shas[script], len(keys), *keys, *args)
        finally:
            if self.traced:
                self._check(script, keys)

    def _check(self, script, keys):
        trace = json.loads(self.client("GET", "trace") or "[]")
        self.client("DEL", "trace")
        self.calls = len(trace)
        for words in trace:
            command = words[0]
            used = words[1:] if command in ALL_KEYS else words[1:2]
            for key in () if command in NO_KEYS else used:
                if key not in keys and not self._derived(key, keys[0]):
                    raise AssertionError(f"{script}: {command} of undeclared key {key}")

    @staticmethod
    def _derived(key, name):
        tagged = name if "{" in name else "{%s}" % name
        return key.startswith(tagged + ":") and ":rwlock_timeout:" in key


class World:
    def __init__(self, server, run, name="lock", inboxes=4):
        self.redis = run.client
        self.run, self.name = run, name
        self.redis("FLUSHALL")
        self.listener = resp.Listener(server.path)
        self.others = []
        self.server = server
        self.listener.subscribe(*[f"holdfast:{i}" for i in range(1, inboxes + 1)])
        p = self.derived
        self.token, self.info = p("redisson_lock_token"), p("holdfast_info")
        self.queue, self.permits = p("holdfast_queue"), p("holdfast_permits")
        self.fair, self.patience = p("redisson_lock_queue"), p("redisson_lock_timeout")
        self.channel = p("redisson_lock__channel")
        self.rw_channel, self.sc_channel = p("redisson_rwlock"), p("redisson_sc")
        self.latch_channel = "redisson_countdownlatch__channel__{%s}" % name
        self.opened = p("holdfast_opened")
        self.timeout = (name if "{" in name else "{%s}" % name) + ":timeout"

    def derived(self, prefix):
        if "{" not in self.name:
            return f"{prefix}:{{{self.name}}}"
        colon = ":" if prefix.startswith("holdfast_") else ""
        return f"{prefix}:{colon}{self.name}"

    def close(self):
        self.listener.close()
        for other in self.others:
            other.close()

    # ---- Keys ----

    def mutex_keys(self):
        return [self.name, self.token, self.info, self.queue, self.fair, self.patience,
                self.channel]

    def rw_keys(self):
        return [self.name, self.token, self.info, self.queue, self.rw_channel]

    def count_keys(self, kind="p"):
        zset = self.permits if kind == "p" else self.timeout
        return [self.name, self.token, self.info, self.queue, self.sc_channel, zset]

    def done(self, request):
        return "holdfast_done:{%s}:%032x" % (self.name, request)

    def reader_key(self, number, hold=1):
        tagged = self.name if "{" in self.name else "{%s}" % self.name
        who = owner(number) if isinstance(number, int) else number
        return f"{tagged}:{who}:rwlock_timeout:{hold}"

    # ---- Calls. A number stands for a ticket: id, number and (mod 10) inbox ----

    def words(self, number, ttl, reserve, flags, kind):
        return [owner(number), ttl, reserve, f"holdfast:{number % 10}", number,
                f"host\x1f{number}\x1fprog\x1fa note", flags, kind]

    def take(self, number, kind="m", ttl=30000, reserve=1, flags=""):
        return self.run("take_mutex", self.mutex_keys(),
                        *self.words(number, ttl, reserve, flags, kind))

    def withdraw(self, number, kind="m"):
        return self.run("withdraw_mutex", self.mutex_keys(), owner(number), kind)

    def take_rw(self, number, kind, ttl=30000, reserve=1, flags=""):
        return self.run("take_rw", self.rw_keys(),
                        *self.words(number, ttl, reserve, flags, kind))

    def withdraw_rw(self, number, kind):
        return self.run("withdraw_rw", self.rw_keys(), owner(number), kind)

    def downgrade(self, number, ttl=30000):
        return self.run("downgrade_rw", self.rw_keys(),
                        *self.words(number, ttl, 1, "", "w"))

    def take_count(self, number, kind="p", permits=1, limit=3, ttl=30000, reserve=1,
                   flags=""):
        return self.run("take_permits", self.count_keys(kind),
                        *self.words(number, ttl, reserve, flags, kind), permits, limit)

    def withdraw_count(self, number, kind="p"):
        return self.run("withdraw_permits", self.count_keys(kind), owner(number), kind)

    def renew(self, *tickets):
        keys, args = [], []
        for kind, number, ttl in tickets:
            third = {"p": self.permits, "e": self.timeout}.get(kind, self.name)
            keys += [self.name, self.info, third]
            args += [kind, owner(number), ttl, 0]
        return self.run("renew", keys, *args)

    def latch_keys(self, request=None):
        keys = [self.name, self.info, self.queue, self.latch_channel, self.opened]
        return keys if request is None else keys + [self.done(request)]

    def latch_set(self, count, request):
        return self.run("latch_set", self.latch_keys(request), count, "%032x" % request)

    def latch_get(self):
        return self.run("latch_get", self.latch_keys()[:2])

    def latch_down(self, by, request):
        return self.run("latch_down", self.latch_keys(request), by, "%032x" % request)

    def latch_wait(self, number, flags=""):
        return self.run("latch_wait", self.latch_keys(),
                        *self.words(number, 30000, 1, flags, "l"))

    def latch_withdraw(self, number):
        return self.run("latch_withdraw", self.latch_keys(), owner(number))

    def cell_set(self, version, request, value=b"", remove=0):
        keys = [self.name, self.token, self.done(request)]
        return self.run("cell_set", keys, version, "%032x" % request, remove, value)

    def cell_get(self):
        return self.run("cell_get", [self.name])

    def simple_take(self, number, ttl=30000, reserve=1, flags=""):
        words = self.words(number, ttl, reserve, flags, "s")[1:-1]
        return self.run("simple_take", self.rw_keys()[:4], "%032x" % number, *words)

    def simple_withdraw(self, number, foreign=1):
        return self.run("simple_withdraw", self.rw_keys()[:4], "%032x" % number, "s",
                        foreign)

    def evict(self, token, layout="r", sure="n", request=None):
        """Each is a request of its own, unless one is named."""
        self.requests = getattr(self, "requests", 100) + 1
        request = request or self.requests
        keys = self.mutex_keys() + [self.rw_channel, self.sc_channel, self.permits,
                                    self.timeout, self.done(request)]
        return self.run("evict", keys, token, layout, sure, "%032x" % request,
                        "db3\x1f8123\x1fbreak\x1f")

    def revoke(self, token=0):
        return self.run("revoke", [self.name, self.info], token)

    def adopt(self, keys, old, new, kind, token, ttl=40000):
        words = self.words(new, ttl, 1, "", kind)
        before = owner(old)
        if kind == "s":
            before, words[0] = "%032x" % old, "%032x" % new
        return self.run("adopt", keys, before, token, *words, 1, 3)

    def inspect(self):
        rows, section, place = [], 1, "0"
        while section:
            section, place, page = self.inspect_page(section, place)
            assert len(page) <= 128
            rows += page
        return rows

    def inspect_page(self, section=1, place="0"):
        return self.run("inspect", [self.name, self.info, self.queue, self.fair,
                                    self.permits, self.timeout, self.token],
                        section, place)

    # ---- What there is ----

    def keys(self):
        """Every key but the token's, and what was evicted, which goes by itself."""
        evicted = [self.done(number) for number in (7, 77, *range(100, 200))]
        return sorted(k for k in self.redis("KEYS", "*")
                      if k != self.token and k not in evicted)

    def heard(self):
        return self.listener.messages()

    def hash(self, key):
        flat = self.redis("HGETALL", key)
        return dict(zip(flat[::2], flat[1::2]))

    def record(self, number):
        line = self.redis("HGET", self.info, owner(number))
        return line.split(" ", 10) if line else None

    def line(self):
        return self.redis("LRANGE", self.queue, 0, -1)

    def ms(self):
        seconds, micros = self.redis("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    def us(self):
        seconds, micros = self.redis("TIME")
        return int(seconds) * 1000000 + int(micros)

    def listen(self, *channels):
        """Another client that listens, as Redisson's waiters do."""
        other = resp.Listener(self.server.path)
        other.subscribe(*channels)
        self.others.append(other)
        return other

    def pass_time(self, ms):
        """Until the server's clock is so much later."""
        until = self.ms() + ms
        while self.ms() <= until:
            time.sleep(0.001)  # pause: only time brings the server's clock on
