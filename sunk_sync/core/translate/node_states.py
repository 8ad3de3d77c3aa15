"""The states of a Slurm node: tables and predicates.

`facts.SlurmNode.state` has the spellings of slurmrestd: one base state and any number of flags. The
OpenAPI documents of slurmrestd list them.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from sunk_sync.core.model.facts import SlurmNode
from sunk_sync.core.model.names import REASON_LENGTH_MAX, REASON_PREFIX

States = frozenset[str]

DRAIN_FLAG: Final = "DRAIN"

BASE_STATES: Final[Mapping[str, str]] = {
    "ALLOCATED": "Allocated",
    "DOWN": "Down",
    "ERROR": "Error",
    "FUTURE": "Future",
    "IDLE": "Idle",
    "MIXED": "Mixed",
    "UNKNOWN": "Unknown",
}
"""Base state → suffix of the Pod condition; the first present one counts (M1)."""

FLAGS: Final[Mapping[str, str]] = {
    "COMPLETING": "Completing",
    "DRAIN": "Drain",
    "FAIL": "Fail",
    "INVALID": "Invalid",
    "INVALID_REG": "InvalidReg",
    "MAINTENANCE": "Maintenance",
    "NOT_RESPONDING": "NotResponding",
    "PLANNED": "Planned",
    "POWERED_DOWN": "PowerDown",
    "POWERING_DOWN": "PowerDown",
    "POWERING_UP": "PoweringUp",
    "POWER_DOWN": "PowerDown",
    "POWER_DOWN_ASAP": "PowerDown",
    "POWER_DOWN_FORCE": "PowerDown",
    "POWER_DRAIN": "PowerDown",
    "POWER_UP": "PoweringUp",
    "REBOOT_ISSUED": "RebootRequested",
    "REBOOT_REQUESTED": "RebootRequested",
    "RESERVED": "Reserved",
    "UNDRAIN": "Undrain",
}
"""Flag → suffix of the Pod condition; several flags may share one (M1)."""

FROZEN: Final[States] = frozenset(
    {
        "DOWN",
        "ERROR",
        "FAIL",
        "FUTURE",
        "INVALID",
        "INVALID_REG",
        "POWERED_DOWN",
        "POWERING_DOWN",
        "REBOOT_CANCELED",
        "REBOOT_ISSUED",
        "REBOOT_REQUESTED",
        "UNKNOWN",
    }
)
"""sunk-sync writes nothing to a node in one of these states (S13), but see `keeps_drain`."""

POWERED_OFF: Final[States] = frozenset({"POWERED_DOWN", "POWERING_DOWN"})
POWERED_ON: Final[States] = frozenset({"POWERING_UP", "POWER_UP"})
_POWER_ASKED: Final[States] = frozenset(
    {"POWER_DOWN", "POWER_DOWN_ASAP", "POWER_DOWN_FORCE", "POWER_DRAIN"}
)
POWER: Final[States] = POWERED_OFF | POWERED_ON | _POWER_ASKED

# The first match counts, the worst state first: a drained node that is down counts as down.
_KINDS = (
    ("DOWN", "down"),
    ("ERROR", "err"),
    ("FAIL", "fail"),
    ("DRAIN", "drain"),
    ("MAINTENANCE", "maint"),
    ("RESERVED", "resv"),
    ("COMPLETING", "comp"),
    ("ALLOCATED", "alloc"),
    ("MIXED", "mix"),
    ("IDLE", "idle"),
)

BUSY: Final[States] = frozenset({"ALLOCATED", "COMPLETING", "MIXED"})


def kind_of_state(state: States) -> str | None:
    """Return the one kind as which a node is counted, as in `slurm_nodes_drain`; None: no kind."""
    return next((kind for flag, kind in _KINDS if flag in state), None)


def is_drained(state: States) -> bool:
    """Whether the flag DRAIN is set; jobs may still run."""
    return DRAIN_FLAG in state


def takes_no_job(state: States) -> bool:
    """Whether Slurm starts no job there, because somebody drained or failed the node."""
    return is_drained(state) or "FAIL" in state


def is_our_reason(reason: str) -> bool:
    """Whether sunk-sync wrote the text and has not withdrawn it."""
    return reason.startswith(REASON_PREFIX)


def is_ours(node: SlurmNode) -> bool:
    """Whether sunk-sync drained this node."""
    return is_drained(node.state) and is_our_reason(node.reason)


def is_foreign_drain(node: SlurmNode) -> bool:
    """Whether another drained the node, or without a reason; sunk-sync keeps it (S11, S12, S15)."""
    return is_drained(node.state) and not is_our_reason(node.reason)


def is_frozen(state: States) -> bool:
    """Whether a state of S13 is set; NOT_RESPONDING alone is none."""
    return not state.isdisjoint(FROZEN)


def keeps_drain(state: States) -> bool:
    """Whether sunk-sync neither drains the node nor lifts a drain there (S13).

    A node without power takes both, and no job wakes it while it is drained. One whose reboot is
    only requested runs jobs until then: it is drained, but no drain of it is lifted, because
    slurmctld itself wants those of a reboot ASAP.
    """
    frozen = FROZEN - POWERED_OFF - {"REBOOT_REQUESTED"}
    return not state.isdisjoint(frozen) or {"REBOOT_REQUESTED", DRAIN_FLAG} <= state


def is_under_power(state: States) -> bool:
    """Whether power saving of Slurm itself makes or unmakes the machine (S8)."""
    return not state.isdisjoint(POWER)


def wakes_for_jobs(state: States) -> bool:
    """Whether jobs have the node and wait for its power: slurmctld would end them at a drain."""
    return is_busy(state) and not state.isdisjoint(POWERED_OFF | POWERED_ON)


def in_maintenance(state: States) -> bool:
    """Whether a reservation with MAINT has begun there."""
    return "MAINTENANCE" in state


def is_busy(state: States) -> bool:
    """Whether jobs run or end on the node."""
    return not state.isdisjoint(BUSY)


def may_run_jobs(state: States) -> bool:
    """Whether jobs run or end on the node, or Slurm does not say so yet.

    After its own start, and after a reconfigure, slurmctld shows a node whose CPUs jobs use in full
    as UNKNOWN until its slurmd answers: for 2 to 4 s, and for some 50 ms (24.11 and 26.05).
    """
    return is_busy(state) or "UNKNOWN" in state


_REPLACED: Final = str.maketrans({'"': "'", "\\": "/", "#": " "})


@lru_cache(maxsize=4096)
def sanitise_reason(text: str) -> str:
    """Make the text valid as a reason in Slurm (S17); a second call changes nothing.

    Each unprintable character (control characters, line ends, text-direction marks, lone
    surrogates) becomes a space, and runs of spaces become one. In slurm.conf a double quote ends a
    quoted value, `#` starts a comment even inside quotes, and a backslash continues a line: they
    become `'`, a space and `/`. `=`, `,` and `:` are harmless inside quotes and stay.
    """
    readable = text.translate(_REPLACED)
    if not readable.isprintable():
        readable = "".join(c if c.isprintable() else " " for c in readable)
    return " ".join(readable.split())[:REASON_LENGTH_MAX].rstrip()


def same_kind(before: SlurmNode, after: SlurmNode) -> bool:
    """Whether the same kinds of jobs can run there: an EXTERNAL node has no slurmd."""
    return ("EXTERNAL" in before.state) == ("EXTERNAL" in after.state)
