"""The states of a job, and their meaning for its Pods."""

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
    """Whether the job has not ended: it may still hold nodes, or get some."""
    state = job.state  # three tests cost half of isdisjoint, and each event calls this often
    return "RUNNING" in state or "PENDING" in state or "SUSPENDED" in state


def is_waiting(job: Job) -> bool:
    """Whether the job holds no nodes yet."""
    return "PENDING" in job.state


def is_running(job: Job) -> bool:
    """Whether the job holds its nodes; a prolog may still delay its script."""
    return "RUNNING" in job.state


def is_placed(job: Job) -> bool:
    """Whether the job holds its nodes, and sunk-sync has read which."""
    return is_running(job) and bool(job.slurm_nodes)


def has_passed_prolog(job: Job) -> bool:
    """Whether the script of the job may start."""
    return is_running(job) and "CONFIGURING" not in job.state


def is_busy_refusal(job: Job) -> bool:
    """Whether the record is that of a refused immediate allocation (P11a)."""
    return "FAILED" in job.state and not job.slurm_nodes and not job.script


def never_began(job: Job) -> bool:
    """Whether the job ended on its hosts before its script began.

    A prolog failed, or somebody cancelled the job while a prolog ran: both leave the same record.
    A script that a cancel ends has a signal.
    """
    return left_no_trace(job) and "COMPLETING" not in job.state


def may_have_begun(job: Job) -> bool:
    """Whether somebody else is cancelling the job, and the signal of its script may follow.

    slurmctld learns the signal when the script has ended: a script that catches SIGTERM, or that
    was suspended, ends after `KillWait`.
    """
    return left_no_trace(job) and "COMPLETING" in job.state and not job.identity.replaced


def left_no_trace(job: Job) -> bool:
    """Whether the cancelled job was on hosts, and its record does not show that its script ran.

    A job that is COMPLETING was on hosts. Its record has none while EpilogSlurmctld runs.
    """
    began = job.started or job.signalled or not job.script
    placed = bool(job.slurm_nodes) or "COMPLETING" in job.state
    return "CANCELLED" in job.state and placed and (job.prolog_failed or not began)


def is_prolog_failed(reason: str) -> bool:
    """Whether it is the reason of slurmctld's own drain after the Prolog of a node failed."""
    return reason.startswith("Prolog error")


def is_edited(job: Job, digest: str) -> bool:
    """Whether the job waits, and its Pods request another description now (P20)."""
    before = job.identity.digest
    return is_waiting(job) and bool(before) and digest not in ("", before)


def number_of(job: Job) -> tuple[int, int]:
    """Return the id as a number, tasks of an array in their order."""
    head, _, task = job.job_id.partition("_")
    return (int(head) if head.isdecimal() else 0, int(task) if task.isdecimal() else 0)


def end_of(job: Job) -> str:
    """Return the base state in which the job ended."""
    ends = job.state - {"COMPLETING", "CONFIGURING"}
    return min(ends, key=_rank) if ends else "COMPLETED"


def disruption_of(job: Job) -> str:
    """Return the reason of condition DisruptionTarget for a Pod of this job (P16)."""
    return next(
        (reason for state, reason in _DISRUPTIONS.items() if state in job.state), "SlurmJobEnded"
    )


def newest(jobs: Sequence[Job]) -> Job | None:
    return max(jobs, key=lambda job: (job.submitted_at, number_of(job)), default=None)


def _rank(state: str) -> tuple[bool, str]:
    return (state not in _DISRUPTIONS, state)
