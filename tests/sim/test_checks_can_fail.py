"""Each check of the simulator fails for a defect in the production code."""

import itertools
from typing import Any

import pytest

from sunk_sync.controller import pacing
from sunk_sync.core import policy
from sunk_sync.core.model.actions import SetWeight, Undrain
from sunk_sync.core.model.facts import SlurmNode
from sunk_sync.core.model.verdict import Ruling
from sunk_sync.core.rules.host import drain, mirror, retire, weight
from sunk_sync.core.rules.host.drain import Stands
from sunk_sync.core.tables.table import Table
from sunk_sync.core.translate.packed_weight import EMPTY
from sunk_sync.core.views.host import Host
from sunk_sync.kube.read.stream import Reading
from sunk_sync.kube.write import events
from sunk_sync.slurm.read.one_node import Seen
from sunk_sync.slurm.write import nodes, precondition
from tests.sim.history import BrokenPromiseError
from tests.sim.run import run_seed
from tests.sim.scenarios import SCENARIOS
from tests.sim.stage import play

SEEDS = range(60)


def first_failure(*names: str) -> str:
    """Return the first failed check of these scenarios, then of the seeds."""
    for name in names:
        try:
            play(SCENARIOS[name])
        except BrokenPromiseError as error:
            return str(error).partition(":")[0]
    for seed in SEEDS:
        broken = run_seed(seed).broken
        if broken:
            return broken.partition(":")[0]
    return ""


async def _remembered(*arguments: Any, **_: Any) -> Any:
    """Return idle nodes without a read."""
    _, names = arguments
    return {
        name: Seen(name, SlurmNode(name=name, state=frozenset({"IDLE"})), 0.0) for name in names
    }


def _gone_unread(*_: object) -> Stands:
    return Stands("missing")


def _lift_empty(slurm_node: SlurmNode) -> Ruling:
    lifts = "DRAIN" in slurm_node.state and not slurm_node.reason
    return Ruling((Undrain(slurm_node.name, "lifted"),) if lifts else ())


def _heavier(host: Host, *_: object, **__: object) -> Ruling:
    slurm_node = host.slurm_node
    assert slurm_node is not None
    return Ruling((SetWeight(slurm_node.name, slurm_node.weight + 100, None, "own"),))


def _never(*_: object, **__: object) -> bool:
    return False


Broken = tuple[list[tuple[object, str, object]], tuple[str, ...], set[str]]
NUMBERS = itertools.count()
BROKEN: dict[str, Broken] = {
    "written without a read (S0)": (
        [(nodes, "read_nodes_now", _remembered)], ("a node is cordoned",), {"unread"},
    ),
    "a foreign drain is overwritten (S11)": (
        [(drain, "is_foreign_drain", _never), (precondition, "is_foreign_drain", _never)],
        ("a human drained before",), {"ownership"},
    ),
    "a DOWN node is drained (S13)": (
        [(drain, "keeps_drain", _never), (precondition, "keeps_drain", _never)],
        ("a node that is down",), {"frozen"},
    ),
    "what power saving removes counts as absent (S8)": (
        [(drain, "is_under_power", _never), (precondition, "is_under_power", _never)],
        ("power saving removes a machine",), {"power"},
    ),
    "an empty reason is lifted (S15)": (
        [(drain, "_no_cause", _lift_empty), (precondition, "is_foreign_drain", _never),
         (precondition, "is_ours", lambda _: True)],
        ("a drain without a reason",), {"ownership", "scenario"},
    ),
    "an absence counts without a read by name (S7)": (
        [(drain, "_open", _gone_unread)], ("a pod is gone",), {"evidence"},
    ),
    "written before everything was listed": (
        [(policy, "_why_not", lambda *_: ""), (policy, "_all_may", lambda _: True)],
        ("nothing happens",), {"unlisted"},
    ),
    "an Event is counted without a pause": (
        [(events, "COUNT_PACE_S", 0.0)], (), {"counted"},
    ),
    "conditions are written without a pause (M1)": (
        [(pacing, "PACE_S", 0.0)], ("and uncordoned",), {"pace"},
    ),
    "the breaker is off (S19)": (
        [(policy, "drain_limit", lambda _: 1000)],
        ("more drains than the breaker lets through",), {"rate"},
    ),
    "drained=true before a read shows it (S6)": (
        [(retire, "may_run_jobs", _never)],
        ("a pod is to be deleted while a job runs",), {"drained"},
    ),
    "a cause is ignored (S3)": (
        [(drain, "CAUSES", tuple(one for one in drain.CAUSES if "pod cord" not in one.reason))],
        ("a pod is cordoned",), {"rest", "scenario"},
    ),
    "written again without a change (M5)": (
        [(mirror, "shown_of", lambda *_: mirror.Shown((), (), str(next(NUMBERS)), ""))],
        (), {"quiet", "rest", "surprise"},
    ),
    "weights stay after a job has ended (W1)": (
        [(weight, "_takes_no_job", lambda node: node.fill == EMPTY)],
        ("a host in use, and a reconfigure",), {"rest", "scenario"},
    ),
    "weights are packed without --pack (W2)": (
        [(weight, "_unpacked", _heavier)], ("nothing happens",), {"foreign"},
    ),
    "deletions are ignored (F3)": (
        [(Reading, "_deleted", lambda *_: None)], ("a node is gone",), {"rest", "scenario"},
    ),
    "an answer hides that its Pod left the selector": (
        [(Table, "remove", lambda *_, **__: None)], ("a node is gone",), {"rest", "scenario"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_each_broken_invariant_is_detected(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    changes, names, checks = BROKEN[what]
    for where, name, instead in changes:
        monkeypatch.setattr(where, name, instead)
    assert first_failure(*names) in checks


def test_the_unchanged_service_breaks_no_invariant() -> None:
    for name in sorted({name for _, names, _ in BROKEN.values() for name in names}):
        play(SCENARIOS[name])
