# SPDX-License-Identifier: MIT
"""Many contenders of both sides on one lock, with the witness file of ../table.h."""
import os

from actors import Wrong, expect
from redisson import prepare

BOUND = 0.05  # of all acquisitions: the least that either side must get


def new_table(run):
    path = os.path.join(run.server.dir, run.name())
    with open(path, "w", encoding="ascii") as file:
        file.write(f"{0:020d} {0:020d}\n" + "0" * 16)
    return path


def play(run, name, kinds, seconds, each):
    """`each` contenders per side, kinds[0] for ours and kinds[1] for theirs, which are
    lists: contender i plays kind i, round and round. The rounds of either side."""
    path = new_table(run)
    sides = [run.ours, run.theirs]
    actors = [[side.actor() for _ in range(each)] for side in sides]
    for side, group in enumerate(actors):
        for i, actor in enumerate(group):
            kind = kinds[side][i % len(kinds[side])]
            seat = side * each + i
            actor.send(f"loop {kind} {name} {seconds * 1000:.0f} {path} {seat}")
    rounds = [[], []]
    for side, group in enumerate(actors):
        for i, actor in enumerate(group):
            answer = actor.get(seconds + 70)[0].split()
            expect(answer[0], "done", f"{sides[side].title} {i}: {' '.join(answer)}")
            expect(answer[2], "0", f"what {sides[side].title} {i} saw go wrong")
            rounds[side].append(int(answer[1]))
    return path, rounds


def counted(path):
    with open(path, encoding="ascii") as file:
        return int(file.read(20))


def shares(rounds, bound=BOUND):
    ours, theirs = sum(rounds[0]), sum(rounds[1])
    share = theirs / max(ours + theirs, 1)
    seen = f"{ours} + {theirs}, theirs {share:.0%}"
    if not bound <= share <= 1 - bound:
        raise Wrong(f"too small a share: {seen}")
    if 0 in rounds[0] + rounds[1]:
        raise Wrong(f"somebody got nothing: {rounds}")
    return seen


def exact(run, kind, seconds, each=4, bound=BOUND):
    """All are alone while they hold: the counter must be the sum of all rounds."""
    name = run.name()
    prepare(run, kind, name)
    path, rounds = play(run, name, [[kind], [kind]], seconds, each)
    expect(counted(path), sum(rounds[0]) + sum(rounds[1]), "the counter")
    return shares(rounds, bound)


def readers_and_writers(run, seconds):
    """Two readers and two writers on each side."""
    kinds = ["write", "read"]
    path, rounds = play(run, run.name(), [kinds, kinds], seconds, 4)
    written = sum(side[0] + side[2] for side in rounds)
    expect(counted(path), written, "the counter")
    return f"{shares(rounds)}, {written} written"


def conserved(run, kind, seconds):
    """No more permits out than there are, and all of them back at the end."""
    name = run.name()
    prepare(run, kind, name)
    word, *numbers = kind.split(":")
    _, rounds = play(run, name, [[kind], [kind]], seconds, 4)
    left = run.theirs.actor().ask(f"{word}-left {name}")
    expect(left, f"left {numbers[-1]}", "permits at the end")
    return f"{shares(rounds)}, {left}"
