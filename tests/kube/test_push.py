"""KubePush: actions to bytes, answers to outcomes."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from sunk_sync.core.model import names
from sunk_sync.core.model.actions import (
    Action,
    Cordon,
    Drain,
    GetObject,
    RecordEvent,
    Relist,
    SetConditions,
    SetMetadata,
    Uncordon,
)
from sunk_sync.core.model.facts import (
    Condition,
    Contradicted,
    GetResult,
    Node,
    Observed,
    Reference,
    SlurmdPod,
)
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure, shown_by
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.write.events import event_of
from sunk_sync.kube.write.push import KubePush
from tests.kube.recorded.server import ApiServer, node, pod, recorded, refusal, serving, status

NODE = Reference("Node", "", "g0", "uid-g0")
POD = Reference("Pod", "slurm", "p", "uid-p")
NOW = "2026-11-21T10:00:00Z"
WARN = RecordEvent(NODE, "Warning", "SlurmNodeConflict", "two claim one")
SET = SetConditions(NODE, (Condition("SlurmDrain", "True", "Slurm", "why"),))


async def pushed(
    answer: Any, folder: Path, *actions: Action, relist: Any = None
) -> tuple[Sequence[Outcome], ApiServer]:
    async with serving(answer, folder) as (server, client):
        push = KubePush(
            client,
            relist=relist or {},
            clock=lambda: 42.0,
            wall_clock=lambda: datetime(2026, 11, 21, 10, 0, 0, 999, tzinfo=UTC),
        )
        return await push.push(actions), server


async def outcome_of(answer: Any, folder: Path, action: Action) -> tuple[Outcome, web.Request, Any]:
    (outcome,), server = await pushed(answer, folder, action)
    (request,) = server.requests
    body = await request.read()
    return outcome, request, json.loads(body) if body else None


def answers(body: bytes | dict[str, Any], code: int = 200, **headers: str) -> Any:
    async def answer(_: web.Request) -> web.Response:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return web.Response(body=raw, status=code, headers=headers)

    return answer


# Requests


async def test_conditions_are_applied_on_the_status_with_the_uid_M2(tmp_path: Path) -> None:
    """M1, M2: server-side apply of our whole set, by our manager, for this very object."""
    body = recorded("answer-apply-node.json")
    outcome, request, sent = await outcome_of(answers(body), tmp_path, SET)
    assert (request.method, request.path) == ("PATCH", "/api/v1/nodes/g0/status")
    assert dict(request.query) == {"fieldManager": names.MANAGER_MIRROR, "force": "true"}
    assert request.headers["Content-Type"] == "application/apply-patch+yaml"
    assert sent["metadata"] == {"name": "g0", "uid": "uid-g0"}
    assert sent["status"]["conditions"] == [
        {
            "type": "SlurmDrain",
            "status": "True",
            "reason": "Slurm",
            "message": "why",
            "lastTransitionTime": NOW,
        }
    ]
    assert isinstance(outcome, Done)
    (seen,) = outcome.seen
    assert isinstance(seen, Observed)
    assert isinstance(seen.row, Node)


async def test_a_condition_that_did_not_change_keeps_its_time_M2(tmp_path: Path) -> None:
    """M2: lastTransitionTime moves only on change."""
    old = SetConditions(NODE, SET.conditions, ("2026-01-01T00:00:00Z",))
    _, _, sent = await outcome_of(answers(node("g0", 1)), tmp_path, old)
    assert sent["status"]["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("reference", [NODE, POD])
async def test_no_conditions_means_that_ours_are_deleted_by_type_M6(
    tmp_path: Path, reference: Reference
) -> None:
    """M6: only types of ours are named; others' conditions cannot be hit."""
    made = node("g0", 1) if reference is NODE else pod("p", 1)
    _, request, sent = await outcome_of(answers(made), tmp_path, SetConditions(reference, ()))
    assert request.headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert sent["metadata"] == {"uid": reference.uid}
    for one in sent["status"]["conditions"]:
        assert one["$patch"] == "delete"
        assert one["type"].startswith("Slurm")


async def test_metadata_is_applied_by_its_own_manager_M3(tmp_path: Path) -> None:
    """M3, S6: one owner per field; the answer is the Pod's row."""
    action = SetMetadata(POD, names.MANAGER_RETIRE, (), ((names.DRAINED, "true"),))
    outcome, request, sent = await outcome_of(answers(pod("p", 1)), tmp_path, action)
    assert request.path == "/api/v1/namespaces/slurm/pods/p"
    assert request.query["fieldManager"] == names.MANAGER_RETIRE
    assert sent["metadata"] == {
        "name": "p",
        "uid": "uid-p",
        "annotations": {names.DRAINED: "true"},
    }
    assert isinstance(outcome, Done)
    (seen,) = outcome.seen
    assert isinstance(seen, Observed)
    assert isinstance(seen.row, SlurmdPod)


async def test_cordon_and_mark_go_in_one_write_and_both_are_given_up_in_one_M7(
    tmp_path: Path,
) -> None:
    """M7: an empty configuration of the same manager gives up what is ours, and only that."""
    _, request, sent = await outcome_of(answers(node("g0", 1)), tmp_path, Cordon(NODE))
    assert request.query["fieldManager"] == names.MANAGER_CORDON
    assert sent["spec"] == {"unschedulable": True}
    assert sent["metadata"]["annotations"] == {names.CORDONED_FOR_DRAIN: "true"}
    _, request, sent = await outcome_of(answers(node("g0", 1)), tmp_path, Uncordon(NODE))
    assert request.query["fieldManager"] == names.MANAGER_CORDON
    assert sent["metadata"] == {"name": "g0", "uid": "uid-g0"}
    assert "spec" not in sent


# Outcomes


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (404, recorded("error-status-gone.json")),
        (409, recorded("error-uid-gone.json")),
        (422, recorded("error-uid.json")),
        (422, recorded("error-invalid.json")),
        (403, json.dumps(status(403, "Forbidden", message="cannot patch nodes/status")).encode()),
        (400, b"bad"),
    ],
)
async def test_what_the_world_does_not_allow_is_refused(
    tmp_path: Path, code: int, body: bytes
) -> None:
    """Gone, another UID, invalid, forbidden: not repeated until a fact changes; the text says."""
    outcome, _, _ = await outcome_of(answers(body, code), tmp_path, SET)
    assert isinstance(outcome, Refused)
    assert outcome.why.startswith("PATCH /api/v1/nodes/g0/status: ")


@pytest.mark.parametrize(
    ("code", "name", "missing"),
    [
        (404, "error-status-gone.json", True),
        (409, "error-uid-gone.json", True),
        (422, "error-uid.json", True),
        (422, "error-invalid.json", False),
        (404, "error-no-such-path.json", False),
    ],
)
async def test_a_write_that_meets_no_object_of_its_uid_says_so_F3(
    tmp_path: Path, code: int, name: str, missing: bool
) -> None:
    """What we hold of it is old; a path that the server does not know says nothing of it."""
    outcome, _, _ = await outcome_of(answers(recorded(name), code), tmp_path, SET)
    assert isinstance(outcome, Refused)
    assert outcome.missing is missing
    told = Contradicted(NODE, 42.0)
    assert (told in shown_by(outcome, asked_s=42.0)) is missing


async def test_a_refusal_names_verb_and_resource(tmp_path: Path) -> None:
    """403: what the operator has to allow stands in the text."""
    body = status(403, "Forbidden", message='cannot patch resource "nodes/status"')
    outcome, _, _ = await outcome_of(answers(body, 403), tmp_path, SET)
    assert isinstance(outcome, Refused)
    assert "patch" in outcome.why
    assert "nodes/status" in outcome.why


@pytest.mark.parametrize("code", [401, 409, 429, 500, 503, 504])
async def test_passing_failures_are_unsure_F8(tmp_path: Path, code: int) -> None:
    """It may have happened: tried again, when the server likes."""
    body = status(code, "Whatever", message="the object has been modified")
    outcome, _, _ = await outcome_of(answers(body, code, **{"Retry-After": "2"}), tmp_path, SET)
    assert isinstance(outcome, Unsure)
    assert outcome.retry_after_s == 2.0


async def test_a_written_object_that_cannot_be_read_is_still_done(tmp_path: Path) -> None:
    """The write happened; what it left is for the watch to say."""
    outcome, _, _ = await outcome_of(answers({"kind": "Node"}), tmp_path, SET)
    assert outcome == Done(SET)


@pytest.mark.parametrize("action", [SET, WARN])
async def test_a_text_that_cannot_be_sent_is_refused(tmp_path: Path, action: Action) -> None:
    """A lone surrogate has no UTF-8."""
    spoilt: Action = SetConditions(NODE, (Condition("a", "True", "b", "\ud800"),))
    if isinstance(action, RecordEvent):
        spoilt = RecordEvent(NODE, "Warning", "a", "\ud800")
    (outcome,), server = await pushed(answers({}), tmp_path, spoilt)
    assert isinstance(outcome, Refused)
    assert not server.requests


async def test_outcomes_stand_in_the_order_of_the_actions(tmp_path: Path) -> None:
    """Several at once run side by side."""
    looks = [GetObject("Node", "", f"n{i}", 0.0) for i in range(40)]

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(node(request.path.rpartition("/")[2], 1))

    outcomes, _ = await pushed(answer, tmp_path, *looks)
    assert [outcome.action for outcome in outcomes] == looks


async def test_a_slurm_action_is_refused(tmp_path: Path) -> None:
    """It is not for this authority."""
    (outcome,), _ = await pushed(answers({}), tmp_path, Drain("n1", "k8s: x"))
    assert isinstance(outcome, Refused)


# Events


async def test_an_event_has_a_name_of_what_it_says_S16(tmp_path: Path) -> None:
    """The same one twice is one: the second POST meets the first."""
    _, request, sent = await outcome_of(answers(node("e", 1), 201), tmp_path, WARN)
    assert request.path == "/api/v1/namespaces/default/events"
    assert sent["involvedObject"]["uid"] == "uid-g0"
    again, _, resent = await outcome_of(answers(status(409, "AlreadyExists"), 409), tmp_path, WARN)
    assert again == Done(WARN)
    assert resent["metadata"]["name"] == sent["metadata"]["name"]
    assert sent["firstTimestamp"] == NOW


def test_events_stand_where_kubectl_describe_looks() -> None:
    """A Pod's in its namespace, a Node's in default, a Namespace's in itself."""
    places = [
        event_of(RecordEvent(reference, "Normal", "R", "m"), at=NOW)["metadata"]["namespace"]
        for reference in (NODE, POD, Reference("Namespace", "", "slurm", ""))
    ]
    assert places == ["default", "slurm", "slurm"]


@given(st.text(max_size=300), st.text(min_size=1, max_size=300))
def test_events_of_any_text_are_bounded_and_distinct(message: str, name: str) -> None:
    """Names fit, messages fit, another message is another Event."""
    reference = Reference("Node", "", name, "u")
    one = event_of(RecordEvent(reference, "Normal", "R", message * 20), at=NOW)
    two = event_of(RecordEvent(reference, "Normal", "R", message * 20 + "x"), at=NOW)
    assert len(one["message"]) <= 1024
    assert len(one["metadata"]["name"]) <= 253
    assert one["metadata"]["name"] != two["metadata"]["name"]


# Looks


LOOK = GetObject("Node", "", "none", 0.0)


async def test_a_404_for_this_name_means_no_S8(tmp_path: Path) -> None:
    """S7, S8: the only evidence of absence; it carries the time of the question."""
    body = recorded("error-not-found.json")
    outcome, _, _ = await outcome_of(answers(body, 404), tmp_path, LOOK)
    get_result = GetResult("Node", "", "none", "no", "", 42.0)
    assert outcome == Done(LOOK, (get_result,))


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (404, b"<html>not found</html>"),
        (404, b""),
        (404, recorded("error-no-such-path.json")),
        (404, json.dumps(status(404, "NotFound", details={"name": "other"})).encode()),
        (403, json.dumps(status(403, "Forbidden")).encode()),
        (401, b""),
        (410, b""),
        (500, b""),
        (200, b"<html>login</html>"),
        (200, b"{}"),
        (200, json.dumps(node("other", 1)).encode()),
    ],
)
async def test_anything_else_means_unknown_S20(tmp_path: Path, code: int, body: bytes) -> None:
    """S20: a proxy's 404, a 403, an error, another object: no evidence of anything."""
    outcome, _, _ = await outcome_of(answers(body, code), tmp_path, LOOK)
    assert outcome == Done(LOOK, (GetResult("Node", "", "none", "unknown", "", 42.0),))


async def test_a_look_that_finds_brings_the_uid(tmp_path: Path) -> None:
    """S7: another UID under the name is another Pod."""
    look = GetObject("Pod", "slurm", "p", 0.0)
    outcome, request, _ = await outcome_of(answers(pod("p", 5)), tmp_path, look)
    assert outcome == Done(look, (GetResult("Pod", "slurm", "p", "yes", "uid-p", 42.0),))
    assert not request.query


async def test_a_look_at_a_pod_tells_where_it_is_bound_P29(tmp_path: Path) -> None:
    """A binding whose answer was lost is known by it."""
    look = GetObject("Pod", "slurm", "p", 0.0)
    bound = pod("p", 5)
    bound["spec"]["nodeName"] = "kn1"
    outcome, _, _ = await outcome_of(answers(bound), tmp_path, look)
    assert outcome.seen == (GetResult("Pod", "slurm", "p", "yes", "uid-p", 42.0, "kn1", 5.0),)


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a?b", "A", "x" * 300, ".", "a\n"])
async def test_a_foreign_name_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    """Names in marks on Slurm nodes are foreign text."""
    for look in (GetObject("Pod", "slurm", name, 0.0), GetObject("Pod", name or "..", "p", 0.0)):
        (outcome,), server = await pushed(answers({}), tmp_path, look)
        assert isinstance(outcome, Refused)
        assert not server.requests


async def test_relist_asks_the_watch_of_that_source_S19(tmp_path: Path) -> None:
    """S19: done when the listing was complete, else unsure."""

    async def complete(_: float) -> KubeError | None:
        return None

    async def broken(_: float) -> KubeError | None:
        return KubeError(kind="answer", status=429, why="busy", retry_after_s=3.0)

    async def never(_: web.Request) -> web.Response:
        return refusal(500, "not asked")

    relist = {"nodes": complete, "pods": broken}
    actions = [Relist("nodes", 0.0), Relist("pods", 0.0), Relist("slurm_nodes", 0.0)]
    (done, unsure, refused), server = await pushed(never, tmp_path, *actions, relist=relist)
    assert isinstance(done, Done)
    assert isinstance(unsure, Unsure)
    assert unsure.retry_after_s == 3.0
    assert isinstance(refused, Refused)
    assert not server.requests
