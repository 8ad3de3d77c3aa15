"""The condition TopologyInSync of a NodeSet: rows T3 and T5."""

import pytest

from sunk_sync.core.model.node_set import Topology
from sunk_sync.core.model.node_set_actions import SetStatus
from tests.kit.build import Core
from tests.kit.node_sets import node_set, record, set_pod, wants

FILES = (
    "this Slurm takes the topology of a node only from its files: run sunk-sync-topology.sh beside"
    " slurmctld (docs/nodesets.md)"
)
TREE = Topology(("rack",), "tree:root")


def lost(names: str) -> tuple[str, str, str]:
    message = f"{names}: no place under tree:root. Their Nodes need rack"
    return "False", "NoPlace", message


def shown(topology: Topology, *places: str | None) -> tuple[str, str, str] | None:
    """Return status, reason and message of the condition; the records have these places."""
    spec = node_set(len(places), topology=topology)
    pods = [set_pod(number, spec) for number in range(len(places))]
    rows = [record(number, "IDLE", spec, topology=place) for number, place in enumerate(places)]
    core = Core(spec, *pods, *rows)
    (status,) = wants(core, SetStatus)
    found = [one for one in status.conditions if one.type == "TopologyInSync"]
    return (found[0].status, found[0].reason, found[0].message) if found else None


@pytest.mark.parametrize(
    ("places", "wanted"),
    [
        (["tree:root:r1", "tree:root:r2"], ("True", "InSync", "2 Slurm nodes have their place")),
        (["tree:root:r1", "", "", "", ""], lost("cpu-1, cpu-2, cpu-3 and 1 more")),
        (["tree:other:r1"], lost("cpu-0")),
        (["tree:root2:r1"], lost("cpu-0")),
        ([None], ("False", "NoScript", FILES)),
    ],
    ids=["in sync", "labels missing", "elsewhere", "another root", "Slurm 24.11"],
)
def test_the_condition_says_which_nodes_have_no_place_T3_T5(
    places: list[str | None], wanted: tuple[str, str, str]
) -> None:
    assert shown(TREE, *places) == wanted


def test_a_nodeset_that_asks_for_no_topology_has_no_such_condition() -> None:
    assert shown(Topology(), "") is None
