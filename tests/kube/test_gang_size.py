"""G1, G8, G9: GetGang reads the PodGroup or the Indexed Job."""

import pytest
from aiohttp import web

from sunk_sync.core.model.actions import GetGang
from sunk_sync.core.model.gang_size import GangSize
from sunk_sync.core.model.outcomes import Done, Refused
from tests.kit.pod_push import Json, Script, outcome_of
from tests.kube.recorded.server import status as refusal

GROUP = GetGang("group", "slurm", "g", 0.0)
JOB = GetGang("job", "slurm", "g", 0.0, owner="u1")
OURS = {"metadata": {"uid": "u1"}}


@pytest.mark.parametrize(
    ("action", "body", "size", "why"),
    [
        (GROUP, {"spec": {"minMember": 4}}, 4, ""),
        (GROUP, {"spec": {}}, 0, "minMember is 0"),
        (GROUP, {"spec": {"minMember": 10**9}}, 0, "not between"),
        (GROUP, {"spec": {"minMember": "x"}}, 0, "minMember"),
        (GROUP, refusal(404, "NotFound", message="no podgroups"), 0, "no podgroups"),
        (GROUP, refusal(403, "Forbidden", message="may not"), 0, "may not"),
        (JOB, {"spec": {"completions": 3, "completionMode": "Indexed"}, **OURS}, 3, ""),
        (JOB, {"spec": {"completions": 3}, **OURS}, 0, "Indexed"),
        (JOB, {"spec": {"completionMode": "Indexed"}, **OURS}, 0, "completions is 0"),
        (JOB, {"spec": {"completions": 3, "completionMode": "Indexed"}}, 0, "another Job"),
        (JOB, {}, 0, "spec"),
    ],
)
async def test_the_size_of_a_gang_is_read_or_unknown_with_a_reason_G1(
    action: GetGang, body: Json, size: int, why: str
) -> None:
    paths: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        paths.append(request.path)
        return web.json_response(body, status=body.get("code", 200))

    came = await outcome_of(answer, action)
    assert isinstance(came, Done)
    (reported,) = came.seen
    assert isinstance(reported, GangSize)
    assert (reported.kind, reported.namespace, reported.name) == (action.kind, "slurm", "g")
    assert (reported.size, reported.asked_s) == (size, 42.0)
    assert why in reported.why
    assert bool(reported.why) is bool(why)
    group = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/slurm/podgroups/g"
    assert paths == [group if action is GROUP else "/apis/batch/v1/namespaces/slurm/jobs/g"]


@pytest.mark.parametrize(("status", "succeeded"), [({}, 0), ({"succeeded": 2}, 2)])
async def test_the_ranks_that_succeeded_are_read_with_the_size_G8(
    status: Json, succeeded: int
) -> None:
    body = {"spec": {"completions": 3, "completionMode": "Indexed"}, "status": status, **OURS}

    async def answer(_: web.Request) -> web.Response:
        return web.json_response(body)

    came = await outcome_of(answer, JOB)
    assert isinstance(came, Done)
    (reported,) = came.seen
    assert isinstance(reported, GangSize)
    assert (reported.size, reported.succeeded, reported.owner) == (3, succeeded, "u1")


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a?b", "A", "x" * 300, ".", "a\n"])
async def test_an_invalid_name_is_refused_without_a_request_G1(name: str) -> None:
    """Any user can write the label with the name."""
    script = Script()
    for action in (
        GetGang("group", "slurm", name, 0.0),
        GetGang("group", name or "..", "g", 0.0),
        GetGang("annotation", "slurm", "g", 0.0),
    ):
        assert isinstance(await outcome_of(script, action), Refused)
    assert not script.asked
