"""Row M7: a drain begun in Slurm cordons the Node, and only our own cordon is lifted."""

from typing import Any

import pytest

from sunk_sync.core.model.actions import Cordon, Drain, Uncordon
from sunk_sync.core.model.facts import Lost, reference_of
from tests.kit.build import Core, node, slurm_node, slurmd_pod

KINDS = (Cordon, Uncordon)
FREE: dict[str, Any] = {}
HUMAN: dict[str, Any] = {"unschedulable": True}
OURS: dict[str, Any] = {"unschedulable": True, "cordoned_for_drain": True}
UNCORDONED: dict[str, Any] = {"cordoned_for_drain": True}
KEPT: dict[str, Any] = {**OURS, "keep_cordon": True}
FOREIGN, EMPTY = ("IDLE+DRAIN", "fan"), ("IDLE+DRAIN", "")
KUBE, NONE = ("IDLE+DRAIN", "k8s: x"), ("IDLE", "")

TABLE = [
    ("on", FREE, FOREIGN, Cordon, "a foreign drain cordons"),
    ("on", FREE, EMPTY, Cordon, "a foreign drain without a reason cordons"),
    ("on", FREE, ("DOWN+DRAIN", "fan"), Cordon, "a foreign drain of a node that is down cordons"),
    ("on", FREE, KUBE, None, "ours began in Kubernetes"),
    ("on", FREE, NONE, None, "no drain"),
    ("on", FREE, ("DOWN", "fan"), None, "down alone is no drain"),
    ("on", HUMAN, FOREIGN, None, "cordoned by a human before"),
    ("on", HUMAN, NONE, None, "a human's cordon is never lifted"),
    ("on", OURS, FOREIGN, None, "cordoned already"),
    ("on", OURS, NONE, Uncordon, "the drain has ended"),
    ("on", OURS, KUBE, Uncordon, "the drain is ours now"),
    ("on", KEPT, NONE, None, "keep-cordon keeps it"),
    ("on", KEPT, FOREIGN, None, "keep-cordon, still drained"),
    ("on", UNCORDONED, FOREIGN, None, "uncordoned by a human: not again for this drain"),
    ("on", UNCORDONED, NONE, Uncordon, "uncordoned by a human: the annotation goes with the drain"),
    ("off", FREE, FOREIGN, None, "the default"),
    ("off", OURS, FOREIGN, None, "switched off while cordoned: stays to the end of the drain"),
    ("off", OURS, NONE, Uncordon, "switched off: what is ours is still lifted"),
    ("off", HUMAN, NONE, None, "switched off: a human's stays"),
]


@pytest.mark.parametrize(
    ("option", "marks", "drain", "kind", "why"), TABLE, ids=[row[-1] for row in TABLE]
)
def test_a_foreign_drain_cordons_once_and_only_our_cordon_is_lifted_M7(
    option: str, marks: dict[str, Any], drain: tuple[str, str], kind: type | None, why: str
) -> None:
    row = node(**marks)
    slurm = slurm_node("n1", drain[0], reason=drain[1])
    core = Core(row, slurmd_pod(), slurm, cordon_on_slurm_drain=option == "on")
    assert core.wants("n1", *KINDS) == ([kind(reference_of(row))] if kind else []), why
    sentences = core.verdict().because.split("; ")
    cordoned = f"cordoned: drained in Slurm ({drain[1] or 'no reason'})"
    assert any(one.startswith(cordoned) for one in sentences) is (kind is Cordon)
    assert ("uncordoned: the drain in Slurm has ended" in sentences) is (kind is Uncordon)
    keeps = marks == KEPT and drain == NONE
    assert ("cordon kept: the Node is annotated keep-cordon" in sentences) is keeps


def test_our_cordon_makes_no_drain_M7() -> None:
    core = Core(node(), slurmd_pod(), slurm_node(), cordon_on_slurm_drain=True)
    core.see(slurm_node("n1", "IDLE+DRAIN", reason="fan"))
    assert core.wants("n1", *KINDS)
    core.see(node(**OURS))
    assert not core.wants("n1", *KINDS, Drain)
    core.see(slurm_node("n1", "IDLE"))
    assert core.wants("n1", *KINDS, Drain) == [Uncordon(reference_of(node()))]
    core.see(node())
    assert not core.wants("n1", *KINDS, Drain)


def test_nothing_is_uncordoned_while_slurm_cannot_be_read_M7() -> None:
    core = Core(node(**OURS), slurmd_pod(), slurm_node())
    core.see(Lost("slurm_nodes", "down"))
    assert core.wants("n1", Uncordon)
    assert not core.allowed("n1", Uncordon)
    core.see(Lost("slurm_nodes", "down", blind=True))
    assert not core.wants("n1", *KINDS)


def test_a_node_with_no_slurm_node_or_two_is_not_cordoned_M7() -> None:
    drained = [slurm_node(name, "IDLE+DRAIN", reason="fan") for name in ("n1", "n2")]
    ends = [slurmd_pod(f"n{i}", node_name="kn1", terminating=True) for i in (1, 2)]
    core = Core(node(), *ends, *drained, cordon_on_slurm_drain=True)
    assert not core.wants("n1", *KINDS)
    assert not core.wants("n2", *KINDS)
    assert not Core(node(), slurmd_pod(), cordon_on_slurm_drain=True).wants("n1", *KINDS)
