"""The state of every host in one word, and the counts of a status page."""

from typing import Literal

from msgspec import Struct

from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.facts import Node, SlurmNode
from sunk_sync.core.translate.job_states import is_live, is_placed
from sunk_sync.core.translate.node_states import is_busy, is_drained, is_frozen, is_ours

PodPhase = Literal["without a job", "in Slurm's queue", "allocated", "bound"]
HostState = Literal["idle", "busy", "draining", "drained", "held", "down", "claims", "apart"]


class HostTile(Struct, frozen=True, array_like=True, gc=False):
    """One host of the grid, short because there are thousands."""

    name: str
    state: HostState
    """idle, busy: in use on both sides. drained, draining: by sunk-sync. held: drained by others.
    down: Slurm cannot use it. claims: several objects claim it. apart: one side lacks it, or only
    Kubernetes has it out of use."""


def tile(graph: Graph, name: str) -> HostTile:
    claim = graph.claims.claim_of(name)
    row = graph.slurm_nodes.get(name)
    node = claim.node.row if claim.node is not None else None
    if claim.rivals:
        return HostTile(name, "claims")
    return HostTile(name, "apart" if row is None or node is None else _state(row, node))


def _state(row: SlurmNode, node: Node) -> HostState:
    if is_drained(row.state):
        if not is_ours(row):
            return "held"
        return "draining" if is_busy(row.state) else "drained"
    if is_frozen(row.state) or "NOT_RESPONDING" in row.state:
        return "down"
    if node.unschedulable and not node.cordoned_for_drain:
        return "apart"
    return "busy" if is_busy(row.state) else "idle"


def phase(graph: Graph, uid: str) -> PodPhase:
    """Return how far a workload Pod is on its way to a host."""
    workloads = graph.workloads
    if uid in workloads.memory.bound_s:
        return "bound"
    entries = workloads.jobs.entries
    rows = [entries[one].row for one in workloads.index.jobs_of_uid.get(uid, ()) if one in entries]
    if not any(map(is_live, rows)):
        return "without a job"
    return "allocated" if any(map(is_placed, rows)) else "in Slurm's queue"
