"""Bind: binding and job id in one write, and the outcomes of a conflict."""

import pytest
from aiohttp import web

from sunk_sync.core.model import names
from sunk_sync.core.model.actions import Action, Bind, GetGang
from sunk_sync.core.model.facts import BindTried
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from tests.kit.pod_push import (
    END,
    GONE,
    NOW,
    OTHER,
    POD,
    WAITS,
    Json,
    Script,
    a_pod,
    outcome_of,
    seen_pod,
)
from tests.kube.recorded.server import status

BIND = Bind(POD, "n1", "17", "n1")
BOUND = status(409, "Conflict", message='pod p is already assigned to node "n1"')


async def test_binding_and_job_id_are_one_write_P11() -> None:
    script = Script(POST_binding=status(201, "") | {"status": "Success"})
    assert await outcome_of(script, BIND) == Done(BIND)
    assert script.asked == ["POST_binding"]
    assert script.sent == [
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": "p",
                "namespace": "slurm",
                "uid": "uid-p",
                "annotations": {names.JOB_ID: "17", names.BOUND_FOR: "17"},
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
        }
    ]


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (a_pod(spec={"nodeName": "n1"}, annotations={names.JOB_ID: "17"}), Done),
        (a_pod(spec={"nodeName": "n1"}, annotations={names.JOB_ID: "16"}), Refused),
        (a_pod(spec={"nodeName": "n1"}), Refused),
        (a_pod(spec={"nodeName": "n2"}, annotations={names.JOB_ID: "17"}), Refused),
        (a_pod(deletionTimestamp=NOW), Refused),
        (a_pod(spec={"schedulingGates": [{"name": "x"}]}), Refused),
        (a_pod(), Unsure),
    ],
)
async def test_after_a_conflict_a_read_decides_P11_P18(found: Json, outcome: type[Outcome]) -> None:
    """Only our own binding, whose answer was lost, counts as done."""
    script = Script(POST_binding=BOUND, GET=found)
    came = await outcome_of(script, BIND)
    assert type(came) is outcome
    assert script.asked == ["POST_binding", "GET"]
    if not isinstance(came, Unsure):
        assert seen_pod(came).node_name == found["spec"].get("nodeName", "")
    if isinstance(came, Refused):
        assert "already assigned" in came.why


@pytest.mark.parametrize("found", [a_pod(uid="another"), GONE])
async def test_a_conflict_with_a_pod_that_is_gone_is_refused_P23(found: Json) -> None:
    came = await outcome_of(Script(POST_binding=BOUND, GET=found), BIND)
    assert type(came) is Refused
    assert not came.seen


async def test_a_conflict_with_an_unreadable_pod_may_be_our_binding_P14() -> None:
    script = Script(POST_binding=BOUND, GET=status(500, "x"))
    came = await outcome_of(script, BIND)
    assert isinstance(came, Unsure)
    assert came.seen == (BindTried(POD.uid, BIND.job_id, 42.0, BIND.slurm_node),)


@pytest.mark.parametrize("answer", [GONE, OTHER, status(403, "Forbidden"), status(422, "Invalid")])
async def test_a_binding_that_cannot_succeed_is_refused_P11(answer: Json) -> None:
    script = Script(POST_binding=answer)
    assert isinstance(await outcome_of(script, BIND), Refused)
    assert script.asked == ["POST_binding"]


@pytest.mark.parametrize(("code", "may_be"), [(401, False), (429, False), (500, True), (504, True)])
async def test_a_binding_that_may_have_happened_is_a_fact_P14(code: int, may_be: bool) -> None:
    came = await outcome_of(Script(POST_binding=status(code, "x")), BIND)
    assert isinstance(came, Unsure)
    assert came.seen == (
        (BindTried(POD.uid, BIND.job_id, 42.0, BIND.slurm_node),) if may_be else ()
    )


@pytest.mark.parametrize("code", [401, 429, 500, 503, 504])
@pytest.mark.parametrize("action", [BIND, END, WAITS, GetGang("job", "slurm", "g", 0.0)])
async def test_temporary_failures_are_unsure_with_retry_after_F8(code: int, action: Action) -> None:
    requests: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        requests.append(request.method)
        return web.json_response(status(code, "x"), status=code, headers={"Retry-After": "2"})

    came = await outcome_of(answer, action)
    assert isinstance(came, Unsure)
    assert came.retry_after_s == 2.0
    assert "DELETE" not in requests
