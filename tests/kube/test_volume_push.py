"""Claims and volumes as requests: read first, then one patch of exactly what was read."""

from typing import Any

import pytest
from aiohttp import web

from sunk_sync.core.model import names
from sunk_sync.core.model.facts import Reference
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.core.model.volume_actions import (
    ReserveVolume,
    SelectNode,
    UnselectNode,
    VolumeAction,
)
from tests.kit.pod_push import outcome_of
from tests.kube.recorded.server import status

Json = dict[str, Any]
CLAIM = Reference("PersistentVolumeClaim", "ns", "squid", "uid-c")
VOLUME = Reference("PersistentVolume", "", "disk", "uid-v")
OWNER = "slurm/7"
RESERVE = ReserveVolume(VOLUME, CLAIM)
SELECT = SelectNode(CLAIM, "kn1", OWNER)
UNSELECT = UnselectNode(CLAIM, OWNER)
SELECTED = {names.SELECTED_NODE: "kn1", names.VOLUME_FOR: OWNER}
LATE = status(409, "Conflict", message='cannot be fulfilled on "squid": has been modified')
GONE = status(404, "NotFound", details={"name": "squid"})
REFERENCE = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "namespace": "ns",
    "name": "squid",
    "uid": "uid-c",
}


def a_claim(annotations: Json | None = None, *, uid: str = "uid-c", volume: str = "") -> Json:
    metadata = {"name": "squid", "namespace": "ns", "uid": uid, "resourceVersion": "7"}
    spec = {"volumeName": volume} if volume else {}
    kind = "PersistentVolumeClaim"
    return {"kind": kind, "metadata": {**metadata, "annotations": annotations}, "spec": spec}


def a_volume(owner: Json | None = None, *, uid: str = "uid-v", phase: str = "Available") -> Json:
    return {
        "kind": "PersistentVolume",
        "metadata": {"name": "disk", "uid": uid, "resourceVersion": "7"},
        "spec": {"claimRef": owner} if owner else {},
        "status": {"phase": phase},
    }


class Server:
    """Answers reads with `read`, and patches with `patched` in turn."""

    def __init__(self, read: Json, *patched: Json) -> None:
        self.read = read
        self.patched = list(patched) or [read]
        self.sent: list[Any] = []

    async def __call__(self, request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response(self.read, status=self.read.get("code", 200))
        assert request.content_type == "application/merge-patch+json"
        assert request.query["fieldManager"] == names.MANAGER_VOLUME
        self.sent.append(await request.json())
        answer = self.patched.pop(0) if len(self.patched) > 1 else self.patched[0]
        return web.json_response(answer, status=answer.get("code", 200))


@pytest.mark.parametrize(
    ("action", "read", "annotations"),
    [
        (SELECT, a_claim(), SELECTED),
        (SELECT, a_claim({names.VOLUME_FOR: "slurm/6"}), SELECTED),
        (UNSELECT, a_claim(SELECTED), {names.SELECTED_NODE: None, names.VOLUME_FOR: None}),
        (UNSELECT, a_claim(SELECTED, volume="disk"), {names.VOLUME_FOR: None}),
    ],
    ids=["select", "of an ended job", "unselect", "unselect with a volume"],
)
async def test_a_claim_is_patched_only_in_the_version_that_was_read_P8(
    action: VolumeAction, read: Json, annotations: Json
) -> None:
    server = Server(read)
    assert isinstance(await outcome_of(server, action), Done)
    version = {"resourceVersion": "7", "uid": "uid-c"}
    assert server.sent == [{"metadata": {**version, "annotations": annotations}}]


async def test_a_volume_is_reserved_only_in_the_version_that_was_read_P8() -> None:
    server = Server(a_volume())
    assert isinstance(await outcome_of(server, RESERVE), Done)
    metadata = {
        "resourceVersion": "7",
        "uid": "uid-v",
        "annotations": {names.BOUND_BY_CONTROLLER: "yes"},
    }
    assert server.sent == [{"metadata": metadata, "spec": {"claimRef": REFERENCE}}]


@pytest.mark.parametrize(
    ("action", "read", "kind"),
    [
        (RESERVE, a_volume(REFERENCE), Done),
        (RESERVE, a_volume({**REFERENCE, "uid": "uid-d"}), Refused),
        (RESERVE, a_volume(phase="Released"), Refused),
        (RESERVE, a_volume(uid="another"), Refused),
        (RESERVE, GONE, Refused),
        (SELECT, a_claim(SELECTED), Done),
        (SELECT, a_claim(volume="disk"), Refused),
        (SELECT, a_claim({names.SELECTED_NODE: "kn2"}), Refused),
        (SELECT, a_claim(uid="another"), Refused),
        (SELECT, GONE, Refused),
        (UNSELECT, a_claim({**SELECTED, names.VOLUME_FOR: "slurm/8"}), Done),
        (UNSELECT, a_claim(uid="another"), Done),
        (UNSELECT, GONE, Done),
    ],
)
async def test_what_is_done_or_belongs_to_another_is_not_written_P8(
    action: VolumeAction, read: Json, kind: type[Outcome]
) -> None:
    server = Server(read)
    assert type(await outcome_of(server, action)) is kind
    assert server.sent == []


@pytest.mark.parametrize(
    ("answers", "kind", "tries"),
    [
        ((LATE, a_claim(SELECTED)), Done, 2),
        ((LATE,), Unsure, 3),
        ((status(403, "Forbidden"),), Refused, 1),
        ((status(500, "InternalError"),), Unsure, 1),
    ],
)
async def test_a_claim_that_changed_in_between_is_read_again_P8(
    answers: tuple[Json, ...], kind: type[Outcome], tries: int
) -> None:
    """The volume controller writes to a claim at the same time."""
    server = Server(a_claim(), *answers)
    assert type(await outcome_of(server, SELECT)) is kind
    assert len(server.sent) == tries


@pytest.mark.parametrize(("action", "kind"), [(SELECT, Refused), (UNSELECT, Done)])
async def test_a_claim_that_goes_away_after_it_was_read_needs_no_more_P8(
    action: VolumeAction, kind: type[Outcome]
) -> None:
    outcome = await outcome_of(Server(a_claim({names.VOLUME_FOR: OWNER}), GONE), action)
    assert type(outcome) is kind
    assert isinstance(outcome, Done | Refused)
    assert outcome.missing
