"""Room for new volumes, where the driver of a class tells it (row P8)."""

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import SetScheduled, UpdateJob
from sunk_sync.core.model.facts import Pod, Row
from sunk_sync.core.model.pod_spec import Requirement
from sunk_sync.core.model.volumes import CsiDriver, StorageCapacity
from tests.core.rules.test_volumes import (
    HOSTNAME,
    MADE_IN_A,
    ZONE,
    claim,
    cluster,
    user,
    volume,
)
from tests.kit.build import Core, deleted, running

TELLS = CsiDriver(name="example.com/disk", uid="u-d", tells_room=True)
IN_A, IN_B = ((Requirement(ZONE, "In", (zone,)),) for zone in "ab")


def on(node_name: str) -> tuple[Requirement, ...]:
    return (Requirement(HOSTNAME, "In", (node_name,)),)


def room(
    name: str, nodes: tuple[Requirement, ...] | None, size: int = 10, of: str = "made"
) -> StorageCapacity:
    """The claims here want 10 bytes."""
    return StorageCapacity(
        namespace="drivers", name=name, uid=f"u-{name}", storage_class=of, size=size, nodes=nodes
    )


ROOMS: dict[str, tuple[list[Row], tuple[str, ...]]] = {
    "in one zone": ([TELLS, room("a", IN_A)], ("n3",)),
    "on one Node": ([TELLS, room("a", on("kn2"))], ("n1", "n3")),
    "on two Nodes": ([TELLS, room("a", on("kn2")), room("b", on("kn3"))], ("n1",)),
    "too little in one zone": ([TELLS, room("a", IN_A), room("b", IN_B, 9)], ("n3",)),
    "of another class in one zone": ([TELLS, room("a", IN_A), room("b", IN_B, of="x")], ("n3",)),
    "everywhere": ([TELLS, room("a", ())], ()),
    "within the zone of the class": ([TELLS, room("a", ()), MADE_IN_A], ("n3",)),
    "on two Nodes, of which one is in the zone of the class": (
        [TELLS, room("a", on("kn2")), room("b", on("kn3")), MADE_IN_A], ("n1", "n3"),
    ),
    "on one Node, and there is a free volume": (
        [TELLS, room("a", on("kn2")), volume("v1", "kn3", storage_class="made")], ("n1",),
    ),
    "the driver tells nothing": ([replace(TELLS, tells_room=False), room("a", IN_A)], ()),
    "of an unknown driver": ([room("a", IN_A)], ()),
}  # fmt: skip


@pytest.mark.parametrize("case", ROOMS)
def test_a_job_excludes_nodes_without_room_for_a_new_volume_P8(case: str) -> None:
    rows, excluded = ROOMS[case]
    mine = user()
    core = cluster(mine, claim())
    core.see(*rows)
    assert core.submission(mine).excluded == excluded


@pytest.mark.parametrize(
    "rooms",
    [[], [room("a", (), 9)], [room("a", None)], [room("a", (), -1)]],
    ids=["none is told", "too little", "no Node reaches it", "its size is not told"],
)
def test_a_pod_whose_volume_has_room_nowhere_is_told_P8(rooms: list[Row]) -> None:
    mine = user()
    core = cluster(mine, claim(), TELLS, *rooms)
    core.wait(2)
    assert core.submission(mine) is None
    (shown,) = core.workload_wants(mine, SetScheduled)
    assert shown.message == ("0/3 nodes are available: 3 node(s) did not have enough free storage")


def waiting() -> tuple[Core, Pod]:
    """A job waits and excludes n3, which is not in zone a."""
    mine = user()
    core = cluster(mine, claim(), TELLS, room("a", IN_A), room("b", IN_B, 9))
    submission = core.submission(mine)
    assert submission.excluded == ("n3",)
    its = replace(running(mine, at=()), state=frozenset({"PENDING"}), identity=submission.identity)
    core.see(its)
    assert not core.workload_wants(mine, UpdateJob)
    return core, mine


CHANGES: dict[str, tuple[Row, tuple[str, ...]]] = {
    "more room in the other zone": (room("b", IN_B, 10), ()),
    "the first zone is full": (room("a", IN_A, 9), ("n3",)),
    "the other room is the first zone's too": (room("b", IN_A, 9), ("n3",)),
    "the first room moves": (room("a", IN_B), ("n1", "n2")),
    "the driver tells nothing any more": (replace(TELLS, tells_room=False), ()),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_waiting_job_follows_the_room_for_its_volume_P8(case: str) -> None:
    """A job for which no host is left keeps its list: Slurm would lower its priority."""
    change, excluded = CHANGES[case]
    core, mine = waiting()
    core.see(change)
    assert [one.excluded for one in core.workload_wants(mine, UpdateJob)] == (
        [excluded] if excluded != ("n3",) else []
    )


def test_room_that_is_gone_is_room_no_more_P8() -> None:
    mine = user()
    only = room("a", IN_A)
    core = cluster(mine, claim(), TELLS, only)
    assert core.submission(mine)
    core.see(deleted("storage_capacities", only))
    assert core.submission(mine) is None
