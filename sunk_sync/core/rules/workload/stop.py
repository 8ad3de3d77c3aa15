"""A placeholder that was told to end keeps its host until its Pods are gone (L6)."""

from sunk_sync.core.model.actions import Action, AnswerStop
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.timing import BEFORE_KILL_S, BINDING_S
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.views.conclusions import is_over
from sunk_sync.core.views.workload import Workload


def stop(workload: Workload, configuration: Configuration, now: float) -> Ruling:  # noqa: ARG001
    """`gone` as soon as it is so; `drain` when Slurm is about to kill the script."""
    if not workload.stops:
        return QUIET
    settled_s = _settled_s(workload)
    if is_over(workload) or (settled_s is not None and now >= settled_s):
        answers: list[Action] = [AnswerStop(call.call, "gone") for call in workload.stops]
        return Ruling(tuple(answers), "the placeholder may end: no Pod of it lives")
    late = [call for call in workload.stops if now >= call.until_s - BEFORE_KILL_S]
    times = [call.until_s - BEFORE_KILL_S for call in workload.stops if call not in late]
    times += [settled_s] if settled_s is not None else []
    return Ruling(
        tuple(AnswerStop(call.call, "drain") for call in late),
        "the placeholder waits for its Pods to end",
        min(times, default=None),
    )


def _settled_s(workload: Workload) -> float | None:
    """From when on unbound Pods stay so; None: some is bound, or may be.

    Of a job that has ended nobody knows any more that it had not started.
    """
    if workload.absent or workload.bound:
        return None
    unstarted = workload.job is not None and not workload.started
    return 0.0 if unstarted else min(call.asked_s for call in workload.stops) + BINDING_S
