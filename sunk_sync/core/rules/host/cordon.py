"""A drain in Slurm cordons the Node, if the operator enabled this (M7)."""

from sunk_sync.core.model.actions import Cordon, Uncordon
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import reference_of
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.node_states import is_foreign_drain
from sunk_sync.core.views.host import Host


def cordon(host: Host, configuration: Configuration, *_: object) -> Ruling:
    """Cordon once per foreign drain; lift only cordons of sunk-sync, when the drain has ended."""
    node, slurm_node = host.node, host.slurm_node
    if node is None or slurm_node is None or not host.owns_node or host.blind:
        return QUIET
    foreign = is_foreign_drain(slurm_node)
    if foreign and configuration.cordon_on_slurm_drain:
        if node.unschedulable or node.cordoned_for_drain:
            return QUIET
        why = slurm_node.reason or "no reason"
        return Ruling((Cordon(reference_of(node)),), f"cordoned: drained in Slurm ({why})")
    if foreign or not node.cordoned_for_drain:
        return QUIET
    if node.keep_cordon:
        return Ruling(because="cordon kept: the Node is annotated keep-cordon")
    return Ruling((Uncordon(reference_of(node)),), "uncordoned: the drain in Slurm has ended")
