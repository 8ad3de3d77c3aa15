"""Rows N17, N18, N20: one Pod for each Node that matches the template."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.facts import Node, Source
from sunk_sync.core.model.names import LOCK
from sunk_sync.core.model.node_set import EVERY_NODE, NodeSet, UpdateStrategy
from sunk_sync.core.model.node_set_actions import CreatePod
from sunk_sync.core.model.pod_spec import Offer, PodSpec, Requirement, Taint, Term, Toleration
from sunk_sync.core.translate.node_set import pod_name_on
from sunk_sync.core.translate.slurmd_pod import OTHER_SLURMDS
from sunk_sync.core.translate.slurmd_pod import slurmd_pod as pod_of
from tests.kit.build import Core, deleted, node
from tests.kit.node_sets import (
    NEWER,
    condemned,
    forgotten,
    made,
    node_set,
    plan,
    record,
    set_pod,
    status,
    wants,
)

GPU = (("gpu", "h100"),)
GONE = "node-mismatch of NodeSet cpu"


def per_node(limit: int = EVERY_NODE, **fields: Any) -> NodeSet:
    """Make a NodeSet for the Nodes with label gpu=h100."""
    placement = PodSpec(node_selector=GPU)
    return node_set(limit, **{"per_node": True, "placement": placement, **fields})


def place(name: str, **fields: Any) -> Node:
    """Make a Node that matches."""
    return node(name, **{"offer": Offer(labels=GPU), **fields})


def on(name: str, state: str = "IDLE", **fields: Any) -> list[Any]:
    """Make a matching Node with its Pod and its record."""
    slot = f"cpu-{name}"
    ready = fields.get("ready", "True") == "True"
    pod = replace(
        set_pod(0, per_node(), ready=ready),
        name=slot, uid=f"uid-{slot}", slurm_node=slot, node_name=name,
    )  # fmt: skip
    return [place(name, **fields), pod, replace(record(0, state), name=slot, comment="")]


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        ([], []),
        ([place("a"), place("b.example"), node("c")], ["cpu-a", "cpu-b"]),
        ([*on("a"), place("b")], ["cpu-b"]),
        ([place("a", unschedulable=True)], ["cpu-a"]),
        ([place("a", ready="False"), place("b")], ["cpu-b", "cpu-a"]),
        ([place("a", offer=Offer(GPU, (Taint("x", "NoSchedule"),)))], []),
        ([place("a", offer=Offer(GPU, (Taint(LOCK, "NoExecute", "true"),)))], ["cpu-a"]),
    ],
    ids=[
        "no Node",
        "the Nodes that match",
        "a Node that has none",
        "a cordoned Node",
        "Nodes that are not ready come last",
        "a taint that the template does not tolerate",
        "a Node that is locked for a job",
    ],
)
def test_each_node_that_matches_gets_a_pod_N17(rows: list[Any], names: list[str]) -> None:
    assert made(Core(per_node(), *rows)) == names


@pytest.mark.parametrize(
    "placement",
    [
        PodSpec(terms=(Term((Requirement("gpu", "In", ("h100",)),)),)),
        PodSpec(
            terms=(Term((Requirement("gpu", "Exists"),)),),
            tolerations=(Toleration("x", "Exists"),),
        ),
    ],
    ids=["affinity", "affinity and tolerations"],
)
def test_affinity_and_tolerations_of_the_template_decide_N17(placement: PodSpec) -> None:
    tainted = place("a", offer=Offer(GPU, (Taint("x", "NoSchedule"),)))
    expected = ["cpu-a"] if placement.tolerations else []
    assert made(Core(per_node(placement=placement), tainted)) == expected


def test_the_pod_can_run_on_its_node_alone_N17() -> None:
    spec = per_node()
    (want,) = wants(Core(spec, place("a.example")), CreatePod)
    body = pod_of(spec, plan(spec), name=want.name, node_name=want.node_name)
    affinity = body["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    field = {"key": "metadata.name", "operator": "In", "values": ["a.example"]}
    assert term == {"matchFields": [field]}
    assert body["spec"]["hostname"] == "cpu-a"


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
ZONES = {"topologyKey": "zone", "labelSelector": {}}


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({}, {}),
        ({"podAntiAffinity": PREFERRED}, PREFERRED),
        ({"podAntiAffinity": {REQUIRED: [ZONES]}}, {REQUIRED: [ZONES, OTHER_SLURMDS]}),
        ({"podAntiAffinity": {REQUIRED: [OTHER_SLURMDS]}}, {}),
    ],
    ids=["nothing", "preferred", "required", "the same"],
)
@pytest.mark.parametrize("node_name", ["", "k1"])
def test_slurmd_pods_keep_apart_whatever_the_template_asks_for_N1(
    asked: dict[str, Any], wanted: dict[str, Any], node_name: str
) -> None:
    template = json.dumps({"spec": {"containers": [], "affinity": asked}}).encode()
    spec = node_set(1, template=template)
    body = pod_of(spec, plan(spec), name="cpu-0", node_name=node_name)
    found = body["spec"]["affinity"]["podAntiAffinity"]
    assert found == {REQUIRED: [OTHER_SLURMDS], **wanted}
    assert ("nodeAffinity" in body["spec"]["affinity"]) == bool(node_name)


def test_a_node_gets_its_pod_once_it_matches_N17() -> None:
    core = Core(per_node(), node("a"))
    assert not made(core)
    core.see(place("a"))
    assert made(core) == ["cpu-a"]
    core.see(deleted("nodes", place("a")))
    assert not made(core)


@pytest.mark.parametrize(
    "after",
    [node("a"), place("a", offer=Offer(GPU, (Taint("x", "NoExecute"),)))],
    ids=["relabelled", "repels every Pod"],
)
def test_a_pod_goes_when_its_node_matches_no_more_N17(after: Node) -> None:
    core = Core(per_node(), *on("a"), *on("b"))
    assert not condemned(core)
    core.see(after)
    assert condemned(core) == {"cpu-a": GONE}
    assert not made(core)
    core.see(place("a"))
    assert not condemned(core), "it matches again"


def test_a_missing_node_condemns_no_pod_that_runs_N17_S8() -> None:
    """An incomplete listing must not drain a cluster; if the Node is gone, Kubernetes ends them."""
    core = Core(per_node(), *on("a"), *on("b"))
    core.see_listing("nodes")
    assert not condemned(core)
    assert not made(core)


def test_a_pod_that_waits_for_a_node_that_is_gone_goes_N17() -> None:
    waits = replace(on("a")[1], node_name="", ready=False)
    core = Core(per_node(), place("a"), waits)
    assert not condemned(core)
    core.see(deleted("nodes", place("a")))
    assert condemned(core) == {"cpu-a": GONE}


@pytest.mark.parametrize("source", ["nodes", "slurmd_pods", "node_sets"])
def test_nothing_is_condemned_or_made_before_all_is_listed_N17(source: Source) -> None:
    sources: tuple[Source, ...] = ("slurm_nodes", "nodes", "slurmd_pods", "node_sets")
    spec, (here, pod, known), free = per_node(), on("a"), place("b")
    rows = {"nodes": (here, free), "slurmd_pods": (pod,), "node_sets": (spec,)}
    core = Core(listed=False)
    for one in sources:
        if one != source:
            core.see_listing(one, *rows.get(one, (known,)))
    if source != "node_sets":
        assert not condemned(core)
        assert not made(core)
    core.see_listing(source, *rows[source])
    assert made(core) == ["cpu-b"]
    assert not condemned(core)


def test_a_taint_that_only_keeps_new_pods_away_ends_none_N17() -> None:
    """A DaemonSet does the same: a Node under disk pressure keeps its slurmd."""
    core = Core(per_node(), *on("a"))
    core.see(place("a", offer=Offer(GPU, (Taint("x", "NoSchedule"),))))
    assert not condemned(core)
    core.see(deleted("slurmd_pods", on("a")[1]))
    assert not made(core)


def test_a_pod_that_leaves_a_node_is_not_made_again_and_its_record_goes_N17_N10() -> None:
    spec = per_node()
    core = Core(spec, *on("a"), *on("b"))
    pod = on("a")[1]
    core.see(deleted("nodes", place("a")), deleted("slurmd_pods", pod))
    core.answer(pod, "no")
    assert [want.slurm_node for want in forgotten(core, "cpu-a")] == ["cpu-a"]
    assert not forgotten(core, "cpu-b")


def test_replicas_are_the_upper_limit_N18() -> None:
    rows = [place("a", ready="Unknown"), place("b"), place("c")]
    assert made(Core(per_node(2), *rows)) == ["cpu-b", "cpu-c"]
    assert made(Core(per_node(0), *rows)) == []
    core = Core(per_node(2), *on("a", ready="False"), *on("b"), place("c"))
    assert not made(core), "a Pod stays where it is"
    assert not condemned(core)


def test_a_lower_limit_is_a_scale_in_N18_N6() -> None:
    core = Core(per_node(1), *on("a", "ALLOCATED"), *on("b"))
    assert condemned(core) == {"cpu-b": "scale-in of NodeSet cpu"}


def test_the_number_of_nodes_is_the_number_desired_N17_N12() -> None:
    core = Core(per_node(), *on("a"), *on("b"), *on("c"), *on("d"))
    shown = status(core)
    assert shown is not None
    assert (shown.counts.desired, shown.counts.available) == (4, 4)
    one = UpdateStrategy("RollingUpdate", 1, percent=False)
    core.see(per_node(template=NEWER, strategy=one, generation=2))
    assert len(condemned(core)) == 1


def test_of_two_nodes_that_give_one_name_none_gets_a_pod_N22() -> None:
    core = Core(per_node(), place("a.x"), place("a.y"))
    assert not made(core)
    shown = status(core)
    assert shown is not None
    (progressing,) = [one for one in shown.conditions if one.type == "Progressing"]
    assert progressing.reason == "NameTaken"
    assert "more than one Node (a.x, a.y) has this name" in progressing.message
    core.see(deleted("nodes", place("a.y")))
    assert made(core) == ["cpu-a"]


def test_a_name_that_is_too_long_is_cut_and_stays_unique_N17() -> None:
    one, other = (pod_name_on(f"{'n' * 70}{end}", prefix="cpu") for end in "ab")
    assert one != other
    assert len(one) == len(other) == 63
    assert one.startswith("cpu-nnn")
