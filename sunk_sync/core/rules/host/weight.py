"""The weight of Slurm nodes: Slurm gives the node of the lowest weight first (T2, W1-W4)."""

from typing import Literal

from sunk_sync.core.model.actions import SetWeight
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import SlurmNode
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.node_states import is_drained, is_frozen
from sunk_sync.core.translate.packed_weight import (
    FILL_WORDS,
    FULL,
    OWN_MAX,
    is_empty,
    own_weight,
    packed_weight,
    unpacked,
)
from sunk_sync.core.views.host import Host


def weight(host: Host, configuration: Configuration, *_: object) -> Ruling:
    """Lower the weight of a host in use; give each host its own weight back without --pack.

    A NodeSet says the own weight of its nodes. That of any other node stands in its packed weight,
    or is its weight: a reconfigure of Slurm takes that from slurm.conf.
    """
    slurm_node = host.slurm_node
    if slurm_node is None or is_frozen(slurm_node.state):
        return QUIET
    given = host.wish.weight if host.wish is not None and host.node is not None else None
    own = unpacked(slurm_node.weight) if given is None else given
    if host.node is None and not _was_ours(host, configuration):
        return QUIET
    if configuration.pack == "off" or host.node is None or own > OWN_MAX:
        return _unpacked(host, own, given=given)
    if slurm_node.fill is None:
        return QUIET
    wanted = packed_weight(own, slurm_node.fill)
    packed = own_weight(slurm_node.weight)
    if wanted == slurm_node.weight or (packed == own and _takes_no_job(slurm_node)):
        return QUIET
    because = f"packing: {FILL_WORDS[slurm_node.fill]}, of its own weight {own}"
    change = "own" if packed != own else _change(slurm_node.weight, wanted)
    return Ruling((SetWeight(slurm_node.name, wanted, _unless(given, own), change),), because)


def _unpacked(host: Host, own: int, *, given: int | None) -> Ruling:
    """Set the own weight (W4)."""
    slurm_node = host.slurm_node
    if slurm_node is None or slurm_node.weight == own:
        return QUIET
    because = "the weight follows the NodeSet" if given is not None else "it is not packed any more"
    return Ruling((SetWeight(slurm_node.name, own, _unless(given, own), "own"),), because)


def _was_ours(host: Host, configuration: Configuration) -> bool:
    """Whether it stood with a Node of this cluster, and will not again.

    While only the slurmd Pod is made anew, the weight stays.
    """
    return host.mark is not None and (configuration.pack == "off" or host.traces.node_absent)


def _takes_no_job(slurm_node: SlurmNode) -> bool:
    """Whether its step does not matter now."""
    return slurm_node.fill == FULL or is_drained(slurm_node.state)


def _change(before: int, after: int) -> Literal["empty", "step"]:
    return "step" if is_empty(before) == is_empty(after) else "empty"


def _unless(given: int | None, own: int) -> int | None:
    """Return what the writer must find as own weight: a NodeSet's is written over any other."""
    return own if given is None else None
