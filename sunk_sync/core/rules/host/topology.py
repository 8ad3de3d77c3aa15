"""The place of the Slurm nodes of NodeSets in the topology (T3-T8)."""

from sunk_sync.core.model.actions import RecordEvent, SetTopology
from sunk_sync.core.model.event_kinds import EVENT_NO_TOPOLOGY
from sunk_sync.core.model.facts import Node, SlurmdPod, reference_of
from sunk_sync.core.model.node_set import Topology
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.node_features import missing_labels, wanted_topology
from sunk_sync.core.translate.node_states import is_frozen
from sunk_sync.core.views.host import Host


def topology(host: Host, *_: object) -> Ruling:
    """Move the Slurm node where the labels of its Node say; without them it has no place."""
    wish, slurm_node, node = host.wish, host.slurm_node, host.node
    if wish is None or slurm_node is None or node is None or host.pod is None:
        return QUIET
    asked = wish.topology
    if not asked.labels or is_frozen(slurm_node.state):
        return QUIET
    missing = missing_labels(asked, node)
    event = _event(host.pod, node, missing)
    if slurm_node.topology is None:
        return Ruling(event, "this Slurm takes the topology of a node only from its files")
    wanted = wanted_topology(asked, node)
    if asked.blocks and wanted and wanted not in host.blocks:
        return Ruling(event, f"slurmctld has not read a topology file with {wanted} yet")
    if slurm_node.topology == wanted or (missing and not _is_under(slurm_node.topology, asked)):
        return Ruling(event, f"no topology: {event[0].message}" if event else "")
    because = f"the labels of Node {node.name} give it the place {wanted or 'of no switch'}"
    return Ruling((SetTopology(slurm_node.name, wanted), *event), because)


def _is_under(shown: str, asked: Topology) -> bool:
    """Whether it stands where sunk-sync may have put it."""
    return shown.startswith(f"{asked.under}:")


def _event(pod: SlurmdPod, node: Node, missing: tuple[str, ...]) -> tuple[RecordEvent, ...]:
    if not missing:
        return ()
    message = f"Node {node.name} has no label {', '.join(missing)}: its Slurm node has no topology"
    return (RecordEvent(reference_of(pod), EVENT_NO_TOPOLOGY, message),)
