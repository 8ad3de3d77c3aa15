"""Labels, taints and allocatable resources of a Node."""

from typing import Any

from sunk_sync.core.model import names
from sunk_sync.core.model.facts import Node, Observed
from sunk_sync.core.model.node_signs import Sign
from sunk_sync.core.model.pod_spec import Offer, Taint
from sunk_sync.kube.decode.source_decoder import NODES, OFFERING_NODES
from sunk_sync.kube.read.selection import COLLECTIONS, SelectionScope
from tests.kit.pod_rows import GIB, seen
from tests.kit.selections import nodes
from tests.kube.recorded.server import node, recorded


def offering(**parts: Any) -> Node:
    made = node("n1", 1)
    made["metadata"] |= {"labels": parts.get("labels")}
    made["spec"] = made.get("spec", {}) | {"taints": parts.get("taints")}
    made["status"] = made.get("status", {}) | {"allocatable": parts.get("allocatable")}
    found = seen(OFFERING_NODES, made)
    assert isinstance(found, Node)
    return found


def test_a_node_offers_labels_taints_and_allocatable_P7_P28() -> None:
    found = offering(
        labels={"b": "2", "a": "1", names.LABEL_POD: "p"},
        taints=[{"key": "k", "effect": "NoExecute", "timeAdded": "x"}, {"key": "l", "value": "v"}],
        allocatable={"memory": "16Gi", "cpu": "3900m", "nvidia.com/gpu": "8"},
    )
    assert found.offer == Offer(
        (("a", "1"), ("b", "2"), (names.LABEL_POD, "p")),
        (Taint("k", "NoExecute"), Taint("l", "", "v")),
        (("cpu", 3900), ("memory", 16 * GIB), ("nvidia.com/gpu", 8)),
    )
    assert found.labels == (None, None, None, "p")
    assert offering().offer == Offer()


def test_taints_that_keep_pods_away_and_conditions_of_others_are_signs_S21() -> None:
    made = node("n1", 1)
    going = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    own = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    soft = {"key": "DeletionCandidate", "effect": "PreferNoSchedule"}
    made["spec"] = {"taints": [own, going, going | {"effect": "NoExecute"}, soft]}
    made["status"]["conditions"] = [
        {"type": "Ready", "status": "True", "reason": "KubeletReady"},
        {"type": "DiskPressure", "status": "False", "reason": "x"},
        {"type": "SlurmDrain", "status": "False", "reason": "NotDrained", "message": ""},
        {"type": "KernelDeadlock", "status": "True", "reason": "DockerHung", "message": "m"},
    ]
    for decoder in (NODES, OFFERING_NODES):
        found = seen(decoder, made)
        assert isinstance(found, Node)
        assert found.signs == (
            Sign("taint", "karpenter.sh/disrupted", ""),
            Sign("condition", "KernelDeadlock", "True", "DockerHung"),
        )
        assert found.signs is seen(decoder, made).signs


def test_somebody_who_writes_thousands_of_signs_is_cut_short_S21() -> None:
    made = node("n1", 1)
    made["spec"] = {"taints": [{"key": f"t{i}", "effect": "NoExecute"} for i in range(2000)]}
    found = seen(NODES, made)
    assert isinstance(found, Node)
    assert len(found.signs) == 64


def test_equal_offers_of_nodes_are_one_object() -> None:
    one = offering(labels={"a": "1"}, allocatable={"cpu": "1"})
    two = offering(labels={"a": "1"}, allocatable={"cpu": "1000m"})
    assert one.offer is two.offer
    assert one.offer is not offering(labels={"a": "2"}, allocatable={"cpu": "1"}).offer


def test_two_thousand_long_labels_are_read_in_full() -> None:
    labels = {f"label-{number}": "x" * 60 for number in range(2000)}
    assert len(offering(labels=labels).offer.labels) == 2000


def test_offers_are_read_only_if_sunk_sync_schedules() -> None:
    assert nodes().decoder is NODES
    assert COLLECTIONS["nodes"].selection(SelectionScope(schedules=True)).decoder is OFFERING_NODES
    assert OFFERING_NODES.source == NODES.source
    plain = NODES.object(recorded("answer-apply-node.json"))
    offered = OFFERING_NODES.object(recorded("answer-apply-node.json"))
    assert isinstance(plain, Observed)
    assert isinstance(offered, Observed)
    assert isinstance(plain.row, Node)
    assert isinstance(offered.row, Node)
    assert plain.row.offer == Offer()
    assert dict(offered.row.offer.labels)["kubernetes.io/hostname"] == "g0"
    assert (plain.order, plain.row.labels) == (offered.order, offered.row.labels)
