"""One word for the state of a host: facts in, word out."""

from collections.abc import Sequence

import pytest

from sunk_sync.core.explain.overview import tile
from sunk_sync.core.model.facts import Row
from tests.kit.build import Core, node, slurm_node, slurmd_pod

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
