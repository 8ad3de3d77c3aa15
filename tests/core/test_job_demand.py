"""Which NodeSets can run a job that asks for features (N26)."""

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.node_set import Features
from sunk_sync.core.translate.job_features import can_have
from tests.kit.node_sets import node_set

ASKED = Features(static=("a100", "ib"), dynamic=(("zone", "zone-"), ("rack", "")))


@pytest.mark.parametrize(
    ("features", "fits"),
    [("", True), ("a100", True), ("a100&ib", True), ("a100,ib", True), ("h100", False),
     ("a100&h100", False), ("a100|h100", True), ("h100|v100", False), ("cpu", True),
     ("zone-eu1", True), ("zone-eu1&a100", True), ("a100*2", False), ("[a100|ib]", False),
     ("a100|h100&ib", False), ("&", False)],
)  # fmt: skip
def test_a_nodeset_fits_if_its_nodes_can_have_the_features(features: str, fits: bool) -> None:
    assert can_have(replace(node_set(1), features=ASKED), features) == fits
