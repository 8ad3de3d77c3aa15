"""How many members a gang shall have is asked of its PodGroup or Job, until it is known (G1)."""

from sunk_sync.core.model.actions import GetGang
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.views.workload import Workload

ASK_AGAIN_S = 30.0


def size(workload: Workload, configuration: Configuration, now: float) -> Ruling:  # noqa: ARG001
    """One GET at first sight; what it does not tell is asked again after a while."""
    if not workload.ask_size:
        return QUIET
    first = workload.pods[0]
    assert first.gang is not None  # else nobody would ask
    again_s = workload.size_asked_s + ASK_AGAIN_S
    if workload.size_asked_s and now < again_s:
        return Ruling(look_again_s=again_s)
    look = GetGang(first.gang.kind, first.namespace, first.gang.name, workload.size_asked_s)
    return Ruling((look,), "the size of its gang is asked for")
