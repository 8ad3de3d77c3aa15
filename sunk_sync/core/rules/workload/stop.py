"""A placeholder that Slurm ends keeps its host until its Pods are gone (L6)."""

from sunk_sync.core.model.actions import Action, AnswerStop
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.timing import BEFORE_KILL_S, BINDING_S
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.views.conclusions import is_over
from sunk_sync.core.views.workload import Workload


def stop(workload: Workload, configuration: Configuration, now: float) -> Ruling:  # noqa: ARG001
    """Answer `gone` as soon as no Pod lives; `drain` when Slurm is about to kill the script."""
    stops = workload.calls.stops
    if not stops:
        return QUIET
    settled_s = _settled_s(workload)
    if is_over(workload) or (settled_s is not None and now >= settled_s):
        answers: list[Action] = [AnswerStop(call.call, "gone") for call in stops]
        return Ruling(tuple(answers), "the placeholder may end: no Pod of it lives")
    late = [call for call in stops if now >= call.until_s - BEFORE_KILL_S]
    times = [call.until_s - BEFORE_KILL_S for call in stops if call not in late]
    times += [settled_s] if settled_s is not None else []
    return Ruling(
        tuple(AnswerStop(call.call, "drain") for call in late),
        "the placeholder waits for its Pods to end",
        min(times, default=None),
    )


def _settled_s(workload: Workload) -> float | None:
    """Return when unbound Pods surely stay unbound; None: a Pod is bound, or may be.

    Of a job that has ended, sunk-sync no longer knows whether its script had started.
    """
    if workload.absent.pods or workload.members.bound:
        return None
    unstarted = workload.live is not None and not workload.live.started
    return 0.0 if unstarted else min(call.asked_s for call in workload.calls.stops) + BINDING_S
