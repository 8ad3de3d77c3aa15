"""The size of a gang is read from its PodGroup or Job until it is known (G1)."""

from sunk_sync.core.model.actions import GetGang
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.views.workload import Workload

ASK_AGAIN_S = 30.0


def size(workload: Workload, configuration: Configuration, now: float) -> Ruling:  # noqa: ARG001
    """Read the object once; read it again after a while if it does not name a size."""
    members = workload.members
    if not members.ask_size:
        return QUIET
    first = members.pods[0]
    assert first.gang is not None  # only members of a gang have a size to read
    again_s = members.size_asked_s + ASK_AGAIN_S
    if members.size_asked_s and now < again_s:
        return Ruling(look_again_s=again_s)
    look = GetGang(first.gang.kind, first.namespace, first.gang.name, members.size_asked_s)
    return Ruling((look,), "reading the size of its gang")
