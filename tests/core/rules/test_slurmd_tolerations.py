"""Rows N1, N17, N19: which taints keep slurmd Pods away, and which end them."""

import json

import pytest
from msgspec import convert
from msgspec.structs import replace

from sunk_sync.core.model.names import LOCK
from sunk_sync.core.model.pod_spec import Offer, PodSpec, Taint, Toleration
from sunk_sync.core.translate.node_fit import CORDON_TAINT, why_unfit
from sunk_sync.core.translate.slurmd_pod import OF_HOST_NETWORK, slurmd_pod
from tests.kit.build import Core, node
from tests.kit.node_sets import made, node_set, plan

K8S = "node.kubernetes.io/"
SILENT = (f"{K8S}not-ready", f"{K8S}unreachable")
PRESSURE = (f"{K8S}disk-pressure", f"{K8S}memory-pressure", f"{K8S}pid-pressure")
OUT = Taint(f"{K8S}out-of-service", "NoExecute", "nodeshutdown")
NO_NETWORK = Taint(f"{K8S}network-unavailable", "NoSchedule")
LOCKED = Taint(LOCK, "NoExecute", "true")
ALWAYS = [(LOCKED, True), (OUT, False), (Taint("x", "NoSchedule"), False)]
NUMBERED = [
    *ALWAYS,
    *[(Taint(key, "NoExecute"), True) for key in SILENT],
    *[(Taint(key, "NoSchedule"), False) for key in (*SILENT, *PRESSURE)],
    (CORDON_TAINT, False),
    (NO_NETWORK, False),
]
PER_NODE = [
    *ALWAYS,
    *[(Taint(key, "NoExecute"), True) for key in SILENT],
    *[(Taint(key, "NoSchedule"), False) for key in SILENT],
    *[(Taint(key, "NoSchedule"), True) for key in PRESSURE],
    (CORDON_TAINT, True),
    (NO_NETWORK, False),
]


def template(*, host_network: bool = False) -> bytes:
    spec = {"containers": [{"name": "slurmd"}], "hostNetwork": host_network}
    return json.dumps({"spec": spec}).encode()


def tolerates(taint: Taint, *, per_node: bool, host_network: bool = False) -> bool:
    """Whether a Pod that sunk-sync makes tolerates the taint."""
    spec = node_set(1, per_node=per_node, template=template(host_network=host_network))
    body = slurmd_pod(spec, plan(spec), name="cpu-0")
    added = convert(body["spec"]["tolerations"], tuple[Toleration, ...])
    return not why_unfit(PodSpec(tolerations=added), node(offer=Offer(taints=(taint,))))


@pytest.mark.parametrize(("taint", "tolerated"), NUMBERED, ids=str)
def test_a_numbered_pod_stays_on_a_silent_node_and_none_is_placed_there_N1_N19(
    taint: Taint, tolerated: bool
) -> None:
    """As with a StatefulSet: it would take a Node that cannot serve while others are free."""
    assert tolerates(taint, per_node=False) == tolerated


@pytest.mark.parametrize(("taint", "tolerated"), PER_NODE, ids=str)
def test_a_pod_of_a_node_tolerates_what_that_of_a_daemon_set_tolerates_N17(
    taint: Taint, tolerated: bool
) -> None:
    assert tolerates(taint, per_node=True) == tolerated
    repels = node("a", offer=Offer(taints=(taint,)))
    expected = ["cpu-a"] if tolerated else []
    assert made(Core(node_set(per_node=True), repels)) == expected, "the core expects the same"


@pytest.mark.parametrize("per_node", [False, True])
def test_a_pod_without_a_network_of_its_own_needs_none_N17(per_node: bool) -> None:
    assert tolerates(NO_NETWORK, per_node=per_node, host_network=True) == per_node
    placement = PodSpec(tolerations=(OF_HOST_NETWORK,))
    spec = node_set(per_node=True, placement=placement)
    assert made(Core(spec, node("a", offer=Offer(taints=(NO_NETWORK,))))) == ["cpu-a"]


def test_tolerations_of_the_template_come_first_and_stay_N1() -> None:
    mine = {"key": "gpu", "operator": "Exists"}
    given = {"spec": {"containers": [], "tolerations": [mine]}}
    spec = node_set(1, template=json.dumps(given).encode())
    assert slurmd_pod(spec, plan(spec), name="cpu-0")["spec"]["tolerations"][0] == mine


def test_what_sunk_sync_adds_to_a_pod_makes_no_new_revision_N14() -> None:
    """An upgrade of sunk-sync must not restart slurmd: the template and the shape alone count."""
    spec = node_set(1)
    assert plan(spec).revision == plan(replace(spec, per_node=True)).revision == "4d6f1d2e"
