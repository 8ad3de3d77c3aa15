"""The gang that a Pod belongs to."""

import pytest

from sunk_sync.core.model import names
from sunk_sync.core.model.pod_spec import Gang
from sunk_sync.kube.decode.gangs import SIZE_MAX
from tests.kit.pod_rows import Json, row, settings

# Which gang, G1
JOB_OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "controller": True}


@pytest.mark.parametrize(
    ("metadata", "gang"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"labels": {"app": "x"}}, None, id="other labels"),
        pytest.param(
            {"labels": {names.POD_GROUP_LABELS[0]: "g"}}, Gang("group", "g"), id="PodGroup"
        ),
        pytest.param(
            {"labels": {names.POD_GROUP_LABELS[1]: "g"}}, Gang("group", "g"), id="older PodGroup"
        ),
        pytest.param(
            {"labels": {names.POD_GROUP_LABELS[0]: "g"}, "annotations": settings(gang_size="3")},
            Gang("group", "g", 3),
            id="gang-size spares the question",
        ),
        pytest.param(
            {"labels": {names.LWS_GROUP: "k"}, "annotations": {names.LWS_SIZE: "4"}},
            Gang("leaderworkerset", "k", 4),
            id="LeaderWorkerSet",
        ),
        pytest.param(
            {
                "labels": {names.LWS_GROUP: "k"},
                "annotations": {names.LWS_SIZE: "4"} | settings(gang_size="3"),
            },
            Gang("leaderworkerset", "k", 3),
            id="gang-size before the size of others",
        ),
        pytest.param(
            {"labels": {names.LWS_GROUP: "k"}},
            Gang("leaderworkerset", "k", 0, f"annotation {names.LWS_SIZE} is missing"),
            id="LeaderWorkerSet without size",
        ),
        pytest.param(
            {"annotations": settings(gang="a", gang_size="2")},
            Gang("annotation", "a", 2),
            id="annotations",
        ),
        pytest.param(
            {"annotations": settings(gang="a")},
            Gang("annotation", "a", 0, f"annotation {names.GANG_SIZE} is missing"),
            id="annotation without size",
        ),
        pytest.param(
            {"annotations": settings(gang="job"), "ownerReferences": [JOB_OWNER]},
            Gang("job", "train"),
            id="Indexed Job",
        ),
        pytest.param(
            {
                "annotations": settings(gang="job", gang_size="5"),
                "ownerReferences": [JOB_OWNER | {"controller": False, "name": "other"}, JOB_OWNER],
            },
            Gang("job", "train", 5),
            id="Indexed Job of a size",
        ),
        pytest.param(
            {"annotations": settings(gang="job"), "ownerReferences": [JOB_OWNER | {"kind": "X"}]},
            Gang("job", "", 0, "annotation gang=job is set, but no Job controls this Pod"),
            id="no Job",
        ),
        pytest.param(
            {
                "annotations": settings(gang="a", gang_size="2"),
                "labels": {names.POD_GROUP_LABELS[0]: "g"},
            },
            Gang("annotation", "a", 2),
            id="our annotation speaks first",
        ),
    ],
)
def test_where_a_gang_is_read_G1(metadata: Json, gang: Gang | None) -> None:
    """G1: four ways to say it, each with its size or where to ask."""
    assert row(**metadata).gang == gang


@pytest.mark.parametrize("size", ["", "0", "-1", "x", "1.5", "٣", str(SIZE_MAX + 1), "9" * 5000])
def test_a_wrong_size_is_told_G1(size: str) -> None:
    """G1: the Pod waits and says so; the text is bounded."""
    gang = row(annotations=settings(gang="a", gang_size=size)).gang
    assert gang is not None
    assert (gang.name, gang.size) == ("a", 0)
    assert names.GANG_SIZE in gang.problem
    assert len(gang.problem) < 200
