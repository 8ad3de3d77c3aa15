"""Generic resources of nodes and requests: `gpu`, or a type of it such as `gpu:a100`. Pure."""

import re
from collections.abc import Sequence
from functools import lru_cache

Gres = tuple[tuple[str, int], ...]
"""Kind and count, in the order of configuration."""

_term = re.compile(r"gres[/:]([a-z_]\w*(?::[A-Za-z]\w*)?)(?:[:=]([0-9]+))?").fullmatch
_kind = re.compile(r"([a-z_]\w*(?::[A-Za-z]\w*)?)(?::([0-9]+))?").fullmatch


class GresError(ValueError):
    """The text asks for no such thing."""


@lru_cache(maxsize=1024)
def configured(text: str) -> Gres:
    """What slurm.conf gives a node: `gpu:a100:4(S:0),gpu:2`; what cannot be read is left out."""
    terms = (_kind(term.partition("(")[0]) for term in text.split(",") if term)
    return tuple((term[1], int(term[2] or 1)) for term in terms if term)


@lru_cache(maxsize=1024)
def asked(text: str) -> Gres:
    """What a request says per node: `gres/gpu:2`, `gres/gpu=2`, `gres:gpu:2`. Raises GresError."""
    terms = [_term(term) for term in text.split(",") if term]
    found = [(term[1], int(term[2] or 1)) for term in terms if term]
    if len(found) < len(terms):
        raise GresError(text)
    return tuple((kind, count) for kind, count in found if count)


def left(has: Gres, used: Gres) -> dict[str, int]:
    """What nobody uses."""
    taken = dict(used)
    return {kind: count - taken.get(kind, 0) for kind, count in has}


def picked(free: dict[str, int], wants: Gres) -> Gres | None:
    """From which kinds a request is served; None: there are too few.

    A request without a type takes from any type, in the order of configuration.
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
    """Used ones after `more` was taken (1) or given back (-1)."""
    counts = dict(used)
    for kind, count in more:
        counts[kind] = counts.get(kind, 0) + sign * count
    return tuple((kind, count) for kind, count in counts.items() if count)


def known_names(texts: Sequence[str]) -> frozenset[str]:
    """Names without types, such as `gpu`, that some node has."""
    return frozenset(kind.partition(":")[0] for text in texts for kind, _ in configured(text))
