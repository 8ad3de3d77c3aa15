"""Row S6, second half: the Pod is annotated when its Slurm node is drained and idle."""

from typing import Any

import pytest

from sunk_sync.core.model.actions import GetSlurmNode, SetMetadata
from sunk_sync.core.model.facts import Lost, reference_of
from sunk_sync.core.model.names import DRAINED, MANAGER_RETIRE
from tests.kit.build import Core, deleted, node, slurm_node, slurmd_pod

PENDING: dict[str, Any] = {"pending_deletion": "roll"}
OURS = "k8s: pod pending deletion: roll"

TABLE: list[tuple[dict[str, Any], str, bool, str]] = [
    (PENDING, "IDLE+DRAIN", True, "drained and idle"),
    (PENDING, "DOWN+DRAIN", True, "drained and down"),
    (PENDING, "IDLE", False, "not drained"),
    (PENDING, "ALLOCATED+DRAIN", False, "jobs run"),
    (PENDING, "MIXED+DRAIN", False, "some jobs run"),
    (PENDING, "IDLE+DRAIN+COMPLETING", False, "a job is ending"),
    (PENDING, "UNKNOWN+DRAIN", False, "slurmctld does not say yet whether jobs run"),
    ({}, "IDLE+DRAIN", False, "not to be deleted"),
    ({"pending_deletion": ""}, "IDLE+DRAIN", True, "an empty value asks too"),
]


def retired(core: Core) -> list[tuple[tuple[str, str], ...]]:
    wants = core.wants("n1", SetMetadata)
    return [want.annotations for want in wants if want.manager == MANAGER_RETIRE]


@pytest.mark.parametrize("drained", [False, True], ids=["not annotated", "annotated"])
@pytest.mark.parametrize(("fields", "state", "done", "why"), TABLE, ids=[why for *_, why in TABLE])
def test_the_drained_annotation_stands_exactly_while_the_node_is_drained_and_idle_S6(
    fields: dict[str, Any], state: str, done: bool, why: str, drained: bool
) -> None:
    core = Core(slurmd_pod(drained=drained, **fields), slurm_node("n1", state, reason=OURS))
    change = [((DRAINED, "true"),)] if done else [()]
    assert retired(core) == (change if done != drained else []), why
    sentences = core.verdict().because.split("; ")
    assert ("drained and idle: the Pod may be deleted" in sentences) is (done and not drained)
    assert ("no longer drained and idle" in sentences) is (drained and not done)


def test_only_a_read_after_the_drain_counts_S6() -> None:
    """A job may start between the read and the DRAIN."""
    pod = slurmd_pod(**PENDING)
    core = Core(pod, slurm_node("n1", "IDLE+DRAIN", reason=OURS, assumed=True))
    assert not retired(core)
    core.see(slurm_node("n1", "IDLE+DRAIN", reason=OURS))
    assert retired(core) == [((DRAINED, "true"),)]
    core.see(slurm_node("n1", "ALLOCATED+DRAIN", reason=OURS))
    assert not retired(core)


@pytest.mark.parametrize(
    ("fields", "state", "assumed", "looks"),
    [
        (PENDING, "IDLE+DRAIN", True, True),
        (PENDING, "IDLE+DRAIN", False, False),
        (PENDING, "MIXED+DRAIN", True, False),
        (PENDING, "IDLE", True, False),
        ({"cordon": "true"}, "IDLE+DRAIN", True, False),
    ],
    ids=[
        "drained for the deletion",
        "read since",
        "jobs ran before the drain",
        "not drained",
        "drained for another cause",
    ],
)
def test_after_the_drain_for_a_deletion_the_node_is_read_once_at_once_S6(
    fields: dict[str, Any], state: str, assumed: bool, looks: bool
) -> None:
    """The next listing may be a second away."""
    core = Core(slurmd_pod(**fields), slurm_node("n1", state, reason=OURS, assumed=assumed))
    first = core.wants("n1", GetSlurmNode)
    assert [want.slurm_node for want in first] == ["n1"] * looks
    core.wait(60.0)
    assert core.wants("n1", GetSlurmNode) == first, "one drain, one read"


def test_the_annotation_goes_while_slurm_cannot_be_read_S6() -> None:
    core = Core(slurmd_pod(drained=True, **PENDING), slurm_node("n1", "IDLE+DRAIN", reason=OURS))
    core.see(Lost("slurm_nodes", "down", blind=True))
    assert retired(core) == [()]


def test_without_a_slurm_node_or_a_pod_there_is_no_annotation_S6() -> None:
    core = Core(node(), slurmd_pod(drained=True, **PENDING))
    assert retired(core) == [()]
    core.see(deleted("slurmd_pods", slurmd_pod()))
    assert not retired(core)


def test_the_annotation_is_written_for_the_uid_of_the_pod_S6() -> None:
    pod = slurmd_pod(**PENDING)
    core = Core(pod, slurm_node("n1", "IDLE+DRAIN", reason=OURS))
    assert reference_of(pod) in {want.reference for want in core.wants("n1", SetMetadata)}
