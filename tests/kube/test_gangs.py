"""The gang that a Pod belongs to."""

import pytest

from sunk_sync.core.model import names
from sunk_sync.core.model.pod_spec import Gang
from sunk_sync.kube.decode.gangs import SIZE_MAX
from tests.kit.pod_rows import Json, row, settings

LWS = names.LWS_GROUP
JOB_OWNER = {
    "apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u1", "controller": True
}  # fmt: skip


OTHER_OWNER = JOB_OWNER | {"controller": False, "name": "other", "uid": "u0"}
GROUP, OLDER_GROUP = names.POD_GROUP_LABELS[:2]
SIZE_OF_LWS = {names.LWS_SIZE: "4"}
SIZE_3 = settings(gang_size="3")
OURS = settings(gang="a", gang_size="2")
NO_LWS_SIZE = f"annotation {names.LWS_SIZE} is missing"
NO_SIZE = f"annotation {names.GANG_SIZE} is missing"


@pytest.mark.parametrize(
    ("labels", "annotations", "gang"),
    [
        pytest.param({}, {}, None, id="none"),
        pytest.param({"app": "x"}, {}, None, id="other labels"),
        pytest.param({GROUP: "g"}, {}, Gang("group", "g"), id="PodGroup"),
        pytest.param({OLDER_GROUP: "g"}, {}, Gang("group", "g"), id="older PodGroup"),
        pytest.param({GROUP: "g"}, SIZE_3, Gang("group", "g", 3), id="PodGroup, our size"),
        pytest.param({LWS: "k"}, SIZE_OF_LWS, Gang("leaderworkerset", "k", 4), id="LWS"),
        pytest.param(
            {LWS: "k"}, SIZE_OF_LWS | SIZE_3, Gang("leaderworkerset", "k", 3), id="LWS, our size"
        ),
        pytest.param(
            {LWS: "k"}, {}, Gang("leaderworkerset", "k", 0, NO_LWS_SIZE), id="LWS without size"
        ),
        pytest.param({}, OURS, Gang("annotation", "a", 2), id="annotations"),
        pytest.param({GROUP: "g"}, OURS, Gang("annotation", "a", 2), id="annotations first"),
        pytest.param(
            {}, settings(gang="a"), Gang("annotation", "a", 0, NO_SIZE), id="annotation, no size"
        ),
    ],
)
def test_metadata_names_a_gang_G1(labels: Json, annotations: Json, gang: Gang | None) -> None:
    assert row(labels=labels, annotations=annotations).gang == gang


@pytest.mark.parametrize(
    ("owners", "size", "gang"),
    [
        pytest.param([JOB_OWNER], {}, Gang("job", "train", owner="u1"), id="Indexed Job"),
        pytest.param(
            [OTHER_OWNER, JOB_OWNER], SIZE_3, Gang("job", "train", 3, owner="u1"), id="our size"
        ),
        pytest.param(
            [JOB_OWNER | {"kind": "X"}],
            {},
            Gang("job", "", 0, "annotation gang=job is set, but no Job controls this Pod"),
            id="no Job",
        ),
    ],
)
def test_a_gang_is_read_from_the_owner_Job_G1(owners: list[Json], size: Json, gang: Gang) -> None:
    assert row(annotations=settings(gang="job") | size, ownerReferences=owners).gang == gang


def test_members_of_any_gang_know_who_made_them_G8() -> None:
    gang = row(annotations=OURS, ownerReferences=[OTHER_OWNER, JOB_OWNER]).gang
    assert gang == Gang("annotation", "a", 2, owner="u1")


@pytest.mark.parametrize("size", ["", "0", "-1", "x", "1.5", "٣", str(SIZE_MAX + 1), "9" * 5000])
def test_an_invalid_size_is_a_problem_of_the_gang_G1(size: str) -> None:
    gang = row(annotations=settings(gang="a", gang_size=size)).gang
    assert gang is not None
    assert (gang.name, gang.size) == ("a", 0)
    assert names.GANG_SIZE in gang.problem
    assert len(gang.problem) < 200
