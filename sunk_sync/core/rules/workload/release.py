"""Jobs end when their Pods have, or when they stand in the way: the only rule that cancels.

P13-P15, P17-P21, P29, G3, G4; a cancel of our own making that another job follows is marked first.
"""

from msgspec.structs import replace

from sunk_sync.core.model.actions import (
    LOOK_AGAIN_S,
    Action,
    CancelJob,
    GetJob,
    GetObject,
    RecordEvent,
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
from sunk_sync.core.views.workload import Workload

BOUND_AGAIN_S = 2.0
"""After a read by name that did not tell whether the Pod is bound."""
UNHEARD_S = 0.5
"""After that a started script has called; else its job is read, then after twice as long."""
START_S = 300.0
"""A prolog of the node, of which no state tells, may take minutes; a script needs a second."""


def release(workload: Workload, configuration: Configuration, now: float) -> Ruling:  # noqa: ARG001
    """What becomes of the live jobs of a workload."""
    job = workload.job
    if job is None:
        return QUIET
    ruling = _rule_job(workload, job, now)
    return _with_others(workload, job, ruling, now) if workload.others else ruling


def _with_others(workload: Workload, job: Job, ruling: Ruling, now: float) -> Ruling:
    """P29. One to which a Pod may be bound by now ends when it is known that none is."""
    tried = {job_id for one in workload.binds_tried for job_id in one.job_ids}
    doubtful = [other.job_id for other in workload.others if other.job_id in tried]
    extra = [cancel(other, replaced=True) for other in workload.others if other.job_id not in tried]
    because = [
        f"{len(workload.others)} live jobs too many for {named(workload)}: job {job.job_id} stays"
    ]
    looks = QUIET
    if doubtful:
        looks = _look_where_bound(workload, now)
        because = [f"{named(workload)} has {len(workload.others) + 1} live jobs", looks.because]
    times = [one.look_again_s for one in (ruling, looks) if one.look_again_s is not None]
    wants = dict.fromkeys((*extra, *looks.wants, *ruling.wants))
    parts = [part for part in (*because, ruling.because) if part]
    return Ruling(tuple(wants), "; ".join(parts), min(times, default=None))


def _rule_job(workload: Workload, job: Job, now: float) -> Ruling:
    if is_over(workload):
        return Ruling((cancel(job),), f"job {job.job_id} ended: no Pod of it lives")
    absent = _look(workload, now)
    if absent is not None:
        return absent
    if workload.notified_at_s > workload.job_read_s:
        look = GetJob(job.job_id, workload.notified_at_s, workload.placed_after_s)
        return Ruling((look,), f"job {job.job_id} changes: looking")
    bound = bool(workload.bound)
    if is_broken(workload):
        stands = any(not pod.ended for pod in workload.bound)
        return _unless_bound(workload, _break(job, bound=stands), now)
    why = _why_replace(workload, job, bound=bound)
    if why and workload.here:
        return Ruling(because=f"job {job.job_id} stays until its bound Pods have ended: {why}")
    if why:
        return _unless_bound(workload, _replace(workload, job, why), now)
    return (
        _update(workload, job, now)
        if is_waiting(job)
        else _await_start(workload, job, now, bound=bound)
    )


def _unless_bound(workload: Workload, ruling: Ruling, now: float) -> Ruling:
    """A binding without an answer may have happened: only the Pod itself tells (P14)."""
    if not (workload.binds_tried and ruling.wants):
        return ruling
    looks = _look_where_bound(workload, now)
    return Ruling(looks.wants, f"{looks.because}; {ruling.because}", looks.look_again_s)


def _look_where_bound(workload: Workload, now: float) -> Ruling:
    """Each of its Pods that may be bound by now is read by name; its watch may stand still."""
    pods = {pod.uid: pod for pod in workload.unbound}
    wants: list[Action] = []
    times: list[float] = []
    for one in workload.binds_tried:
        pod, again_s = pods[one.uid], one.asked_s + BOUND_AGAIN_S
        if one.asked_s and now < again_s:
            times.append(again_s)
        else:
            wants.append(GetObject("Pod", pod.namespace, pod.name, one.asked_s or one.given_up_s))
    jobs = ", ".join(
        dict.fromkeys(job_id for one in workload.binds_tried for job_id in one.job_ids)
    )
    because = f"{named(workload)} may be bound by now where job {jobs} runs: it is read first"
    return Ruling(tuple(wants), because, min(times, default=None))


def _await_start(workload: Workload, job: Job, now: float, *, bound: bool) -> Ruling:
    """What the script wrote of its start is read where its call does not come: no state tells it.

    One that never starts is given up: slurmctld 26.05 forgets one that it was stopped with at the
    gate, and calls its job running for ever.
    """
    if workload.started or bound or workload.ran_s is None:
        return QUIET
    if now >= workload.ran_s + START_S:
        return _replace(workload, job, f"its script did not start within {START_S:g} s")
    pause_s = UNHEARD_S
    while now >= workload.ran_s + pause_s:
        pause_s *= 2
    asked_s, again_s = workload.ran_s + pause_s / 2, workload.ran_s + min(pause_s, START_S)
    if pause_s == UNHEARD_S or workload.job_read_s >= asked_s:
        return Ruling(look_again_s=again_s)
    because = f"job {job.job_id} runs: looking whether its script has started"
    return Ruling((GetJob(job.job_id, asked_s),), because, again_s)


def _look(workload: Workload, now: float) -> Ruling | None:
    """Absence needs evidence: each Pod that is not in the picture is asked for by name (P21)."""
    open_pods = [pod for pod in workload.absent if not is_known_gone(workload, pod)]
    if not open_pods:
        return None
    asked = {(one.namespace, one.name): one.asked_s for one in workload.get_results}
    wants: list[Action] = []
    times: list[float] = []
    for pod in open_pods:
        namespace, _, rest = pod.partition("/")
        name = rest.partition("/")[0]
        asked_s = asked.get((namespace, name))
        if asked_s is not None and now < asked_s + LOOK_AGAIN_S:
            times.append(asked_s + LOOK_AGAIN_S)
        elif not name:
            wants.append(Relist("pods", workload.job_since_s))
        else:
            wants.append(GetObject("Pod", namespace, name, asked_s or workload.job_since_s))
    because = (
        f"job {workload.job.job_id if workload.job else ''} kept: {open_pods[0]} may still live"
    )
    return Ruling(tuple(dict.fromkeys(wants)), because, min(times, default=None))


def _break(job: Job, *, bound: bool) -> Ruling:
    """A gang that lost a member: its job ends once no Pod of it stands (G3, G4)."""
    if bound:
        return QUIET
    why = f"job {job.job_id} given up: a member of its gang is gone"
    return Ruling((cancel(job, replaced=True),), why)


def _why_replace(workload: Workload, job: Job, *, bound: bool) -> str:
    """Why this job must go though its Pods live; empty: it may stay."""
    if workload.stands_elsewhere:
        return f"{named(workload)} was bound by somebody else"
    why = _why_in_its_state(workload, job, bound=bound)
    marked = job.identity.replaced and not bound
    return why or ("it was to be replaced" if marked else "")


def _why_in_its_state(workload: Workload, job: Job, *, bound: bool) -> str:
    if bound and (is_waiting(job) or workload.moved):
        return "it was requeued, and a Pod is never moved"
    if is_waiting(job):
        return _why_edited(workload, job)
    if "SUSPENDED" in job.state and not bound:
        return "it was suspended before its Pod was bound"
    return why_unfit(workload) if is_running(job) else ""


def _why_edited(workload: Workload, job: Job) -> str:
    """P20: an edit that the waiting job cannot follow."""
    if workload.invalid:
        return f"its Pod was edited, and is refused now: {workload.invalid}"
    before, after = job.identity.digest, workload.digest
    if not before or not after or before == after:
        return ""
    refused = workload.refused
    tried = refused is not None and refused.kind == "update" and refused.digest == after
    one_task = "_" in job.job_id
    follows = can_update(before, after) and not (tried or one_task)
    return "" if follows else "its Pod was edited, and Slurm does not let it change"


def _replace(workload: Workload, job: Job, why: str) -> Ruling:
    elsewhere = workload.stands_elsewhere
    reason = EVENT_BOUND_ELSEWHERE if elsewhere else EVENT_REPLACED
    message = f"Slurm job {job.job_id} is given up: {why}"
    events = tuple(_event(pod, reason, message) for pod in workload.pods)
    ends = cancel(job, replaced=True, waiting=is_waiting(job) and bool(workload.bound))
    return Ruling((ends, *events), message)


def _event(pod: Pod, reason: str, message: str) -> RecordEvent:
    return RecordEvent(reference_of(pod), "Warning", reason, message)


def _update(workload: Workload, job: Job, now: float) -> Ruling:
    """The Pod was edited while its job waits (P20), or other hosts can take it by now (P7)."""
    edited = (
        bool(workload.digest and job.identity.digest) and workload.digest != job.identity.digest
    )
    renewed = bool(workload.hosts) and not edited
    if not (edited or renewed) or workload.description is None:
        return QUIET
    of_array = "_" in job.job_id  # whose tasks share one list, wherever some were given back
    hosts = workload.hosts or job.identity.hosts
    action = UpdateJob(
        job_id=job.job_id,
        name=job.name,
        identity=replace(job.identity, digest=workload.digest, hosts=hosts),
        description=workload.description,
        excluded=workload.excluded if of_array else exclusions(workload, now=now),
        exclusions_only=renewed,
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
