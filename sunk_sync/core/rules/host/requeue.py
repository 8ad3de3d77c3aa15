"""Requeue the jobs of a condemned Slurm node, where its NodeSet says so, once it is time (N28)."""

from sunk_sync.core.model.actions import Action, RecordEvent
from sunk_sync.core.model.event_kinds import EVENT_NOT_REQUEUED, EVENT_REQUEUED
from sunk_sync.core.model.facts import SlurmdPod, reference_of
from sunk_sync.core.model.node_set import Cause, Requeueing
from sunk_sync.core.model.node_set_actions import RequeueJobs
from sunk_sync.core.model.node_set_answers import RequeueTried
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.counted import counted
from sunk_sync.core.translate.node_states import is_busy, is_drained
from sunk_sync.core.views.host import Host
from sunk_sync.core.views.node_set import cause_of

AGAIN_S = 60.0
"""Each try lists all jobs of Slurm."""
OF_UPDATES: tuple[Cause, ...] = ("update", "registration")


def requeue(host: Host, _: object, now: float) -> Ruling:
    """Ask Slurm to requeue jobs, at most once a minute, while some run on the drained node."""
    pod, record, wish = host.pod, host.slurm_node, host.wish
    if pod is None or pod.terminating or record is None or wish is None or host.blind:
        return QUIET
    after_s = _after_s(cause_of(pod), wish.requeueing)
    if after_s is None or record.assumed:
        return QUIET
    if not is_drained(record.state) or not is_busy(record.state):
        return QUIET
    due_s = host.drained_since_s + after_s
    tried = host.requeued
    events = _events(pod, tried) if tried is not None else ()
    if tried is not None:
        due_s = max(due_s, tried.asked_s + AGAIN_S)
    if now < due_s:
        because = events[-1].message if events else "its jobs have time to end by themselves"
        return Ruling(events, because, due_s)
    action = RequeueJobs(host.name, wish.requeueing)
    wants: tuple[Action, ...] = (action, *events)
    return Ruling(wants, f"Slurm node {host.name} is drained, and its jobs may be requeued")


def _after_s(cause: Cause | None, which: Requeueing) -> float | None:
    """Return how long the jobs may run on; None: to their end."""
    if cause is None or which.method == "none":
        return None
    return which.after_s if cause in OF_UPDATES else which.scale_in_after_s


def _events(pod: SlurmdPod, tried: RequeueTried) -> tuple[RecordEvent, ...]:
    of, events = reference_of(pod), []
    if tried.requeued:
        jobs = counted(tried.requeued, "job")
        message = f"Slurm requeued {jobs}, because the Pod must go: {pod.pending_deletion}"
        events.append(RecordEvent(of, EVENT_REQUEUED, message))
    if tried.left:
        message = f"the Pod must go and waits for jobs: {tried.left}"
        events.append(RecordEvent(of, EVENT_NOT_REQUEUED, message))
    return tuple(events)
