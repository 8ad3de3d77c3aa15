"""What the condition TopologyInSync of a NodeSet says (T3, T5)."""

from sunk_sync.core.model.condition import Condition
from sunk_sync.core.translate.shortened import shortened
from sunk_sync.core.views.node_set import NodeSetView, is_registered

TYPE = "TopologyInSync"


def topology_condition(view: NodeSetView) -> Condition | None:
    """Return the condition from what Slurm shows; None: the NodeSet asks for no topology."""
    asked = view.spec.topology
    if not asked.labels:
        return None
    records = [slot.slurm_node for slot in view.slots if is_registered(slot)]
    shown = {record.name: record.topology for record in records if record is not None}
    if None in shown.values():
        message = "this Slurm takes the topology of a node only from its files"
        return Condition(TYPE, "False", "NotSupported", message)
    above = f"{asked.under}:"
    lost = [name for name, place in shown.items() if not (place or "").startswith(above)]
    if lost:
        labels = ", ".join(dict.fromkeys(asked.labels))
        message = f"{shortened(lost)}: no place under {asked.under}. Their Nodes need {labels}"
        return Condition(TYPE, "False", "NoPlace", message)
    return Condition(TYPE, "True", "InSync", f"{len(shown)} Slurm nodes have their place")
