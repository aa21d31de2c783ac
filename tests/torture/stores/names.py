# SPDX-License-Identifier: MIT
"""Names that a store might take for one another.

All of a campaign's locks have names of this family: derived from each other as stores
derive keys, files and nodes from names, alike but for case, a slash or a brace, alike
in their first 128 or 1000 bytes. They are separate locks, and the checker judges each
by itself, so that a lock which shares anything with another shows as K1, K3 or K10.
"""

import random

BASE = "torture"
LONG = "torture-" + "n" * 121  # 129 bytes: more than a file or a record may have room for
LONGER = "torture/" + "n" * 1015  # with one more: 1024, the longest there is

FAMILY = [
    BASE,
    "{torture}",
    "{torture",
    "Torture",
    "TORTURE",
    "tortur",
    "torture/",
    "torture//",
    "torture/torture",
    "torture:torture",
    "torture:{torture}",
    "{torture}:torture",
    "{torture}/torture",
    "torture%2F",
    "torture%2Ftorture",
    "torture%7B",
    "torture.",
    "torture.lock",
    "torture.d",
    "torture torture",
    "torture-lock-0000000000",
    "torture*",
    "torture\u00e9",
    "torturee\u0301",
    LONG,
    LONG + "1",
    LONG + "2",
    LONGER + "1",
    LONGER + "2",
]
WRAPPED = "{torture}"
PAIR = [BASE, WRAPPED]  # in every campaign


def draw(seed, kinds, locks, derived=(), unwrapped=()):
    """`locks` names for each kind, in the order of kinds, the same for the same seed.
    `derived`: names like the store's own keys that it accepts; `unwrapped`: kinds that
    do not take `{x}`."""
    dice = random.Random(seed)
    rest = [name for name in FAMILY + list(derived) if name not in PAIR]
    names = PAIR + dice.sample(rest, locks * len(kinds) - len(PAIR))
    dice.shuffle(names)
    place = names.index(WRAPPED)
    if kinds[place // locks] in unwrapped:
        free = [i for i in range(len(names)) if kinds[i // locks] not in unwrapped]
        other = dice.choice(free)
        names[place], names[other] = names[other], names[place]
    return names
