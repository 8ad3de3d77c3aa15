"""The weights of packed Slurm nodes (W1-W4): Slurm takes the lowest weight first.

Such a weight contains the node's own one, so that no note of it is needed: in decimal digits
`1BBBBBS7`, with the own weight B and the step S. It stays below 2^24, because slurmctld compares
weights modulo 2^24 (measured, 24.11 and 26.05).
"""

from math import ceil
from typing import Final

FROM: Final = 10_000_000
OWN_MAX: Final = 67_771
"""A node with a greater weight of its own is not packed: the packed one would exceed 2^24."""
_SIGN: Final = 7
"""The last digit: a weight that an administrator chose hardly ever has it as well."""
_OWN, _STEP = 100, 10

EMPTY: Final = 0
FULL: Final = 5
FILL_WORDS: Final = (
    "empty",
    "at most a quarter used",
    "at most half used",
    "at most three quarters used",
    "more than three quarters used",
    "full",
)
"""By `SlurmNode.fill`."""
Share = tuple[int, int]
"""What jobs use, and how much there is."""
_STEPS: Final = (4, 3, 2, 1, 0, 0)


def packed_weight(own: int, fill: int) -> int:
    """Return the weight of a node so full; the fuller, the lower, above all of a lower own one."""
    return FROM + own * _OWN + _STEPS[fill] * _STEP + _SIGN


def own_weight(weight: int) -> int | None:
    """Return the own weight in a packed one; None: it is not a packed one."""
    if weight < FROM:
        return None
    own, rest = divmod(weight - FROM, _OWN)
    step, sign = divmod(rest, _STEP)
    return own if sign == _SIGN and step <= _STEPS[EMPTY] and own <= OWN_MAX else None


def unpacked(weight: int) -> int:
    """Return the own weight of a node with this weight, packed or not."""
    own = own_weight(weight)
    return weight if own is None else own


def is_empty(packed: int) -> bool:
    """Whether a packed weight is that of an empty node."""
    return packed % _OWN // _STEP == _STEPS[EMPTY]


def fill_of(*, cpus: Share, memory: Share, gpus: Share) -> int:
    """Return how full a node is: EMPTY, quarters 1 to 4, or FULL.

    If it has GPUs, they decide. A job that needs none still makes the node not empty. A resource
    that is used up makes it full, whatever the others are.
    """
    if not (cpus[0] or memory[0] or gpus[0]):
        return EMPTY
    shares = [used / total if total else 0.0 for used, total in (cpus, memory, gpus)]
    fullest = max(shares)
    if fullest >= 1:
        return FULL
    return max(1, ceil(4 * (shares[2] if gpus[1] else fullest)))
