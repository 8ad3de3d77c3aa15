"""What slurmctld says of a slurmd that never comes back; the embedded Slurm says the same."""

from collections.abc import Iterator, Mapping

import pytest

from sunk_sync.embedded.slurm.memory import Knobs, Setup
from sunk_sync.embedded.slurm.model.node import NodeSpec, state_of
from sunk_sync.embedded.slurm.node_update import Update
from sunk_sync.embedded.slurm.slurm import SlurmWorld
from tests.real.testbed.sandbox import wait_until
from tests.real.testbed.slurm import SlurmServer
from tests.real.testbed.slurm_conf import SlurmConf

pytestmark = pytest.mark.real
TIMEOUT_S = 6
NAMES = ("n1", "n2", "n3", "n4")
UPDATES = (
    ("n2", "DRAIN", "k8s: x"), ("n3", "DOWN", "fan"), ("n4", "FAIL", "failing"),
)  # fmt: skip
BEFORE = {
    "n1": ("UNKNOWN", ""), "n2": ("UNKNOWN+DRAIN", "k8s: x"), "n3": ("DOWN", "fan"),
    "n4": ("UNKNOWN+FAIL", "failing"),
}  # fmt: skip
"""After the start of slurmctld: only DOWN is remembered, and nothing of an answer."""
SILENT = {
    "n1": ("DOWN+NOT_RESPONDING", "Not responding"),
    "n2": ("DOWN+DRAIN+NOT_RESPONDING", "k8s: x : Not responding"),
    "n3": ("DOWN+NOT_RESPONDING", "fan"),
    "n4": ("DOWN+NOT_RESPONDING+FAIL", "failing : Not responding"),
}
"""After SlurmdTimeout, and for ever."""
Shown = Mapping[str, tuple[str, str]]


@pytest.fixture(params=["26.05", "24.11"])
def server(request: pytest.FixtureRequest) -> Iterator[SlurmServer]:
    conf = SlurmConf(slurmds=4, extra_lines=[f"SlurmdTimeout={TIMEOUT_S}"])
    with SlurmServer(request.param, conf) as one:
        yield one


def shown(server: SlurmServer) -> Shown:
    nodes = server.slurm_nodes()
    return {one["name"]: ("+".join(one["state"]), one["reason"]) for one in nodes}


def test_a_silent_node_is_unknown_after_a_start_and_then_down_for_ever(
    server: SlurmServer,
) -> None:
    for name in NAMES:
        server.stop_slurmd(name)
    for name, state, reason in UPDATES:
        server.update_slurm_node(name, state=[state], reason=reason)
    server.restart_slurmctld()
    wait_until(lambda: shown(server) == BEFORE, "unknown nodes", deadline_s=20)
    wait_until(lambda: shown(server) == SILENT, "nodes that are down", deadline_s=90)
    server.reconfigure()
    wait_until(lambda: shown(server) == SILENT, "the same again", deadline_s=90)


def test_the_embedded_slurm_says_the_same() -> None:
    knobs = Knobs(slurmd_timeout_s=float(TIMEOUT_S), ping_every_s=2.0)
    world = SlurmWorld(Setup(nodes=[NodeSpec(name=name) for name in NAMES], knobs=knobs))
    for name in NAMES:
        world.kill_slurmd(name, now_s=1)
    for name, state, reason in UPDATES:
        world.update(name, Update(state=state, reason=reason), now_s=1)
    world.restart(now_s=2)
    assert of_world(world) == BEFORE
    world.advance(100)
    assert of_world(world) == SILENT
    world.reconfigure(now_s=101)
    assert "NOT_RESPONDING" not in str(of_world(world))
    world.advance(200)
    assert of_world(world) == SILENT


def of_world(world: SlurmWorld) -> Shown:
    return {name: ("+".join(state_of(one)), one.reason) for name, one in world.nodes.items()}
