"""Hosts that can take a workload Pod, computed only while it has no job (P7, P28)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache

from msgspec.structs import replace

from sunk_sync.core.model.facts import Node, SlurmNode, Taken
from sunk_sync.core.model.job_identity import hosts_digest
from sunk_sync.core.model.node_lock import TAINT as LOCK_TAINT
from sunk_sync.core.model.pod_spec import PodSpec, Taint
from sunk_sync.core.tables.claims import Claims
from sunk_sync.core.tables.entries import Claim
from sunk_sync.core.tables.table import Table
from sunk_sync.core.translate.fences import Fence, Fences, TermsFence, why_stopped
from sunk_sync.core.translate.node_fit import (
    ONE_POD,
    SPECS_KEPT,
    Amounts,
    Demand,
    Reasons,
    demand_of,
    label_of,
    summed,
    why_none,
    why_unfit,
)
from sunk_sync.core.views.parts import Reach

FREE = frozenset({"IDLE", "MIXED"})
CLOSED = frozenset(
    {"DRAIN", "DOWN", "FAIL", "MAINTENANCE", "NOT_RESPONDING", "PLANNED", "RESERVED", "FUTURE"}
)
LIFECYCLE_TAINTS = "node.kubernetes.io/"
_summed = lru_cache(SPECS_KEPT)(summed)  # Nodes have few different sums of other Pods
NO_NODE: Reasons = ("Slurm node(s) without a Node in Kubernetes",)


def together(reaches: Sequence[Reach]) -> Reach:
    """Combine several kinds of Pods: a host must fit each of them."""
    fit = set(reaches[0].fit).intersection(*(reach.fit for reach in reaches[1:]))
    excluded = tuple(sorted({name for reach in reaches for name in reach.excluded}))
    unfit = next(filter(None, (reach.unfit for reach in reaches)), "")
    if not fit and not unfit:
        unfit = "no host can take every Pod of the gang"
    external = all(reach.external for reach in reaches)
    return Reach(excluded, unfit, tuple(sorted(fit)), external, hosts_digest(excluded))


class FeasibleHosts:
    """Feasible hosts of each kind of Pod, cached until a host changes."""

    def __init__(
        self,
        *,
        slurm_nodes: Table[SlurmNode],
        claims: Claims,
        overhead: Amounts,
        locks: bool = False,
    ) -> None:
        self._locks = locks
        """Pods get the toleration of the lock before they are bound (L1)."""
        self.version = 0
        """Changes of hosts so far, without those of other Pods on them."""
        self._overhead = overhead
        """Overhead on each Node, as configured (P28)."""
        self._slurm_nodes = slurm_nodes
        self._claims = claims
        self._cached: dict[PodSpec, Reach] = {}
        self._domains: dict[str, dict[str | None, list[str]]] = {}
        """Label of Nodes → value → hosts."""
        self._waited_for: dict[tuple[str, ...], tuple[str, ...]] = {}
        """Feasible hosts → names of their Nodes, if none of them is ready; else empty."""
        self._lost = False
        """Cached results were dropped, so it is unknown whether they changed."""
        self._taken: dict[str, Amounts] = {}
        """Node → resources of Pods of other schedulers, if sunk-sync counts them."""

    def take(self, taken: Taken) -> bool:
        """Pods of other schedulers changed on a Node: return whether their amounts did."""
        if self._taken.get(taken.node_name, ()) == taken.amounts:
            return False
        if taken.amounts:
            self._taken[taken.node_name] = taken.amounts
        else:
            self._taken.pop(taken.node_name, None)
        return True

    @property
    def counted(self) -> int:
        return len(self._taken)

    def forget(self) -> None:
        """A host was added or removed, or its resources changed."""
        self._cached.clear()
        self._domains.clear()
        self._waited_for.clear()

    def readiness_changed(self) -> bool:
        """A Node became ready or not ready: return whether some Pod now waits for other Nodes."""
        before, self._waited_for = self._waited_for, {}
        lost, self._lost = self._lost, False
        changed = [fit for fit, names in before.items() if self._names_not_ready(fit) != names]
        return lost or bool(changed)

    def waits_for(self, reach: Reach) -> tuple[str, ...]:
        """Return the names of the Nodes of all feasible hosts, if none of them is ready (P32)."""
        return self._names_not_ready(reach.fit)

    def _names_not_ready(self, fit: tuple[str, ...]) -> tuple[str, ...]:
        known = self._waited_for.get(fit)
        if known is None:
            if len(self._waited_for) >= SPECS_KEPT:
                self._waited_for.clear()
                self._lost = True
            known = self._waited_for[fit] = self._look_for_ready(fit)
        return known

    def _look_for_ready(self, fit: tuple[str, ...]) -> tuple[str, ...]:
        names = []
        for slurm_node in fit:
            claim = self._claims.claim_of(slurm_node)
            if claim.node is None or claim.node.row.ready == "True":
                return ()
            names.append(claim.node.row.name)
        return tuple(names)

    def reach_of_all(self, specs: Iterable[PodSpec]) -> Reach:
        """Return which hosts can take any of these Pods; compute each kind once."""
        reaches = [self.reach(spec) for spec in dict.fromkeys(specs)]
        return reaches[0] if len(reaches) == 1 else together(reaches)

    def reach(self, spec: PodSpec) -> Reach:
        kept = self._cached.get(spec)
        if kept is None:
            if len(self._cached) >= SPECS_KEPT:
                self._cached.clear()
            kept = self._cached[spec] = self._compute(spec)
        return kept

    def fenced(self, reach: Reach, fences: Fences, *, specs: Sequence[PodSpec]) -> Reach:
        """Return the reach without hosts where a rule about other Pods stops these Pods (P8)."""
        stopped = self._stopped_by(fences).intersection(reach.fit)
        if not stopped:
            return reach
        fit = tuple([name for name in reach.fit if name not in stopped])
        excluded = tuple(sorted({*reach.excluded, *stopped}))
        unfit = ""
        if len(fit) < len(specs):  # Slurm refuses a gang for which hosts are missing
            reasons = self.reasons_of(specs, fences=fences)
            unfit = why_none(reasons.values(), nodes=len(reasons))
        return replace(reach, excluded=excluded, unfit=unfit, fit=fit, hosts=hosts_digest(excluded))

    def open_to_each(self, fences: Sequence[Fences], *, among: Set[str]) -> list[Set[str]]:
        """Return which of these hosts each leaves open; equal ones share one set."""
        known = {one: self._open_to(one, among) for one in set(fences)}
        return [known[one] for one in fences]

    def _open_to(self, fences: Fences, among: Set[str]) -> Set[str]:
        """Few looks are enough if the fences name few hosts."""
        for fence in fences:
            if isinstance(fence, Fence) and fence.inside:
                hosts = self._hosts_by(fence.key)
                among = among & {name for value in fence.values for name in hosts.get(value, ())}
            else:
                among = among - self._stopped_by((fence,))
        return among

    def _stopped_by(self, fences: Fences) -> set[str]:
        """Return the hosts that some fence closes, without a look at each host."""
        stopped: set[str] = set()
        for fence in fences:
            if not isinstance(fence, Fence):
                stopped.update(self._outside(fence))
                continue
            hosts = self._hosts_by(fence.key)
            if fence.inside:
                stopped.update(
                    *[names for value, names in hosts.items() if value not in fence.values]
                )
            else:
                stopped.update(*[hosts[value] for value in fence.values if value in hosts])
        return stopped

    def _outside(self, fence: TermsFence) -> Iterator[str]:
        for name in self._slurm_nodes.entries:
            if self._why_stopped((fence,), name):
                yield name

    def _hosts_by(self, key: str) -> Mapping[str | None, Sequence[str]]:
        """Return the hosts of each value of a label of Nodes; empty key: of each Node."""
        hosts = self._domains.get(key)
        if hosts is None:
            hosts = self._domains[key] = self._by_domain(key)
        return hosts

    def _by_domain(self, key: str) -> dict[str | None, list[str]]:
        found: defaultdict[str | None, list[str]] = defaultdict(list)
        for name in self._slurm_nodes.entries:
            claim = self._claims.claim_of(name)
            if claim.node is not None:
                node = claim.node.row
                found[label_of(node.offer.labels, key) if key else node.name].append(name)
        return dict(found)

    def _why_stopped(self, fences: Fences, slurm_node: str) -> str:
        claim = self._claims.claim_of(slurm_node)
        return why_stopped(fences, claim.node.row) if claim.node is not None else ""

    def is_free(self, reach: Reach) -> bool:
        """Whether one of the feasible hosts may have free resources now."""
        entries = self._slurm_nodes.entries
        return any(_may_have_room(entries[name].row) for name in reach.fit if name in entries)

    def unfit(self, spec: PodSpec, claim: Claim, *, others: Amounts) -> str:
        """Return why the Node of this claim cannot take such a Pod beside others; empty: it can."""
        assert claim.node is not None
        node = self._offered(claim.node.row)
        if node.ready != "True":
            return f"Node {node.name} is not ready"
        return why_unfit(spec, node, taken=_summed((*self._occupied(claim), others)))

    def could_take_alone(self, spec: PodSpec, claim: Claim) -> bool:
        """Return whether the Node of this claim could take such a Pod if no other stood there."""
        assert claim.node is not None
        node = self._offered(claim.node.row)
        return node.ready == "True" and not why_unfit(spec, node, taken=())

    def _offered(self, node: Node) -> Node:
        """Return the Node without the taint of our own lock."""
        return _unlocked(node) if self._locks else node

    def _occupied(self, claim: Claim) -> tuple[Amounts, ...]:
        """Return resources that others use; a count of all Pods includes the slurmd Pod."""
        taken = self._taken.get(claim.node.row.name) if claim.node is not None else None
        if taken is not None:
            return (self._overhead, taken)
        slurmd = claim.pod.row.requests if claim.pod is not None else ()
        return (self._overhead, slurmd, ONE_POD) if slurmd else (self._overhead,)

    def _compute(self, spec: PodSpec) -> Reach:
        demand = demand_of(spec)
        unfit: dict[str, Reasons] = {}
        fit = []
        external = True
        for name, entry in self._slurm_nodes.entries.items():
            reasons = self._reasons(demand, name)
            if reasons:
                unfit[name] = reasons
                continue
            fit.append(name)
            external = external and "EXTERNAL" in entry.row.state
        why = "" if fit else why_none(unfit.values(), nodes=len(unfit))
        excluded = tuple(sorted(unfit))
        external = bool(fit) and external
        return Reach(excluded, why, tuple(sorted(fit)), external, hosts_digest(excluded))

    def reasons_of(self, specs: Iterable[PodSpec], *, fences: Fences = ()) -> dict[str, Reasons]:
        """Return for each Slurm node why it cannot take one of these Pods; empty: it can."""
        demands = [demand_of(spec) for spec in dict.fromkeys(specs)]
        own = {name: self._first_reasons(demands, name) for name in self._slurm_nodes.entries}
        return {name: why or self._stopped(fences, name) for name, why in own.items()}

    def _stopped(self, fences: Fences, slurm_node: str) -> Reasons:
        why = self._why_stopped(fences, slurm_node)
        return (why,) if why else ()

    def _first_reasons(self, demands: Sequence[Demand], slurm_node: str) -> Reasons:
        each = (self._reasons(demand, slurm_node) for demand in demands)
        return next(filter(None, each), ())

    def _reasons(self, demand: Demand, slurm_node: str) -> Reasons:
        claim = self._claims.claim_of(slurm_node)
        if claim.node is None:
            return NO_NODE
        node = self._offered(claim.node.row)
        return demand.reasons(_lasting(node), _summed(self._occupied(claim)))


def _lasting(node: Node) -> Node:
    """Return the Node without temporary states, which drain it (S1, S8).

    A waiting job keeps its exclusions, so a Node cordoned at submission would stay excluded.
    """
    offer = node.offer
    if not node.unschedulable and not any(_passing(taint) for taint in offer.taints):
        return node
    taints = tuple(taint for taint in offer.taints if not _passing(taint))
    return replace(node, unschedulable=False, offer=replace(offer, taints=taints))


def _unlocked(node: Node) -> Node:
    if not node.tainted:
        return node
    taints = tuple(taint for taint in node.offer.taints if taint != LOCK_TAINT)
    return replace(node, offer=replace(node.offer, taints=taints))


def _passing(taint: Taint) -> bool:
    return taint.key.startswith(LIFECYCLE_TAINTS)


def _may_have_room(slurm_node: SlurmNode) -> bool:
    return not FREE.isdisjoint(slurm_node.state) and CLOSED.isdisjoint(slurm_node.state)
