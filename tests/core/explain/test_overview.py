"""One word for the state of a host or Pod: facts in, word out."""

from collections.abc import Sequence

import pytest

from sunk_sync.core.explain.overview import phase, tile
from sunk_sync.core.model.facts import Row
from tests.kit.build import POD, Core, job, node, pod, running, slurm_node, slurmd_pod

BOTH = (node("kn1"), slurmd_pod())
OURS = {"reason": "k8s: node cordoned"}


@pytest.mark.parametrize(
    ("rows", "state"),
    [
        ((*BOTH, slurm_node()), "idle"),
        ((*BOTH, slurm_node("n1", "MIXED")), "busy"),
        ((*BOTH, slurm_node("n1", "IDLE+DRAIN", **OURS)), "drained"),
        ((*BOTH, slurm_node("n1", "ALLOCATED+DRAIN", **OURS)), "draining"),
        ((*BOTH, slurm_node("n1", "IDLE+DRAIN", reason="fan")), "held"),
        ((*BOTH, slurm_node("n1", "DOWN")), "down"),
        ((*BOTH, slurm_node("n1", "IDLE+NOT_RESPONDING")), "down"),
        ((node("kn1", unschedulable=True), slurmd_pod(), slurm_node()), "apart"),
        (BOTH, "apart"),
        ((slurm_node(),), "apart"),
        (
            (
                *BOTH,
                slurmd_pod("n1", name="b", uid="b", node_name="kn2"),
                node("kn2"),
                slurm_node(),
            ),
            "claims",
        ),
    ],
)
def test_a_host_has_one_word(rows: Sequence[Row], state: str) -> None:
    assert tile(Core(*rows).graph, "n1").state == state


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        ((POD,), "without a job"),
        ((POD, job(POD)), "in Slurm's queue"),
        ((POD, running(POD)), "allocated"),
        ((POD, job(POD, state="CANCELLED")), "without a job"),
        ((pod(node_name="kn1"), running(POD)), "bound"),
    ],
)
def test_a_pod_has_one_phase(rows: Sequence[Row], word: str) -> None:
    assert phase(Core(*rows, scheduler="sunk").graph, POD.uid) == word
