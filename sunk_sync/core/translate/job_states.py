"""What the states of a job mean for the Pods that it stands for."""

from collections.abc import Sequence
from typing import Final

from sunk_sync.core.model.facts import Job

LIVE: Final = frozenset({"PENDING", "RUNNING", "SUSPENDED"})
"""Base states in which a job has not ended."""
AGAIN: Final = frozenset({"PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REVOKED"})
"""Ends after which an unbound Pod gets another job at once (P17)."""
_DISRUPTIONS: Final = {
    "PREEMPTED": "PreemptionByScheduler",
    "CANCELLED": "SlurmJobCancelled",
    "TIMEOUT": "SlurmTimeLimit",
    "DEADLINE": "SlurmTimeLimit",
    "NODE_FAIL": "SlurmNodeFail",
    "BOOT_FAIL": "SlurmNodeFail",
    "SUSPENDED": "SlurmSuspended",
}


def is_live(job: Job) -> bool:
    """It has not ended: it may still hold nodes, or get some."""
    state = job.state  # asked for several times of every event: three looks cost half of a disjoint
    return "RUNNING" in state or "PENDING" in state or "SUSPENDED" in state


def is_waiting(job: Job) -> bool:
    """It holds no nodes yet."""
    return "PENDING" in job.state


def is_running(job: Job) -> bool:
    """It holds its nodes; a prolog may still keep its body from starting."""
    return "RUNNING" in job.state


def is_placed(job: Job) -> bool:
    """It holds its nodes, and it was read which."""
    return is_running(job) and bool(job.slurm_nodes)


def has_passed_prolog(job: Job) -> bool:
    """Its body may start."""
    return is_running(job) and "CONFIGURING" not in job.state


def is_busy_refusal(job: Job) -> bool:
    """The record that a refused immediate allocation leaves (P11a)."""
    return "FAILED" in job.state and not job.slurm_nodes and not job.script


def is_edited(job: Job, digest: str) -> bool:
    """Its Pods ask for something else than it was submitted with, and it waits (P20)."""
    before = job.identity.digest
    return is_waiting(job) and bool(before) and digest not in ("", before)


def number_of(job: Job) -> tuple[int, int]:
    """Its id as a number, tasks of an array in their order."""
    head, _, task = job.job_id.partition("_")
    return (int(head) if head.isdecimal() else 0, int(task) if task.isdecimal() else 0)


def end_of(job: Job) -> str:
    """The state that it ended in: its base state."""
    ends = job.state - {"COMPLETING", "CONFIGURING"}
    return min(ends, key=_rank) if ends else "COMPLETED"


def disruption_of(job: Job) -> str:
    """Reason of condition DisruptionTarget for a Pod whose job is so (P16)."""
    return next(
        (reason for state, reason in _DISRUPTIONS.items() if state in job.state), "SlurmJobEnded"
    )


def newest(jobs: Sequence[Job]) -> Job | None:
    """The one submitted last."""
    return max(jobs, key=lambda job: (job.submitted_at, number_of(job)), default=None)


def _rank(state: str) -> tuple[bool, str]:
    return (state not in _DISRUPTIONS, state)
