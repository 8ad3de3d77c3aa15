"""What a workload Pod asks for and what a Node offers, as the scheduler compares them.

Equal ones are one object: thousands of Pods of one template, Nodes of one kind.
"""

from msgspec import Struct


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
    """A taint of a Node."""

    key: str
    effect: str
    value: str = ""


class Toleration(Struct, frozen=True, gc=False):
    """A toleration of a Pod."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Offer(Struct, frozen=True, gc=False):
    """What a Node offers to Pods: equal ones are one object."""

    labels: tuple[tuple[str, str], ...] = ()
    """All of them, sorted."""
    taints: tuple[Taint, ...] = ()
    allocatable: tuple[tuple[str, int], ...] = ()
    """Resource and amount, sorted: cpu in thousandths, all else in whole units (bytes)."""


NO_OFFER = Offer()


class PodSpec(Struct, frozen=True, kw_only=True, gc=False, cache_hash=True):
    """What a workload Pod asks for: equal ones (of one template) are one object."""

    requests: tuple[tuple[str, int], ...] = ()
    """Resource and amount as Kubernetes counts them (P6), sorted: cpu in thousandths, all else
    in whole units (bytes). What is missing or zero does not stand here."""
    node_selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[Term, ...] | None = None
    """Required node affinity: one of them must hold; None where there is none."""
    tolerations: tuple[Toleration, ...] = ()
    grace_s: int = 30
    """terminationGracePeriodSeconds."""
    priority_class: str = ""
    hard: tuple[str, ...] = ()
    """Hard rules that Slurm cannot keep (P8): podAffinity, podAntiAffinity, topologySpread."""
    claims: bool = False
    """It has resourceClaims."""
    static_cpu: bool = False
    """Guaranteed QoS with whole CPUs (P27)."""


class Gang(Struct, frozen=True, gc=False):
    """To which gang a Pod says that it belongs (G1)."""

    kind: str
    """group, leaderworkerset, job or annotation: where it was read."""
    name: str
    size: int = 0
    """As the Pod itself tells; 0: asked of the PodGroup or Job."""
    problem: str = ""
    """What is wrong with the claim; empty where all is well."""
