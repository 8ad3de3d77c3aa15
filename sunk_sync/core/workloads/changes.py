"""Whether a change of a Pod or a job concerns more than its own workload."""

from sunk_sync.core.model.facts import Job, Pod
from sunk_sync.core.model.keys import uids_of
from sunk_sync.core.translate.job_states import is_live


def stays(before: Pod, after: Pod) -> bool:
    return before.gang == after.gang and not moved(before, after)


def same_for_others(before: Pod, after: Pod) -> bool:
    """Whether a change of a Pod that stays concerns nothing else on its Node.

    Nothing else reads the job id of a Pod without a Node.
    """
    named = before.job_id == after.job_id or not after.node_name
    return named and before.ended == after.ended and before.spec == after.spec


def same_for_hosts(before: Job, after: Job) -> bool:
    """Whether the change concerns only its own workload: no host and no index."""
    return (
        before.state == after.state
        and before.slurm_nodes == after.slurm_nodes
        and before.script == after.script
        and before.submitted_at == after.submitted_at
        and before.requeued == after.requeued
        and before.identity == after.identity
    )


def is_same_run(before: Job, after: Job) -> bool:
    """Whether it is the same submission; a new job has no submit time yet."""
    return before.submitted_at in (0, after.submitted_at)


def lives_on(before: Job, after: Job) -> bool:
    live = is_live(before) and is_live(after) and is_same_run(before, after)
    return live and before.identity == after.identity


def moved(before: Pod, after: Pod) -> bool:
    return before.node_name != after.node_name or before.uid != after.uid


def is_another(before: Job, after: Job) -> bool:
    """Whether the id has another job, or another run of the job."""
    if not is_same_run(before, after):
        return True
    same = before.identity == after.identity
    return not same and uids_of(before.identity) != uids_of(after.identity)
