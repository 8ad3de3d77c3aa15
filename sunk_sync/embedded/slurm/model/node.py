"""One Slurm node of slurmctld, and the spelling of its state."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from sunk_sync.embedded.slurm.model.gres import Gres
from sunk_sync.embedded.slurm.model.release import Release

Base = Literal["IDLE", "DOWN", "UNKNOWN", "FUTURE"]
"""Jobs turn IDLE into ALLOCATED or MIXED."""

DEAF: Final = "NOT_RESPONDING"
INVALID_REG: Final = "INVALID_REG"
DYNAMIC: Final = "DYNAMIC_NORM"
"""A slurmd made the record when it registered (`slurmd -Z`)."""
REBOOTING: Final = frozenset({"REBOOT_REQUESTED", "REBOOT_ISSUED"})
POWER: Final = frozenset(
    {"POWER_DOWN", "POWERING_DOWN", "POWERED_DOWN", "POWER_UP", "POWERING_UP", "POWER_DRAIN"}
)
OFF: Final = frozenset({"POWERING_DOWN", "POWERED_DOWN"})
STANDING: Final = frozenset({"DRAIN", "FAIL", "POWER_DOWN", "POWER_UP"})
"""States besides DOWN that may have a reason."""
UNFIT: Final = frozenset({"DRAIN", "FAIL", "COMPLETING", DEAF, INVALID_REG}) | REBOOTING | POWER

FLAGS: Final = (
    "RESERVED", "UNDRAIN", "CLOUD", "RESUME", "DRAIN", "COMPLETING", "NOT_RESPONDING",
    "POWERED_DOWN", "FAIL", "POWERING_UP", "MAINTENANCE", "REBOOT_REQUESTED", "REBOOT_CANCELED",
    "POWERING_DOWN", "DYNAMIC_FUTURE", "REBOOT_ISSUED", "PLANNED", "INVALID_REG", "POWER_DOWN",
    "POWER_UP", "POWER_DRAIN", "DYNAMIC_NORM",
)  # fmt: skip
"""Flags in the order of slurmrestd, after the base state."""


class NodeSpec(Struct, frozen=True, kw_only=True):
    """The entry of a node in slurm.conf."""

    name: str
    cpus: int = 16
    memory_mb: int = 64_000
    gres: str = ""
    """For example `gpu:4`."""
    features: tuple[str, ...] = ()
    weight: int = 1
    address: str = "127.0.0.1"
    hostname: str = "localhost"
    port: int = 6818
    topology: str = ""
    """For example `tree:root:s1`, as a dynamic node gives it when it registers."""


class Node(Struct, frozen=True, kw_only=True):
    """A node of slurmctld. Times are epoch seconds, 0: never."""

    spec: NodeSpec
    base: Base = "UNKNOWN"
    flags: frozenset[str] = frozenset()
    reason: str = ""
    reason_s: int = 0
    reason_user: str | None = None
    comment: str = ""
    extra: str = ""
    features: tuple[str, ...] = ()
    active_features: tuple[str, ...] = ()
    weight: int = 1
    gres: str = ""
    topology: str = ""
    running: int = 0
    ending: int = 0
    cpus_used: int = 0
    memory_used_mb: int = 0
    gres_used: Gres = ()
    listed_cpus: int = 0
    """CPUs in use at the last listing of all nodes: slurmctld counts only then."""
    listed_memory_mb: int = 0
    undrains: bool = False
    """DRAIN belongs to a reboot and ends with it."""
    boot_s: int = 0
    slurmd_start_s: int = 0
    last_busy_s: int = 0

    @property
    def name(self) -> str:
        return self.spec.name


def is_forgotten(node: Node) -> bool:
    """Whether slurmctld does not know the state of this node after its own start.

    It saves that a node is DOWN, or powered down.
    """
    return node.base not in ("DOWN", "FUTURE") and not node.flags & OFF


def new_node(spec: NodeSpec, *, dynamic: bool = False) -> Node:
    return Node(
        spec=spec,
        flags=frozenset({DYNAMIC} if dynamic else ()),
        features=spec.features,
        active_features=spec.features,
        weight=spec.weight,
        gres=spec.gres,
        topology=spec.topology,
    )


def state_of(node: Node) -> Sequence[str]:
    """Return the state as slurmrestd spells it: the base state, then the flags.

    MIXED replaces every other base state and depends on the count of the last listing. A read by
    name can therefore show it too late or too long, as on the real servers.
    """
    flags = node.flags | {"COMPLETING"} if node.ending else node.flags
    return _spelled(_base_of(node), flags)


def _base_of(node: Node) -> str:
    held = node.listed_memory_mb and not node.listed_cpus and node.base == "IDLE"
    if 0 < node.listed_cpus < node.spec.cpus or held:
        return "MIXED"
    return "ALLOCATED" if node.running and node.base == "IDLE" else node.base


@lru_cache(maxsize=1024)
def _spelled(base: str, flags: frozenset[str]) -> Sequence[str]:
    return (base, *sorted(flags, key=FLAGS.index))


def counted(node: Node) -> Node:
    if (node.listed_cpus, node.listed_memory_mb) == (node.cpus_used, node.memory_used_mb):
        return node
    return replace(node, listed_cpus=node.cpus_used, listed_memory_mb=node.memory_used_mb)


def reasoned(node: Node, release: Release) -> Node:
    """Drop the reason if no state needs it and the release drops such reasons."""
    speaks = node.base == "DOWN" or node.flags & STANDING
    if speaks or release.keeps_stray_reason or not node.reason:
        return node
    return without_reason(node)


def without_reason(node: Node) -> Node:
    return replace(node, reason="", reason_s=0, reason_user="")


def is_fit(node: Node) -> bool:
    return node.base == "IDLE" and not node.ending and not node.flags & UNFIT
