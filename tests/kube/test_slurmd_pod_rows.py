"""What sunk-sync reads of the Pods of NodeSets and of their templates (N6, N17)."""

import json

import pytest

from sunk_sync.core.model.facts import Observed, SlurmdPod
from sunk_sync.core.model.names import DELETION_COST
from sunk_sync.core.model.node_set import API_VERSION, NodeSet
from sunk_sync.core.translate.slurmd_pod import OF_HOST_NETWORK
from sunk_sync.kube.decode.source_decoder import NODE_SETS, SLURMD_PODS

OWNER = {
    "apiVersion": API_VERSION,
    "kind": "NodeSet",
    "name": "cpu",
    "uid": "u",
    "controller": True,
}


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        (None, 0), ("0", 0), ("7", 7), ("-7", -7), ("-07", -7), ("2147483647", 2**31 - 1),
        ("-2147483648", -(2**31)), ("2147483648", 0), ("-2147483649", 0), ("+7", 0), ("07", 0),
        ("", 0), ("much", 0), ("1.5", 0), ("٣", 0), ("9" * 5000, 0),
    ],
)  # fmt: skip
def test_a_deletion_cost_is_read_as_a_replica_set_reads_it_N6(text: str | None, cost: int) -> None:
    annotations = {} if text is None else {DELETION_COST: text}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "cpu-0", "namespace": "slurm", "uid": "p", "resourceVersion": "7",
            "annotations": annotations, "ownerReferences": [OWNER],
        },
    }  # fmt: skip
    seen = SLURMD_PODS.object(json.dumps(pod).encode())
    assert isinstance(seen, Observed)
    assert isinstance(seen.row, SlurmdPod)
    assert seen.row.deletion_cost == cost


@pytest.mark.parametrize(("given", "tolerates"), [(True, True), (False, False), ("odd", False)])
def test_a_template_with_the_network_of_the_node_needs_no_other_N17(
    given: object, tolerates: bool
) -> None:
    spec = {"hostNetwork": given, "containers": [{"name": "slurmd"}]}
    body = {
        "apiVersion": API_VERSION,
        "kind": "NodeSet",
        "metadata": {"name": "cpu", "namespace": "slurm", "uid": "u", "resourceVersion": "7"},
        "spec": {"scalingMode": "DaemonSet", "template": {"spec": spec}},
    }
    seen = NODE_SETS.object(json.dumps(body).encode())
    assert isinstance(seen, Observed)
    assert isinstance(seen.row, NodeSet)
    assert (OF_HOST_NETWORK in seen.row.placement.tolerations) == tolerates
