"""How sunk-sync treats each kind of action."""

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

Target = tuple[str, ...]
"""The object or field that an action writes."""
Queue = Literal["slurm", "jobs", "hooks", "kubernetes"]
"""Each has its own limits: Slurm nodes, Slurm jobs, calls of prologs and placeholders, and
Kubernetes."""


class Traits(Struct, frozen=True, gc=False):
    """How sunk-sync treats one kind of action, whatever it contains."""

    target: Callable[[Any], Target]
    queue: Queue = "kubernetes"
    urgency: int = 4
    """0: it protects a running job or Pod. 1: a caller waits for it. 2: a placeholder or a mark. 4:
    it only shows a state."""
    reads: bool = False
    """It changes nothing, and policy never holds it back."""
    lifts: bool = False
    """It needs all causes to be gone, so policy allows it only while every source can be read."""
