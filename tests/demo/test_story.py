"""The demo's stories: every promise can be broken, the fixed one ends right, and fast."""

import asyncio
import io
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from random import Random
from typing import cast
from unittest.mock import Mock

import pytest

from sunk_sync.core import decide
from sunk_sync.core.model.names import NODE_RUNNING_CONDITION, POD_STATE_CONDITION
from sunk_sync.core.rules.host import drain
from sunk_sync.demo.screens import Lines
from sunk_sync.demo.show import BROKEN, CANNOT, FINE, Choice, Show
from sunk_sync.demo.stage.callers import Callers, spelled
from sunk_sync.demo.stage.syncer import Syncer, Tail
from sunk_sync.demo.stage.users import CROWDED, TEAM
from sunk_sync.demo.stage.worlds import HOSTS, Worlds
from sunk_sync.demo.story import beats, outages, pod_beats
from sunk_sync.demo.story.beats import Beat
from sunk_sync.demo.story.diary import Diary
from sunk_sync.demo.story.endless import TROUBLES, told
from sunk_sync.demo.story.once import STORY
from sunk_sync.demo.story.stage import Stage
from sunk_sync.demo.story.tales import TALES
from sunk_sync.demo.story.teller import Pace, Teller
from sunk_sync.embedded.kubernetes.store.kinds import Object
from sunk_sync.embedded.slurm.model.job import Job
from sunk_sync.server.tokens import GATE

FAST = Pace(rest_s=0.1, look_s=0.01)
IMPATIENT = Pace(rest_s=0.05, look_s=0.01, patience=0.02)
LENGTH_MAX_S = 55.0


class Idle:
    """Stands in for the service: it runs, is ready, and never writes."""

    alive = ready = reads_slurm = True

    def __init__(self) -> None:
        self.tail = Tail()

    def check(self) -> None:
        """It never dies."""

    def start(self) -> None:
        self.alive = True

    def kill(self) -> None:
        self.alive = False


class Clock:
    """A clock that stands still."""

    def __call__(self) -> float:
        return 0.0


@pytest.fixture
async def stage() -> Stage:
    return Stage(Worlds(), cast(Syncer, Idle()), Diary(Clock()))


PODS = ("train", "eval", "next")
HARMLESS = ("stays", "blindly", "nothing changes")
"""Promises that something does *not* happen are kept by a service that does nothing."""
RESTING_ON_A_WRITE = [
    beat for beat in STORY if not any(word in beat.promise for word in HARMLESS)
] + [beats.delete_pod("n4")]


@pytest.mark.parametrize("beat", RESTING_ON_A_WRITE, ids=lambda beat: beat.said)
async def test_without_a_write_of_the_service_no_promise_comes_true(
    stage: Stage, beat: Beat
) -> None:
    """Each claim about what the service does is false right after what people did."""
    if "lifted" in beat.promise:
        stage.worlds.drain(",".join(HOSTS), "k8s: before")
    if "gone" in beat.promise or "deleted" in beat.promise:
        for name in PODS:
            stage.worlds.kube.add_pod(name, namespace=TEAM, node="n10")
    beat.act(stage)
    assert not beat.kept(stage)


WRONGS: list[tuple[Beat, Callable[[Stage], None], Callable[[Stage], None]]] = [
    (
        beats.uncordon_in_vain("n8", "fan"),
        lambda on: on.worlds.drain("n8", "fan"),
        lambda on: on.worlds.resume("n8"),
    ),
    (
        outages.stop_slurmctld("n9", "x"),
        lambda _: None,
        lambda on: on.worlds.drain("n9", "k8s: node cordoned: x"),
    ),
    (
        outages.kill_service(cordoned="n1", why="x", uncordoned="n3"),
        lambda on: on.worlds.drain("n3", "k8s: node cordoned"),
        lambda on: on.worlds.resume("n3"),
    ),
    (
        beats.retire("n4", "x"),
        lambda on: on.worlds.drain("n4", "k8s: pod pending deletion: x"),
        lambda on: on.worlds.resume("n4"),
    ),
]


@pytest.mark.parametrize(
    ("beat", "before", "wrong"), WRONGS, ids=lambda one: getattr(one, "said", "")
)
async def test_a_wrong_write_breaks_the_promise_of_no_write(
    stage: Stage, beat: Beat, before: Callable[[Stage], None], wrong: Callable[[Stage], None]
) -> None:
    """What must stay as it is, is looked at as long as one watches."""
    before(stage)
    beat.act(stage)
    assert beat.kept(stage)
    wrong(stage)
    assert not beat.kept(stage)


IDLE, BUSY = POD_STATE_CONDITION + "Idle", POD_STATE_CONDITION + "Allocated"


@pytest.mark.parametrize(
    ("pod", "node", "told"),
    [
        ({"Ready": "True", IDLE: "True"}, "False", True),
        ({IDLE: "True", BUSY: "False"}, "False", True),
        ({}, "False", False),
        ({BUSY: "True"}, "False", False),
        ({IDLE: "True", BUSY: "True"}, "False", False),
        ({IDLE: "True"}, "", False),
        ({IDLE: "True"}, "True", False),
    ],
)
async def test_a_state_is_shown_only_when_pod_and_node_both_say_so(
    monkeypatch: pytest.MonkeyPatch, stage: Stage, pod: Mapping[str, str], node: str, told: bool
) -> None:
    """The story is over only when the last change of Slurm, here to IDLE, stands on both."""
    shown = {"pod": pod, "node": {NODE_RUNNING_CONDITION: node}}
    for what, conditions in shown.items():
        monkeypatch.setattr(stage.worlds, what, Mock(return_value=_showing(conditions)))
    assert stage.shows_state("n1") is told


def _showing(conditions: Mapping[str, str]) -> Object:
    listed = [{"type": name, "status": status} for name, status in conditions.items()]
    return {"status": {"conditions": listed}}


async def test_a_story_ends_at_its_first_broken_promise(stage: Stage) -> None:
    """An idle service breaks the first, and the diary says which."""
    assert not await Teller(stage, IMPATIENT).tell(STORY)
    assert [line.sort for line in stage.diary.lines] == ["act", "broken"]
    assert stage.diary.broken[0].endswith(STORY[0].promise)


async def test_an_endless_story_goes_on_after_a_broken_promise(stage: Stage) -> None:
    """Somebody may meddle by kubectl; nobody lifts what nobody drained."""
    assert not await Teller(stage, IMPATIENT).tell(STORY[:3], to_the_end=True)
    assert [line.text for line in stage.diary.lines if line.sort == "act"] == [
        beat.said for beat in STORY[:3]
    ]


async def test_a_promise_must_stay_true_while_one_looks(stage: Stage) -> None:
    """True once is not enough."""
    answers = iter([True, True, False])
    beat = Beat(
        said="Something happens",
        act=lambda _: None,
        promise="it is so",
        kept=lambda _: next(answers, True),
    )
    assert not await Teller(stage, FAST).tell([beat])
    assert stage.diary.broken == ["did not stay so: it is so"]


def test_one_seed_is_one_story() -> None:
    """And another is another."""

    def story(seed: int) -> list[str]:
        return [beat.said for beat in islice(told(Random(seed)), 300)]

    assert story(1) == story(1) != story(2)


@pytest.mark.parametrize("seed", range(5))
def test_everything_that_can_happen_happens_before_long(seed: int) -> None:
    """Each kind of trouble, each tale of Pods, both outages."""
    said = " ".join(beat.said for beat in islice(told(Random(seed)), 300))
    kinds = ("cordons", "in Slurm", "their own", "to be deleted", "is gone", "NotReady")
    assert len(kinds) == len(TROUBLES)
    of_pods = ("deletes Pod", "scancel", "timeout", "partition urgent", "priority", "A gang")
    assert len(of_pods) == len(TALES)
    for words in (*kinds, *of_pods, "slurmctld is down", "service is killed"):
        assert words in said


async def test_the_fixed_story_comes_to_a_good_end(tmp_path: Path) -> None:
    """The production service between both worlds, every promise in time, with shorter pauses."""
    before = asyncio.all_tasks()
    file = io.StringIO()
    show = Show(Choice(once=True, pace=FAST), tmp_path, screen=Lines(file))
    assert await show.run(asyncio.Event()) == FINE, file.getvalue()
    assert file.getvalue().count("✓") == len(STORY), file.getvalue()
    assert asyncio.all_tasks() == before


async def test_a_broken_promise_is_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has drained n1 in the name of a full moon."""
    beat = beats.cordon("n1", "x")
    wrong = Beat(
        said=beat.said, act=beat.act, promise="n1 howls", within_s=0.2,
        kept=lambda on: on.is_drained("n1", "full moon"),
    )  # fmt: skip
    monkeypatch.setattr("sunk_sync.demo.show.STORY", [STORY[0], wrong])
    show = Show(Choice(once=True, pace=FAST), tmp_path, screen=Lines(io.StringIO()))
    assert await show.run(asyncio.Event()) == BROKEN


@pytest.mark.parametrize(("once", "code"), [(True, CANNOT), (False, FINE)])
async def test_stopped_it_leaves_nothing_behind(tmp_path: Path, once: bool, code: int) -> None:
    """The endless story ends well whenever it is stopped; the fixed one has proved nothing."""
    before = asyncio.all_tasks()
    stopped = asyncio.Event()
    asyncio.get_running_loop().call_later(1.0, stopped.set)
    show = Show(Choice(once=once), tmp_path, screen=Lines(io.StringIO()))
    assert await show.run(stopped) == code
    assert asyncio.all_tasks() == before


def test_the_fixed_story_lasts_less_than_a_minute() -> None:
    """Its pauses alone leave time for what happens between them."""
    pauses_s = sum(max(beat.stays_s, Pace().rest_s) for beat in STORY)
    assert 20.0 < pauses_s < LENGTH_MAX_S - 25.0


FAULTS = {
    "_node_cordoned": [beats.cordon("n1", "disk")],
    "_pod_pending_deletion": [beats.retire("n4", "scale down")],
    "_pod_gone": [beats.delete_pod("n3")],
    "_node_lost": [beats.lose_node("n6")],
}
"""Cause of the drain rule → the beat that shows when it is missing."""


@pytest.mark.parametrize("cause", FAULTS)
async def test_a_service_that_forgets_a_cause_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cause: str
) -> None:
    """Exit code 1, in the beat that is about it."""
    left = tuple(ask for ask in drain.CAUSES if ask.__name__ != cause)
    assert len(left) == len(drain.CAUSES) - 1
    monkeypatch.setattr(drain, "CAUSES", left)
    monkeypatch.setattr("sunk_sync.demo.show.STORY", [STORY[0], *FAULTS[cause]])
    pace = Pace(rest_s=0.1, look_s=0.01, patience=0.7)
    file = io.StringIO()
    show = Show(Choice(once=True, pace=pace), tmp_path, screen=Lines(file))
    assert await show.run(asyncio.Event()) == BROKEN
    assert file.getvalue().count("✓") == 1, file.getvalue()


async def test_a_service_that_lifts_what_a_human_drained_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the rule and in the check before the write: both must be wrong for it."""
    for module in ("core.rules.host.drain", "slurm.write.precondition"):
        monkeypatch.setattr(f"sunk_sync.{module}.is_foreign_drain", lambda _: False)
    for module in ("core.rules.host.drain", "slurm.write.precondition"):
        monkeypatch.setattr(f"sunk_sync.{module}.is_our_reason", lambda _: True, raising=False)
    monkeypatch.setattr("sunk_sync.slurm.write.precondition.is_ours", lambda _: True, raising=False)
    told = [STORY[0], beats.drain_by_hand("n3", "fan broken")]
    monkeypatch.setattr("sunk_sync.demo.show.STORY", told)
    file = io.StringIO()
    show = Show(Choice(once=True, pace=FAST), tmp_path, screen=Lines(file))
    assert await show.run(asyncio.Event()) == BROKEN, file.getvalue()


FORGETFUL = {
    "submit": [pod_beats.apply("train")],
    "bind": [pod_beats.apply("train")],
    "wait": [pod_beats.refuse("eval")],
    "release": [pod_beats.apply("train"), pod_beats.delete("train")],
    "evict": [pod_beats.apply("train"), pod_beats.cancel("train")],
}
"""Rule → the beats of which the last shows when it is missing."""


@pytest.mark.parametrize("rule", FORGETFUL)
async def test_a_service_that_forgets_a_rule_of_pods_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    """Exit code 1, in the beat that is about it."""
    monkeypatch.delitem(decide.WORK_RULES, rule)
    monkeypatch.setattr("sunk_sync.demo.show.STORY", [STORY[0], *FORGETFUL[rule]])
    pace = Pace(rest_s=0.1, look_s=0.01, patience=0.7)
    file = io.StringIO()
    show = Show(Choice(once=True, pace=pace), tmp_path, screen=Lines(file))
    assert await show.run(asyncio.Event()) == BROKEN
    assert file.getvalue().count("✓") == len(FORGETFUL[rule]), file.getvalue()


async def test_a_gate_that_lets_everybody_pass_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A preempting job beside a Pod that is still ending breaks every promise.

    Once the gate was seen a Pod gets an allocation, which holds its machine by nothing else.
    """

    async def passes(callers: Callers, job: Job) -> None:
        body = {"job_id": spelled(job), "nodes": ",".join(job.nodes), "deadline_s": 0.05}
        await callers._call("gate", body, subject=GATE)
        callers.slurm.release_gate(job.job_id, now_s=callers.slurm.now_s)

    monkeypatch.setattr(Callers, "_gate", passes)
    preempted = [pod_beats.preempt("eval", "ada"), pod_beats.make_way("eval", "ada")]
    told = [STORY[0], pod_beats.apply("train"), pod_beats.apply("eval"), *preempted]
    monkeypatch.setattr("sunk_sync.demo.show.STORY", told)
    file = io.StringIO()
    show = Show(Choice(once=True, pace=FAST), tmp_path, screen=Lines(file))
    assert await show.run(asyncio.Event()) == BROKEN
    assert CROWDED in file.getvalue(), file.getvalue()
