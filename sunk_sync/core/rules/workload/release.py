"""The only rule that cancels jobs: their Pods have ended, or another job must follow.

P11-P15, P17-P21, P29, G3, G4. If another job follows, sunk-sync first marks the job as replaced.
"""

import math

from msgspec.structs import replace

from sunk_sync.core.model.actions import Action, CancelJob, GetJob, RecordEvent
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.event_kinds import EVENT_BOUND_ELSEWHERE, EVENT_REPLACED
from sunk_sync.core.model.facts import Job, reference_of
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.counted import counted
from sunk_sync.core.translate.job_states import is_waiting
from sunk_sync.core.views.absence import look_for_absent, look_where_bound
from sunk_sync.core.views.conclusions import is_broken, is_over, named
from sunk_sync.core.views.replacement import why_late, why_replace
from sunk_sync.core.views.workload import LiveJob, Workload

UNHEARD_S = 0.5
"""After this time without a call of the script, sunk-sync reads the job; then after twice as long.
"""
START_S = 300.0
"""A script starts within a second, but the prolog of a node may take minutes, and no state shows
it."""


def release(workload: Workload, configuration: Configuration, now: float) -> Ruling:
    """Cancel live jobs that have no Pod left, or that another job must follow."""
    live = workload.live
    if live is None:
        return QUIET
    late, late_s = why_late(workload, timeout_s=configuration.volume_timeout_s, now=now)
    ruling = _rule_job(workload, live, late=late, now=now)
    if now < late_s < math.inf:
        again_s = late_s if ruling.look_again_s is None else min(late_s, ruling.look_again_s)
        ruling = replace(ruling, look_again_s=again_s)
    return _with_others(workload, live, ruling, now) if live.others else ruling


def _with_others(workload: Workload, live: LiveJob, ruling: Ruling, now: float) -> Ruling:
    """Cancel further live jobs (P29); first read whether a Pod was bound for one of them."""
    tried = {job_id for one in workload.binding.tried for job_id in one.job_ids}
    doubtful = [other.job_id for other in live.others if other.job_id in tried]
    extra = [cancel(other, replaced=True) for other in live.others if other.job_id not in tried]
    stays = f"job {live.job.job_id} stays"
    jobs = counted(len(live.others), "live job")
    because = [f"{jobs} too many for {named(workload)}: {stays}"]
    looks = QUIET
    if doubtful:
        looks = _look_where_bound(workload, now)
        all_jobs = counted(len(live.others) + 1, "live job")
        because = [f"{named(workload)} has {all_jobs}", looks.because]
    times = [one.look_again_s for one in (ruling, looks) if one.look_again_s is not None]
    wants = dict.fromkeys((*extra, *looks.wants, *ruling.wants))
    parts = [part for part in (*because, ruling.because) if part]
    return Ruling(tuple(wants), "; ".join(parts), min(times, default=None))


def _rule_job(workload: Workload, live: LiveJob, *, late: str, now: float) -> Ruling:
    job, bound = live.job, workload.members.bound
    if is_over(workload):
        return Ruling((cancel(job),), f"job {job.job_id} ended: no Pod of it lives")
    looks = look_for_absent(workload.absent, since_s=live.since_s, now=now)
    if looks is not None:
        return replace(looks, because=f"job {job.job_id} kept: {looks.because}")
    if live.notified_at_s > live.read_s:
        look = GetJob(job.job_id, live.notified_at_s, live.placed_after_s)
        return Ruling((look,), f"job {job.job_id} changed: reading it")
    if is_broken(workload.members, workload.absent):
        lives = any(not pod.ended for pod in bound)
        return _unless_bound(workload, QUIET if lives else _break(job), now)
    why = why_replace(workload, live) or late
    if why and workload.locations.here:
        return Ruling(because=f"job {job.job_id} stays until its bound Pods have ended: {why}")
    if why:
        return _unless_bound(workload, _replace(workload, job, why), now)
    return QUIET if is_waiting(job) or bound else _await_start(workload, live, now)


def _unless_bound(workload: Workload, ruling: Ruling, now: float) -> Ruling:
    """A binding without an answer may have happened: read the Pod first (P14)."""
    if not (workload.binding.tried and ruling.wants):
        return ruling
    looks = _look_where_bound(workload, now)
    return Ruling(looks.wants, f"{looks.because}; {ruling.because}", looks.look_again_s)


def _look_where_bound(workload: Workload, now: float) -> Ruling:
    """Read each Pod that may be bound by name: the watch may lag behind."""
    tried = workload.binding.tried
    pods = {pod.uid: pod for pod in workload.members.unbound}
    wants: list[Action] = []
    times: list[float] = []
    for one in tried:
        pod = pods[one.uid]
        look, again_s = look_where_bound(one, namespace=pod.namespace, name=pod.name, now=now)
        if look is None:
            times.append(again_s)
        else:
            wants.append(look)
    jobs = ", ".join(dict.fromkeys(job_id for one in tried for job_id in one.job_ids))
    because = f"{named(workload)} may be bound for job {jobs}: reading it first"
    return Ruling(tuple(wants), because, min(times, default=None))


def _await_start(workload: Workload, live: LiveJob, now: float) -> Ruling:
    """Read the job for the start of its script, if no call of the script arrives.

    sunk-sync gives up a job whose script never starts. slurmctld 26.05 loses a job if slurmctld
    stops while the gate holds it, and reports it as running forever.
    """
    if live.started or live.ran_s is None:
        return QUIET
    if now >= live.ran_s + START_S:
        return _replace(workload, live.job, f"its script did not start within {START_S:g} s")
    pause_s = UNHEARD_S
    while now >= live.ran_s + pause_s:
        pause_s *= 2
    asked_s, again_s = live.ran_s + pause_s / 2, live.ran_s + min(pause_s, START_S)
    if pause_s == UNHEARD_S or live.read_s >= asked_s:
        return Ruling(look_again_s=again_s)
    job_id = live.job.job_id
    because = f"job {job_id} runs: reading whether its script has started"
    return Ruling((GetJob(job_id, asked_s),), because, again_s)


def _break(job: Job) -> Ruling:
    """Cancel the job of a gang that lost a member (G3, G4)."""
    why = f"job {job.job_id} given up: a member of its gang is gone"
    return Ruling((cancel(job, replaced=True),), why)


def _replace(workload: Workload, job: Job, why: str) -> Ruling:
    """End the job. The Event names no job: one Event for each cause, however many jobs follow."""
    event = EVENT_BOUND_ELSEWHERE if workload.locations.elsewhere else EVENT_REPLACED
    message = f"A Slurm job is given up: {why}"
    events = tuple(RecordEvent(reference_of(pod), event, message) for pod in workload.members.pods)
    ends = cancel(job, replaced=True, waiting=is_waiting(job) and bool(workload.members.bound))
    return Ruling((ends, *events), f"Slurm job {job.job_id} is given up: {why}")


def cancel(job: Job, *, replaced: bool = False, waiting: bool = False) -> CancelJob:
    return CancelJob(
        job_id=job.job_id,
        name=job.name,
        identity=job.identity,
        replaced=replaced,
        waiting=waiting,
    )
