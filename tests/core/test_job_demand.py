"""Which NodeSets can run a job that asks for features and GRES (N26)."""

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.node_set import Features, Gres, Registration
from sunk_sync.core.model.pending_jobs import Demand
from sunk_sync.core.translate.job_demand import can_run
from sunk_sync.core.translate.node_set import plan_of
from tests.kit.node_sets import GPUS, LARGER, node_set

ASKED = Features(static=("a100", "ib"), dynamic=(("zone", "zone-"), ("rack", "")))


@pytest.mark.parametrize(
    ("features", "fits"),
    [("", True), ("a100", True), ("a100&ib", True), ("a100,ib", True), ("h100", False),
     ("a100&h100", False), ("a100|h100", True), ("h100|v100", False), ("cpu", True),
     ("zone-eu1", True), ("zone-eu1&a100", True), ("a100*2", False), ("[a100|ib]", False),
     ("a100|h100&ib", False), ("&", False)],
)  # fmt: skip
def test_a_nodeset_fits_if_its_nodes_can_have_the_features(features: str, fits: bool) -> None:
    demand = Demand("gpu", features, "", waits_for_nodes=True)
    assert can_run(replace(node_set(1), features=ASKED), demand) == fits


NIC = replace(GPUS, gres=(*(GPUS.gres or ()), Gres("nic", 1)))


@pytest.mark.parametrize(
    ("registration", "gres", "fits"),
    [(GPUS, "", True), (GPUS, "gpu", True), (GPUS, "gpu:h100", True), (GPUS, "gpu:a100", False),
     (LARGER, "", True), (LARGER, "gpu", False), (GPUS, "gpu,nic", False), (NIC, "gpu,nic", True),
     (NIC, "nic:fast", False), (GPUS, "gp", False)],
)  # fmt: skip
def test_a_nodeset_fits_if_its_nodes_register_the_gres(
    registration: Registration, gres: str, fits: bool
) -> None:
    demand = Demand("gpu", "", gres, waits_for_nodes=True)
    assert can_run(node_set(1, registration=registration), demand) == fits


def test_the_gres_that_a_nodeset_does_not_name_is_that_of_its_limits() -> None:
    spec = node_set(1, registration=Registration(), limits=(("nvidia.com/gpu", 8),))
    configuration = Configuration(gres_map=(("nvidia.com/gpu", "gpu"),))
    complete = replace(spec, registration=plan_of(spec, configuration).registration)
    assert can_run(complete, Demand("gpu", "", "gpu", waits_for_nodes=True))
