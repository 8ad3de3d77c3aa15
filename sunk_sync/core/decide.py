"""The rules of each kind of key, and the function that runs them."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.actions import Action, target_of
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.keys import CLUSTER, Key
from sunk_sync.core.model.traits import Target
from sunk_sync.core.model.verdict import QUIET, Ruling, Verdict
from sunk_sync.core.rules.cluster.hold import hold
from sunk_sync.core.rules.cluster.pause import pause
from sunk_sync.core.rules.cluster.plan_topology import plan_topology
from sunk_sync.core.rules.cluster.relist import relist
from sunk_sync.core.rules.cluster.selector import selector
from sunk_sync.core.rules.cluster.unselect import unselect
from sunk_sync.core.rules.host.busy import busy
from sunk_sync.core.rules.host.conflict import conflict
from sunk_sync.core.rules.host.cordon import cordon
from sunk_sync.core.rules.host.drain import drain
from sunk_sync.core.rules.host.enrol import enrol
from sunk_sync.core.rules.host.feature import feature
from sunk_sync.core.rules.host.forget import forget
from sunk_sync.core.rules.host.gate import gate
from sunk_sync.core.rules.host.lock import lock
from sunk_sync.core.rules.host.mark import mark
from sunk_sync.core.rules.host.mirror import mirror
from sunk_sync.core.rules.host.part import part
from sunk_sync.core.rules.host.requeue import requeue
from sunk_sync.core.rules.host.retire import retire
from sunk_sync.core.rules.host.topology import topology
from sunk_sync.core.rules.host.weight import weight
from sunk_sync.core.rules.node_set.clear import clear
from sunk_sync.core.rules.node_set.condemn import condemn
from sunk_sync.core.rules.node_set.finalize import finalize
from sunk_sync.core.rules.node_set.populate import populate
from sunk_sync.core.rules.node_set.reserve import reserve
from sunk_sync.core.rules.node_set.tally import tally
from sunk_sync.core.rules.node_set.tell import tell
from sunk_sync.core.rules.workload.bind import bind
from sunk_sync.core.rules.workload.evict import evict
from sunk_sync.core.rules.workload.outgrow import outgrow
from sunk_sync.core.rules.workload.provision import provision
from sunk_sync.core.rules.workload.release import release
from sunk_sync.core.rules.workload.size import size
from sunk_sync.core.rules.workload.stop import stop
from sunk_sync.core.rules.workload.submit import submit
from sunk_sync.core.rules.workload.update import update
from sunk_sync.core.rules.workload.wait import wait
from sunk_sync.core.rules.workload.warn import warn
from sunk_sync.core.views.host import Host
from sunk_sync.core.views.node_set import NodeSetView
from sunk_sync.core.views.parts import Cluster
from sunk_sync.core.views.workload import Workload

ViewT = TypeVar("ViewT")
HostRule = Callable[[Host, Configuration, float], Ruling]
WorkloadRule = Callable[[Workload, Configuration, float], Ruling]
NodeSetRule = Callable[[NodeSetView, Configuration, float], Ruling]
ClusterRule = Callable[[Cluster, Configuration, float], Ruling]

HOST_RULES: dict[str, HostRule] = {
    "drain": drain,
    "mark": mark,
    "mirror": mirror,
    "cordon": cordon,
    "retire": retire,
    "gate": gate,
    "lock": lock,
    "part": part,
    "forget": forget,
    "enrol": enrol,
    "requeue": requeue,
    "busy": busy,
    "feature": feature,
    "topology": topology,
    "weight": weight,
}
WORKLOAD_RULES: dict[str, WorkloadRule] = {
    "release": release,
    "update": update,
    "evict": evict,
    "provision": provision,
    "bind": bind,
    "submit": submit,
    "wait": wait,
    "size": size,
    "stop": stop,
    "warn": warn,
    "outgrow": outgrow,
}
RIVAL_RULES: dict[str, HostRule] = {"conflict": conflict, "gate": gate, "lock": lock}
NODE_SET_RULES: dict[str, NodeSetRule] = {
    "finalize": finalize,
    "clear": clear,
    "populate": populate,
    "condemn": condemn,
    "reserve": reserve,
    "tally": tally,
    "tell": tell,
}
CLUSTER_RULES: dict[str, ClusterRule] = {
    "selector": selector,
    "hold": hold,
    "relist": relist,
    "plan_topology": plan_topology,
    "pause": pause,
    "unselect": unselect,
}

NOTHING = Verdict(because="in sync")


class RuleError(Exception):
    """A defect in one rule. sunk-sync stops deciding that key; other keys are not affected (F7)."""

    def __init__(self, key: Key, rule: str, cause: Exception) -> None:
        super().__init__(f"rule {rule} failed for {key[0]} {key[1]}: {cause!r}")
        self.key = key
        self.rule = rule


class ConflictError(Exception):
    """Two rules want different values of one field: a defect in the rules."""


def decide(graph: Graph, key: Key, now: float) -> Verdict:
    """Run all rules of this key and merge their rulings. `now` is the loop's monotonic second.

    Raises RuleError if a rule fails or two rules conflict.
    """
    match key[0]:
        case "workload":
            return _decide_workload(graph, key, now)
        case "nodeset":
            rulings = _rule_node_set(graph, key, now)
        case "cluster":
            rulings = _rule_cluster(graph, now)
        case _:
            rulings = _rule_host(graph, key, now)
    return _merge(key, rulings) if rulings else NOTHING


def _decide_workload(graph: Graph, key: Key, now: float) -> Verdict:
    workload = graph.workload(key[1])
    rulings = _run(WORKLOAD_RULES, workload, graph, key=key, now=now)
    verdict = _merge(key, rulings) if rulings else NOTHING
    return replace(verdict, follows=True) if workload.hosts.follows else verdict


def _rule_host(graph: Graph, key: Key, now: float) -> list[Ruling]:
    host = graph.host(key[1])
    return _run(RIVAL_RULES if host.rivals else HOST_RULES, host, graph, key=key, now=now)


def _rule_node_set(graph: Graph, key: Key, now: float) -> list[Ruling]:
    view = graph.node_set(key[1])
    return [] if view is None else _run(NODE_SET_RULES, view, graph, key=key, now=now)


def _rule_cluster(graph: Graph, now: float) -> list[Ruling]:
    return _run(CLUSTER_RULES, graph.cluster(), graph, key=CLUSTER, now=now)


def _run(
    rules: Mapping[str, Callable[[ViewT, Configuration, float], Ruling]],
    view: ViewT,
    graph: Graph,
    *,
    key: Key,
    now: float,
) -> list[Ruling]:
    """Return the rulings of all rules of one key, without the quiet ones."""
    configuration = graph.configuration
    rulings = []
    for name, rule in rules.items():
        try:
            ruling = rule(view, configuration, now)
        except Exception as error:
            raise RuleError(key, name, error) from error
        if ruling is not QUIET:
            rulings.append(ruling)
    return rulings


def _merge(key: Key, rulings: Sequence[Ruling]) -> Verdict:
    if len(rulings) == 1 and len(rulings[0].wants) < 2:
        only = rulings[0]
        return Verdict(only.wants, only.because or NOTHING.because, only.look_again_s)
    wants = tuple([action for ruling in rulings for action in ruling.wants])
    because = "; ".join([ruling.because for ruling in rulings if ruling.because])
    if len(wants) > 1:
        _reject_conflicts(key, wants)
    times = [one.look_again_s for one in rulings if one.look_again_s is not None]
    return Verdict(wants, because or NOTHING.because, min(times) if times else None)


def _reject_conflicts(key: Key, wants: tuple[Action, ...]) -> None:
    taken: dict[Target, Action] = {}
    for action in wants:
        other = taken.setdefault(target_of(action), action)
        if other is not action:
            error = ConflictError(f"{other} and {action}")
            raise RuleError(key, "merge", error) from error
