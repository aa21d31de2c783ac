# SPDX-License-Identifier: MIT
"""The schedules under which planted locks break: each a loop over one kind of fault.

A schedule gets the campaign and the time at which it has to end (time.monotonic). What
it breaks it has mended when it returns.
"""

import signal
import time

from campaign import follow, pause

PAUSE, KILL, STALL, LATE, RESTART, FAILOVER, CUT = range(1, 8)


def quiet(campaign, end):
    """Nothing breaks: contention is enough."""
    while time.monotonic() < end:
        pause(0.02)
        campaign.bury()


def pauses(campaign, end):
    """A worker is stopped for a lease and a quarter, then goes on."""
    while time.monotonic() < end:
        victim = campaign.random.choice(campaign.living())
        with campaign.fault(PAUSE):
            victim.signal(signal.SIGSTOP)
            pause(campaign.plan.ttl * 1.25 / 1000)
            victim.signal(signal.SIGCONT)
        pause(campaign.random.uniform(0.02, 0.1))


def kills(campaign, end):
    """A worker is killed, and another one takes its place."""
    while time.monotonic() < end:
        pause(campaign.random.uniform(0.1, 0.3))
        with campaign.fault(KILL):
            campaign.bury()
            victim = campaign.random.choice(campaign.living())
            victim.signal(signal.SIGKILL)
            victim.process.wait()
            campaign.bury()


def stalls(campaign, end):
    """The server does nothing for 30 to 60 ms, then all that was asked meanwhile."""
    server = campaign.servers[0]
    while time.monotonic() < end:
        pause(campaign.random.uniform(0.05, 0.2))
        with campaign.fault(STALL):
            server.signal(signal.SIGSTOP)
            pause(campaign.random.uniform(0.03, 0.06))
            server.signal(signal.SIGCONT)


def cuts(campaign, end):
    """An answer is lost, and with it the connection on which it should have come."""
    proxy = campaign.keeper.proxies[0]
    while time.monotonic() < end:
        pause(campaign.random.uniform(0.01, 0.05))
        with campaign.fault(CUT):
            proxy.tell("cut 0")
            pause(0.01)
            proxy.tell("pass")


def late_replies(campaign, end):
    """Workers read answers nearly a lease after the server gave them: the server is
    stopped until requests have piled up, then the workers; the server answers; the
    workers go on."""
    server = campaign.servers[0]
    while time.monotonic() < end:
        with campaign.fault(LATE):
            server.signal(signal.SIGSTOP)
            pause(0.1)
            for worker in campaign.living():
                worker.signal(signal.SIGSTOP)
            server.signal(signal.SIGCONT)
            pause(campaign.plan.ttl * 0.95 / 1000)
            for worker in campaign.living():
                worker.signal(signal.SIGCONT)
        pause(campaign.random.uniform(0.2, 0.4))


def restarts(campaign, end):
    """The server is killed and comes back empty, when all leases are over."""
    server = campaign.servers[0]
    while time.monotonic() < end:
        pause(0.5)
        with campaign.fault(RESTART):
            server.kill()
            pause(campaign.plan.ttl * 1.3 / 1000)
            server.start()


def member_restarts(campaign, end):
    """Of three servers the third is away for a moment; then it and the second come back
    empty, within a lease. Then there is time for leases to end and members to age."""
    _, second, third = campaign.servers
    pause(campaign.plan.ttl / 1000 + 2)
    while True:
        with campaign.fault(RESTART):
            third.kill()
            pause(campaign.plan.ttl * 0.3 / 1000)
            second.kill()
            second.start()
            third.start()
        pause(campaign.plan.ttl / 1000 + 2)
        if time.monotonic() >= end:
            return


def failovers(campaign, end):
    """The replica falls behind, the master dies, the replica takes its place; the old
    master comes back as a replica."""
    while time.monotonic() < end:
        master, replica = campaign.servers
        pause(0.2)
        with campaign.fault(FAILOVER):
            replica.signal(signal.SIGSTOP)
            pause(0.1)
            master.kill()
            replica.signal(signal.SIGCONT)
            replica.say("REPLICAOF", "NO", "ONE")
            campaign.point_service(replica)
        campaign.servers = [replica, master]
        pause(0.2)
        follow(master.start(), replica)
