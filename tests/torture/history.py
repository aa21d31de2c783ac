#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Histories as history.h lays them out: written from Python, and read by people.

`Writer` appends events to a file of its own, as the nemesis does; `read` gives them
back; `python3 history.py FILE...` prints them as text, times in seconds since the first
event of all the files.
"""

import ctypes
import os
import struct
import sys
import threading

MAGIC = 0x31746968646C6F68
FOREVER = (1 << 64) - 1

HEADER = struct.Struct("<QIIQQ32s")
EVENT = struct.Struct("<QQQQIIHHBBBBIIII")
FIELDS = (
    "t_ns token until_ns value lock hold permits limit op phase result kind place"
    " code sum spare"
).split()
WORDS = struct.Struct("<7Q")

OPS = {
    1: "ACQUIRE",
    2: "RELEASE",
    3: "SEEN",
    4: "LOST",
    5: "REGISTER",
    6: "PLAIN",
    7: "FAULT",
    8: "HEAL",
    9: "END",
    10: "FINAL",
    11: "RESIDUE",
    12: "DOWNGRADE",
    13: "STALL",
    14: "EXTEND",
    15: "ADOPT",
    16: "LEAVE",
    17: "EVICT",
}
PHASES = {1: "INVOKE", 2: "RETURN"}
RESULTS = {
    1: "OK",
    2: "BUSY",
    3: "TIMEOUT",
    4: "LATE",
    5: "UNKNOWN",
    6: "FAILED",
    7: "REJECTED",
    8: "ABSENT",
}
KINDS = {1: "MUTEX", 2: "FAIR", 3: "READ", 4: "WRITE", 5: "PERMITS", 6: "REENTRANT"}

(ACQUIRE, RELEASE, SEEN, LOST, REGISTER, PLAIN, FAULT, HEAL, END, FINAL, RESIDUE,
 DOWNGRADE, STALL, EXTEND, ADOPT, LEAVE, EVICT) = sorted(OPS)
INVOKE, RETURN = sorted(PHASES)
OK, BUSY, TIMEOUT, LATE, UNKNOWN, FAILED, REJECTED, ABSENT = sorted(RESULTS)
MUTEX, FAIR, READ, WRITE, PERMITS, REENTRANT = sorted(KINDS)


class _Timespec(ctypes.Structure):
    _fields_ = [("sec", ctypes.c_long), ("nsec", ctypes.c_long)]


_libc = ctypes.CDLL(None, use_errno=True)
_SYS_CLOCK_GETTIME = {"x86_64": 228, "aarch64": 113}.get(os.uname().machine)


def now():
    """CLOCK_MONOTONIC in ns, by system call where its number is known."""
    if _SYS_CLOCK_GETTIME is None:
        import time

        return time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    spec = _Timespec()
    _libc.syscall(ctypes.c_long(_SYS_CLOCK_GETTIME), 1, ctypes.byref(spec))
    return spec.sec * 1_000_000_000 + spec.nsec


def event_sum(packed):
    """history_sum() of the first 56 bytes of an event."""
    h = 0xCBF29CE484222325
    for word in WORDS.unpack_from(packed):
        h = ((h ^ word) * 0x100000001B3) & FOREVER
    return (h ^ (h >> 32)) & 0xFFFFFFFF or 1


def pack(**fields):
    """One event of 64 bytes, with its sum; `t_ns` is now if it is not given."""
    fields.setdefault("t_ns", now())
    values = [fields.pop(name, 0) for name in FIELDS]
    if fields:
        raise TypeError("no such field: " + ", ".join(fields))
    values[FIELDS.index("sum")] = event_sum(EVENT.pack(*values))
    return EVENT.pack(*values)


class Writer:
    """One history file, appended to; may be shared by threads, which history.c's may
    not."""

    def __init__(self, path, process, thread=0, label="python"):
        self._lock = threading.Lock()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)
        os.write(self._fd, HEADER.pack(MAGIC, process, thread, 0, os.getpid(),
                                       label.encode()[:31]))

    def add(self, op, phase=RETURN, **fields):
        """Appends an event and gives its time."""
        with self._lock:
            packed = pack(op=op, phase=phase, **fields)
            os.write(self._fd, packed)
        return EVENT.unpack(packed)[0]

    def close(self):
        os.close(self._fd)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def read(path):
    """(header, events), each a dict; the sound events only, up to the first that is
    not."""
    with open(path, "rb") as file:
        raw = file.read(HEADER.size)
        if len(raw) < HEADER.size or not any(raw[:8]):
            return None, []
        magic, process, thread, capacity, pid, label = HEADER.unpack(raw)
        if magic != MAGIC:
            raise ValueError(f"{path}: not a history")
        header = dict(process=process, thread=thread, capacity=capacity, pid=pid,
                      label=label.rstrip(b"\0").decode(errors="replace"))
        events = []
        while len(raw := file.read(EVENT.size)) == EVENT.size:
            event = dict(zip(FIELDS, EVENT.unpack(raw)))
            if event["sum"] != event_sum(raw):
                break
            events.append(event)
    return header, events


def text(event, start=0):
    """One event as one line."""
    words = [f"{(event['t_ns'] - start) / 1e9:12.6f}",
             f"{OPS.get(event['op'], event['op'])}",
             f"{PHASES.get(event['phase'], event['phase'])}"]
    if event["op"] == FAULT:
        words.append(f"kind={event['kind']} number={event['value']}")
        return " ".join(words)
    words.append(f"lock={event['lock']} hold={event['hold']}")
    if event["kind"]:
        words.append(KINDS.get(event["kind"], str(event["kind"])))
    if event["result"]:
        words.append(RESULTS.get(event["result"], str(event["result"])))
    for name in ("token", "value", "permits", "limit", "place", "code"):
        if event[name]:
            words.append(f"{name}={event[name]}")
    if event["until_ns"] == FOREVER:
        words.append("until=forever")
    elif event["op"] == FINAL:
        words.append(f"plain={event['until_ns']}")
    elif event["until_ns"]:
        words.append(f"until={(event['until_ns'] - start) / 1e9:.6f}")
    return " ".join(words)


def main(paths):
    if not paths:
        print("usage: history.py FILE...", file=sys.stderr)
        return 2
    histories = [(path, *read(path)) for path in paths]
    start = min((events[0]["t_ns"] for _, _, events in histories if events), default=0)
    for path, header, events in histories:
        if header is None:
            print(f"{path}: no header: its writer was killed before it began")
            continue
        print(f"{path}: process {header['process']} thread {header['thread']}"
              f" pid {header['pid']} {header['label']}: {len(events)} events")
        for event in events:
            print(text(event, start))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
