"""The record of a Slurm node, and how much of its CPUs, memory and GPUs jobs use."""

import re
from functools import lru_cache
from typing import Final

from msgspec import Struct

from sunk_sync.core.translate.packed_weight import Share

_GPUS: Final = re.compile(r"(?:^|,)gpu(?::[^:,(]+)?:(\d{1,9})").findall
"""In `gpu:a100:4(IDX:0,2-3),gpu:1`; an entry begins at the start or after a comma."""


class WireNode(Struct, frozen=True, kw_only=True):
    name: str
    state: list[str] | str | None = None
    reason: str | None = None
    reason_set_by_user: str | None = None
    comment: str | None = None
    features: list[str] | str | None = None
    active_features: list[str] | str | None = None
    weight: int = 0
    topology: str | None = None


class WireNodeInUse(WireNode, frozen=True, kw_only=True):
    cpus: int = 0
    effective_cpus: int = 0
    alloc_cpus: int = 0
    real_memory: int = 0
    alloc_memory: int = 0
    gres: str | None = None
    gres_used: str | None = None


def cpus_of(node: WireNodeInUse) -> Share:
    return node.alloc_cpus, node.effective_cpus or node.cpus


def memory_of(node: WireNodeInUse) -> Share:
    return node.alloc_memory, node.real_memory


def gpus_of(node: WireNodeInUse) -> Share:
    return gpus_in(node.gres_used or ""), gpus_in(node.gres or "")


@lru_cache(maxsize=1024)
def gpus_in(gres: str) -> int:
    """Return the number of GPUs in `gpu:a100:4(S:0-1),gpu:2,shard:8`: six."""
    return sum(map(int, _GPUS(gres))) if "gpu" in gres else 0
