"""Hostlists and ALL as slurmctld and slurmrestd read them, and how they print them."""

import re
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final

NAMES_MAX: Final = 65_536

_number = re.compile(r"(.*?)([0-9]+)").fullmatch
_is_plain = re.compile(r"[^\[\],\s]+").fullmatch
_words = re.compile(r"(?:[^\[\],\s]|\[[^\[\]]*\])+").findall
_is_list = re.compile(r"(?:[^\[\]\s]|\[[0-9,-]+\])*").fullmatch
_parts = re.compile(r"\[([0-9,-]+)\]|([^\[\]]+)").findall


class NamesError(ValueError):
    """The text is no hostlist."""


def expanded(words: Iterable[str]) -> Sequence[str]:
    """Return every name of these hostlists. Raises NamesError."""
    names: list[str] = []
    for word in words:
        names += [word] if _is_plain(word) else _expand(word)
    if len(names) > NAMES_MAX:
        raise NamesError(f"more than {NAMES_MAX} names")
    return names


def named(words: Sequence[str], known: Iterable[str]) -> Sequence[str]:
    """Return the names in slurmctld's order: prefix, then number; `ALL` is every known name.

    Raises NamesError.
    """
    if [word.upper() for word in words] == ["ALL"]:
        return list(known)
    names = expanded(words)
    return names if len(names) == 1 else sorted(set(names), key=_order)


def ranged(words: Sequence[str]) -> str:
    """Print names as slurmrestd does: neighbours with the same prefix in brackets, unsorted.

    Raises NamesError.
    """
    parts: list[str] = []
    family: str | None = None
    runs: list[tuple[str, str]] = []
    for name in expanded(words):
        match = _number(name)
        if match is None or match.group(1) != family:
            parts += _closed(family, runs)
            family, runs = (match.group(1) if match else None), []
        if match is None:
            parts.append(name)
        else:
            _extend(runs, match.group(2))
    return ",".join([*parts, *_closed(family, runs)])


def _expand(text: str) -> Iterable[str]:
    if not _is_list(text):
        raise NamesError(text)
    for word in _words(text):
        choices = [[outside] if outside else _numbers(inside) for inside, outside in _parts(word)]
        yield from map("".join, product(*choices))


def _numbers(inside: str) -> Sequence[str]:
    numbers: list[str] = []
    for part in inside.split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            raise NamesError(inside)
        if int(last or first) - int(first) >= NAMES_MAX:
            raise NamesError(inside)
        every = range(int(first), int(last or first) + 1)
        numbers += [str(number).zfill(len(first)) for number in every]
    return numbers


def _extend(runs: list[tuple[str, str]], number: str) -> None:
    if runs and int(number) == int(runs[-1][1]) + 1:
        runs[-1] = (runs[-1][0], number)
    else:
        runs.append((number, number))


def _closed(family: str | None, runs: Sequence[tuple[str, str]]) -> Sequence[str]:
    if family is None or not runs:
        return []
    spelled = ",".join(first if first == last else f"{first}-{last}" for first, last in runs)
    alone = len(runs) == 1 and runs[0][0] == runs[0][1]
    return [family + spelled if alone else f"{family}[{spelled}]"]


def _order(name: str) -> tuple[str, int, str]:
    match = _number(name)
    return (match.group(1), int(match.group(2)), name) if match else (name, -1, name)
