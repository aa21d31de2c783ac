# SPDX-License-Identifier: MIT
"""The faults of a campaign, by name.

A fault is a generator: it breaks something, yields for how many seconds that is to
last (as often as it likes), and mends it. Whoever runs it may go on earlier: when a
campaign heals, nothing is waited for.

`where` says what a fault breaks, so that two that make no sense together do not meet:

    worker   one process as a whole: it is stopped, or another one
    inside   something within one process, by a command (control.h) or from outside
    net      the way between one worker and the server
    proxy    the bad network of a worker that has one
    clock    the wall clock of a worker that has one to move
    shim     the fault shim of a worker that has one
    server   the server, all of it
    crew     all workers at once
    disk     the file system under the store

`unsound` faults break what no lease can keep; they run with --unsound only.
"""

import os
import signal
import subprocess

REDIS = "redis redis-simple"
ZOOKEEPER = "zookeeper"
SERVERS = REDIS + " " + ZOOKEEPER  # on a network, with a server to stop
FILES = "file flock"
PROCESSES = FILES + " " + SERVERS  # workers that can be killed one by one
SHIMMED = "mem " + FILES
ALL = "mem " + PROCESSES


class Fault:
    def __init__(self, number, function, stores, where, unsound):
        self.number = number  # of its kind, from 1
        self.name = function.__name__
        self.run = function
        self.stores = stores.split()
        self.where = where
        self.unsound = unsound
        self.story = function.__doc__


TABLE = []


def fault(stores, where, unsound=False):
    def add(function):
        TABLE.append(Fault(len(TABLE) + 1, function, stores, where, unsound))
        return function
    return add


def of_store(store, unsound=False):
    return [f for f in TABLE if store in f.stores and (unsound or not f.unsound)]


# ---- Processes


@fault(ALL, "worker")
def pause_worker(campaign, worker):
    """SIGSTOP, for less or for more than a lease."""
    pid = worker.pid
    worker.signal(signal.SIGSTOP)
    yield campaign.random.choice([0.05, 0.2, 0.6, 1.3])
    if worker.pid == pid:
        worker.signal(signal.SIGCONT)


@fault(ALL, "worker")
def stutter(campaign, worker):
    """Stopped and continued, many times in a row."""
    for _ in range(campaign.random.randint(5, 15)):
        worker.signal(signal.SIGSTOP)
        yield campaign.random.uniform(0.002, 0.03)
        worker.signal(signal.SIGCONT)
        yield campaign.random.uniform(0.001, 0.01)


@fault(PROCESSES, "worker")
def kill_worker(campaign, worker):
    """SIGKILL; another one takes its place."""
    worker.kill()
    yield campaign.random.uniform(0, 0.3)
    worker.start()


@fault(PROCESSES, "crew")
def kill_storm(campaign, workers):
    """Half of them killed at once."""
    hit = campaign.random.sample(workers, len(workers) // 2)
    for worker in hit:
        worker.kill()
    yield campaign.random.uniform(0, 0.2)
    for worker in hit:
        worker.start()


@fault(PROCESSES, "worker")
def kill_stopped(campaign, worker):
    """Stopped for a while and killed without having gone on."""
    worker.signal(signal.SIGSTOP)
    yield campaign.random.uniform(0.05, 0.8)
    worker.kill()
    worker.start()


@fault(PROCESSES, "crew")
def freeze_all(campaign, workers):
    """Everybody is stopped at once, and goes on at once."""
    for worker in workers:
        worker.signal(signal.SIGSTOP)
    yield campaign.random.choice([0.1, 0.7, 1.2])
    for worker in workers:
        worker.signal(signal.SIGCONT)


@fault(ALL, "inside")
def starve(campaign, worker):
    """Gets what the others leave of the processor (SCHED_IDLE)."""
    worker.starve(True)
    yield campaign.random.uniform(0.2, 1.0)
    worker.starve(False)


@fault(ALL, "inside")
def fork_child(campaign, worker):
    """A child that inherits everything and lives on, perhaps longer than its parent."""
    life = campaign.random.uniform(0.1, 1.5)
    worker.tell(f"fork {int(life * 1000)}")
    yield min(life, 0.3)


# ---- Inside a process


@fault(ALL, "inside")
def memory(campaign, worker):
    """Every allocation of the library fails for a moment, or a single one does."""
    if campaign.random.random() < 0.5:
        worker.tell(f"memory next {campaign.random.randint(1, 60)}")
        yield 0.1
    else:
        worker.tell("memory on")
        yield campaign.random.uniform(0.01, 0.3)
    worker.tell("memory off")


@fault(ALL, "inside")
def signals(campaign, worker):
    """A storm of signals: system calls break off with EINTR."""
    worker.tell("signals on")
    yield campaign.random.uniform(0.1, 0.6)
    worker.tell("signals off")


@fault(ALL, "inside")
def descriptors(campaign, worker):
    """No further descriptor can be had (EMFILE)."""
    pid = worker.pid
    worker.limit_descriptors(max(3, worker.descriptors() - campaign.random.choice(
        [0, 0, 3])))
    yield campaign.random.uniform(0.1, 0.8)
    if worker.pid == pid:
        worker.limit_descriptors(None)


@fault(ALL, "inside")
def cancel_storm(campaign, worker):
    """Acquires are begun and cancelled, before, while and after they are granted."""
    worker.tell("cancel on")
    yield campaign.random.uniform(0.1, 0.5)
    worker.tell("cancel off")


@fault(ALL, "inside")
def reopen(campaign, worker):
    """Clients are closed under those who wait, and opened anew."""
    worker.tell("reopen")
    yield 0.1


@fault(ALL, "clock")
def client_clock(campaign, worker):
    """A worker's wall clock is off by an hour: nobody may care."""
    worker.shift_clock(campaign.random.choice([3600, -3600, 86400]))
    yield campaign.random.uniform(0.2, 0.8)
    worker.shift_clock(0)


# ---- The fault shim: between core and store


def shim(campaign, worker, what, low, high):
    worker.tell(f"shim {what}")
    yield campaign.random.uniform(low, high)
    worker.tell("shim off")


@fault(SHIMMED, "shim")
def grant_lost(campaign, worker):
    """The store grants and queues; the answer does not arrive."""
    return shim(campaign, worker, "attempt lose 0 0", 0.05, 0.5)


@fault(SHIMMED, "shim")
def grant_late(campaign, worker):
    """Answers come late, some of them after the lease."""
    late = campaign.random.choice([5, 50, 700])
    return shim(campaign, worker, f"attempt delay 0 {late}", 0.05, 0.5)


@fault(SHIMMED, "shim")
def attempt_unsent(campaign, worker):
    """Asking fails before it gets there."""
    return shim(campaign, worker, "attempt before 0 0", 0.05, 0.3)


@fault(SHIMMED, "shim")
def attempt_uncertain(campaign, worker):
    """Asking takes effect and answers that nobody knows."""
    return shim(campaign, worker, "attempt after 0 0", 0.05, 0.3)


@fault(SHIMMED, "shim")
def release_lost(campaign, worker):
    """Releases take effect; their answers do not arrive."""
    return shim(campaign, worker, "withdraw lose 0 0", 0.05, 0.5)


@fault(SHIMMED, "shim")
def release_unsent(campaign, worker):
    """Releases do not get there."""
    return shim(campaign, worker, "withdraw before 0 0", 0.05, 0.3)


@fault(SHIMMED, "shim")
def release_late(campaign, worker):
    """Releases are answered late."""
    late = campaign.random.choice([5, 50, 400])
    return shim(campaign, worker, f"withdraw delay 0 {late}", 0.05, 0.5)


@fault("mem file", "shim")
def renewal_lost(campaign, worker):
    """Renewals take effect; nobody hears of it."""
    return shim(campaign, worker, "renew lose 0 0", 0.3, 1.2)


@fault("mem file", "shim")
def renewal_unsent(campaign, worker):
    """Renewals do not get there: leases run out."""
    return shim(campaign, worker, "renew before 0 0", 0.3, 1.2)


@fault(SHIMMED, "shim")
def silence(campaign, worker):
    """Nothing goes to the store and nothing comes back."""
    worker.tell("silent on")
    yield campaign.random.choice([0.05, 0.3, 0.9])
    worker.tell("silent off")


# ---- Files


@fault(FILES, "disk")
def disk_full(campaign, place):
    """Not a byte is left on the file system."""
    ballast = os.path.join(place, "ballast")
    file = os.open(ballast, os.O_WRONLY | os.O_CREAT)
    try:
        while os.write(file, b"\0" * 65536):
            pass
    except OSError:
        pass
    os.close(file)
    yield campaign.random.uniform(0.1, 0.8)
    os.unlink(ballast)


@fault(FILES, "disk")
def directory_moved(campaign, place):
    """The directory is away for a moment: nobody can open it, those inside go on."""
    here = os.path.join(place, "locks")
    os.rename(here, here + ".away")
    yield campaign.random.uniform(0.05, 0.4)
    os.rename(here + ".away", here)


@fault("file", "worker")
def killed_in_guard(campaign, worker):
    """Dies at a step inside the guard of the table; the next one repairs it."""
    pid = worker.pid
    worker.tell(f"failpoint {campaign.random.randint(1, 40)} kill")
    for _ in range(20):
        yield 0.02
        if not worker.alive():
            break
    if worker.alive() and worker.pid == pid:
        worker.kill()
    worker.mourn()
    worker.start()


@fault("file", "worker")
def stopped_in_guard(campaign, worker):
    """Stops at a step inside the guard: everybody else has to do without."""
    worker.tell(f"failpoint {campaign.random.randint(1, 40)} stop")
    yield campaign.random.choice([0.1, 0.4, 1.0])
    worker.tell("failpoint 0 stop")
    worker.signal(signal.SIGCONT)


@fault("flock", "disk")
def stranger(campaign, place):
    """flock(1) takes the lock files of some names, one after the other."""
    directory = os.path.join(place, "locks")
    names = [name for name in sorted(os.listdir(directory)) if "torture" in name]
    for name in campaign.random.sample(names, min(2, len(names))):
        holder = subprocess.Popen(
            ["flock", os.path.join(directory, name), "sleep", "10"],
            stderr=subprocess.DEVNULL, start_new_session=True)
        yield campaign.random.uniform(0.05, 0.3)
        os.killpg(holder.pid, signal.SIGKILL)
        holder.wait()


# ---- The network


def cut(campaign, worker, directions, seconds):
    for direction in directions:
        campaign.network.cut(direction, worker.spec.address)
    yield seconds
    for direction in directions:
        campaign.network.mend(direction, worker.spec.address)


@fault(SERVERS, "net")
def partition(campaign, worker):
    """Nothing goes either way between a worker and the server."""
    return cut(campaign, worker, ["there", "back"],
               campaign.random.choice([0.1, 0.5, 1.3]))


@fault(SERVERS, "net")
def one_way_out(campaign, worker):
    """Requests do not get there; replies would."""
    return cut(campaign, worker, ["there"], campaign.random.choice([0.1, 0.5, 1.3]))


@fault(SERVERS, "net")
def one_way_in(campaign, worker):
    """Requests get there; replies do not come back."""
    return cut(campaign, worker, ["back"], campaign.random.choice([0.1, 0.5, 1.3]))


@fault(SERVERS, "server")
def cut_all(campaign, server):
    """Nobody reaches the server."""
    campaign.network.cut_all(True)
    yield campaign.random.choice([0.1, 0.5, 1.2])
    campaign.network.cut_all(False)


@fault(SERVERS, "server")
def packet_loss(campaign, server):
    """A third of all packets is lost."""
    campaign.network.lose(True)
    yield campaign.random.uniform(0.2, 0.8)
    campaign.network.lose(False)


def proxied(campaign, worker, line, low, high):
    worker.spec.proxy.tell(line)
    yield campaign.random.uniform(low, high)
    worker.spec.proxy.tell("pass")


@fault(SERVERS, "proxy")
def reply_swallowed(campaign, worker):
    """Connections that are open hear nothing any more."""
    return proxied(campaign, worker, "swallow", 0.1, 0.6)


@fault(SERVERS, "proxy")
def reply_cut(campaign, worker):
    """The connection ends in the middle of a reply."""
    count = campaign.random.randint(1, 200)
    return proxied(campaign, worker, f"cut {count}", 0.05, 0.3)


@fault(SERVERS, "proxy")
def reply_delayed(campaign, worker):
    """Replies are late, some of them later than anybody waits."""
    late = campaign.random.choice([20, 150, 500])
    return proxied(campaign, worker, f"delay {late}", 0.2, 0.8)


@fault(SERVERS, "proxy")
def reply_trickled(campaign, worker):
    """Replies come byte by byte."""
    return proxied(campaign, worker, "trickle", 0.2, 0.8)


@fault(SERVERS, "proxy")
def reply_reset(campaign, worker):
    """Connections end; new ones end at once."""
    return proxied(campaign, worker, "refuse", 0.05, 0.4)


@fault(SERVERS, "proxy")
def black_hole(campaign, worker):
    """Nothing goes through, and nothing ends."""
    return proxied(campaign, worker, "hole", 0.1, 1.3)


# ---- The server


@fault(SERVERS, "server")
def pause_server(campaign, server):
    """SIGSTOP, for less or for more than a lease."""
    server.freeze(True)
    yield campaign.random.choice([0.1, 0.5, 1.3])
    server.freeze(False)


@fault(SERVERS, "server")
def restart_server(campaign, server):
    """Killed and started again with everything it had acknowledged."""
    server.crash()
    yield campaign.random.choice([0, 0.1, 1.2])
    server.launch()
    server.await_server()


@fault(REDIS, "server")
def restart_empty(campaign, server):
    """Comes back without memory, after the last lease has ended."""
    server.crash()
    server.forget()
    begun = campaign.clock()
    yield server.longest_lease + 0.3
    while campaign.clock() < begun + server.longest_lease + 0.2:
        campaign.sleep(0.02)  # healing must not make it come back too soon
    server.launch()
    server.await_server()


@fault(REDIS, "server", unsound=True)
def restart_amnesic(campaign, server):
    """Comes back without memory, at once: locks that are held are forgotten."""
    server.crash()
    server.forget()
    server.launch()
    server.await_server()
    yield 0.1


@fault(REDIS, "server", unsound=True)
def flush_all(campaign, server):
    """Somebody empties the server."""
    server.command("FLUSHALL")
    yield 0.1


@fault(REDIS, "server")
def client_kill(campaign, server):
    """CLIENT KILL of every connection, those that listen included."""
    for kind in ("normal", "pubsub"):
        server.command("CLIENT", "KILL", "TYPE", kind)
    yield 0.1


@fault(REDIS, "server")
def script_flush(campaign, server):
    """The server forgets the scripts."""
    server.command("SCRIPT", "FLUSH")
    yield 0.1


@fault(REDIS, "server")
def slow_server(campaign, server):
    """The server is busy with something else (DEBUG SLEEP)."""
    seconds = campaign.random.choice([0.05, 0.3, 0.8])
    server.order("DEBUG", "SLEEP", seconds)
    yield seconds


@fault(REDIS, "server")
def store_full(campaign, server):
    """maxmemory is reached: nothing new can be written."""
    server.command("CONFIG", "SET", "maxmemory", "1")
    yield campaign.random.uniform(0.1, 0.6)
    server.command("CONFIG", "SET", "maxmemory", "0")


@fault(REDIS, "server")
def demoted(campaign, server):
    """A replica for a while: it refuses to write."""
    server.command("REPLICAOF", "127.0.0.1", "1")
    yield campaign.random.uniform(0.1, 0.6)
    server.command("REPLICAOF", "NO", "ONE")


@fault(ZOOKEEPER, "server")
def server_clock(campaign, server):
    """The server's wall clock is off by an hour: sessions do not go by it."""
    server.shift_clock(campaign.random.choice([3600, -3600, 86400]))
    yield campaign.random.uniform(0.2, 0.8)
    server.shift_clock(0)


@fault(ZOOKEEPER, "server", unsound=True)
def expire(campaign, server):
    """Sessions end before their time; their connections hear nothing of it."""
    server.expire(campaign.random.randint(1, 3))
    yield 0.1
