"""Rows W1-W4 and T2: the weight of a host, so that Slurm fills hosts in use first."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sunk_sync.core.model.actions import SetWeight
from sunk_sync.core.model.facts import Lost, Row
from sunk_sync.core.model.keys import host_key
from sunk_sync.core.model.node_mark import Mark, mark_text
from sunk_sync.core.policy import OWN_PER_MINUTE, WEIGHT_AGAIN_S, WEIGHTS_PER_MINUTE_MIN
from sunk_sync.core.translate.packed_weight import (
    EMPTY,
    FULL,
    OWN_MAX,
    fill_of,
    own_weight,
    packed_weight,
)
from sunk_sync.slurm.write.precondition import Forbidden, NodeUpdate, plan
from tests.kit.build import CLUSTER_UID, Core, deleted, marked, node, slurm_node, slurmd_pod
from tests.kit.node_sets import node_set, record, set_pod

MODULO = 2**24
"""slurmctld compares weights modulo this."""
OWN = 1


def host(weight: int, fill: int | None = EMPTY, state: str = "IDLE", **fields: Any) -> list[Row]:
    slurm = slurm_node("n1", state, weight=weight, fill=fill, comment=marked(), **fields)
    return [node(), slurmd_pod(), slurm]


def wanted(core: Core, name: str = "n1") -> list[Any]:
    return core.wants(name, SetWeight)


def at(fill: int, own: int = OWN) -> int:
    return packed_weight(own, fill)


STEPS: dict[str, tuple[list[Row], SetWeight | None]] = {
    "empty, with its own weight": (host(1), SetWeight("n1", 10_000_147, 1, "own")),
    "in use, with its own weight": (host(1, 2), SetWeight("n1", 10_000_127, 1, "own")),
    "full, with its own weight": (host(1, FULL), SetWeight("n1", 10_000_107, 1, "own")),
    "empty, as it stands": (host(at(EMPTY)), None),
    "in use now": (host(at(EMPTY), 1), SetWeight("n1", 10_000_137, 1, "empty")),
    "empty now": (host(at(3)), SetWeight("n1", 10_000_147, 1, "empty")),
    "fuller": (host(at(1), 4), SetWeight("n1", 10_000_107, 1, "step")),
    "full: no job comes, so no write": (host(at(2), FULL), None),
    "drained: no job comes, so no write": (host(at(2), EMPTY, "IDLE+DRAIN"), None),
    "drained, with its own weight": (
        host(1, EMPTY, "IDLE+DRAIN"),
        SetWeight("n1", 10_000_147, 1, "own"),
    ),
    "down: nothing is written": (host(1, EMPTY, "DOWN"), None),
    "how full it is was not read": (host(1, None), None),
    "a weight too large to be packed": (host(OWN_MAX + 1), None),
    "the largest that can be": (
        host(OWN_MAX),
        SetWeight("n1", packed_weight(OWN_MAX, EMPTY), OWN_MAX, "own"),
    ),
    "no Node": ([slurm_node("n1", weight=1, fill=EMPTY)], None),
    "a Slurm node of another cluster": (
        [slurm_node("n1", weight=at(2), fill=EMPTY, comment=marked(cluster="other"))],
        None,
    ),
    "two Nodes claim it": (
        [
            node("k3", slurm_node="n1"),
            node("k2", slurm_node="n1"),
            slurm_node("n1", weight=1, fill=EMPTY),
        ],
        None,
    ),
}


@pytest.mark.parametrize("case", STEPS)
def test_a_host_in_use_gets_a_lower_weight_than_an_empty_one_W1_W2(case: str) -> None:
    rows, write = STEPS[case]
    core = Core(*rows, pack="nodes")
    assert wanted(core) == ([write] if write else [])
    assert core.allowed("n1", SetWeight) == wanted(core)


OFF: dict[str, tuple[list[Row], SetWeight | None]] = {
    "its own weight": (host(1, None), None),
    "a large weight of its own": (host(4_000_000, None), None),
    "packed": (host(at(2), None), SetWeight("n1", 1, 1, "own")),
    "packed and drained": (host(at(2), None, "IDLE+DRAIN"), SetWeight("n1", 1, 1, "own")),
    "packed, of a large own weight": (
        host(at(EMPTY, OWN_MAX), None),
        SetWeight("n1", OWN_MAX, OWN_MAX, "own"),
    ),
    "packed, its Pod is gone": (host(at(2), None)[::2], SetWeight("n1", 1, 1, "own")),
    "packed by another cluster": (
        [slurm_node("n1", weight=at(2), comment=marked(cluster="other"))],
        None,
    ),
}


@pytest.mark.parametrize("case", OFF)
def test_without_packing_only_packed_hosts_get_their_own_weight_back_W4(case: str) -> None:
    rows, write = OFF[case]
    assert wanted(Core(*rows)) == ([write] if write else [])


def test_a_host_whose_node_is_gone_gets_its_own_weight_back_W4() -> None:
    core = Core(*host(at(2), 2), pack="nodes")
    core.see(deleted("slurmd_pods", slurmd_pod()))
    assert not wanted(core), "its Pod may come again"
    core.see(deleted("nodes", node()))
    assert wanted(core) == [SetWeight("n1", 1, 1, "own")]


@given(st.integers(0, OWN_MAX), st.integers(0, OWN_MAX), st.data())
def test_kinds_keep_their_order_and_slurm_compares_all_weights_right_W1(
    one: int, other: int, data: Any
) -> None:
    fills = st.integers(EMPTY, FULL)
    first, second = (packed_weight(own, data.draw(fills)) for own in sorted((one, other)))
    assert one == other or first < second
    assert OWN_MAX < first < MODULO
    assert own_weight(first) == min(one, other)


def test_the_fuller_a_host_the_lower_its_weight_W1() -> None:
    assert all(more < less for less, more in pairwise(at(fill) for fill in range(FULL)))


@pytest.mark.parametrize(
    "weight", [0, 1, 9_999_997, 10_000_145, 10_000_157, 10_000_197, 16_777_157, 16_777_216, 2**32]
)
def test_other_weights_are_the_own_ones_of_their_nodes_W4(weight: int) -> None:
    assert own_weight(weight) is None


FILLS: dict[str, tuple[tuple[int, int], tuple[int, int], tuple[int, int], int]] = {
    "nothing": ((0, 64), (0, 512), (0, 8), EMPTY),
    "a quarter of the GPUs": ((60, 64), (500, 512), (2, 8), 1),
    "three GPUs": ((1, 64), (0, 512), (3, 8), 2),
    "all but one": ((1, 64), (0, 512), (7, 8), 4),
    "all GPUs": ((1, 64), (1, 512), (8, 8), FULL),
    "all CPUs": ((64, 64), (1, 512), (1, 8), FULL),
    "CPUs of a GPU host": ((32, 64), (0, 512), (0, 8), 1),
    "half the CPUs": ((32, 64), (1, 512), (0, 0), 2),
    "most of the memory": ((1, 64), (400, 512), (0, 0), 4),
    "a node without a shape": ((0, 0), (0, 0), (0, 0), EMPTY),
}


@pytest.mark.parametrize("case", FILLS)
def test_gpus_decide_how_full_a_host_is_else_the_fuller_of_cpus_and_memory_W1(case: str) -> None:
    cpus, memory, gpus, fill = FILLS[case]
    assert fill_of(cpus=cpus, memory=memory, gpus=gpus) == fill


NODE_SETS: dict[str, tuple[int, int | None, str, int | None]] = {
    "packed": (at(EMPTY, 9), EMPTY, "nodes", None),
    "new": (9, EMPTY, "nodes", at(EMPTY, 9)),
    "another weight in its NodeSet": (at(2, 5), 2, "nodes", at(2, 9)),
    "a person set it": (3, 2, "nodes", at(2, 9)),
    "not read how full": (3, None, "nodes", None),
    "off": (at(2, 5), None, "off", 9),
    "off, a reconfigure took it": (1, None, "off", 9),
}


@pytest.mark.parametrize("case", NODE_SETS)
def test_the_own_weight_of_a_node_of_a_node_set_is_the_one_there_T2_W1(case: str) -> None:
    weight, fill, pack, becomes = NODE_SETS[case]
    spec = node_set(registration=_weighing(9))
    rows = (spec, set_pod(0, spec), record(0, spec=spec, weight=weight, fill=fill), node("kcpu-0"))
    core = Core(*rows, pack=pack)
    write = None if becomes is None else SetWeight("cpu-0", becomes, None, "own")
    assert wanted(core, "cpu-0") == ([write] if write else [])


def _weighing(weight: int) -> Any:
    return replace(node_set().registration, weight=weight)


def test_a_person_who_sets_a_weight_just_now_is_not_overwritten_W3() -> None:
    write = SetWeight("n1", at(2), OWN, "step")
    assert plan(write, slurm_node("n1", weight=at(1))) == NodeUpdate(weight=at(2))
    assert plan(write, slurm_node("n1", weight=at(2))) is None
    assert isinstance(plan(write, slurm_node("n1", weight=30)), Forbidden)
    of_node_set = SetWeight("n1", at(2), None, "own")
    assert plan(of_node_set, slurm_node("n1", weight=30)) == NodeUpdate(weight=at(2))


def test_a_weight_that_is_set_back_again_and_again_is_written_a_few_times_a_minute_W3() -> None:
    core = Core(*host(1), pack="nodes")
    for _ in range(OWN_PER_MINUTE - 1):
        assert core.allowed("n1", SetWeight)
        core.see(slurm_node("n1", weight=at(EMPTY), fill=EMPTY, comment=marked()))
        core.wait(1)
        core.see(slurm_node("n1", weight=1, fill=EMPTY, comment=marked()))
    assert core.allowed("n1", SetWeight)
    core.see(slurm_node("n1", weight=at(EMPTY), fill=EMPTY, comment=marked()))
    core.see(slurm_node("n1", weight=1, fill=EMPTY, comment=marked()))
    assert core.kept(host_key("n1")) == wanted(core)
    core.wait(60)
    assert core.allowed("n1", SetWeight)


def many(weight: int, fill: int) -> list[Row]:
    return [
        row
        for number in range(2 * WEIGHTS_PER_MINUTE_MIN)
        for row in (
            node(f"h{number}"),
            slurm_node(
                f"h{number}",
                weight=weight,
                fill=fill,
                comment=mark_text(Mark(CLUSTER_UID, f"h{number}")),
            ),
        )
    ]


def written(core: Core) -> int:
    hosts = range(2 * WEIGHTS_PER_MINUTE_MIN)
    return sum(bool(core.allowed(f"h{number}", SetWeight)) for number in hosts)


@pytest.mark.parametrize(
    ("weight", "fill", "a_minute"),
    [
        (1, EMPTY, 2 * WEIGHTS_PER_MINUTE_MIN),
        (at(EMPTY), 1, WEIGHTS_PER_MINUTE_MIN),
        (at(1), 3, WEIGHTS_PER_MINUTE_MIN // 2),
    ],
    ids=["packing begins: all", "not empty any more: the limit", "fuller: half of it"],
)
def test_few_hosts_a_minute_get_another_step_those_that_matter_most_first_W2(
    weight: int, fill: int, a_minute: int
) -> None:
    core = Core(*many(weight, fill), pack="nodes")
    assert written(core) == a_minute
    core.wait(WEIGHT_AGAIN_S)
    assert written(core) == a_minute
    core.wait(61)
    assert written(core) == min(2 * a_minute, 2 * WEIGHTS_PER_MINUTE_MIN)


def test_nothing_is_written_while_slurm_is_unread_for_the_first_time_W2() -> None:
    core = Core(*host(1), pack="nodes", listed=False)
    core.see(Lost("slurm_nodes", "down"))
    assert not core.allowed("n1", SetWeight)
