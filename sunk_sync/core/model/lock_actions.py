"""Actions on the lock of a Node, and answers to the prologs that ask for it (L1-L4)."""

from msgspec import Struct

from sunk_sync.core.model.facts import Reference
from sunk_sync.core.model.node_lock import LockState


class Lock(Struct, frozen=True, gc=False):
    """Set taint and annotation `lock` of a Node in one write (L1); never another's taint."""

    reference: Reference
    state: LockState


class Unlock(Struct, frozen=True, gc=False):
    """Remove taint and annotation `lock` of a Node in one write (L3)."""

    reference: Reference


class GetNodePods(Struct, frozen=True, gc=False):
    """List the foreign Pods on a Node (L1); the answer is a NodePods."""

    reference: Reference
    slurmd_uid: str
    scheduler: str
    """Pods of this scheduler are not foreign."""
    after_s: float
    """The listing begins later; the value also makes this read differ from the last."""


class AnswerLock(Struct, frozen=True, gc=False):
    """Answer a prolog about the lock of one of its nodes (L1)."""

    call: int
    slurm_node: str
    node_name: str
    """The locked Node; empty: the job starts without the lock, or waits."""
    go: bool
    why: str = ""
    """Pods that the prolog waits for, or why there is no lock."""


LockAction = Lock | Unlock | GetNodePods
