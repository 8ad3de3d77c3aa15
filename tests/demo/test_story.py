"""The stories of the demo: every check can fail, and the fixed story passes within a minute."""

import asyncio
import io
from collections.abc import Awaitable, Callable, Mapping
from itertools import islice
from pathlib import Path
from random import Random
from typing import cast
from unittest.mock import Mock

import pytest

from sunk_sync.core import decide
from sunk_sync.core.model.names import NODE_RUNNING_CONDITION, POD_STATE_CONDITION
from sunk_sync.core.rules.host import drain
from sunk_sync.demo.screens import LineScreen
from sunk_sync.demo.show import FAILED, PASSED, STOPPED, Choice, Show
from sunk_sync.demo.stage.callers import Callers, job_name
from sunk_sync.demo.stage.syncer import Syncer, Tail
from sunk_sync.demo.stage.users import OVERLAP, TEAM
from sunk_sync.demo.stage.worlds import HOSTS, Worlds
from sunk_sync.demo.story import host_steps, outages, pod_steps
from sunk_sync.demo.story.context import Context
from sunk_sync.demo.story.endless import HOST_INCIDENTS, endless_steps
from sunk_sync.demo.story.history import History
from sunk_sync.demo.story.once import STORY
from sunk_sync.demo.story.pod_incidents import POD_INCIDENTS
from sunk_sync.demo.story.runner import Pace, Runner
from sunk_sync.demo.story.step import Step
from sunk_sync.embedded.slurm.model.job import Job
from sunk_sync.embedded.slurm.model.node import NodeSpec
from sunk_sync.server.tokens import GATE

MonkeyPatch = pytest.MonkeyPatch
FAST = Pace(pause_s=0.1, poll_s=0.01)
SHORT = Pace(pause_s=0.05, poll_s=0.01, timeout_factor=0.02)
IMPATIENT = Pace(pause_s=0.1, poll_s=0.01, timeout_factor=0.7)
LENGTH_MAX_S = 65.0
PLAYED = pytest.mark.night("a story is played in real time; .ci/run plays the fixed one as a user")


class Idle:
    """A service that runs, is ready, and never writes."""

    alive = ready = reads_slurm = True

    def __init__(self) -> None:
        self.tail = Tail()

    def check(self) -> None:
        """It never fails."""

    def start(self) -> None:
        self.alive = True

    def kill(self) -> None:
        self.alive = False


@pytest.fixture
async def context() -> Context:
    return Context(Worlds(), cast(Syncer, Idle()), History(lambda: 0.0))


Shown = Callable[..., Awaitable[tuple[int, str]]]


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: MonkeyPatch) -> Shown:
    """Show these steps, or the fixed story; return the exit code and the text."""

    async def show(*steps: Step, pace: Pace = FAST) -> tuple[int, str]:
        if steps:
            monkeypatch.setattr("sunk_sync.demo.show.STORY", [STORY[0], *steps])
        file = io.StringIO()
        demo = Show(Choice(once=True, pace=pace), tmp_path, screen=LineScreen(file))
        return await demo.run(asyncio.Event()), file.getvalue()

    return show


PODS = ("train", "eval", "next")
NEGATIVE = ("stays", "nothing changes", "changes nothing")
"""Checks that something does *not* happen pass with a service that does nothing."""
NEED_A_WRITE = [step for step in STORY if not any(word in step.expected for word in NEGATIVE)] + [
    host_steps.delete_pod("n4")
]


@pytest.mark.parametrize("step", NEED_A_WRITE, ids=lambda step: step.text)
async def test_no_check_passes_without_a_write_of_the_service(context: Context, step: Step) -> None:
    if "lift" in step.expected:
        context.worlds.drain(",".join(HOSTS), "k8s: before")
    if "gone" in step.expected or "deleted" in step.expected:
        for name in PODS:
            context.worlds.kube.add_pod(name, namespace=TEAM, node="n10")
    if "in Slurm is left" in step.expected:
        context.worlds.slurm.register(NodeSpec(name="cpu-0"), now_s=0.0)
    step.act(context)
    assert not step.holds(context)


Act = Callable[[Context], None]
WRONG_WRITES: list[tuple[Step, Act, Act]] = [
    (
        host_steps.uncordon_after_take_over("n8", "fan"),
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
        host_steps.mark_for_deletion("n4", "x"),
        lambda on: on.worlds.drain("n4", "k8s: pod pending deletion: x"),
        lambda on: on.worlds.resume("n4"),
    ),
]


@pytest.mark.parametrize(
    ("step", "before", "wrong"), WRONG_WRITES, ids=lambda one: getattr(one, "text", "")
)
async def test_a_check_that_nothing_changes_fails_after_a_wrong_write(
    context: Context, step: Step, before: Act, wrong: Act
) -> None:
    before(context)
    step.act(context)
    assert step.holds(context)
    wrong(context)
    assert not step.holds(context)


IDLE, BUSY = POD_STATE_CONDITION + "Idle", POD_STATE_CONDITION + "Allocated"


@pytest.mark.parametrize(
    ("pod", "node", "shown"),
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
async def test_a_state_is_shown_only_if_pod_and_node_both_have_it(
    monkeypatch: MonkeyPatch, context: Context, pod: Mapping[str, str], node: str, shown: bool
) -> None:
    objects = {"pod": pod, "node": {NODE_RUNNING_CONDITION: node}}
    for what, conditions in objects.items():
        listed = [{"type": name, "status": status} for name, status in conditions.items()]
        found = {"status": {"conditions": listed}}
        monkeypatch.setattr(context.worlds, what, Mock(return_value=found))
    assert context.shows_state("n1") is shown


async def test_a_story_ends_at_its_first_failed_check(context: Context) -> None:
    assert not await Runner(context, SHORT).run(STORY)
    assert [line.sort for line in context.history.lines] == ["action", "failed"]
    assert context.history.failed[0].endswith(STORY[0].expected)


async def test_the_endless_story_continues_after_a_failed_check(context: Context) -> None:
    """A user may change objects with kubectl."""
    assert not await Runner(context, SHORT).run(STORY[:3], to_the_end=True)
    assert [line.text for line in context.history.lines if line.sort == "action"] == [
        step.text for step in STORY[:3]
    ]


async def test_a_claim_must_stay_true_during_the_pause(context: Context) -> None:
    answers = iter([True, True, False])
    step = Step(
        text="Something happens",
        act=lambda _: None,
        expected="it is so",
        holds=lambda _: next(answers, True),
    )
    assert not await Runner(context, FAST).run([step])
    assert context.history.failed == ["did not stay true: it is so"]


def test_a_seed_determines_the_endless_story() -> None:
    def story(seed: int) -> list[str]:
        return [step.text for step in islice(endless_steps(Random(seed)), 300)]

    assert story(1) == story(1) != story(2)


@pytest.mark.parametrize("seed", range(5))
def test_every_incident_occurs_within_300_steps(seed: int) -> None:
    text = " ".join(step.text for step in islice(endless_steps(Random(seed)), 300))
    kinds = ("cordons", "in Slurm", "drain reason", "for deletion", "deletes Node", "NotReady")
    assert len(kinds) == len(HOST_INCIDENTS)
    of_pods = ("deletes Pod", "scancel", "timeout", "partition urgent", "priority", "a gang")
    assert len(of_pods) == len(POD_INCIDENTS)
    for words in (*kinds, *of_pods, "slurmctld stops", "service is killed"):
        assert words in text


@PLAYED
async def test_the_fixed_story_passes_with_the_production_service(shown: Shown) -> None:
    before = asyncio.all_tasks()
    code, text = await shown()
    assert (code, text.count("✓")) == (PASSED, len(STORY)), text
    assert asyncio.all_tasks() == before


async def test_a_failed_check_is_exit_code_1(shown: Shown) -> None:
    step = host_steps.cordon("n1", "x")
    wrong = Step(
        text=step.text, act=step.act, expected="n1 is drained for another reason", within_s=0.2,
        holds=lambda on: on.is_drained("n1", "another reason"),
    )  # fmt: skip
    assert (await shown(wrong))[0] == FAILED


@pytest.mark.parametrize(("once", "code"), [(True, STOPPED), (False, PASSED)])
async def test_a_stopped_demo_leaves_no_task(tmp_path: Path, once: bool, code: int) -> None:
    """Stopping is the normal end of the endless story; the fixed story has not passed."""
    before = asyncio.all_tasks()
    stopped = asyncio.Event()
    asyncio.get_running_loop().call_later(1.0, stopped.set)
    show = Show(Choice(once=once), tmp_path, screen=LineScreen(io.StringIO()))
    assert await show.run(stopped) == code
    assert asyncio.all_tasks() == before


def test_the_fixed_story_lasts_about_a_minute() -> None:
    pauses_s = sum(max(step.stays_s, Pace().pause_s) for step in STORY)
    assert 20.0 < pauses_s < LENGTH_MAX_S - 25.0


FAULTS = {
    "k8s: node cordoned": host_steps.cordon("n1", "disk"),
    "k8s: pod pending deletion": host_steps.mark_for_deletion("n4", "scale down"),
    "k8s: pod terminated": host_steps.delete_pod("n3"),
    "k8s: node gone": host_steps.delete_node("n6"),
}
"""Cause of the drain rule → the step whose check fails without it."""


@PLAYED
@pytest.mark.parametrize("cause", FAULTS)
async def test_a_missing_cause_of_the_drain_rule_is_detected(
    shown: Shown, monkeypatch: MonkeyPatch, cause: str
) -> None:
    left = tuple(one for one in drain.CAUSES if one.reason != cause)
    assert len(left) == len(drain.CAUSES) - 1
    monkeypatch.setattr(drain, "CAUSES", left)
    code, text = await shown(FAULTS[cause], pace=IMPATIENT)
    assert (code, text.count("✓")) == (FAILED, 1), text


@PLAYED
async def test_a_lifted_drain_of_a_user_is_detected(shown: Shown, monkeypatch: MonkeyPatch) -> None:
    """For that, the rule and the check before the write must both be wrong."""
    for module in ("core.rules.host.drain", "slurm.write.precondition"):
        monkeypatch.setattr(f"sunk_sync.{module}.is_foreign_drain", lambda _: False)
        monkeypatch.setattr(f"sunk_sync.{module}.is_our_reason", lambda _: True, raising=False)
    monkeypatch.setattr("sunk_sync.slurm.write.precondition.is_ours", lambda _: True, raising=False)
    code, text = await shown(host_steps.drain_by_hand("n3", "fan broken"))
    assert code == FAILED, text


MISSING_RULES = {
    "submit": [pod_steps.apply("train")],
    "bind": [pod_steps.apply("train")],
    "wait": [pod_steps.refuse("eval")],
    "release": [pod_steps.apply("train"), pod_steps.delete("train")],
    "evict": [pod_steps.apply("train"), pod_steps.cancel("train")],
}
"""Rule → steps; the check of the last step fails without the rule."""


@PLAYED
@pytest.mark.parametrize("rule", MISSING_RULES)
async def test_a_missing_rule_is_detected(
    shown: Shown, monkeypatch: MonkeyPatch, rule: str
) -> None:
    monkeypatch.delitem(decide.WORKLOAD_RULES, rule)
    code, text = await shown(*MISSING_RULES[rule], pace=IMPATIENT)
    assert (code, text.count("✓")) == (FAILED, len(MISSING_RULES[rule])), text


@PLAYED
async def test_a_gate_that_passes_all_is_detected(shown: Shown, monkeypatch: MonkeyPatch) -> None:
    """The preempting job runs beside a terminating Pod, which only the gate prevents."""

    async def passes(callers: Callers, job: Job) -> None:
        body = {"job_id": job_name(job), "nodes": ",".join(job.nodes), "deadline_s": 0.05}
        await callers._call("gate", body, subject=GATE)
        callers.slurm.release_gate(job.job_id, now_s=callers.slurm.now_s)

    monkeypatch.setattr(Callers, "_gate", passes)
    preempted = [pod_steps.preempt("eval", "ada"), pod_steps.end_preempted("eval", "ada")]
    code, text = await shown(pod_steps.apply("train"), pod_steps.apply("eval"), *preempted)
    assert code == FAILED
    assert OVERLAP in text, text
