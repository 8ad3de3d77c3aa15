"""SetScheduled and SetMetadata write only over the version just read."""

import pytest

from sunk_sync.core.model import names
from sunk_sync.core.model.actions import SetConditions, SetMetadata
from sunk_sync.core.model.facts import Node, Reference, SlurmdPod
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
from tests.kube.recorded.server import answers, node, row_in

WRITTEN = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "job 17 waits: Resources",
}


async def test_the_condition_is_written_with_the_version_read_P1() -> None:
    """A binding in between wins."""
    script = Script(GET=a_pod(), PATCH_status=a_pod(conditions=[WRITTEN]))
    came = await outcome_of(script, WAITS)
    assert isinstance(came, Done)
    assert seen_pod(came).conditions
    assert script.asked == ["GET", "PATCH_status"]
    assert dict(script.requests[1].query) == {"fieldManager": names.MANAGER_SUBMIT}
    condition = WRITTEN | {"lastTransitionTime": NOW}
    assert script.sent[1] == {
        "metadata": {"uid": "uid-p", "resourceVersion": "7"},
        "status": {"conditions": [condition]},
    }


async def test_another_message_keeps_the_transition_time_P26() -> None:
    older = WRITTEN | {"message": "job 17 waits: Priority"}
    script = Script(GET=a_pod(conditions=[older]), PATCH_status=a_pod(conditions=[WRITTEN]))
    assert isinstance(await outcome_of(script, WAITS), Done)
    assert "lastTransitionTime" not in script.sent[1]["status"]["conditions"][0]


async def test_an_equal_condition_is_not_written_again_P26() -> None:
    script = Script(GET=a_pod(conditions=[WRITTEN]))
    assert isinstance(await outcome_of(script, WAITS), Done)
    assert script.asked == ["GET"]


@pytest.mark.parametrize("found", [a_pod(spec={"nodeName": "n1"}), a_pod(uid="another"), GONE])
async def test_no_condition_of_a_bound_or_deleted_pod_is_written_P1(found: Json) -> None:
    """PodScheduled=True of the API server is never overwritten."""
    script = Script(GET=found)
    assert isinstance(await outcome_of(script, WAITS), Refused)
    assert script.asked == ["GET"]


async def test_a_change_between_read_and_write_is_unsure_P1() -> None:
    script = Script(GET=a_pod(), PATCH_status=LATER)
    assert isinstance(await outcome_of(script, WAITS), Unsure)


@pytest.mark.parametrize("manager", names.WORKLOAD_MANAGERS)
async def test_the_answer_to_workload_metadata_is_a_Pod_P17(manager: str) -> None:
    made = a_pod(annotations={names.CANCELLED: "17/"})
    action = SetMetadata(POD, manager, (), ((names.CANCELLED, "17/"),))
    came = await outcome_of(Script(PATCH=made), action)
    assert seen_pod(came).cancelled == "17/"


async def test_the_answer_to_slurmd_metadata_is_a_slurmd_pod_M3() -> None:
    for manager in (names.MANAGER_MIRROR, names.MANAGER_RETIRE):
        action = SetMetadata(POD, manager, (), ((names.DRAIN, "x"),))
        came = await outcome_of(Script(PATCH=a_pod()), action)
        assert isinstance(row_in(came), SlurmdPod)


async def test_the_answer_to_a_write_on_a_node_has_its_offer() -> None:
    made = node("n1", 3)
    made["metadata"]["labels"] = {"a": "b"}
    came = await outcome_of(answers(made), SetConditions(Reference("Node", "", "n1", "u"), ()))
    row = row_in(came)
    assert isinstance(row, Node)
    assert row.offer != NO_OFFER
