"""Requests of workload Pods and offers of Nodes, as the scheduler compares them.

Equal values are one object: thousands of Pods have one template.
"""

from typing import Literal

from msgspec import Struct

PodPhase = Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]


class Requirement(Struct, frozen=True, gc=False):
    """One line of a node selector term."""

    key: str
    operator: str
    """In, NotIn, Exists, DoesNotExist, Gt or Lt."""
    values: tuple[str, ...] = ()


class Term(Struct, frozen=True, gc=False):
    """One term of required node affinity: all of its lines must hold."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    """matchFields: only metadata.name."""


class Taint(Struct, frozen=True, gc=False):
    key: str
    effect: str
    value: str = ""


class Toleration(Struct, frozen=True, gc=False):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Offer(Struct, frozen=True, gc=False):
    labels: tuple[tuple[str, str], ...] = ()
    """All of them, sorted."""
    taints: tuple[Taint, ...] = ()
    allocatable: tuple[tuple[str, int], ...] = ()
    """Resource and amount, sorted: cpu in thousandths, all else in whole units (bytes)."""


NO_OFFER = Offer()


class HostPort(Struct, frozen=True, gc=False):
    """A port of the Node that a container uses."""

    port: int
    protocol: str = "TCP"
    address: str = ""
    """Empty: every address of the Node."""


class PodTerm(Struct, frozen=True, gc=False):
    """One term of required affinity or anti-affinity between Pods."""

    topology_key: str
    """Label of Nodes: equal values are one domain."""
    selector: tuple[Requirement, ...] | None = None
    """Labels of Pods; None matches no Pod, an empty one each Pod."""
    namespaces: tuple[str, ...] = ()
    """Beside those of the selector; `*`: all. Empty without a selector: the Pod's own."""
    namespace_selector: tuple[Requirement, ...] | None = None
    """Labels of Namespaces; None: no selector."""


class Spread(Struct, frozen=True, gc=False):
    """One topology spread constraint with DoNotSchedule."""

    topology_key: str
    selector: tuple[Requirement, ...] | None = None
    max_skew: int = 1
    min_domains: int = 1
    honors_affinity: bool = True
    """Only Nodes that the Pod selects count as domains."""
    honors_taints: bool = False
    """Only Nodes whose taints the Pod tolerates count as domains."""
    match_keys: tuple[str, ...] = ()
    """Labels of Pods: only Pods with the same values as the Pod count."""


class PodRules(Struct, frozen=True, kw_only=True, gc=False, cache_hash=True):
    """Hard rules that compare a Pod with Pods that are placed already."""

    ports: tuple[HostPort, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    """Required podAntiAffinity."""
    beside: tuple[PodTerm, ...] = ()
    """Required podAffinity."""
    spread: tuple[Spread, ...] = ()


NO_RULES = PodRules()


class PodSpec(Struct, frozen=True, kw_only=True, gc=False, cache_hash=True):
    requests: tuple[tuple[str, int], ...] = ()
    """Resource and amount as Kubernetes counts them (P6), without zeros, sorted: cpu in
    thousandths, all else in whole units (bytes)."""
    node_selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[Term, ...] | None = None
    """Required node affinity: one of them must hold; None: no affinity."""
    tolerations: tuple[Toleration, ...] = ()
    grace_s: int = 30
    priority_class: str = ""
    rules: PodRules = NO_RULES
    preferences: tuple[str, ...] = ()
    """Rules that only prefer Nodes, as the manifest names them. They are ignored (P8)."""
    device_claims: bool = False
    """It has resourceClaims."""
    daemon: bool = False
    """A DaemonSet made it for one Node."""
    static_cpu: bool = False
    """Guaranteed QoS with whole CPUs (P27)."""


class OtherPod(Struct, frozen=True, kw_only=True, gc=False, cache_hash=True):
    """A Pod of another scheduler, as rules about other Pods see it."""

    namespace: str
    labels: tuple[tuple[str, str], ...] = ()
    """All of them, sorted."""
    rules: PodRules = NO_RULES
    """Ports and `apart`: what keeps other Pods away."""
    terminating: bool = False


GangKind = Literal["group", "leaderworkerset", "job", "annotation"]


class Gang(Struct, frozen=True, gc=False):
    """The gang that a Pod names (G1)."""

    kind: GangKind
    """Where the name is."""
    name: str
    size: int = 0
    """From the Pod; 0: sunk-sync reads it from the PodGroup or Job."""
    problem: str = ""
    """Why the name or size is invalid, or empty."""
    owner: str = ""
    """UID of the controller that made the Pod; empty: none did."""
