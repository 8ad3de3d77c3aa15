"""What is wanted of workload Pods: actions to bytes, answers to outcomes."""

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from sunk_sync.core.model import names
from sunk_sync.core.model.actions import (
    Action,
    Bind,
    Done,
    EndPod,
    GetGang,
    Outcome,
    Refused,
    SetConditions,
    SetMetadata,
    SetScheduled,
    Unsure,
)
from sunk_sync.core.model.facts import (
    BindTried,
    GangSize,
    Node,
    Observed,
    Pod,
    Reference,
    SlurmdPod,
)
from sunk_sync.core.model.pod_spec import NO_OFFER
from sunk_sync.kube.decode.source_decoder import OFFERING_NODES
from sunk_sync.kube.write.push import KubePush
from tests.kube.recorded.server import node, pod, serving, status

Json = dict[str, Any]
POD = Reference("Pod", "slurm", "p", "uid-p")
PATH = "/api/v1/namespaces/slurm/pods/p"
NOW = "2026-11-21T10:00:00Z"
BIND = Bind(POD, "n1", "17", "n1")
END = EndPod(POD, "PreemptionByScheduler", "job 17 was preempted")
WAITS = SetScheduled(POD, "Unschedulable", "job 17 waits: Resources")

BOUND = status(409, "Conflict", message='pod p is already assigned to node "n1"')
OTHER = status(409, "Conflict", message="Precondition failed: UID in precondition: a, in object: b")
GONE = status(404, "NotFound", details={"name": "p"})
LATER = status(409, "Conflict", message="the object has been modified")


class Script:
    """Answers each request by method and rest of the path, and remembers them."""

    def __init__(self, **answers: Json) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.sent: list[Any] = []
        self.requests: list[web.Request] = []

    async def __call__(self, request: web.Request) -> web.Response:
        rest = request.path.removeprefix(PATH).strip("/")
        what = "_".join(filter(None, (request.method, rest)))
        self.asked.append(what)
        self.requests.append(request)
        body = await request.read()
        self.sent.append(json.loads(body) if body else None)
        answer = self.answers.get(what, status(500, "unexpected"))
        return web.json_response(answer, status=answer.get("code", 200))


async def outcome_of(
    answer: Callable[[web.Request], Awaitable[Any]], folder: Path, action: Action
) -> Outcome:
    async with serving(answer, folder) as (_, client):
        push = KubePush(
            client,
            relist={},
            clock=lambda: 42.0,
            wall_clock=lambda: datetime(2026, 11, 21, 10, 0, 0, 999, tzinfo=UTC),
            nodes=OFFERING_NODES,
        )
        (outcome,) = await push.push([action])
        return outcome


def a_pod(**parts: Any) -> Json:
    """With what is given of spec, annotations, conditions, uid, deletionTimestamp."""
    made = pod("p", 7)
    made["spec"] = parts.get("spec", {})
    made["status"] = {"conditions": parts.get("conditions", [])}
    made["metadata"] |= {
        "uid": parts.get("uid", "uid-p"),
        "annotations": parts.get("annotations"),
        "deletionTimestamp": parts.get("deletionTimestamp"),
    }
    return made


def seen_pod(outcome: Outcome) -> Pod:
    (seen,) = outcome.seen
    assert isinstance(seen, Observed)
    assert isinstance(seen.row, Pod)
    return seen.row


# Bind


async def test_binding_and_job_id_are_one_write_P11(tmp_path: Path) -> None:
    """P1, P11: the UID as precondition, the annotation beside it."""
    script = Script(POST_binding=status(201, "") | {"status": "Success"})
    assert await outcome_of(script, tmp_path, BIND) == Done(BIND)
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
async def test_after_a_conflict_the_pod_itself_says_P11_P18(
    tmp_path: Path, found: Json, outcome: type[Outcome]
) -> None:
    """P11, P18: only our own binding, whose answer was lost, is as good as done."""
    script = Script(POST_binding=BOUND, GET=found)
    came = await outcome_of(script, tmp_path, BIND)
    assert type(came) is outcome
    assert script.asked == ["POST_binding", "GET"]
    if not isinstance(came, Unsure):
        assert seen_pod(came).node_name == found["spec"].get("nodeName", "")
    if isinstance(came, Refused):
        assert "already assigned" in came.why


@pytest.mark.parametrize("found", [a_pod(uid="another"), GONE])
async def test_a_conflict_with_a_pod_that_is_gone_P23(tmp_path: Path, found: Json) -> None:
    """A Pod of another UID is not looked at any further."""
    came = await outcome_of(Script(POST_binding=BOUND, GET=found), tmp_path, BIND)
    assert type(came) is Refused
    assert not came.seen


async def test_a_conflict_with_a_pod_that_cannot_be_read_may_be_a_binding_of_ours_P14(
    tmp_path: Path,
) -> None:
    """Somebody bound it: perhaps we, and the answer was lost."""
    script = Script(POST_binding=BOUND, GET=status(500, "x"))
    came = await outcome_of(script, tmp_path, BIND)
    assert isinstance(came, Unsure)
    assert came.seen == (BindTried(POD.uid, BIND.job_id, 42.0),)


@pytest.mark.parametrize("answer", [GONE, OTHER, status(403, "Forbidden"), status(422, "Invalid")])
async def test_a_binding_that_can_never_be_is_refused_P11(tmp_path: Path, answer: Json) -> None:
    """The Pod is gone, another has its name, or we may not."""
    script = Script(POST_binding=answer)
    assert isinstance(await outcome_of(script, tmp_path, BIND), Refused)
    assert script.asked == ["POST_binding"]


@pytest.mark.parametrize(("code", "may_be"), [(401, False), (429, False), (500, True), (504, True)])
async def test_a_binding_that_may_have_happened_says_so_P14(
    tmp_path: Path, code: int, may_be: bool
) -> None:
    """Unless the API server did not even look at it."""
    came = await outcome_of(Script(POST_binding=status(code, "x")), tmp_path, BIND)
    assert isinstance(came, Unsure)
    assert came.seen == ((BindTried(POD.uid, BIND.job_id, 42.0),) if may_be else ())


@pytest.mark.parametrize("code", [401, 429, 500, 503, 504])
@pytest.mark.parametrize("action", [BIND, END, WAITS, GetGang("job", "slurm", "g", 0.0)])
async def test_passing_failures_are_unsure_F8(tmp_path: Path, code: int, action: Action) -> None:
    """F8: tried again; nothing else was written meanwhile."""
    requests: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        requests.append(request.method)
        return web.json_response(status(code, "x"), status=code, headers={"Retry-After": "2"})

    came = await outcome_of(answer, tmp_path, action)
    assert isinstance(came, Unsure)
    assert came.retry_after_s == 2.0
    assert "DELETE" not in requests


# EndPod


async def test_first_the_condition_then_the_deletion_with_its_own_grace_P16(tmp_path: Path) -> None:
    """P16: both for this very Pod; no grace of ours in the deletion."""
    script = Script(PATCH_status=a_pod(), DELETE=a_pod(deletionTimestamp=NOW))
    came = await outcome_of(script, tmp_path, END)
    assert isinstance(came, Done)
    assert seen_pod(came).terminating
    assert script.asked == ["PATCH_status", "DELETE"]
    assert dict(script.requests[0].query) == {"fieldManager": names.MANAGER_RELEASE}
    assert script.requests[0].content_type == "application/strategic-merge-patch+json"
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "job 17 was preempted",
        "lastTransitionTime": NOW,
    }
    assert script.sent == [
        {"metadata": {"uid": "uid-p"}, "status": {"conditions": [condition]}},
        {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "uid-p"}},
    ]


async def test_a_pod_that_is_ending_already_is_left_its_time_P16(tmp_path: Path) -> None:
    """P16: a second deletion could only shorten what its owner gave it."""
    script = Script(PATCH_status=a_pod(deletionTimestamp=NOW))
    came = await outcome_of(script, tmp_path, END)
    assert isinstance(came, Done)
    assert script.asked == ["PATCH_status"]


@pytest.mark.parametrize("answer", [GONE, OTHER])
async def test_a_pod_that_is_gone_has_ended_P16(tmp_path: Path, answer: Json) -> None:
    """P16: whatever has its name now is not touched."""
    first = Script(PATCH_status=answer)
    assert await outcome_of(first, tmp_path, END) == Done(END, missing=True)
    assert first.asked == ["PATCH_status"]
    second = Script(PATCH_status=a_pod(), DELETE=answer)
    assert await outcome_of(second, tmp_path, END) == Done(END, missing=True)


async def test_without_its_condition_for_now_nothing_is_deleted_P16(tmp_path: Path) -> None:
    """P16: the owner's controller must find the reason when it looks."""
    script = Script(PATCH_status=LATER)
    assert isinstance(await outcome_of(script, tmp_path, END), Unsure)
    assert script.asked == ["PATCH_status"]


@pytest.mark.parametrize("answer", [status(403, "Forbidden"), status(422, "Invalid")])
async def test_a_condition_that_can_never_be_does_not_keep_the_pod_P16(
    tmp_path: Path, answer: Json
) -> None:
    """P16: two workloads on one machine are worse than an end without its reason."""
    script = Script(PATCH_status=answer, DELETE=a_pod(deletionTimestamp=NOW))
    assert isinstance(await outcome_of(script, tmp_path, END), Done)
    assert script.asked == ["PATCH_status", "DELETE"]


async def test_no_reason_of_slurms_keeps_a_pod_alive_P16(tmp_path: Path) -> None:
    """P16: text without UTF-8, and without end."""
    script = Script(PATCH_status=a_pod(), DELETE=a_pod(deletionTimestamp=NOW))
    odd = EndPod(POD, "SlurmJobEnded", "\ud800" + "x" * 5000)
    assert isinstance(await outcome_of(script, tmp_path, odd), Done)
    message = script.sent[0]["status"]["conditions"][0]["message"]
    assert message.startswith("?x")
    assert len(message) == 1024


# SetScheduled

STANDS = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "job 17 waits: Resources",
}


async def test_the_condition_of_a_waiting_pod_goes_over_what_was_read_P1(tmp_path: Path) -> None:
    """P1, P10: with the version read, so that a binding in between wins."""
    script = Script(GET=a_pod(), PATCH_status=a_pod(conditions=[STANDS]))
    came = await outcome_of(script, tmp_path, WAITS)
    assert isinstance(came, Done)
    assert seen_pod(came).conditions
    assert script.asked == ["GET", "PATCH_status"]
    assert dict(script.requests[1].query) == {"fieldManager": names.MANAGER_SUBMIT}
    condition = STANDS | {"lastTransitionTime": NOW}
    assert script.sent[1] == {
        "metadata": {"uid": "uid-p", "resourceVersion": "7"},
        "status": {"conditions": [condition]},
    }


async def test_another_message_leaves_the_time_of_the_condition_P26(tmp_path: Path) -> None:
    """P26: lastTransitionTime is that of the status."""
    older = STANDS | {"message": "job 17 waits: Priority"}
    script = Script(GET=a_pod(conditions=[older]), PATCH_status=a_pod(conditions=[STANDS]))
    assert isinstance(await outcome_of(script, tmp_path, WAITS), Done)
    assert "lastTransitionTime" not in script.sent[1]["status"]["conditions"][0]


async def test_what_stands_already_is_not_written_P26(tmp_path: Path) -> None:
    """A repeated wish costs a read."""
    script = Script(GET=a_pod(conditions=[STANDS]))
    came = await outcome_of(script, tmp_path, WAITS)
    assert isinstance(came, Done)
    assert script.asked == ["GET"]


@pytest.mark.parametrize("found", [a_pod(spec={"nodeName": "n1"}), a_pod(uid="another"), GONE])
async def test_a_pod_on_a_node_or_gone_waits_for_nothing_P1(tmp_path: Path, found: Json) -> None:
    """P1: the API server's own PodScheduled=True is never overwritten."""
    script = Script(GET=found)
    assert isinstance(await outcome_of(script, tmp_path, WAITS), Refused)
    assert script.asked == ["GET"]


async def test_a_change_between_read_and_write_is_tried_again_P1(tmp_path: Path) -> None:
    """The next attempt reads anew."""
    script = Script(GET=a_pod(), PATCH_status=LATER)
    assert isinstance(await outcome_of(script, tmp_path, WAITS), Unsure)


# Metadata and Nodes


@pytest.mark.parametrize("manager", names.WORKLOAD_MANAGERS)
async def test_metadata_of_a_workload_pod_comes_back_as_one_P17(
    tmp_path: Path, manager: str
) -> None:
    """P1, P17: of the two sources of Pods the one that the rule reads."""
    made = a_pod(annotations={names.CANCELLED: "17/"})
    action = SetMetadata(POD, manager, (), ((names.CANCELLED, "17/"),))
    came = await outcome_of(Script(PATCH=made), tmp_path, action)
    assert seen_pod(came).cancelled == "17/"


async def test_metadata_of_a_slurmd_pod_comes_back_as_one_M3(tmp_path: Path) -> None:
    """M3, S6: the rules of slurmd Pods have managers of their own."""
    for manager in (names.MANAGER_MIRROR, names.MANAGER_RETIRE):
        action = SetMetadata(POD, manager, (), ((names.DRAIN, "x"),))
        came = await outcome_of(Script(PATCH=a_pod()), tmp_path, action)
        (seen,) = came.seen
        assert isinstance(seen, Observed)
        assert isinstance(seen.row, SlurmdPod)


async def test_an_answer_about_a_node_keeps_what_it_offers(tmp_path: Path) -> None:
    """It is read as the watch of Nodes reads them."""
    made = node("n1", 3)
    made["metadata"]["labels"] = {"a": "b"}

    async def answer(_: web.Request) -> web.Response:
        return web.json_response(made)

    came = await outcome_of(answer, tmp_path, SetConditions(Reference("Node", "", "n1", "u"), ()))
    (seen,) = came.seen
    assert isinstance(seen, Observed)
    assert isinstance(seen.row, Node)
    assert seen.row.offer != NO_OFFER


# GetGang

GROUP = GetGang("group", "slurm", "g", 0.0)
JOB = GetGang("job", "slurm", "g", 0.0)


@pytest.mark.parametrize(
    ("action", "body", "size", "why"),
    [
        (GROUP, {"spec": {"minMember": 4}}, 4, ""),
        (GROUP, {"spec": {}}, 0, "minMember is 0"),
        (GROUP, {"spec": {"minMember": 10**9}}, 0, "not between"),
        (GROUP, {"spec": {"minMember": "x"}}, 0, "minMember"),
        (GROUP, status(404, "NotFound", message="no podgroups"), 0, "no podgroups"),
        (GROUP, status(403, "Forbidden", message="may not"), 0, "may not"),
        (JOB, {"spec": {"completions": 3, "completionMode": "Indexed"}}, 3, ""),
        (JOB, {"spec": {"completions": 3}}, 0, "Indexed"),
        (JOB, {"spec": {"completionMode": "Indexed"}}, 0, "completions is 0"),
        (JOB, {}, 0, "spec"),
    ],
)
async def test_the_size_of_a_gang_is_read_once_G1(
    tmp_path: Path, action: GetGang, body: Json, size: int, why: str
) -> None:
    """G1: minMember of a PodGroup, completions of an Indexed Job; else unknown, and why."""
    paths: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        paths.append(request.path)
        return web.json_response(body, status=body.get("code", 200))

    came = await outcome_of(answer, tmp_path, action)
    assert isinstance(came, Done)
    (told,) = came.seen
    assert isinstance(told, GangSize)
    assert (told.kind, told.namespace, told.name) == (action.kind, "slurm", "g")
    assert (told.size, told.asked_s) == (size, 42.0)
    assert why in told.why
    assert bool(told.why) is bool(why)
    assert paths == [
        "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/slurm/podgroups/g"
        if action is GROUP
        else "/apis/batch/v1/namespaces/slurm/jobs/g"
    ]


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a?b", "A", "x" * 300, ".", "a\n"])
async def test_a_foreign_name_leads_nowhere_else_G1(tmp_path: Path, name: str) -> None:
    """G1: names of groups are labels that anybody writes."""
    script = Script()
    for action in (
        GetGang("group", "slurm", name, 0.0),
        GetGang("group", name or "..", "g", 0.0),
        GetGang("annotation", "slurm", "g", 0.0),
    ):
        assert isinstance(await outcome_of(script, tmp_path, action), Refused)
    assert not script.asked
