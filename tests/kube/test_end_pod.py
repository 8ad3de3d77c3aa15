"""EndPod: the condition first, then the deletion."""

import pytest

from sunk_sync.core.model import names
from sunk_sync.core.model.actions import EndPod
from sunk_sync.core.model.outcomes import Done, Unsure
from tests.kit.pod_push import (
    END,
    GONE,
    LATER,
    NOW,
    OTHER,
    POD,
    Json,
    Script,
    a_pod,
    outcome_of,
    seen_pod,
)
from tests.kube.recorded.server import status


async def test_the_condition_is_written_before_the_deletion_with_the_grace_of_the_pod_P16() -> None:
    script = Script(PATCH_status=a_pod(), DELETE=a_pod(deletionTimestamp=NOW))
    came = await outcome_of(script, END)
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


async def test_a_terminating_pod_is_not_deleted_again_P16() -> None:
    """A second deletion could only shorten its grace period."""
    script = Script(PATCH_status=a_pod(deletionTimestamp=NOW))
    came = await outcome_of(script, END)
    assert isinstance(came, Done)
    assert script.asked == ["PATCH_status"]


@pytest.mark.parametrize("answer", [GONE, OTHER])
async def test_a_pod_that_is_gone_is_done_P16(answer: Json) -> None:
    first = Script(PATCH_status=answer)
    assert await outcome_of(first, END) == Done(END, missing=True)
    assert first.asked == ["PATCH_status"]
    second = Script(PATCH_status=a_pod(), DELETE=answer)
    assert await outcome_of(second, END) == Done(END, missing=True)


async def test_no_pod_is_deleted_before_its_condition_is_written_P16() -> None:
    """The controller of its owner must find the reason."""
    script = Script(PATCH_status=LATER)
    assert isinstance(await outcome_of(script, END), Unsure)
    assert script.asked == ["PATCH_status"]


@pytest.mark.parametrize("answer", [status(403, "Forbidden"), status(422, "Invalid")])
async def test_a_pod_is_deleted_although_its_condition_is_refused_P16(answer: Json) -> None:
    """Two workloads on one machine are worse than a deletion without its reason."""
    script = Script(PATCH_status=answer, DELETE=a_pod(deletionTimestamp=NOW))
    assert isinstance(await outcome_of(script, END), Done)
    assert script.asked == ["PATCH_status", "DELETE"]


async def test_an_invalid_or_long_text_does_not_prevent_the_deletion_P16() -> None:
    script = Script(PATCH_status=a_pod(), DELETE=a_pod(deletionTimestamp=NOW))
    odd = EndPod(POD, "SlurmJobEnded", "\ud800" + "x" * 5000)
    assert isinstance(await outcome_of(script, odd), Done)
    message = script.sent[0]["status"]["conditions"][0]["message"]
    assert message.startswith("?x")
    assert len(message) == 1024
