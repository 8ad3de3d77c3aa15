"""The names under which docs/troubleshooting.md says what to do about the state of an object."""

from collections.abc import Iterator, Sequence

from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.actions import Action, EndPod, RecordEvent, SetScheduled
from sunk_sync.core.model.keys import Key
from sunk_sync.core.translate.node_states import is_drained, is_foreign_drain

DEFECT = "SunkSyncDefect"
UNREADABLE = "SunkSyncSourceUnreadable"


def problems(graph: Graph, key: Key, *, wants: Sequence[Action]) -> tuple[str, ...]:
    """Return reasons of Events and conditions, each once; empty: nothing asks for a person."""
    found = ["Paused"] if graph.paused else []
    found += _of_wants(wants)
    if key[0] == "host":
        found += _of_host(graph, key[1])
    if key[0] == "nodeset":
        view = graph.node_set(key[1])
        conditions = view.spec.conditions if view is not None else ()
        found += [one.reason for one in conditions if one.status == "False"]
    return tuple(dict.fromkeys(found))


def _of_wants(wants: Sequence[Action]) -> Iterator[str]:
    for action in wants:
        if isinstance(action, RecordEvent) and action.event.type == "Warning":
            yield action.reason
        if isinstance(action, EndPod | SetScheduled):
            yield action.reason


def _of_host(graph: Graph, name: str) -> Iterator[str]:
    """Name what the conditions of its Node show, also while nothing is to be written."""
    host = graph.host(name)
    slurm_node = host.slurm_node
    if slurm_node is None:
        return
    if host.blind:
        yield "SlurmUnreachable"
    if is_drained(slurm_node.state):
        yield "DrainedInSlurm" if is_foreign_drain(slurm_node) else "Drained"
    if "NOT_RESPONDING" in slurm_node.state:
        yield "NotResponding"
    if not slurm_node.state.isdisjoint(("DOWN", "INVALID_REG")):
        yield "SlurmNodeState"
