"""Warn of what a person should act on.

A Pod cannot end because its Node does not answer: sunk-sync reads the Node, and an Event says what
to do (P25b). Somebody overwrote the admin_comment of a job: the job stays known, and an Event says
so once (P23).
"""

from sunk_sync.core.model.actions import (
    LOOK_AGAIN_S,
    Action,
    GetObject,
    RecordEvent,
)
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.event_kinds import EVENT_NODE_SILENT, EVENT_OVERWRITTEN
from sunk_sync.core.model.facts import Job, reference_of
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.views.parts import Stuck
from sunk_sync.core.views.workload import Workload

ADVICE = (
    "nobody can see whether the Pod has ended, so sunk-sync keeps its host. If the machine is"
    " certainly off: kubectl delete pod --force, or delete the Node."
)

KNOWN_STILL = (
    "It is still known as the job of this Pod. sunk-sync writes its own text there again only when"
    " it changes the job or gives it up."
)


def warn(workload: Workload, configuration: Configuration, now: float) -> Ruling:
    rulings = [_rule_one(one, configuration, now) for one in workload.stuck]
    live = workload.live
    if live is not None and live.job.overwritten:
        rulings.append(_overwritten(live.job, workload))
    if not rulings:
        return QUIET
    wants = dict.fromkeys(want for ruling in rulings for want in ruling.wants)
    because = dict.fromkeys(ruling.because for ruling in rulings if ruling.because)
    times = [ruling.look_again_s for ruling in rulings if ruling.look_again_s is not None]
    return Ruling(tuple(wants), "; ".join(because), min(times, default=None))


def _rule_one(stuck: Stuck, configuration: Configuration, now: float) -> Ruling:
    if stuck.ready:
        return _silent(stuck, configuration, now)
    name, asked_s = stuck.pod.node_name, stuck.since_s
    if stuck.stranded:
        return Ruling(because=f"Node {name} is gone, and its Pods with it")
    if asked_s is not None and now < asked_s + LOOK_AGAIN_S:
        return Ruling(look_again_s=asked_s + LOOK_AGAIN_S)
    return Ruling((GetObject("Node", "", name, asked_s or 0.0),), f"Node {name} is missing")


def _overwritten(job: Job, workload: Workload) -> Ruling:
    pods = [pod for pod in workload.members.pods if not pod.ended]
    message = f"Somebody overwrote the admin_comment of Slurm job {job.job_id}. {KNOWN_STILL}"
    return Ruling(tuple(RecordEvent(reference_of(pod), EVENT_OVERWRITTEN, message) for pod in pods))


def _silent(stuck: Stuck, configuration: Configuration, now: float) -> Ruling:
    assert stuck.since_s is not None
    ripe_s = stuck.since_s + configuration.node_not_ready_grace_s
    if now < ripe_s:
        return Ruling(look_again_s=ripe_s)
    why = f"Node {stuck.pod.node_name} does not answer (Ready is {stuck.ready})"
    action: Action = RecordEvent(reference_of(stuck.pod), EVENT_NODE_SILENT, f"{why}: {ADVICE}")
    return Ruling((action,), why)
