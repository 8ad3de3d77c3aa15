"""When sunk-sync gives up a live job although its Pods live (P12, P18-P20)."""

import math

from sunk_sync.core.model.facts import Job
from sunk_sync.core.translate.job_spec import can_update
from sunk_sync.core.translate.job_states import is_running, is_waiting
from sunk_sync.core.views.conclusions import is_broken, is_known_gone, is_over, named, why_unfit
from sunk_sync.core.views.workload import LiveJob, Workload


def may_stay(workload: Workload, live: LiveJob) -> bool:
    """Whether nothing requires the end of the job, and no read of it or its Pods is due."""
    absent = workload.absent
    return not (
        is_over(workload)
        or [pod for pod in absent.pods if not is_known_gone(absent, pod)]
        or live.notified_at_s > live.read_s
        or is_broken(workload.members, absent)
        or why_replace(workload, live)
    )


def why_replace(workload: Workload, live: LiveJob) -> str:
    """Return why another job must replace this one, or empty."""
    if workload.locations.elsewhere:
        return f"{named(workload)} was bound by somebody else"
    why = _why_in_its_state(workload, live)
    marked = live.job.identity.replaced and not workload.members.bound
    return why or ("it is marked as replaced" if marked else "")


def _why_in_its_state(workload: Workload, live: LiveJob) -> str:
    job, bound = live.job, workload.members.bound
    if bound and (is_waiting(job) or workload.locations.moved):
        return "it was requeued, and a Pod is never moved"
    if is_waiting(job):
        return workload.members.resized or _why_edited(workload, job)
    if "SUSPENDED" in job.state and not bound:
        return "it was suspended before its Pod was bound"
    if not is_running(job):
        return ""
    return why_unfit(live, workload.members) or workload.volumes.failed


def why_late(workload: Workload, *, timeout_s: float, now: float) -> tuple[str, float]:
    """Return which claim got no volume in time, or empty; and until when the next one has time.

    Its job holds its hosts for nothing.
    """
    wanted = workload.volumes.wanted
    if not wanted:
        return "", -math.inf
    first = min(wanted, key=lambda one: one.since_s)
    late_s = first.since_s + timeout_s
    if now < late_s:
        return "", late_s
    where = f"on Node {first.node_name} within {timeout_s:g} s"
    why = f'claim "{first.claim.name}" got no volume {where}'
    return (f"{why}: {first.said}" if first.said else why), late_s


def _why_edited(workload: Workload, job: Job) -> str:
    """Return which edit of the Pods the waiting job cannot take over (P20)."""
    before, after, invalid = job.identity.digest, workload.request.digest, workload.request.invalid
    if after and before in ("", after):
        return ""  # even if --user-policy changed and refuses such a job now
    if invalid:
        return f"its Pod was edited and is invalid now: {invalid}"
    if not after:
        return ""
    refused = workload.submission.refused
    tried = refused is not None and refused.kind == "update" and refused.digest == after
    one_task = "_" in job.job_id
    follows = can_update(before, after) and not (tried or one_task)
    return "" if follows else "its Pod was edited, and Slurm cannot change the job"
