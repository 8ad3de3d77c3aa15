"""Where the bound Pods of a job stand, held against where it runs (P18, P19); pure."""

from collections.abc import Collection
from typing import NamedTuple

from sunk_sync.facts import Job, Pod
from sunk_sync.job_state import is_running, is_waiting


class Whereabouts(NamedTuple):
    """What a job's Pods stand beside."""

    elsewhere: bool = False
    """One was bound by somebody else."""
    moved: bool = False
    """One stands where the job ran before."""
    here: tuple[Pod, ...] = ()
    """Those that live on its hosts."""


def whereabouts(
    job: Job, placed: Collection[tuple[Pod, str]], *, left: Collection[str]
) -> Whereabouts:
    """Of bound Pods, each with its host; `left`: where the job was seen before.

    A Pod that we bound for this job stands where it ran before (P19), though a slurmctld that was
    killed may know nothing of that run any more. A Pod that waited carries the job's id before
    anybody binds it: only of a job that ran before that means the same.
    """
    if is_running(job) and not job.slurm_nodes:
        return Whereabouts()  # its state was read, where it runs was not
    away = [(pod, host) for pod, host in placed if host not in job.slurm_nodes]
    again = job.requeued and is_waiting(job)
    ours = [
        pod
        for pod, host in away
        if pod.bound_for == job.job_id or (pod.job_id == job.job_id and (again or host in left))
    ]
    here = tuple([pod for pod, host in placed if host in job.slurm_nodes and not pod.ended])
    return Whereabouts(elsewhere=len(ours) < len(away), moved=bool(ours), here=here)
