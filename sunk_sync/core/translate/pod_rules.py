"""Hard rules that compare Pods with Pods, by the rules of kube-scheduler (P8).

A rule becomes fences: domains of Nodes that are closed, or the only open ones.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

from msgspec import Struct

from sunk_sync.core.model.facts import Node
from sunk_sync.core.model.pod_spec import (
    NO_RULES,
    HostPort,
    PodRules,
    PodSpec,
    PodTerm,
    Requirement,
    Spread,
)
from sunk_sync.core.translate.fences import Fence, Fences
from sunk_sync.core.translate.node_fit import Labels, demand_of, label_of, selects

Rule = PodTerm | Spread
Selector = tuple[Requirement, ...]
Domain = Callable[[str, str], str | None]
"""Node name and label key → value; None: the Node has no such label."""

APART = "node(s) didn't match pod anti-affinity rules"
APART_OF_OTHERS = "node(s) didn't satisfy existing pods anti-affinity rules"
BESIDE = "node(s) didn't match pod affinity rules"
PORTS = "node(s) didn't have free ports for the requested pod ports"
SPREAD = "node(s) didn't match pod topology spread constraints"
ALL_NAMESPACES = "*"
RULES_KEPT = 256
NO_DOMAIN: frozenset[str | None] = frozenset((None,))


class Kind(Struct, frozen=True, gc=False, cache_hash=True):
    """Pods that are equal for every rule."""

    namespace: str
    labels: Labels
    """Only labels that some selector reads."""
    namespace_labels: Labels
    """Those of its Namespace, likewise."""
    spec: PodSpec
    settings: tuple[tuple[str, str], ...] = ()
    """Annotations for the job: Slurm may refuse a job for them."""
    leaving: bool = False
    """They are terminating: no spread counts them."""
    volumes: Fences = ()
    """Where their volumes let them go: one without a host holds up no Pod that has one."""
    other: bool = False
    """They are Pods of another scheduler."""


Standing = dict[Kind, Counter[str]]
"""Kind → Node name → number of its Pods there."""
NOBODY: Counter[str] = Counter()


class LabelsRead(Struct, frozen=True, gc=False):
    """Labels that selectors of rules read."""

    of_pods: frozenset[str] = frozenset()
    of_namespaces: frozenset[str] = frozenset()

    def joined(self, other: "LabelsRead") -> "LabelsRead":
        if other.of_pods <= self.of_pods and other.of_namespaces <= self.of_namespaces:
            return self
        return LabelsRead(self.of_pods | other.of_pods, self.of_namespaces | other.of_namespaces)


NOTHING_READ = LabelsRead()


@lru_cache(RULES_KEPT)
def labels_read(rules: PodRules) -> LabelsRead:
    """Return the labels of Pods and of Namespaces that these rules read."""
    between = (*rules.apart, *rules.beside)
    terms: tuple[Rule, ...] = (*between, *rules.spread)
    of_pods = _keys(term.selector for term in terms)
    match_keys = [key for spread in rules.spread for key in spread.match_keys]
    of_namespaces = _keys(term.namespace_selector for term in between)
    return LabelsRead(of_pods.union(match_keys), of_namespaces)


def _keys(selectors: Iterable[Selector | None]) -> frozenset[str]:
    return frozenset(line.key for selector in selectors for line in selector or ())


def only(labels: Labels, read: frozenset[str]) -> Labels:
    """Return the labels that are read."""
    return tuple([pair for pair in labels if pair[0] in read])


def mind_each_other(one: Kind, other: Kind) -> bool:
    """Return whether a Pod of one kind matters for where a Pod of the other may go."""
    return _minds(one, other) or _minds(other, one)


def _minds(one: Kind, other: Kind) -> bool:
    rules = one.spec.rules
    if rules == NO_RULES:
        return False
    terms: tuple[Rule, ...] = (*rules.apart, *rules.spread, *rules.beside)
    if any(matches(term, other, owner=one) for term in terms):
        return True
    return _ports_clash(rules.ports, other.spec.rules.ports)


def waits_for(one: Kind, other: Kind) -> bool:
    """Return whether a Pod of `one` must run where a Pod of `other` runs."""
    return any(matches(term, other, owner=one) for term in one.spec.rules.beside)


def matches(rule: Rule, kind: Kind, *, owner: Kind) -> bool:
    """Return whether the rule of a Pod of kind `owner` reads Pods of this kind."""
    if isinstance(rule, Spread):
        concerns = kind.namespace == owner.namespace and _counts(rule, kind, owner=owner)
    else:
        concerns = _reads_namespace_of(kind, rule, owner=owner)
    return concerns and rule.selector is not None and selects(rule.selector, kind.labels)


def _reads_namespace_of(kind: Kind, term: PodTerm, *, owner: Kind) -> bool:
    if kind.namespace in term.namespaces or ALL_NAMESPACES in term.namespaces:
        return True
    if term.namespace_selector is None:
        return not term.namespaces and kind.namespace == owner.namespace
    return selects(term.namespace_selector, kind.namespace_labels)


def _counts(rule: Spread, kind: Kind, *, owner: Kind) -> bool:
    """Whether its Pods stay, and have the owner's values of the labels that must be equal.

    A label that the owner lacks does not count.
    """
    values = [(key, label_of(owner.labels, key)) for key in rule.match_keys]
    alike = all(value is None or label_of(kind.labels, key) == value for key, value in values)
    return alike and not kind.leaving


def fences_of(
    kind: Kind, *, bound: Standing, arriving: Standing, domain: Domain, hosts: Iterable[Node]
) -> Fences:
    """Return where a Pod of this kind may go beside those that are bound or arrive.

    `hosts`: Nodes that count as domains of a spread.
    """
    rules = kind.spec.rules
    standing = _joined(bound, arriving)
    found = [*_closed_ports(kind, standing), *_apart(kind, standing, domain)]
    found += _apart_of_others(kind, standing, domain)
    found += _beside(kind, bound=bound, standing=standing, domain=domain)
    if rules.spread:
        nodes = list(hosts)
        found += [_spread(kind, one, standing, nodes) for one in rules.spread]
    return tuple(found)


def _joined(bound: Standing, arriving: Standing) -> Standing:
    if not arriving:
        return bound
    return {one: bound.get(one, NOBODY) + arriving.get(one, NOBODY) for one in (*bound, *arriving)}


def _closed_ports(kind: Kind, standing: Standing) -> Iterator[Fence]:
    ports = kind.spec.rules.ports
    if not ports:
        return
    others = [one for one in standing if _ports_clash(ports, one.spec.rules.ports)]
    closed = frozenset(name for one in others for name in standing[one])
    if closed:
        yield Fence("", closed, False, PORTS)  # noqa: FBT003


def _ports_clash(mine: Sequence[HostPort], others: Sequence[HostPort]) -> bool:
    return any(_is_same_port(one, other) for one in mine for other in others)


def _is_same_port(one: HostPort, other: HostPort) -> bool:
    if (one.port, one.protocol) != (other.port, other.protocol):
        return False
    return not one.address or not other.address or one.address == other.address


def _apart(kind: Kind, standing: Standing, domain: Domain) -> Iterator[Fence]:
    for term in kind.spec.rules.apart:
        values = _values(term, kind, standing, domain)
        if values:
            yield Fence(term.topology_key, values, False, APART)  # noqa: FBT003


def _apart_of_others(kind: Kind, standing: Standing, domain: Domain) -> Iterator[Fence]:
    for other, names in standing.items():
        for term in other.spec.rules.apart:
            if matches(term, kind, owner=other):
                values = _known(domain(name, term.topology_key) for name in names)
                yield Fence(term.topology_key, values, False, APART_OF_OTHERS)  # noqa: FBT003


def _beside(kind: Kind, *, bound: Standing, standing: Standing, domain: Domain) -> Iterator[Fence]:
    """A Pod counts if it matches all terms.

    Where Pods are bound decides, if there are any: one that arrives elsewhere may be given up for
    the same rule. The first Pod of a group that only wants to be together may start in any domain.
    """
    terms = kind.spec.rules.beside
    values = _open_beside(kind, bound, domain)
    if not any(values):
        values = _open_beside(kind, standing, domain)
    if not any(values) and _matches_all(terms, kind, owner=kind):
        for term in terms:
            yield Fence(term.topology_key, NO_DOMAIN, False, BESIDE)  # noqa: FBT003
        return
    for term, open_ in zip(terms, values, strict=True):
        yield Fence(term.topology_key, open_, True, BESIDE)  # noqa: FBT003


def _open_beside(kind: Kind, standing: Standing, domain: Domain) -> list[frozenset[str | None]]:
    """Return the open domains for each term."""
    terms = kind.spec.rules.beside
    like = {one: names for one, names in standing.items() if _matches_all(terms, one, owner=kind)}
    return [_values(term, kind, like, domain) for term in terms]


def _matches_all(terms: Iterable[PodTerm], kind: Kind, *, owner: Kind) -> bool:
    return all(matches(term, kind, owner=owner) for term in terms)


def _values(term: Rule, owner: Kind, standing: Standing, domain: Domain) -> frozenset[str | None]:
    kinds = [one for one in standing if matches(term, one, owner=owner)]
    return _known(domain(name, term.topology_key) for one in kinds for name in standing[one])


def _known(values: Iterable[str | None]) -> frozenset[str | None]:
    return frozenset(values) - NO_DOMAIN


def _spread(kind: Kind, rule: Spread, standing: Standing, nodes: Sequence[Node]) -> Fence:
    """Return the domains that one more Pod keeps within the skew.

    Only Nodes with the labels of all spreads of the Pod count.
    """
    demand, key = demand_of(kind.spec), rule.topology_key
    keys = {one.topology_key for one in kind.spec.rules.spread}
    value_of = {
        node.name: label_of(node.offer.labels, key)
        for node in nodes
        if (demand.selects(node) or not rule.honors_affinity)
        and (demand.tolerates(node) or not rule.honors_taints)
        and all(label_of(node.offer.labels, one) is not None for one in keys)
    }
    counts = Counter(dict.fromkeys(_known(value_of.values()), 0))
    for other, names in standing.items():
        if matches(rule, other, owner=kind):
            for name, count in names.items():
                value = value_of.get(name)
                if value is not None:
                    counts[value] += count
    least = 0 if len(counts) < rule.min_domains else min(counts.values(), default=0)
    own = matches(rule, kind, owner=kind)
    open_ = frozenset(one for one, count in counts.items() if count + own - least <= rule.max_skew)
    return Fence(key, open_, True, SPREAD)  # noqa: FBT003
