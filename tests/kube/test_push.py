"""KubePush: requests of actions, outcomes of answers."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

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
from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.event_kinds import EVENT_CONFLICT
from sunk_sync.core.model.facts import Contradicted, GetResult, Node, Reference, SlurmdPod
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure, shown_by
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.write.push import KubePush
from tests.kube.recorded.server import (
    ApiServer,
    answers,
    node,
    pod,
    recorded,
    refusal,
    row_in,
    serving,
    status,
)

NODE = Reference("Node", "", "g0", "uid-g0")
POD = Reference("Pod", "slurm", "p", "uid-p")
NOW = "2026-11-21T10:00:00Z"
WARN = RecordEvent(NODE, EVENT_CONFLICT, "two claim one")
SET = SetConditions(NODE, (Condition("SlurmDrain", "True", "Slurm", "why"),))


async def pushed(
    answer: Any, *actions: Action, relist: Any = None
) -> tuple[Sequence[Outcome], ApiServer]:
    async with serving(answer) as (server, client):
        push = KubePush(
            client,
            relist=relist or {},
            clock=lambda: 42.0,
            wall_clock=lambda: datetime(2026, 11, 21, 10, 0, 0, 999, tzinfo=UTC),
        )
        return await push.push(actions), server


async def outcome_of(answer: Any, action: Action) -> tuple[Outcome, web.Request, Any]:
    (outcome,), server = await pushed(answer, action)
    (request,) = server.requests
    body = await request.read()
    return outcome, request, json.loads(body) if body else None


async def test_conditions_are_applied_to_the_status_with_the_uid_M2() -> None:
    body = recorded("answer-apply-node.json")
    outcome, request, sent = await outcome_of(answers(body), SET)
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
    assert isinstance(row_in(outcome), Node)


async def test_a_condition_that_did_not_change_keeps_its_time_M2() -> None:
    old = SetConditions(NODE, SET.conditions, ("2026-01-01T00:00:00Z",))
    _, _, sent = await outcome_of(answers(node("g0", 1)), old)
    assert sent["status"]["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("reference", [NODE, POD])
async def test_no_conditions_delete_ours_by_type_M6(reference: Reference) -> None:
    made = node("g0", 1) if reference is NODE else pod("p", 1)
    _, request, sent = await outcome_of(answers(made), SetConditions(reference, ()))
    assert request.headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert sent["metadata"] == {"uid": reference.uid}
    for one in sent["status"]["conditions"]:
        assert one["$patch"] == "delete"
        assert one["type"].startswith("Slurm")


async def test_metadata_is_applied_by_the_manager_of_its_rule_M3() -> None:
    action = SetMetadata(POD, names.MANAGER_RETIRE, (), ((names.DRAINED, "true"),))
    outcome, request, sent = await outcome_of(answers(pod("p", 1)), action)
    assert request.path == "/api/v1/namespaces/slurm/pods/p"
    assert request.query["fieldManager"] == names.MANAGER_RETIRE
    assert sent["metadata"] == {"name": "p", "uid": "uid-p", "annotations": {names.DRAINED: "true"}}
    assert isinstance(outcome, Done)
    assert isinstance(row_in(outcome), SlurmdPod)


async def test_cordon_and_mark_are_applied_together_and_removed_together_M7() -> None:
    _, request, sent = await outcome_of(answers(node("g0", 1)), Cordon(NODE))
    assert request.query["fieldManager"] == names.MANAGER_CORDON
    assert sent["spec"] == {"unschedulable": True}
    assert sent["metadata"]["annotations"] == {names.CORDONED_FOR_DRAIN: "true"}
    _, request, sent = await outcome_of(answers(node("g0", 1)), Uncordon(NODE))
    assert request.query["fieldManager"] == names.MANAGER_CORDON
    assert sent["metadata"] == {"name": "g0", "uid": "uid-g0"}
    assert "spec" not in sent


FORBIDDEN = status(403, "Forbidden", message='cannot patch resource "nodes/status"')


@pytest.mark.parametrize(
    ("code", "body", "missing"),
    [
        (404, recorded("error-status-gone.json"), True),
        (409, recorded("error-uid-gone.json"), True),
        (422, recorded("error-uid.json"), True),
        (422, recorded("error-invalid.json"), False),
        (404, recorded("error-no-such-path.json"), False),
        (403, json.dumps(FORBIDDEN).encode(), False),
        (400, b"bad", False),
    ],
)
async def test_a_refused_write_says_why_and_whether_the_object_of_its_uid_is_missing_F3(
    code: int, body: bytes, missing: bool
) -> None:
    outcome, _, _ = await outcome_of(answers(body, code), SET)
    assert isinstance(outcome, Refused)
    assert outcome.why.startswith("PATCH /api/v1/nodes/g0/status: ")
    assert outcome.missing is missing
    assert (Contradicted(NODE, 42.0) in shown_by(outcome, asked_s=42.0)) is missing
    assert code != 403 or 'cannot patch resource "nodes/status"' in outcome.why


@pytest.mark.parametrize("code", [401, 409, 429, 500, 503, 504])
async def test_temporary_failures_are_unsure_with_retry_after_F8(code: int) -> None:
    body = status(code, "Whatever", message="the object has been modified")
    outcome, _, _ = await outcome_of(answers(body, code, **{"Retry-After": "2"}), SET)
    assert isinstance(outcome, Unsure)
    assert outcome.retry_after_s == 2.0


async def test_a_write_with_an_unreadable_answer_is_done() -> None:
    outcome, _, _ = await outcome_of(answers({"kind": "Node"}), SET)
    assert outcome == Done(SET)


@pytest.mark.parametrize(
    "action",
    [
        SetConditions(NODE, (Condition("a", "True", "b", "\ud800"),)),
        RecordEvent(NODE, EVENT_CONFLICT, "\ud800"),
    ],
)
async def test_a_text_that_cannot_be_sent_is_refused(action: Action) -> None:
    (outcome,), server = await pushed(answers({}), action)
    assert isinstance(outcome, Refused)
    assert not server.requests


async def test_outcomes_stand_in_the_order_of_the_actions() -> None:
    looks = [GetObject("Node", "", f"n{i}", 0.0) for i in range(40)]

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(node(request.path.rpartition("/")[2], 1))

    outcomes, _ = await pushed(answer, *looks)
    assert [outcome.action for outcome in outcomes] == looks


async def test_a_slurm_action_is_refused() -> None:
    (outcome,), _ = await pushed(answers({}), Drain("n1", "k8s: x"))
    assert isinstance(outcome, Refused)


GET_NODE = GetObject("Node", "", "none", 0.0)
GET_POD = GetObject("Pod", "slurm", "p", 0.0)


async def test_a_404_for_this_name_is_evidence_of_absence_S8() -> None:
    body = recorded("error-not-found.json")
    outcome, _, _ = await outcome_of(answers(body, 404), GET_NODE)
    get_result = GetResult("Node", "", "none", "no", "", 42.0)
    assert outcome == Done(GET_NODE, (get_result,))


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
async def test_any_other_answer_means_unknown_S20(code: int, body: bytes) -> None:
    outcome, _, _ = await outcome_of(answers(body, code), GET_NODE)
    assert isinstance(outcome, Done)
    assert outcome.seen == (GetResult("Node", "", "none", "unknown", "", 42.0),)
    assert outcome.why


@pytest.mark.parametrize("node_name", ["", "kn1"])
async def test_a_read_of_a_pod_has_its_uid_and_its_node_P29(node_name: str) -> None:
    """It reveals a binding whose answer was lost."""
    found = pod("p", 5)
    found["spec"]["nodeName"] = node_name
    outcome, request, _ = await outcome_of(answers(found), GET_POD)
    order = 5.0 if node_name else 0.0
    result = GetResult("Pod", "slurm", "p", "yes", "uid-p", 42.0, node_name, order)
    assert outcome == Done(GET_POD, (result,))
    assert not request.query


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a?b", "A", "x" * 300, ".", "a\n"])
async def test_an_invalid_name_is_refused_without_a_request(name: str) -> None:
    """Any user of Slurm can write names into the mark of a node."""
    for look in (GetObject("Pod", "slurm", name, 0.0), GetObject("Pod", name or "..", "p", 0.0)):
        (outcome,), server = await pushed(answers({}), look)
        assert isinstance(outcome, Refused)
        assert not server.requests


async def test_relist_is_done_after_a_complete_listing_of_its_source_S19() -> None:
    async def complete(_: float) -> KubeError | None:
        return None

    async def broken(_: float) -> KubeError | None:
        return KubeError(kind="answer", status=429, why="busy", retry_after_s=3.0)

    async def never(_: web.Request) -> web.Response:
        return refusal(500, "not asked")

    relist = {"nodes": complete, "pods": broken}
    actions = [Relist("nodes", 0.0), Relist("pods", 0.0), Relist("slurm_nodes", 0.0)]
    (done, unsure, refused), server = await pushed(never, *actions, relist=relist)
    assert isinstance(done, Done)
    assert isinstance(unsure, Unsure)
    assert unsure.retry_after_s == 3.0
    assert isinstance(refused, Refused)
    assert not server.requests
