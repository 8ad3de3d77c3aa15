"""Slurm's hostlists: `n[001-012,020],gpu-a`, `r[1-2]n[01-03]-ib`.

Every accepted text means the same to `scontrol show hostnames` (24.11 and 26.05). Slurm reads an
invalid one as an empty list, or as half of it; here it is an error.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Final

NAMES_MAX: Final = 65_536
"""Slurm's own bound for one range."""
_DIGITS_MAX: Final = 9
"""Longer numbers are serial numbers and are never compressed."""

_word = re.compile(r"(?:[^\s,\[\]]|\[[^\[\]]*\])+").fullmatch
_words = re.compile(r"(?:[^\s,\[]|\[[^\]]*\]?)+").findall
_parts = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)").findall
_range = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?").fullmatch
_last_number = re.compile(r"(.*?)([0-9]+)([^0-9]*)", re.DOTALL).fullmatch


class HostlistError(ValueError):
    """The text is no hostlist, or it has more than NAMES_MAX names. The message says which."""


def expand(text: str) -> Sequence[str]:
    """Expand a hostlist into its names, in its order, with duplicates. Raises HostlistError."""
    names: list[str] = []
    for word in _words(text):
        names.extend(_expand_word(word, room=NAMES_MAX - len(names)))
    return names


def compress(names: Iterable[str]) -> str:
    """Return the shortest hostlist that brackets the last number of each name; sorted, unique.

    Raises HostlistError if a name is not valid in a hostlist.
    """
    words: list[str] = []
    families: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for name in set(names):
        match = _numbered(name)
        if match is None:
            words.append(name)
        else:
            families[match.group(1), match.group(3)].append(match.group(2))
    words += (a + _bracketed(numbers) + z for (a, z), numbers in families.items())
    return ",".join(sorted(words))


def _expand_word(word: str, *, room: int) -> Iterator[str]:
    if not _word(word):
        raise HostlistError(f"unbalanced brackets in {word[:80]!r}")
    choices: list[Sequence[str]] = []
    total = 1
    for inside, outside in _parts(word):
        choices.append([outside] if outside else list(_numbers(inside, room=room)))
        total *= len(choices[-1])
        if total > room:
            raise HostlistError(f"more than {NAMES_MAX} names")
    return map("".join, product(*choices))


def _numbers(inside: str, *, room: int) -> Iterator[str]:
    """Read `001-003,7` as 001, 002, 003, 7: the first number of a range gives the width."""
    for part in inside.split(","):
        match = _range(part)
        if match is None:
            raise HostlistError(f"no number or range: {part[:80]!r}")
        first, last = match.group(1), match.group(2) or match.group(1)
        count = int(last) - int(first) + 1
        if count < 1:
            raise HostlistError(f"a range that runs backwards: {part!r}")
        room -= count
        if room < 0:
            raise HostlistError(f"more than {NAMES_MAX} names")
        for number in range(int(first), int(last) + 1):
            yield str(number).zfill(len(first))


def _numbered(name: str) -> re.Match[str] | None:
    """Match the parts before, in and after the last number; None: no number to compress."""
    if not name or re.search(r"[\s,\[\]]", name):
        raise HostlistError(f"this name cannot stand in a hostlist: {name[:80]!r}")
    match = _last_number(name)
    return match if match and len(match.group(2)) <= _DIGITS_MAX else None


def _bracketed(numbers: Sequence[str]) -> str:
    ranges = _ranges(numbers)
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return ranges[0][0]
    return "[" + ",".join(a if a == b else f"{a}-{b}" for a, b in ranges) + "]"


def _ranges(numbers: Sequence[str]) -> Sequence[tuple[str, str]]:
    """Return ranges of consecutive numbers; the first number of a range gives the width."""
    ranges: list[tuple[str, str]] = []
    waiting: dict[str, int] = {}
    for number in sorted(numbers, key=lambda number: (int(number), len(number))):
        place = waiting.pop(number, len(ranges))
        if place == len(ranges):
            ranges.append((number, number))
        first = ranges[place][0]
        ranges[place] = (first, number)
        waiting[str(int(number) + 1).zfill(len(first))] = place
    return ranges
