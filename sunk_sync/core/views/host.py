"""What rules read of one host: the Slurm node, its Pod, its Node, and who lives there."""

from typing import final

from sunk_sync.core.model.facts import GateCall, GetResult, Node, Reference, SlurmdPod, SlurmNode
from sunk_sync.core.model.node_mark import Mark
from sunk_sync.core.views.parts import Resident


@final
class Host:
    """One machine seen from both sides, as the rules read it.

    Only `HostSnapshot` writes its fields, while it builds it. tests/test_tidy.py checks that.
    """

    name: str = ""
    """Name of the Slurm node."""
    slurm_node: SlurmNode | None = None
    slurm_listed: bool = False
    """Slurm was listed completely at least once: no row means no such node."""
    kube_listed: bool = False
    blind: bool = False
    """Slurm has been unreadable for a minute."""
    pod: SlurmdPod | None = None
    pod_since_s: float = 0.0
    node: Node | None = None
    node_since_s: float = 0.0
    owns_node: bool = False
    """The Node stands for this Slurm node and no other."""
    mark: Mark | None = None
    """Our mark as it stands on the Slurm node."""
    finished: SlurmdPod | None = None
    last: Mark | None = None
    """Where the host was last seen, by this process or by our mark on the Slurm node; told only
    where its Pod or its Node is missing."""
    last_moved: bool = False
    """The Pod in `last` lives, but claims another Slurm node now."""
    node_absent: bool = False
    """No Node of the name in `last` is in the picture: gone, or not listed yet."""
    pod_get_result: GetResult | None = None
    """Answer to the last read by name of the Pod in `last`."""
    node_get_result: GetResult | None = None
    rivals: tuple[Reference, ...] = ()
    """Claims that exclude each other; empty where all is well."""
    rival_pods: tuple[SlurmdPod, ...] = ()
    """The Pods among them that claim this very Slurm node."""
    stray: Node | None = None
    """A Node that claimed this Slurm node by equal name until a Pod or Node elsewhere did."""
    residents: tuple[Resident, ...] = ()
    """Workload Pods of ours that live here, sorted by name."""
    lingering: tuple[Resident, ...] = ()
    """Those among them whose jobs may not hold it: ended, away, lost, or told to end."""
    gate_calls: tuple[GateCall, ...] = ()
    gate: bool = False
    """The gate stands: the next job waits for Pods by itself (P25)."""
