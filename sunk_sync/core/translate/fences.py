"""Fences: which Nodes a rule closes to a Pod, or leaves open (P8)."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec import Struct

from sunk_sync.core.model.facts import Node
from sunk_sync.core.model.pod_spec import PodSpec, Term
from sunk_sync.core.translate.node_fit import demand_of, label_of

TERMS_KEPT = 1024


class Fence(Struct, frozen=True, gc=False):
    """Domains that a Pod may not enter, or the only ones that it may enter."""

    key: str
    """Label of Nodes; empty: their name."""
    values: frozenset[str | None]
    """None: the Node has no such label."""
    inside: bool
    reason: str

    def stops(self, node: Node) -> bool:
        value = label_of(node.offer.labels, self.key) if self.key else node.name
        return (value in self.values) != self.inside


class TermsFence(Struct, frozen=True, gc=False):
    """The only Nodes that a Pod may enter: one of these terms must hold."""

    terms: tuple[Term, ...]
    reason: str

    def stops(self, node: Node) -> bool:
        return not holds(self.terms, node)


Fences = tuple[Fence | TermsFence, ...]


def why_stopped(fences: Fences, node: Node) -> str:
    """Return the reason of the first fence that stops a Pod before this Node, or empty."""
    return next((fence.reason for fence in fences if fence.stops(node)), "")


def holds(terms: tuple[Term, ...] | None, node: Node) -> bool:
    """Return whether the Node is among those that the terms name; None: all."""
    return terms is None or demand_of(_wanting(terms)).selects(node)


@lru_cache(TERMS_KEPT)
def _wanting(terms: tuple[Term, ...]) -> PodSpec:
    return PodSpec(terms=terms)


def fences_within(terms: Sequence[Term], *, reason: str) -> Fences:
    """Return fences around the Nodes of these terms, by values of labels where that is possible."""
    if len(terms) == 1 and _is_simple(terms[0]):
        lines = terms[0].expressions
        return tuple(
            Fence(one.key, frozenset(one.values), inside=True, reason=reason) for one in lines
        )
    keys = {term.expressions[0].key for term in terms if len(term.expressions) == 1}
    if len(keys) == 1 and all(len(term.expressions) == 1 and _is_simple(term) for term in terms):
        values = frozenset(value for term in terms for value in term.expressions[0].values)
        return (Fence(keys.pop(), values, inside=True, reason=reason),)
    return (TermsFence(tuple(terms), reason),)


def _is_simple(term: Term) -> bool:
    lines = term.expressions
    return bool(lines) and not term.fields and all(line.operator == "In" for line in lines)


class GangFences(NamedTuple):
    """What closes hosts to the Pods of one workload."""

    common: Fences
    """To all of them."""
    own: Sequence[Fences] = ()
    """What else closes hosts to each; empty: nothing does."""


NO_FENCES: Final = GangFences(())


def share_out(fences: Sequence[Fences]) -> GangFences:
    """Tell the fences that all members have from those of single ones."""
    first, *others = fences
    if all(one == first for one in others):
        return GangFences(first)
    common = tuple([fence for fence in first if all(fence in one for one in others)])
    own = [tuple([fence for fence in one if fence not in common]) for one in fences]
    return GangFences(common, own)
