"""Decode the spec of a workload Pod once for all Pods of a template.

No two whole specs are equal, because each token volume has its own name. So the key of the cache is
the bytes of the parts that rules read.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from sys import intern
from typing import Final

import msgspec
from msgspec import Raw

from sunk_sync.core.model.pod_spec import PodSpec, Term, Toleration
from sunk_sync.core.translate.quantity import NANO, Amounts, amounts_of, counted, pod_requests
from sunk_sync.kube.decode import wire_pods as shapes
from sunk_sync.kube.decode.pod_rules import node_terms, preferences_of, rules_of
from sunk_sync.kube.decode.strings import cut

SPECS_KEPT: Final = 4096
BYTES_KEPT: Final = 8 << 10
"""Longer specs are decoded at each event."""
SIDECAR: Final = "Always"
"""restartPolicy of a sidecar, which is an init container."""


_decode_resources = msgspec.json.Decoder(shapes.WireResources | None).decode
_decode_amounts = msgspec.json.Decoder(dict[str, str | int | float] | None).decode
_decode_selector = msgspec.json.Decoder(dict[str, str] | None).decode
_decode_affinity = msgspec.json.Decoder(shapes.WireAffinity | None).decode
_decode_tolerations = msgspec.json.Decoder(list[shapes.WireToleration] | None).decode
_decode_ports = msgspec.json.Decoder(list[shapes.WirePort] | None).decode
_decode_spreads = msgspec.json.Decoder(list[shapes.WireSpread] | None).decode


_known: dict[bytes, PodSpec] = {}


def spec_of(spec: shapes.WirePodSpec, *, guaranteed: bool, daemon: bool = False) -> PodSpec:
    """Decode a spec; `guaranteed`: the QoS class, `daemon`: of a DaemonSet. Raise BAD_BYTES.

    Equal specs share one object.
    """
    key = _key(spec, guaranteed=guaranteed, daemon=daemon)
    known = _known.get(key)
    return known or _keep(key, _read(spec, guaranteed=guaranteed, daemon=daemon))


def _key(spec: shapes.WirePodSpec, *, guaranteed: bool, daemon: bool) -> bytes:
    """Join all parts of a PodSpec. JSON has no zero byte and never begins with an apostrophe."""
    rest = (
        spec.priority_class_name,
        spec.termination_grace_period_seconds,
        bool(spec.resource_claims),
        guaranteed,
        daemon,
    )
    parts: list[Raw | bytes] = [
        repr(rest).encode(),
        spec.resources,
        spec.overhead,
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
    ]
    for one in spec.containers:
        parts += (one.resources, one.ports)
    for one in spec.init_containers or ():
        parts += (ascii(one.restart_policy).encode(), one.resources, one.ports)
    return b"\0".join(parts)


def _keep(key: bytes, spec: PodSpec) -> PodSpec:
    if len(key) <= BYTES_KEPT:
        if len(_known) >= SPECS_KEPT:
            _known.clear()
        _known[key] = spec
    return spec


def _read(spec: shapes.WirePodSpec, *, guaranteed: bool, daemon: bool) -> PodSpec:
    affinity = _decode_affinity(_given(spec.affinity)) or shapes.WireAffinity()
    spreads = _decode_spreads(_given(spec.topology_spread_constraints)) or ()
    return _once(
        PodSpec(
            requests=_requests(spec),
            node_selector=_node_selector(spec.node_selector),
            terms=_terms(affinity.node_affinity),
            tolerations=tolerations_of(spec.tolerations),
            grace_s=spec.termination_grace_period_seconds,
            priority_class=intern(spec.priority_class_name),
            rules=rules_of(affinity, spreads=spreads, ports=_ports(spec)),
            preferences=tuple(preferences_of(affinity, spreads=spreads)),
            device_claims=bool(spec.resource_claims),
            daemon=daemon,
            static_cpu=guaranteed and _has_whole_cpus(spec),
        )
    )


def _ports(spec: shapes.WirePodSpec | shapes.WireOtherPodSpec) -> Iterator[shapes.WirePort]:
    """Yield ports of containers and sidecars, as the kubelet and kube-scheduler count them."""
    sidecars = [one for one in spec.init_containers or () if one.restart_policy == SIDECAR]
    for container in (*spec.containers, *sidecars):
        if bytes(container.ports):
            yield from _decode_ports(container.ports) or ()


def placement_of(selector: Raw, *, affinity: Raw, tolerations: Raw) -> PodSpec:
    """Decode only what decides on which Nodes a Pod may run. Raise one of BAD_BYTES."""
    wire = _decode_affinity(_given(affinity)) or shapes.WireAffinity()
    return _once(
        PodSpec(
            node_selector=_node_selector(selector),
            terms=_terms(wire.node_affinity),
            tolerations=tolerations_of(tolerations),
        )
    )


@lru_cache(maxsize=SPECS_KEPT)
def _once(spec: PodSpec) -> PodSpec:
    """Share one object for equal specs with different bytes."""
    return spec


def _given(raw: Raw) -> Raw | bytes:
    return raw if bytes(raw) else b"null"


def spec_of_other(spec: shapes.WireOtherPodSpec) -> PodSpec:
    """Decode only requests, and the rules that keep other Pods away: ports and anti-affinity.

    Equal specs share one object. Raise one of BAD_BYTES.
    """
    parts: list[Raw | bytes] = [b"other", spec.resources, spec.overhead, spec.affinity]
    for container in spec.containers:
        parts += (container.resources, container.ports)
    for one in spec.init_containers or ():
        parts += (ascii(one.restart_policy).encode(), one.resources, one.ports)
    key = b"\0".join(parts)
    return _known.get(key) or _keep(key, _read_other(spec))


def _read_other(spec: shapes.WireOtherPodSpec) -> PodSpec:
    affinity = _decode_affinity(_given(spec.affinity)) or shapes.WireAffinity()
    apart = shapes.WireAffinity(pod_anti_affinity=affinity.pod_anti_affinity)
    rules = rules_of(apart, spreads=(), ports=_ports(spec))
    return _once(PodSpec(requests=_requests(spec), rules=rules))


def _requests(spec: shapes.WirePodSpec | shapes.WireOtherPodSpec) -> tuple[tuple[str, int], ...]:
    amounts = pod_requests(
        containers=[_asked(one.resources) for one in spec.containers],
        init_containers=[
            (_asked(one.resources), one.restart_policy == SIDECAR)
            for one in spec.init_containers or ()
        ],
        pod_level=_asked(spec.resources),
        overhead=amounts_of(_decode_amounts(_given(spec.overhead))),
    )
    whole = ((resource, counted(resource, amount)) for resource, amount in amounts.items())
    return tuple(sorted((intern(name), one) for name, one in whole if one > 0))


def _asked(resources: Raw) -> Amounts:
    decoded = _decode_resources(_given(resources))
    return amounts_of(decoded.requests if decoded else None)


def _has_whole_cpus(spec: shapes.WirePodSpec) -> bool:
    """Whether the kubelet's static policy would give a container exclusive CPUs."""
    containers = (*spec.containers, *(spec.init_containers or ()))
    amounts = (_asked(one.resources).get("cpu", 0) for one in containers)
    return any(cpu > 0 and cpu % NANO == 0 for cpu in amounts)


def _node_selector(content: Raw) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((_decode_selector(_given(content)) or {}).items()))


def _terms(affinity: shapes.WireNodeAffinity | None) -> tuple[Term, ...] | None:
    return node_terms(affinity.required) if affinity is not None else None


def tolerations_of(content: Raw) -> tuple[Toleration, ...]:
    tolerations: Iterable[shapes.WireToleration] = _decode_tolerations(_given(content)) or ()
    return tuple(
        Toleration(one.key, one.operator or "Equal", cut(one.value), one.effect)
        for one in tolerations
    )
