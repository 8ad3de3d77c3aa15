"""Dynamic nodes of the embedded Slurm: what slurmd -Z makes, and what stays."""

import pytest

from sunk_sync.embedded.slurm.dynamic import registration_of
from sunk_sync.embedded.slurm.memory import Setup
from sunk_sync.embedded.slurm.model.node import NodeSpec
from sunk_sync.embedded.slurm.node_update import Update
from sunk_sync.embedded.slurm.slurm import SlurmWorld
from tests.embedded.slurm_kit import node_state, number

STAMP = "k8s.11111111.22222222"
CONF = f"Sockets=1 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=900 Weight=7 Feature=cpu,{STAMP}"


def arguments(conf: str = CONF, *, name: str = "cpu-0") -> list[str]:
    return ["-D", "--conf-server", "slurmctld:6817", "-Z", "-N", name, "--conf", conf]


def world(generation: str = "26.05") -> SlurmWorld:
    return SlurmWorld(Setup(nodes=(), generation=generation))  # type: ignore[arg-type]


def registered(**fields: object) -> SlurmWorld:
    slurm = world()
    assert slurm.register(registration_of(arguments(**fields)), now_s=1)  # type: ignore[arg-type]
    return slurm


def test_a_registration_makes_the_record() -> None:
    node = registered().nodes["cpu-0"]
    assert (node.spec.cpus, node.spec.memory_mb, node.weight) == (8, 900, 7)
    assert node.features == node.active_features == ("cpu", STAMP)
    assert node_state(registered(), "cpu-0") == "IDLE+DYNAMIC_NORM"


def test_cpus_alone_are_reset_to_what_slurmd_finds() -> None:
    assert registration_of(arguments("CPUs=8")).cpus == 16


def test_a_later_registration_changes_nothing() -> None:
    slurm = registered()
    slurm.register(registration_of(arguments("RealMemory=5 Feature=other")), now_s=2)
    node = slurm.nodes["cpu-0"]
    assert (node.spec.memory_mb, node.features) == (900, ("cpu", STAMP))


def test_a_record_that_is_lost_does_not_come_back_by_itself() -> None:
    slurm = registered()
    assert slurm.remove_node("cpu-0", now_s=2) is None
    slurm.restart(now_s=3)
    slurm.advance(100)
    assert not slurm.nodes
    slurm.register(registration_of(arguments()), now_s=101)
    assert "cpu-0" in slurm.nodes


def test_slurmctld_that_is_killed_loses_the_registrations_of_its_last_seconds() -> None:
    slurm = registered()
    slurm.restart(now_s=2, lose_state="recent")
    slurm.advance(100)
    assert not slurm.nodes


def test_a_slurmd_does_not_register_while_slurmctld_is_down() -> None:
    slurm = world()
    slurm.stop_controller(now_s=1)
    assert not slurm.register(NodeSpec(name="cpu-0"), now_s=2)


def test_a_reconfigure_takes_the_weight_back_and_keeps_the_features() -> None:
    slurm = registered()
    features = ("cpu", STAMP, "fast")
    slurm.update(
        "cpu-0",
        Update(features=features, active_features=features, weight=9, topology="tree:root:s1"),
        now_s=2,
    )
    slurm.restart(now_s=3)
    assert slurm.nodes["cpu-0"].weight == 9
    slurm.reconfigure(now_s=9)
    node = slurm.nodes["cpu-0"]
    assert (node.weight, node.features, node.topology) == (7, features, "tree:root:s1")


@pytest.mark.parametrize(("topology", "error"), [("tree:root:new", 0), ("fabric:x", 2178), ("", 0)])
def test_a_switch_is_made_on_the_fly_below_a_known_one(topology: str, error: int) -> None:
    """A refused topology does not take the other fields back."""
    slurm = registered()
    refused = slurm.update("cpu-0", Update(topology=topology, comment="x"), now_s=2)
    assert number(refused) == error if error else refused is None
    assert slurm.nodes["cpu-0"].comment == "x"
