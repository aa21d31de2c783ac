# SPDX-License-Identifier: MIT
"""Begins faults, lets each take its course, ends all of them when it is time to heal,
and writes down when each was on. One thread; a fault's steps are quick, but for a
server that has to come up again."""

import heapq
import time

import history


class Running:
    """A fault that is on."""

    def __init__(self, fault, number, keys, steps):
        self.fault = fault
        self.number = number
        self.keys = keys
        self.steps = steps


class Nemesis:
    def __init__(self, campaign, kinds):
        self.campaign = campaign
        self.random = campaign.random
        self.kinds = kinds
        self.counts = {fault.name: 0 for fault in kinds}
        self.taken = set()
        self.queue = []  # (when, number, Running)
        self.number = 0

    def targets(self, fault):
        """[(keys, argument)] that this fault could hit now."""
        campaign, where = self.campaign, fault.where
        workers = campaign.crew.workers
        alone = {"server": campaign.store, "disk": campaign.store.disk}
        if where in alone:
            return [({where}, alone[where])]
        if where == "crew":
            keys = {("worker", worker.slot) for worker in workers}
            return [(keys, workers)]
        able = {
            "worker": lambda w: True,
            "inside": lambda w: True,
            "net": lambda w: w.spec.address and not w.spec.proxy,
            "proxy": lambda w: w.spec.proxy,
            "clock": lambda w: w.spec.clock,
            "shim": lambda w: w.spec.shim,
        }[where]
        part = fault.name if where == "inside" else where
        return [({(part, worker.slot)}, worker) for worker in workers
                if able(worker) and worker.begun()]

    def begin(self):
        """One more fault, of a kind that came up least."""
        kinds = sorted(self.kinds, key=lambda f: (self.counts[f.name] // 2,
                                                  self.random.random()))
        for fault in kinds:
            free = [target for target in self.targets(fault)
                    if not target[0] & self.taken]
            if free:
                keys, argument = self.random.choice(free)
                self.start(fault, keys, argument)
                return

    def start(self, fault, keys, argument):
        self.number += 1
        self.counts[fault.name] += 1
        self.taken |= keys
        running = Running(fault, self.number, keys,
                          fault.run(self.campaign, argument))
        self.campaign.log(f"{fault.name} begins ({self.number})"
                          f" {sorted(map(str, keys))}")
        self.campaign.history.add(history.FAULT, history.INVOKE, value=running.number,
                                  kind=fault.number)
        self.advance(running)

    def advance(self, running):
        try:
            seconds = next(running.steps)
            heapq.heappush(self.queue,
                           (time.monotonic() + seconds, running.number, running))
        except StopIteration:
            self.taken -= running.keys
            self.campaign.history.add(history.FAULT, history.RETURN,
                                      value=running.number, kind=running.fault.number)
            self.campaign.log(f"{running.fault.name} is over ({running.number})")

    def work(self, until):
        """Lets faults take their course until then."""
        while True:
            now = time.monotonic()
            if self.queue and self.queue[0][0] <= now:
                self.advance(heapq.heappop(self.queue)[2])
            elif now >= until:
                return
            else:
                due = min(until, self.queue[0][0]) if self.queue else until
                time.sleep(max(0, due - now))  # pause: until the next step is due

    def heal(self):
        """Everything is mended now."""
        while self.queue:
            self.advance(heapq.heappop(self.queue)[2])
        self.campaign.log("healed")
        return self.campaign.history.add(history.HEAL)
