"""Row N16: updates in a reservation."""

from typing import Any

import pytest

from sunk_sync.core.model.node_set import UpdateStrategy, Window
from sunk_sync.core.model.node_set_actions import SetReservation
from sunk_sync.core.model.node_set_answers import ReservationSet
from sunk_sync.core.rules.node_set.reserve import AGAIN_S
from tests.kit.build import Core, deleted
from tests.kit.node_sets import (
    NEWER,
    OTHER_STAMP,
    condemned,
    members,
    node_set,
    record,
    set_pod,
    status,
    wants,
)

WINDOW = Window(1_800_000_000, 1800)
LATER = Window(1_900_000_000, 1800)
OLD = node_set(3)


def scheduled(window: Window = WINDOW, **fields: Any) -> Any:
    strategy = UpdateStrategy("ScheduledUpdate", window=window)
    return node_set(3, template=NEWER, strategy=strategy, **fields)


def reserved(core: Core) -> list[tuple[str, ...]]:
    return [want.slurm_nodes for want in wants(core, SetReservation)]


def answer(*names: str, window: Window = WINDOW, at_s: float, why: str = "") -> ReservationSet:
    return ReservationSet("slurm/cpu", names, window, at_s, why)


def test_nodes_with_an_older_template_are_reserved_N16() -> None:
    core = Core(scheduled(), *members(0, 1, 2, spec=OLD))
    assert wants(core, SetReservation) == [
        SetReservation("k8s-slurm-cpu", "slurm/cpu", ("cpu-0", "cpu-1", "cpu-2"), WINDOW)
    ]
    core.see(answer("cpu-0", "cpu-1", "cpu-2", at_s=core.now))
    assert not reserved(core)


def test_updated_and_missing_nodes_leave_the_reservation_N16() -> None:
    """Slurm deletes no record that is reserved."""
    new = scheduled()
    core = Core(new, *members(0, 1, spec=OLD), *members(2, spec=new))
    assert reserved(core) == [("cpu-0", "cpu-1")]
    core.see(answer("cpu-0", "cpu-1", at_s=core.now), deleted("slurmd_pods", set_pod(0, OLD)))
    assert reserved(core) == [("cpu-1",)]
    core.see(set_pod(1, new))
    assert reserved(core) == [()]
    core.see(answer(at_s=core.now))
    core.wait(10 * AGAIN_S)
    assert not reserved(core)


def test_a_reservation_is_checked_each_minute_and_follows_another_window_N16() -> None:
    core = Core(scheduled(), *members(0, 1, 2, spec=OLD))
    core.see(answer("cpu-0", "cpu-1", "cpu-2", at_s=core.now))
    core.wait(AGAIN_S - 1)
    assert not reserved(core)
    core.wait(2)
    assert reserved(core)
    core.see(answer("cpu-0", "cpu-1", "cpu-2", at_s=core.now), scheduled(LATER))
    assert [one.window for one in wants(core, SetReservation)] == [LATER]


@pytest.mark.parametrize(
    ("states", "goes"),
    [
        (["IDLE", "IDLE", "IDLE"], []),
        (["IDLE+RESERVED", "IDLE", "IDLE"], []),
        (["IDLE+MAINTENANCE", "IDLE", "IDLE"], ["cpu-0"]),
        (["IDLE+MAINTENANCE", "MIXED+MAINTENANCE", "IDLE"], ["cpu-0", "cpu-1"]),
    ],
    ids=["before", "reserved", "one", "all at once"],
)
def test_only_pods_in_maintenance_are_updated_N16(states: list[str], goes: list[str]) -> None:
    rows = [
        row
        for number, state in enumerate(states)
        for row in (set_pod(number, OLD), record(number, state, OLD))
    ]
    core = Core(scheduled(), *rows)
    assert sorted(condemned(core)) == goes


def test_a_pod_that_was_to_be_updated_stays_after_the_window_N16() -> None:
    leaving = set_pod(0, OLD, pending_deletion="update of NodeSet cpu")
    core = Core(scheduled(), leaving, record(0, "MIXED+DRAIN", OLD), *members(1, 2, spec=OLD))
    assert condemned(core) == {"cpu-0": ""}


def test_without_a_reservation_the_condition_says_why_N16() -> None:
    core = Core(scheduled(), *members(0, 1, 2, spec=OLD))
    core.see(answer("cpu-0", "cpu-1", "cpu-2", at_s=core.now, why="Make it by hand"))
    shown = status(core)
    assert shown is not None
    (progressing,) = [one for one in shown.conditions if one.type == "Progressing"]
    assert (progressing.status, progressing.reason) == ("False", "NoReservation")
    assert progressing.message == "cpu-0, cpu-1, cpu-2: Make it by hand"


def test_other_strategies_and_a_deleted_nodeset_reserve_nothing_N16() -> None:
    assert not reserved(Core(node_set(3, template=NEWER), *members(0, 1, 2, spec=OLD)))
    assert not reserved(Core(scheduled(deleting=True), *members(0, 1, 2, spec=OLD)))


def test_a_node_of_somebody_else_is_not_reserved_N16() -> None:
    """It has the name of one of the Pods."""
    foreign = record(0, "IDLE", OLD, stamp=OTHER_STAMP)
    core = Core(scheduled(), set_pod(0, OLD), foreign, *members(1, 2, spec=OLD))
    assert reserved(core) == [("cpu-1", "cpu-2")]
