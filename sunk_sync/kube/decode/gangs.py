"""Read the gang that a workload Pod belongs to (G1)."""

from typing import Final

from sunk_sync.core.model import names
from sunk_sync.core.model.pod_spec import Gang, GangKind
from sunk_sync.kube.decode import wire_pods as shapes
from sunk_sync.kube.decode.strings import cut

SIZE_MAX: Final = 4096
"""The largest number of Pods in one identity (identity.PODS_MAX)."""

_NO_ANNOTATIONS = shapes.WirePodAnnotations()


def gang_of(meta: shapes.WirePodMeta) -> Gang | None:
    """Read the gang. Annotations of sunk-sync win over labels and sizes of others."""
    annotations = meta.annotations or _NO_ANNOTATIONS
    claimed = _claimed(meta, annotations)
    if claimed is None:
        return None
    kind, name = claimed
    if not name:
        return Gang(kind, "", 0, "annotation gang=job is set, but no Job controls this Pod")
    size, problem = _size(kind, annotations)
    return Gang(kind, cut(name), size, problem, _controller(meta))


def _controller(meta: shapes.WirePodMeta) -> str:
    return next((cut(one.uid) for one in meta.owner_references or () if one.controller), "")


def _claimed(
    meta: shapes.WirePodMeta, ours: shapes.WirePodAnnotations
) -> tuple[GangKind, str] | None:
    if ours.gang == names.GANG_JOB:
        return "job", _controlling_job(meta)
    if ours.gang:
        return "annotation", ours.gang
    labels = meta.labels
    if not labels:
        return None
    for name in names.POD_GROUP_LABELS:
        if group := labels.get(name):
            return "group", group
    group = labels.get(names.LWS_GROUP)
    return ("leaderworkerset", group) if group else None


def _controlling_job(meta: shapes.WirePodMeta) -> str:
    for owner in meta.owner_references or ():
        if owner.controller and owner.kind == "Job" and owner.api_version.startswith("batch/"):
            return owner.name
    return ""


def _size(kind: GangKind, annotations: shapes.WirePodAnnotations) -> tuple[int, str]:
    """Return the size in the Pod, and its problem. 0: the PodGroup or Job has the size."""
    given, where = annotations.gang_size, names.GANG_SIZE
    if given is None and kind == "leaderworkerset":
        given, where = annotations.lws_size, names.LWS_SIZE
    if given is None:
        return 0, f"annotation {where} is missing" if _must_give_size(kind) else ""
    if not (given.isascii() and given.isdecimal() and len(given) <= len(str(SIZE_MAX))):
        return 0, f"annotation {where}={given[:40]!r} is not a number between 1 and {SIZE_MAX}"
    if not 0 < int(given) <= SIZE_MAX:
        return 0, f"annotation {where}={given} is not between 1 and {SIZE_MAX}"
    return int(given), ""


def _must_give_size(kind: GangKind) -> bool:
    return kind in ("annotation", "leaderworkerset")
