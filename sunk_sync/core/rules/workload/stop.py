"""A placeholder that Slurm ends keeps its host until its Pods are gone (L6)."""

from sunk_sync.core.model.actions import Action, AnswerStop
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.timing import BEFORE_KILL_S, BINDING_S
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.views.absence import look_for_absent
from sunk_sync.core.views.conclusions import is_over
from sunk_sync.core.views.workload import Workload


def stop(workload: Workload, configuration: Configuration, now: float) -> Ruling:  # noqa: ARG001
    """Answer `gone` as soon as no Pod lives; `drain` when Slurm is about to kill the script.

    Read Pods that no listing shows, as `release` does while the job lives.
    """
    stops = workload.calls.stops
    if not stops:
        return QUIET
    settled_s = _settled_s(workload)
    if is_over(workload) or (settled_s is not None and now >= settled_s):
        answers: list[Action] = [AnswerStop(call.call, "gone") for call in stops]
        return Ruling(tuple(answers), "the placeholder may end: no Pod of it lives")
    looks = _looks(workload, now)
    late = [call for call in stops if now >= call.until_s - BEFORE_KILL_S]
    times = [call.until_s - BEFORE_KILL_S for call in stops if call not in late]
    times += [one for one in (settled_s, looks.look_again_s) if one is not None]
    because = "the placeholder waits for its Pods to end"
    return Ruling(
        (*(AnswerStop(call.call, "drain") for call in late), *looks.wants),
        f"{because}: {looks.because}" if looks.because else because,
        min(times, default=None),
    )


def _looks(workload: Workload, now: float) -> Ruling:
    """A job that another process cancelled has Pods that this one may never have seen."""
    if workload.live is not None:
        return QUIET
    return look_for_absent(workload.absent, since_s=workload.ended.since_s, now=now) or QUIET


def _settled_s(workload: Workload) -> float | None:
    """Return when unbound Pods surely stay unbound; None: a Pod is bound, or may be.

    Of a job that has ended, sunk-sync no longer knows whether its script had started.
    """
    if workload.absent.pods or workload.members.bound:
        return None
    unstarted = workload.live is not None and not workload.live.started
    return 0.0 if unstarted else min(call.asked_s for call in workload.calls.stops) + BINDING_S
