"""SetScheduled and SetMetadata: only over what was just read."""

from pathlib import Path

import pytest
from aiohttp import web

from sunk_sync.core.model import names
from sunk_sync.core.model.actions import SetConditions, SetMetadata
from sunk_sync.core.model.facts import Node, Observed, Reference, SlurmdPod
from sunk_sync.core.model.outcomes import Done, Refused, Unsure
from sunk_sync.core.model.pod_spec import NO_OFFER
from tests.kit.pod_push import (
    GONE,
    LATER,
    NOW,
    POD,
    WAITS,
    Json,
    Script,
    a_pod,
    outcome_of,
    seen_pod,
)
from tests.kube.recorded.server import node

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
