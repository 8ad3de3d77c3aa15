"""The size of a gang is read from its PodGroup or Job (G1, G9)."""

from sunk_sync.core.model.actions import GetGang
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.views.workload import Workload


def size(workload: Workload, configuration: Configuration, now: float) -> Ruling:  # noqa: ARG001
    """Read the object before a submission, and while it names another number than there are Pods.

    The pauses grow.
    """
    members = workload.members
    read = members.size_read
    if read is None:
        return QUIET
    first = members.pods[0]
    gang = first.gang
    assert gang is not None  # only members of a gang have a size to read
    again_s = read.asked_s + read.pause_s
    if read.asked_s and now < again_s:
        return Ruling(look_again_s=again_s)
    owner = gang.owner if gang.kind == "job" else ""
    look = GetGang(gang.kind, first.namespace, gang.name, read.asked_s, owner)
    return Ruling((look,), "reading the size of its gang")
