"""GRES of nodes and requests: `gpu`, or with a type `gpu:a100`."""

import re
from collections.abc import Sequence
from functools import lru_cache

Gres = tuple[tuple[str, int], ...]
"""Kind and count, in the order of configuration."""

_term = re.compile(r"gres[/:]([a-z_]\w*(?::[A-Za-z]\w*)?)(?:[:=]([0-9]+))?").fullmatch
_kind = re.compile(r"([a-z_]\w*(?::[A-Za-z]\w*)?)(?::([0-9]+))?").fullmatch


class GresError(ValueError):
    """The text requests no known GRES."""


@lru_cache(maxsize=1024)
def configured(text: str) -> Gres:
    """Parse the GRES of a node: `gpu:a100:4(S:0),gpu:2`; malformed parts are ignored."""
    terms = (_kind(term.partition("(")[0]) for term in text.split(",") if term)
    return tuple((term[1], int(term[2] or 1)) for term in terms if term)


@lru_cache(maxsize=1024)
def asked(text: str) -> Gres:
    """Parse the GRES of a request per node: `gres/gpu:2` or `gres:gpu:2`. Raises GresError."""
    terms = [_term(term) for term in text.split(",") if term]
    found = [(term[1], int(term[2] or 1)) for term in terms if term]
    if len(found) < len(terms):
        raise GresError(text)
    return tuple((kind, count) for kind, count in found if count)


def left(has: Gres, used: Gres) -> dict[str, int]:
    taken = dict(used)
    return {kind: count - taken.get(kind, 0) for kind, count in has}


def picked(free: dict[str, int], wants: Gres) -> Gres | None:
    """Select the GRES for a request; None if there are too few.

    A request without a type takes any type, in the order of configuration.
    """
    found: dict[str, int] = {}
    for kind, count in wants:
        for each in free:
            if each == kind or each.startswith(f"{kind}:"):
                some = min(count, free[each] - found.get(each, 0))
                found[each] = found.get(each, 0) + some
                count -= some
        if count:
            return None
    return tuple((kind, count) for kind, count in found.items() if count)


def added(used: Gres, more: Gres, *, sign: int) -> Gres:
    """Return the used GRES after `more` was taken (`sign` 1) or returned (-1)."""
    counts = dict(used)
    for kind, count in more:
        counts[kind] = counts.get(kind, 0) + sign * count
    return tuple((kind, count) for kind, count in counts.items() if count)


def known_names(texts: Sequence[str]) -> frozenset[str]:
    """Return the names without type, such as `gpu`, that any node has."""
    return frozenset(kind.partition(":")[0] for text in texts for kind, _ in configured(text))
