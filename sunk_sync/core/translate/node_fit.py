"""Whether a Node can take Pods of a spec, by the rules of kube-scheduler (P7, P28).

Readiness (P12) and hard rules that compare Pods with Pods (P8) do not count.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import NamedTuple

from sunk_sync.core.model.facts import Node
from sunk_sync.core.model.pod_spec import PodSpec, Requirement, Taint, Term, Toleration
from sunk_sync.core.translate.counted import counted

Amounts = tuple[tuple[str, int], ...]
"""Resource and amount, sorted, in the units of Offer.allocatable; `pods` counts Pods."""
ONE_POD: Amounts = (("pods", 1),)
Reasons = tuple[str, ...]
"""In kube-scheduler's wording, which users can search for; empty: the Node can take the Pod."""
Labels = tuple[tuple[str, str], ...]
Check = Callable[[str | None], bool]
"""Whether a label has a wanted value; None: the Node does not have the label."""

FITS: Reasons = ()
UNSCHEDULABLE: Reasons = ("node(s) were unschedulable",)
MISMATCH: Reasons = ("node(s) didn't match Pod's node affinity/selector",)
TOO_MANY_PODS = "Too many pods"

CORDON_TAINT = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
HARD_EFFECTS = ("NoSchedule", "NoExecute")
NAME_FIELD = "metadata.name"
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
INTEGER_MAX = 2**63 - 1
SUMMARY_REASONS_MAX = 16
KINDS_MAX = 1024
SPECS_KEPT = 256
SELECTORS_KEPT = 1024


def why_unfit(spec: PodSpec, node: Node, *, taken: Amounts = ()) -> str:
    """Return why the Node cannot take one more Pod of this spec; empty if it can.

    `taken`: requests of the slurmd Pod, of DaemonSets and of other Pods on the Node, and their
    number as `pods`.
    """
    return ", ".join(demand_of(spec).reasons(node, taken))


def why_none(unfit: Iterable[Reasons], *, nodes: int) -> str:
    """Return why none of the Nodes can take the Pod, counted by reason in kube-scheduler's form."""
    counts = Counter(reason for reasons in unfit for reason in reasons)
    head = f"0/{nodes} nodes are available"
    if not counts:
        return head
    shown = sorted(f"{count} {reason}" for reason, count in counts.most_common(SUMMARY_REASONS_MAX))
    more = len(counts) - len(shown)
    tail = [f"and {counted(more, 'more reason')}"] if more else []
    return f"{head}: {', '.join([*shown, *tail])}"


class Demand:
    """A PodSpec prepared for comparison with many Nodes."""

    __slots__ = ("_repelled", "_selector", "_short", "_terms", "_tolerates_cordon")

    def __init__(self, spec: PodSpec) -> None:
        self._tolerates_cordon = _tolerated(CORDON_TAINT, spec.tolerations)
        self._selector = spec.node_selector
        self._terms = ANYWHERE if spec.terms is None else _ready_terms(spec.terms)
        self._repelled = lru_cache(KINDS_MAX)(partial(_repelled, spec.tolerations))
        self._short = lru_cache(KINDS_MAX)(partial(_short, spec.requests))

    def selects(self, node: Node) -> bool:
        """Return whether node selector and required node affinity accept the Node."""
        labels = node.offer.labels
        if self._selector and not _selected(self._selector, labels):
            return False
        return any(term.holds(node.name, labels) for term in self._terms)

    def tolerates(self, node: Node) -> bool:
        """Return whether no taint and no cordon keeps such Pods away."""
        cordoned = node.unschedulable and not self._tolerates_cordon
        return not (cordoned or self._repelled(node.offer.taints))

    def reasons(self, node: Node, taken: Amounts = ()) -> Reasons:
        """Return reasons of the first check that rejects the Node, in kube-scheduler's order."""
        if node.unschedulable and not self._tolerates_cordon:
            return UNSCHEDULABLE
        offer = node.offer
        if offer.taints and (reasons := self._repelled(offer.taints)):
            return reasons
        if not self.selects(node):
            return MISMATCH
        return self._short(offer.allocatable, taken)


@lru_cache(SPECS_KEPT)
def demand_of(spec: PodSpec) -> Demand:
    """Prepare a spec once, for thousands of Pods of one template."""
    return Demand(spec)


def _short(requests: Amounts, allocatable: Amounts, taken: Amounts) -> Reasons:
    room = dict(allocatable)
    # A Node without an allocatable number of Pods has no such limit.
    counted = "pods" in room
    for resource, amount in taken:
        room[resource] = room.get(resource, 0) - amount
    short = [f"Insufficient {name}" for name, amount in requests if amount > room.get(name, 0)]
    full = counted and room["pods"] < 1
    return (TOO_MANY_PODS, *short) if full else tuple(short)


def summed(parts: Iterable[Amounts]) -> Amounts:
    total: dict[str, int] = {}
    for part in parts:
        for resource, amount in part:
            total[resource] = total.get(resource, 0) + amount
    return tuple(sorted(total.items()))


def _repelled(tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...]) -> Reasons:
    for taint in taints:
        if taint.effect in HARD_EFFECTS and not _tolerated(taint, tolerations):
            return (f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}",)
    return FITS


def _tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    """An empty key stands for all keys, an empty effect for all effects."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def label_of(labels: Labels, key: str) -> str | None:
    """Return the value of a label; None: there is none."""
    place = bisect_left(labels, (key,))
    return labels[place][1] if place < len(labels) and labels[place][0] == key else None


def _selected(selector: Labels, labels: Labels) -> bool:
    for pair in selector:
        place = bisect_left(labels, pair)
        if place == len(labels) or labels[place] != pair:
            return False
    return True


class _Term(NamedTuple):
    checks: tuple[tuple[str, Check], ...]
    name_checks: tuple[Check, ...]

    def holds(self, name: str, labels: Labels) -> bool:
        for key, check in self.checks:
            if not check(label_of(labels, key)):
                return False
        return not self.name_checks or all(check(name) for check in self.name_checks)


ANYWHERE = (_Term((), ()),)


def _ready_terms(terms: tuple[Term, ...]) -> tuple[_Term, ...]:
    """Keep the terms that can match: an empty or ill-formed one matches no Node."""
    ready = [_ready_term(term) for term in terms if term.expressions or term.fields]
    return tuple(term for term in ready if term is not None)


def _ready_term(term: Term) -> _Term | None:
    checks = [(line.key, check) for line in term.expressions if (check := label_check(line))]
    names = [check for line in term.fields if (check := _name_check(line))]
    if len(checks) < len(term.expressions) or len(names) < len(term.fields):
        return None
    return _Term(tuple(checks), tuple(names))


def label_check(line: Requirement) -> Check | None:
    """Return None if the line is ill-formed: then kube-scheduler matches nothing by its term."""
    if not all(LABEL_VALUE.fullmatch(value) for value in line.values):
        return None
    if line.operator in ("In", "NotIn"):
        return _membership(line) if line.values else None
    if line.operator in ("Exists", "DoesNotExist"):
        return None if line.values else _presence(there=line.operator == "Exists")
    if line.operator in ("Gt", "Lt") and len(line.values) == 1:
        return _comparison(_integer(line.values[0]), above=line.operator == "Gt")
    return None


@lru_cache(SELECTORS_KEPT)
def selects(selector: tuple[Requirement, ...], labels: Labels) -> bool:
    """Return whether a label selector accepts these labels."""
    for line in selector:
        check = label_check(line)
        if check is None or not check(label_of(labels, line.key)):
            return False
    return True


def _name_check(line: Requirement) -> Check | None:
    well_formed = line.key == NAME_FIELD and len(line.values) == 1
    return _membership(line) if well_formed and line.operator in ("In", "NotIn") else None


def _membership(line: Requirement) -> Check:
    values = frozenset(line.values)
    if line.operator == "In":
        return lambda value: value in values
    return lambda value: value not in values


def _presence(*, there: bool) -> Check:
    return lambda value: (value is not None) == there


def _comparison(limit: int | None, *, above: bool) -> Check | None:
    if limit is None:
        return None

    def compare(value: str | None) -> bool:
        number = None if value is None else _integer(value)
        return number is not None and (number > limit if above else number < limit)

    return compare


def _integer(text: str) -> int | None:
    """A label value has no sign."""
    if not (text.isascii() and text.isdecimal()):
        return None
    number = int(text)
    return number if number <= INTEGER_MAX else None
