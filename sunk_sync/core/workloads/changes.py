"""Whether a change of a Pod or a job is seen by others than its own workload."""

from sunk_sync.core.model.facts import Job, Pod
from sunk_sync.core.model.keys import uids_of
from sunk_sync.core.translate.job_states import is_live


def stays(before: Pod, after: Pod) -> bool:
    """It is the same Pod, in the same workload and on the same Node."""
    return before.gang == after.gang and not moved(before, after)


def same_for_others(before: Pod, after: Pod) -> bool:
    """Of a Pod that stays: others on its Node see no difference. Without a Node nobody sees the id
    of its job.
    """
    named = before.job_id == after.job_id or not after.node_name
    return named and before.ended == after.ended and before.spec == after.spec


def same_for_hosts(before: Job, after: Job) -> bool:
    """Nobody but its own workload sees a difference: no host and no index."""
    return (
        before.state == after.state
        and before.slurm_nodes == after.slurm_nodes
        and before.script == after.script
        and before.submitted_at == after.submitted_at
        and before.requeued == after.requeued
        and before.identity == after.identity
    )


def is_same_run(before: Job, after: Job) -> bool:
    """It was not submitted anew; one just made does not know its time yet."""
    return before.submitted_at in (0, after.submitted_at)


def lives_on(before: Job, after: Job) -> bool:
    """It has not ended, runs or waits since the same submission, and stands for the same Pods."""
    live = is_live(before) and is_live(after) and is_same_run(before, after)
    return live and before.identity == after.identity


def moved(before: Pod, after: Pod) -> bool:
    """It is another Pod, or on another Node, than before."""
    return before.node_name != after.node_name or before.uid != after.uid


def is_another(before: Job, after: Job) -> bool:
    """Another job under its id, or another run of it."""
    if not is_same_run(before, after):
        return True
    same = before.identity == after.identity
    return not same and uids_of(before.identity) != uids_of(after.identity)
