"""Taints and conditions of others on a Node, from wire shapes to facts, once for equal ones."""

from collections.abc import Iterable
from functools import lru_cache
from sys import intern
from typing import Final

from sunk_sync.core.model.node_lock import TAINT
from sunk_sync.core.model.node_signs import Sign, SignKind, Signs
from sunk_sync.kube.decode.node_offers import taints_of
from sunk_sync.kube.decode.strings import cut
from sunk_sync.kube.decode.wire_hosts import WireCondition

SIGNS_MAX: Final = 64
"""Of one Node; somebody could write thousands."""
KEPT: Final = 4096
_REPEATED: Final = frozenset(
    {
        TAINT.key,
        "node.kubernetes.io/unschedulable",
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/pid-pressure",
        "node.kubernetes.io/network-unavailable",
        "node.cloudprovider.kubernetes.io/uninitialized",
    }
)
OF_KUBELETS: Final = frozenset(
    {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"}
)


def signs_of(taints: bytes, conditions: Iterable[WireCondition]) -> Signs:
    """`conditions`: those of others. Equal signs are one object."""
    found = [_sign("condition", one.type, one.status, one.reason) for one in conditions]
    return _once((*_of_taints(taints), *found)[:SIGNS_MAX]) if found else _of_taints(taints)


@lru_cache(maxsize=1024)
def _of_taints(content: bytes) -> Signs:
    keep_away = [one for one in taints_of(content) if one.effect in ("NoSchedule", "NoExecute")]
    telling = {one.key: one.value for one in keep_away if one.key not in _REPEATED}
    return _once(tuple(_sign("taint", *one, "") for one in telling.items())[:SIGNS_MAX])


@lru_cache(maxsize=KEPT)
def _once(signs: Signs) -> Signs:
    return signs


@lru_cache(maxsize=KEPT)
def _sign(kind: SignKind, name: str, value: str, why: str) -> Sign:
    return Sign(kind, intern(cut(name)), intern(cut(value)), cut(why))
