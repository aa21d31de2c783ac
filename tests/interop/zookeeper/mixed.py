# SPDX-License-Identifier: MIT
"""Many contenders of both sides on one lock, with the witness file of ../table.h. Its
tokens are czxids: that they grow from holder to holder means first come, first served,
over both sides."""
from actors import expect
from contend import counted, play, shares

EVEN = 0.3  # in one queue: the least that either side must get of all acquisitions


def exact(run, kind, seconds, each=4, bound=EVEN):
    """All are alone while they hold: the counter must be the sum of all rounds."""
    kinds = [[run.kind(run.ours, kind)], [run.kind(run.theirs, kind)]]
    path, rounds = play(run, run.name(), kinds, seconds, each)
    expect(counted(path), sum(rounds[0]) + sum(rounds[1]), "the counter")
    return shares(rounds, bound)


def readers_and_writers(run, seconds, each=4, theirs=("write", "read")):
    """Half of each side read, half write, unless `theirs` says otherwise."""
    kinds = [["write", "read"], list(theirs)]
    path, rounds = play(run, run.name(), kinds, seconds, each)
    written = sum(
        count
        for side in (0, 1)
        for i, count in enumerate(rounds[side])
        if kinds[side][i % len(kinds[side])] == "write"
    )
    expect(counted(path), written, "the counter")
    return f"{shares(rounds)}, {written} written"


def conserved(run, ours, theirs, seconds, each=4):
    """No more permits out than there are, and none of them left at the end."""
    name = run.name()
    _, rounds = play(run, name, [[ours], [theirs]], seconds, each)
    expect(run.server.nodes(name), [], "nodes at the end")
    limit = ours.split(":")[2]
    last = run.ours.actor()
    last.must_take(f"permits:{limit}:{limit}", name)
    last.must_drop(f"permits:{limit}:{limit}", name)
    return f"{shares(rounds)}, {limit} left"
