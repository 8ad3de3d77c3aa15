"""Differences between the two sides: facts in, differences out."""

from collections.abc import Sequence

import pytest

from sunk_sync.core.explain.differences import about, differences_of
from sunk_sync.core.model.facts import Row
from sunk_sync.core.model.keys import CLUSTER, host_key, workload_key, workload_key_of
from tests.kit.build import BOUND, POD, Core, job, node, room, running, slurm_node, slurmd_pod

CORDONED = node("kn1", unschedulable=True)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (room(), []),
        ([CORDONED, slurmd_pod(), slurm_node("n1", "IDLE+DRAIN", reason="k8s: node cordoned")], []),
        (
            [*room()[:2], slurm_node("n1", "IDLE+DRAIN", reason="fan broken")],
            [("drain", "drained in Slurm (fan broken), schedulable in Kubernetes")],
        ),
        ([CORDONED, slurmd_pod(), slurm_node("n1", "IDLE+DRAIN", reason="fan broken")], []),
        (
            [CORDONED, slurmd_pod(), slurm_node("n1", "DOWN")],
            [("drain", "cordoned in Kubernetes, DOWN in Slurm")],
        ),
        (
            [node("kn1"), slurmd_pod()],
            [("record", "slurmd Pod slurm/slurmd-n1 has no record in Slurm")],
        ),
        (
            [*room(), slurmd_pod("n1", name="other", uid="u2", node_name="kn2"), node("kn2")],
            [("claim", "claimed by Pod slurm/other, Pod slurm/slurmd-n1")],
        ),
    ],
)
def test_a_host_differs_if_one_side_uses_it_and_the_other_does_not(
    rows: Sequence[Row], found: Sequence[tuple[str, str]]
) -> None:
    core = Core(*rows)
    core.now += 7.0
    answers = differences_of(core.reconciler, host_key("n1"), now=core.now)
    assert [(one.kind, one.what) for one in answers] == found
    assert {one.age_s for one in answers} <= {7.0}
    assert {one.about for one in answers} <= {"host n1"}


def test_a_bound_pod_without_a_job_differs() -> None:
    core = Core(*room(), BOUND)
    key = workload_key(workload_key_of(BOUND))
    assert differences_of(core.reconciler, key, now=core.now) == ()
    core.lose_jobs()
    (one,) = differences_of(core.reconciler, key, now=core.now)
    assert (one.kind, one.about) == ("job", "pod ns/p1")
    assert one.what == "bound to kn1, and Slurm shows no job of it"


def test_each_key_is_named_as_explain_takes_it() -> None:
    core = Core(*room(), POD, job(POD))
    key = workload_key(workload_key_of(POD))
    assert [about(core.graph, one) for one in (key, host_key("n1"), CLUSTER)] == [
        "pod ns/p1",
        "host n1",
        "cluster",
    ]
    orphan = Core(*room(), running(POD))
    (key,) = (one for one in orphan.graph.keys.all() if one[0] == "workload")
    assert about(orphan.graph, key) == "job 7"
