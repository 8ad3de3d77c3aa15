"""Decode rules that compare Pods with Pods: ports, affinity between Pods, topology spread (P8)."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from sunk_sync.core.model.pod_spec import (
    NO_RULES,
    HostPort,
    PodRules,
    PodTerm,
    Requirement,
    Spread,
    Term,
)
from sunk_sync.kube.decode import wire_pods as shapes

EVERY_ADDRESS: Final = ("", "0.0.0.0", "::")
ALL_NAMESPACES: Final = ("*",)
SOFT: Final = "ScheduleAnyway"
NO_SELECTOR: Final = shapes.WireLabelSelector()
"""An empty one: it selects everything."""


def rules_of(
    affinity: shapes.WireAffinity,
    *,
    spreads: Iterable[shapes.WireSpread],
    ports: Iterable[shapes.WirePort],
) -> PodRules:
    beside, apart = _required(affinity.pod_affinity), _required(affinity.pod_anti_affinity)
    hard = [one for one in spreads if one.when_unsatisfiable != SOFT]
    rules = PodRules(
        ports=_host_ports(ports),
        apart=_terms(apart),
        beside=_terms(beside),
        spread=tuple(map(_spread, hard)),
    )
    return NO_RULES if rules == NO_RULES else rules


def preferences_of(
    affinity: shapes.WireAffinity, *, spreads: Iterable[shapes.WireSpread]
) -> Iterator[str]:
    """Name the rules that only prefer Nodes, as the manifest does."""
    parts = {
        "nodeAffinity": affinity.node_affinity,
        "podAffinity": affinity.pod_affinity,
        "podAntiAffinity": affinity.pod_anti_affinity,
    }
    for name, part in parts.items():
        if part is not None and part.preferred:
            yield f"preferred {name}"
    if any(one.when_unsatisfiable == SOFT for one in spreads):
        yield f"topologySpreadConstraints with {SOFT}"


def requirement(wire: shapes.WireRequirement) -> Requirement:
    return Requirement(wire.key, wire.operator, wire.values or ())


def node_terms(selector: shapes.WireNodeSelector | None) -> tuple[Term, ...] | None:
    """Return the terms of a node selector; None: there is none."""
    if selector is None:
        return None
    return tuple(
        Term(
            tuple(map(requirement, term.match_expressions or ())),
            tuple(map(requirement, term.match_fields or ())),
        )
        for term in selector.node_selector_terms or ()
    )


def _required(affinity: shapes.WirePodAffinity | None) -> Sequence[shapes.WirePodTerm]:
    return (affinity.required or ()) if affinity is not None else ()


def _terms(terms: Sequence[shapes.WirePodTerm]) -> tuple[PodTerm, ...]:
    return tuple(map(_term, terms))


def _term(wire: shapes.WirePodTerm) -> PodTerm:
    selector = selector_of(wire.label_selector)
    if wire.namespace_selector == NO_SELECTOR:
        return PodTerm(wire.topology_key, selector, ALL_NAMESPACES)
    namespaces = tuple(sorted(wire.namespaces or ()))
    return PodTerm(wire.topology_key, selector, namespaces, selector_of(wire.namespace_selector))


def _spread(wire: shapes.WireSpread) -> Spread:
    return Spread(
        topology_key=wire.topology_key,
        selector=selector_of(wire.label_selector),
        max_skew=wire.max_skew,
        min_domains=wire.min_domains or 1,
        honors_affinity=wire.node_affinity_policy != "Ignore",
        honors_taints=wire.node_taints_policy == "Honor",
        match_keys=wire.match_label_keys or (),
    )


def selector_of(wire: shapes.WireLabelSelector | None) -> tuple[Requirement, ...] | None:
    if wire is None:
        return None
    labels = [Requirement(key, "In", (value,)) for key, value in (wire.match_labels or {}).items()]
    return (*sorted(labels, key=_key), *map(requirement, wire.match_expressions or ()))


def _key(line: Requirement) -> str:
    return line.key


def _host_ports(ports: Iterable[shapes.WirePort]) -> tuple[HostPort, ...]:
    found = {
        HostPort(
            one.host_port,
            one.protocol or "TCP",
            "" if one.host_ip in EVERY_ADDRESS else one.host_ip,
        )
        for one in ports
        if one.host_port
    }
    return tuple(sorted(found, key=lambda one: (one.port, one.protocol, one.address)))
