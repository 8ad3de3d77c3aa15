"""The lock of a Node: its states, its taint, and the Pods that it must wait for (L1-L4)."""

from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct

from sunk_sync.core.model import names
from sunk_sync.core.model.pod_spec import Taint, Toleration

LockState = Literal["", "pending", "locked", "locked_strict"]
"""Value of the annotation `lock`; empty: there is no lock."""
PENDING: Final = "pending"
LOCKED: Final = "locked"
LOCKED_STRICT: Final = "locked_strict"
STATES: Final[dict[str, LockState]] = {
    "pending": PENDING,
    "locked": LOCKED,
    "locked_strict": LOCKED_STRICT,
}
TAINT: Final = Taint(names.LOCK, "NoExecute", "true")


class NodePods(Struct, frozen=True, gc=False):
    """The foreign Pods that live on a Node, from one listing (L1). Source: action GetNodePods.

    Without slurmd, Pods of sunk-sync's scheduler, Pods of the kubelet's own files, and Pods of a
    DaemonSet that tolerate the lock.
    """

    node_name: str
    asked_s: float
    intolerant: tuple[str, ...] = ()
    """Those that do not tolerate the lock, as `namespace/name`, sorted."""
    tolerant: tuple[str, ...] = ()

    def foreign(self, *, strict: bool) -> tuple[str, ...]:
        return self.intolerant + (self.tolerant if strict else ())


@lru_cache(maxsize=1024)
def tolerates_lock(tolerations: tuple[Toleration, ...]) -> bool:
    """Whether a Pod with these tolerations stays on a Node with the lock."""
    return any(_tolerates(one) for one in tolerations)


def _tolerates(one: Toleration) -> bool:
    """An empty key stands for all keys, an empty effect for all effects."""
    if one.effect not in ("", TAINT.effect) or one.key not in ("", TAINT.key):
        return False
    return one.operator == "Exists" or (bool(one.key) and one.value == TAINT.value)
