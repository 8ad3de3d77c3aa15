"""Writes to NodeSets and their Pods: what is sent, and what an answer proves."""

import pytest

from sunk_sync.core.model.facts import GetResult, Reference
from sunk_sync.core.model.node_set_actions import CreatePod, DeletePod, RemakePod
from sunk_sync.core.model.node_set_answers import CreateRefused
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from tests.kit.node_sets import node_set, plan
from tests.kit.pod_push import LATER, NOW, POD, Json, Script, a_pod, outcome_of
from tests.kube.recorded.server import status

IN = "scale-in of NodeSet cpu"
PENDING = {"sunk.coreweave.com/pending-deletion": IN}
DRAINED = {**PENDING, "sunk.coreweave.com/drained": "true"}
SPEC = node_set()
MAKE = CreatePod(Reference("NodeSet", "slurm", "cpu", "uid-cpu"), "cpu-0", SPEC, plan(SPEC))
OWNER = {
    "apiVersion": "sunk-sync.dev/v1alpha1",
    "kind": "NodeSet",
    "name": "cpu",
    "uid": "uid-cpu",
    "controller": True,
}
TAKEN = status(409, "AlreadyExists", message='pods "cpu-0" already exists')


def owned(**parts: object) -> Json:
    made = a_pod(**parts)
    made["metadata"]["ownerReferences"] = [OWNER]
    return made


async def ended(pod: Json, action: DeletePod | RemakePod) -> tuple[Outcome, Script]:
    """Return the outcome, and what was asked after the Pod was read so."""
    script = Script(GET=pod, DELETE=owned(deletionTimestamp=NOW))
    return await outcome_of(script, action), script


async def test_exactly_the_pod_that_was_read_is_deleted_N8() -> None:
    outcome, script = await ended(owned(annotations=DRAINED), DeletePod(POD, IN, drained=True))
    assert isinstance(outcome, Done)
    assert script.asked == ["GET", "DELETE"]
    assert script.sent[1]["preconditions"] == {"uid": "uid-p", "resourceVersion": "7"}


async def test_a_pod_that_changed_since_is_looked_at_again_N8() -> None:
    script = Script(GET=owned(annotations=DRAINED), DELETE=LATER)
    assert not isinstance(await outcome_of(script, DeletePod(POD, IN, drained=True)), Done)


@pytest.mark.parametrize(
    ("pod", "action", "why"),
    [
        (owned(), DeletePod(POD, IN, drained=True), "its deletion was taken back"),
        (owned(annotations=PENDING), DeletePod(POD, IN, drained=True), "it is not drained"),
        (a_pod(annotations=DRAINED), DeletePod(POD, IN, drained=True), "has left it alone"),
        (
            owned(annotations=PENDING, spec={"nodeName": "k1"}),
            DeletePod(POD, IN, drained=False, unbound=True),
            "it is on Node k1 now",
        ),
    ],
)
async def test_a_pod_that_is_not_as_decided_stays_N8_N9(
    pod: Json, action: DeletePod, why: str
) -> None:
    outcome, script = await ended(pod, action)
    assert isinstance(outcome, Refused)
    assert why in outcome.why
    assert script.asked == ["GET"]


@pytest.mark.parametrize(
    ("ready", "asked"), [("True", ["GET", "DELETE"]), ("False", ["GET"]), ("Unknown", ["GET"])]
)
async def test_a_pod_is_made_anew_only_if_it_is_still_ready_N3(
    ready: str, asked: list[str]
) -> None:
    """Simulator 9305548: a Pod that is not ready any more may register when it is."""
    pod = owned(conditions=[{"type": "Ready", "status": ready}])
    outcome, script = await ended(pod, RemakePod(POD))
    assert isinstance(outcome, Done if ready == "True" else Refused)
    assert script.asked == asked


@pytest.mark.parametrize("answer", [TAKEN, status(500, "InternalError"), status(429, "TooMany")])
async def test_a_pod_that_may_have_been_made_makes_an_older_read_worthless_N10(
    answer: Json,
) -> None:
    outcome = await outcome_of(Script(**{"POST_api/v1/namespaces/slurm/pods": answer}), MAKE)
    assert isinstance(outcome, Unsure)
    assert outcome.seen == (GetResult("Pod", "slurm", "cpu-0", "unknown", "", 42.0),)


async def test_a_pod_that_is_refused_counts_as_a_failure_N21() -> None:
    answer = status(422, "Invalid", message="spec.containers[0].image: Required value")
    outcome = await outcome_of(Script(**{"POST_api/v1/namespaces/slurm/pods": answer}), MAKE)
    assert isinstance(outcome, Refused)
    (seen,) = outcome.seen
    assert isinstance(seen, CreateRefused)
    assert (seen.node_set, seen.name) == ("cpu", "cpu-0")
