#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kazoo's Lock at work: peer_kazoo.py PORT, spoken to as bench/drivers.h says."""
import sys
import threading
import time

from kazoo.client import KazooClient


def work(client, path, seconds):
    lock = client.Lock(path)
    count, longest = 0, 0.0
    cpu = time.process_time()
    now = time.monotonic()
    end = now + seconds
    while now < end:
        lock.acquire()
        longest = max(longest, time.monotonic() - now)
        lock.release()
        count += 1
        now = time.monotonic()
    cpu = time.process_time() - cpu
    return f"{count} {round(longest * 1e6)} {round(cpu * 1e6)}"


def crowd(client, path, count):
    def wait(lock):
        with lock:
            pass

    first = client.Lock(path)
    first.acquire()
    threads = []
    for _ in range(count):
        threads.append(threading.Thread(target=wait, args=(client.Lock(path),)))
        threads[-1].start()
    while len(client.get_children(path)) <= count:
        time.sleep(0.05)  # pause: the next look
    time.sleep(0.5)  # pause: the last of them are setting their watches
    start = time.monotonic_ns()
    first.release()
    for thread in threads:
        thread.join()
    return str(time.monotonic_ns() - start)


def main():
    client = KazooClient(f"127.0.0.1:{sys.argv[1]}", timeout=30)
    client.start()
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "crowd":
            print(crowd(client, f"/kazoo-{words[1]}", int(words[2])), flush=True)
        else:
            print(work(client, f"/kazoo-{words[0]}", int(words[1]) / 1000), flush=True)
    client.stop()


main()
