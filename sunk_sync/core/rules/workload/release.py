"""Jobs end when their Pods have, or when they stand in the way: the only rule that cancels.

P13-P15, P17-P21, P29, G3, G4; a cancel of our own making that another job follows is marked first.
"""

from msgspec.structs import replace

from sunk_sync.core.model.actions import (
    LOOK_AGAIN_S,
    Action,
    Announce,
    CancelJob,
    Look,
    LookJob,
    Relist,
    UpdateJob,
)
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import Job, Pod, reference_of
from sunk_sync.core.model.names import EVENT_BOUND_ELSEWHERE, EVENT_REPLACED
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.job_spec import can_update
from sunk_sync.core.translate.job_states import is_running, is_waiting
from sunk_sync.core.views.conclusions import (
    exclusions,
    is_broken,
    is_known_gone,
    is_over,
    named,
    why_unfit,
)
from sunk_sync.core.views.workload import Work

BOUND_AGAIN_S = 2.0
"""After a read by name that did not tell whether the Pod is bound."""
UNHEARD_S = 0.5
"""After that a started script has called; else its job is read, then after twice as long."""
START_S = 300.0
"""A prolog of the node, of which no state tells, may take minutes; a script needs a second."""


def release(work: Work, configuration: Configuration, now: float) -> Ruling:  # noqa: ARG001
    """What becomes of the live jobs of a Work."""
    job = work.job
    if job is None:
        return QUIET
    ruling = _rule_job(work, job, now)
    return _with_others(work, job, ruling, now) if work.others else ruling


def _with_others(work: Work, job: Job, ruling: Ruling, now: float) -> Ruling:
    """P29. One to which a Pod may be bound by now ends when it is known that none is."""
    tried = {job_id for one in work.binds_tried for job_id in one.job_ids}
    doubtful = [other.job_id for other in work.others if other.job_id in tried]
    extra = [cancel(other, replaced=True) for other in work.others if other.job_id not in tried]
    because = [f"{len(work.others)} live jobs too many for {named(work)}: job {job.job_id} stays"]
    looks = QUIET
    if doubtful:
        looks = _look_where_bound(work, now)
        because = [f"{named(work)} has {len(work.others) + 1} live jobs", looks.because]
    times = [one.look_again_s for one in (ruling, looks) if one.look_again_s is not None]
    wants = dict.fromkeys((*extra, *looks.wants, *ruling.wants))
    parts = [part for part in (*because, ruling.because) if part]
    return Ruling(tuple(wants), "; ".join(parts), min(times, default=None))


def _rule_job(work: Work, job: Job, now: float) -> Ruling:
    if is_over(work):
        return Ruling((cancel(job),), f"job {job.job_id} ended: no Pod of it lives")
    absent = _look(work, now)
    if absent is not None:
        return absent
    if work.told_s > work.job_read_s:
        look = LookJob(job.job_id, work.told_s, work.placed_after_s)
        return Ruling((look,), f"job {job.job_id} changes: looking")
    bound = bool(work.bound)
    if is_broken(work):
        stands = any(not pod.ended for pod in work.bound)
        return _unless_bound(work, _break(job, bound=stands), now)
    why = _why_replace(work, job, bound=bound)
    if why and work.here:
        return Ruling(because=f"job {job.job_id} stays until its bound Pods have ended: {why}")
    if why:
        return _unless_bound(work, _replace(work, job, why), now)
    return _update(work, job, now) if is_waiting(job) else _await_start(work, job, now, bound=bound)


def _unless_bound(work: Work, ruling: Ruling, now: float) -> Ruling:
    """A binding without an answer may have happened: only the Pod itself tells (P14)."""
    if not (work.binds_tried and ruling.wants):
        return ruling
    looks = _look_where_bound(work, now)
    return Ruling(looks.wants, f"{looks.because}; {ruling.because}", looks.look_again_s)


def _look_where_bound(work: Work, now: float) -> Ruling:
    """Each of its Pods that may be bound by now is read by name; its watch may stand still."""
    pods = {pod.uid: pod for pod in work.unbound}
    wants: list[Action] = []
    times: list[float] = []
    for one in work.binds_tried:
        pod, again_s = pods[one.uid], one.asked_s + BOUND_AGAIN_S
        if one.asked_s and now < again_s:
            times.append(again_s)
        else:
            wants.append(Look("Pod", pod.namespace, pod.name, one.asked_s or one.given_up_s))
    jobs = ", ".join(dict.fromkeys(job_id for one in work.binds_tried for job_id in one.job_ids))
    because = f"{named(work)} may be bound by now where job {jobs} runs: it is read first"
    return Ruling(tuple(wants), because, min(times, default=None))


def _await_start(work: Work, job: Job, now: float, *, bound: bool) -> Ruling:
    """What the script wrote of its start is read where its call does not come: no state tells it.

    One that never starts is given up: slurmctld 26.05 forgets one that it was stopped with at the
    gate, and calls its job running for ever.
    """
    if work.started or bound or work.ran_s is None:
        return QUIET
    if now >= work.ran_s + START_S:
        return _replace(work, job, f"its script did not start within {START_S:g} s")
    pause_s = UNHEARD_S
    while now >= work.ran_s + pause_s:
        pause_s *= 2
    asked_s, again_s = work.ran_s + pause_s / 2, work.ran_s + min(pause_s, START_S)
    if pause_s == UNHEARD_S or work.job_read_s >= asked_s:
        return Ruling(look_again_s=again_s)
    because = f"job {job.job_id} runs: looking whether its script has started"
    return Ruling((LookJob(job.job_id, asked_s),), because, again_s)


def _look(work: Work, now: float) -> Ruling | None:
    """Absence needs evidence: each Pod that is not in the picture is asked for by name (P21)."""
    open_pods = [pod for pod in work.absent if not is_known_gone(work, pod)]
    if not open_pods:
        return None
    asked = {(one.namespace, one.name): one.asked_s for one in work.sightings}
    wants: list[Action] = []
    times: list[float] = []
    for pod in open_pods:
        namespace, _, rest = pod.partition("/")
        name = rest.partition("/")[0]
        asked_s = asked.get((namespace, name))
        if asked_s is not None and now < asked_s + LOOK_AGAIN_S:
            times.append(asked_s + LOOK_AGAIN_S)
        elif not name:
            wants.append(Relist("pods", work.job_since_s))
        else:
            wants.append(Look("Pod", namespace, name, asked_s or work.job_since_s))
    because = f"job {work.job.job_id if work.job else ''} kept: {open_pods[0]} may still live"
    return Ruling(tuple(dict.fromkeys(wants)), because, min(times, default=None))


def _break(job: Job, *, bound: bool) -> Ruling:
    """A gang that lost a member: its job ends once no Pod of it stands (G3, G4)."""
    if bound:
        return QUIET
    why = f"job {job.job_id} given up: a member of its gang is gone"
    return Ruling((cancel(job, replaced=True),), why)


def _why_replace(work: Work, job: Job, *, bound: bool) -> str:
    """Why this job must go though its Pods live; empty: it may stay."""
    if work.stands_elsewhere:
        return f"{named(work)} was bound by somebody else"
    why = _why_in_its_state(work, job, bound=bound)
    marked = job.identity.replaced and not bound
    return why or ("it was to be replaced" if marked else "")


def _why_in_its_state(work: Work, job: Job, *, bound: bool) -> str:
    if bound and (is_waiting(job) or work.moved):
        return "it was requeued, and a Pod is never moved"
    if is_waiting(job):
        return _why_edited(work, job)
    if "SUSPENDED" in job.state and not bound:
        return "it was suspended before its Pod was bound"
    return why_unfit(work) if is_running(job) else ""


def _why_edited(work: Work, job: Job) -> str:
    """P20: an edit that the waiting job cannot follow."""
    if work.invalid:
        return f"its Pod was edited, and is refused now: {work.invalid}"
    before, after = job.identity.digest, work.digest
    if not before or not after or before == after:
        return ""
    refused = work.refused
    tried = refused is not None and refused.kind == "update" and refused.digest == after
    one_task = "_" in job.job_id
    follows = can_update(before, after) and not (tried or one_task)
    return "" if follows else "its Pod was edited, and Slurm does not let it change"


def _replace(work: Work, job: Job, why: str) -> Ruling:
    elsewhere = work.stands_elsewhere
    reason = EVENT_BOUND_ELSEWHERE if elsewhere else EVENT_REPLACED
    message = f"Slurm job {job.job_id} is given up: {why}"
    events = tuple(_event(pod, reason, message) for pod in work.pods)
    ends = cancel(job, replaced=True, waiting=is_waiting(job) and bool(work.bound))
    return Ruling((ends, *events), message)


def _event(pod: Pod, reason: str, message: str) -> Announce:
    return Announce(reference_of(pod), "Warning", reason, message)


def _update(work: Work, job: Job, now: float) -> Ruling:
    """The Pod was edited while its job waits (P20), or other hosts can take it by now (P7)."""
    edited = bool(work.digest and job.identity.digest) and work.digest != job.identity.digest
    renewed = bool(work.hosts) and not edited
    if not (edited or renewed) or work.description is None:
        return QUIET
    of_array = "_" in job.job_id  # whose tasks share one list, wherever some were given back
    hosts = work.hosts or job.identity.hosts
    action = UpdateJob(
        job_id=job.job_id,
        name=job.name,
        identity=replace(job.identity, digest=work.digest, hosts=hosts),
        description=work.description,
        excluded=work.excluded if of_array else exclusions(work, now=now),
        renewal=renewed,
    )
    why = "follows what its hosts offer" if renewed else "follows its edited Pod"
    return Ruling((action,), f"job {job.job_id} {why}")


def cancel(job: Job, *, replaced: bool = False, waiting: bool = False) -> CancelJob:
    """End this very job."""
    return CancelJob(
        job_id=job.job_id,
        name=job.name,
        identity=job.identity,
        replaced=replaced,
        waiting=waiting,
    )
