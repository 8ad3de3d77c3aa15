"""Make the Pods that are missing (N1, N21, N22, N24)."""

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import reference_of
from sunk_sync.core.model.node_set_actions import CreatePod
from sunk_sync.core.model.timing import doubled_s
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.counted import counted
from sunk_sync.core.views.node_set import NodeSetView, Vacancy, is_foreign, is_older

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 300.0


def populate(view: NodeSetView, _: Configuration, now: float) -> Ruling:
    """Make one Pod for each free name. A Pod that failed is made again after a pause.

    A name waits while an older record with another shape has it: slurmd could not change the
    record (N4). Slurm need not be readable: a new Pod takes nothing away.
    """
    spec = view.spec
    if view.plan.problem or spec.deleting or not spec.held or not view.kube_listed:
        return QUIET
    if not view.vacancies:
        return QUIET
    wants, times, waits = [], [], []
    for vacancy in view.vacancies:
        ends_s = pause_ends_s(vacancy)
        if why := _why_not(vacancy, view):
            waits.append(f"{vacancy.name}: {why}")
        elif now < ends_s:
            times.append(ends_s)
            waits.append(f"{vacancy.name}: it failed")
        else:
            wants.append(_create(view, vacancy))
    because = counted(len(view.vacancies), "Pod is missing", "Pods are missing")
    if waits:
        because += f", {counted(len(waits), 'of them waits', 'of them wait')} ({waits[0]})"
    return Ruling(tuple(wants), because, min(times, default=None))


def _create(view: NodeSetView, vacancy: Vacancy) -> CreatePod:
    """A creation on its way stays the same while the status of the NodeSet changes."""
    of = reference_of(view.spec)
    return CreatePod(of, vacancy.name, view.wish, view.plan, vacancy.node_name)


def pause_ends_s(vacancy: Vacancy) -> float:
    """Return when the Pod may be made: 1 s after the first failure, twice as long after each."""
    failures = vacancy.failures
    if failures is None:
        return 0.0
    doublings = failures.count - 1
    pause_s = doubled_s(FIRST_PAUSE_S, doublings=doublings, longest_s=LONGEST_PAUSE_S)
    return failures.last_s + pause_s


def _why_not(vacancy: Vacancy, view: NodeSetView) -> str:
    if vacancy.taken:
        return f"{vacancy.taken} has its name"
    record = vacancy.record
    if is_foreign(record, view.plan):
        return "Slurm has another node of this name"
    if is_older(record, view.plan):
        return "its older record in Slurm must go first"
    return ""
