"""A small fixed cluster for scripted scenarios, with crashes at chosen points."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sunk_sync.embedded.kubernetes.store.store import Snapshot
from sunk_sync.embedded.slurm.memory import Knobs, Partition, Setup
from sunk_sync.embedded.slurm.model.node import NodeSpec
from sunk_sync.settings.model import Settings
from tests.kit import clock
from tests.kit.clock import OUTSIDE
from tests.sim import words
from tests.sim.cast import PERSON, Cast
from tests.sim.checks import Checks
from tests.sim.ends import TokenFile
from tests.sim.faults import Faults
from tests.sim.history import BrokenPromiseError, History
from tests.sim.judging import mark_of
from tests.sim.life import Life
from tests.sim.reads import row_of
from tests.sim.rest import unrest
from tests.sim.wire import Exchange, Moment, Wire, breaks_calls
from tests.sim.worlds import Worlds

HOSTS = ("1", "2", "3")
BEGIN_S = 5.0
RESTART_S = 1.0
SETTLE_S = 75.0
TRIES = 12
NAMESPACE = "slurm"

Step = tuple[float, Callable[["Stage"], object]]
"""Seconds after the previous step, and the operation."""


class Scenario(Struct, frozen=True, kw_only=True):
    rows: str
    """Rows of the behaviour that it covers."""
    steps: tuple[Step, ...]
    end: Mapping[str, str | None] = {}
    """Slurm node → reason of its drain at the end. None: not drained."""
    settings: Mapping[str, Any] = {}
    knobs: Mapping[str, Any] = {}
    pages: bool = False
    """The API server has no WatchLists and returns two objects in each page."""
    partitions: tuple[Partition, ...] = ()
    """Empty: one partition."""
    staged_by: "type[Stage] | None" = None
    """None: a Stage."""


class Point(Struct, frozen=True):
    """A possible crash point: its number in one life, and its description."""

    number: int
    words: str
    writes: bool
    """It concerns a write, before the request or after the server performed it."""


Branch = Callable[[Point], bool]
"""Called at each point of the life after the last crash. Returns whether to crash here."""


class Stage:
    """Three hosts n1-n3 on Nodes k1-k3, and the service. `crashes` has one point for each life."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        history: History,
        crashes: tuple[int, ...] = (),
        branch: Branch | None = None,
    ) -> None:
        self.scenario = scenario
        self.history = history
        self._branch = branch
        self.points: list[Point] = []
        """Points of the last life, which does not crash."""
        self._crashes = list(crashes)
        self._seed = f"{scenario.rows} {crashes[:1]}"
        self.settings = Settings(
            slurm_api_base=("http://restd:6820",),
            slurmd_namespace=(NAMESPACE,),
            slurm_poll_interval_s=5.0,
            **{"components": ("syncer",), **scenario.settings},
        )
        self.backup: Snapshot | None = None
        self.worlds = Worlds(self._setup(), history, cluster=3)
        self.kube, self.slurm = self.worlds.kube, self.worlds.slurm
        faults = Faults()
        if scenario.pages:
            faults.small_pages, faults.streams_lists = True, False
        self.wire = Wire(self.worlds, faults, history)
        self.wire.at = self._at
        self.cast = Cast(self.worlds, len(HOSTS), namespaces=(NAMESPACE,))
        self._furnish()
        self.checks = self._new_checks(self.settings.max_drains_per_minute or 20)
        self.wire.witnesses.append(self.checks)
        self.token = TokenFile("token")
        self._lives = 0
        self._restarting: asyncio.Task[None] | None = None
        self._live()

    def _setup(self) -> Setup:
        return _setup(self.scenario)

    def _furnish(self) -> None:
        for number in HOSTS:
            self.act(partial(self.kube.add_node, f"k{number}"))
            self.act(partial(self.cast.add_pod, f"n{number}", node=f"k{number}"))

    def _new_checks(self, drains_a_minute: int) -> Checks:
        packs = self.settings.pack != "off"
        return Checks(self.worlds, self.history, drains_a_minute=drains_a_minute, packs=packs)

    @property
    def now_s(self) -> float:
        return self.worlds.now_s

    def act(self, doing: Callable[[], object]) -> None:
        answer = self.worlds.try_to(PERSON, doing)
        self.history.note("people", "" if answer is None else str(answer)[:80])

    def expect(self, name: str, reason: str | None) -> None:
        """Raise BrokenPromiseError unless the node's drain has this reason (None: no drain)."""
        row = row_of(self.slurm.nodes[name])
        standing = row.reason if row.drained else None
        if standing != reason:
            raise BrokenPromiseError(f"scenario: {name} is drained {standing!r}, not {reason!r}")

    def _live(self) -> None:
        self._lives += 1
        self.points.clear()
        self.life = Life(
            self.wire, self.settings, number=self._lives, token=self.token, seed=self._seed
        )
        self.wire.on_streamed[:] = [self.checks.begin(self.life.process).streamed]

    def _at(self, moment: Moment, exchange: Exchange) -> None:
        if exchange.process is not self.life.process or not exchange.process.alive:
            return
        if not self._counts(moment, exchange):
            return
        writes = exchange.writes and moment in ("sent", "served")
        point = Point(len(self.points), f"{moment} {exchange}", writes)
        self.points.append(point)
        if self._dies_at(point):
            self.history.note("service", "killed at", point.words)
            if moment != "after":
                breaks_calls(self.life.process)
            self._restarting = asyncio.get_running_loop().create_task(
                self._restart(self.life), context=OUTSIDE.copy()
            )

    def _counts(self, moment: Moment, exchange: Exchange) -> bool:
        """Whether a moment is a crash point. Of the polls only the first few are."""
        poll = exchange.side == "slurm" and exchange.question.path.endswith("/nodes/")
        if poll and not exchange.writes and exchange.process.polls > 2:
            return False
        return moment in ("sent", "served", "after", "piece")

    def _dies_at(self, point: Point) -> bool:
        if self._crashes:
            return self._crashes[0] == point.number and self._crashes.pop(0) is not None
        if self._branch is None or not self._branch(point):
            return False
        self._branch = None
        return True

    async def _restart(self, life: Life) -> None:
        await life.crash()
        await asyncio.sleep(RESTART_S)
        self._live()

    async def play(self) -> dict[str, Any]:
        """Play each step, converge, and return the final state."""
        try:
            await self._sleep(BEGIN_S)
            for after_s, doing in self.scenario.steps:
                await self._sleep(after_s)
                self.act(partial(doing, self))
            await self._rest()
            for name, reason in self.scenario.end.items():
                self.expect(name, reason)
            self.history.raise_broken()
            return self._picture()
        finally:
            if self._restarting is not None and not self._restarting.done():
                await self._restarting
            await self.life.crash()

    def _picture(self) -> dict[str, Any]:
        return picture(self.worlds)

    def _unrest(self) -> list[str]:
        return unrest(self.worlds, self.settings, self.checks.told_pods)

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.life.check()
        self.history.raise_broken()

    async def _rest(self) -> None:
        await self._sleep(SETTLE_S)
        for _ in range(TRIES):
            found = self._unrest()
            if not found:
                return
            await self._sleep(SETTLE_S / 3)
        pending = "; ".join(self.life.pending()) or "nothing"
        raise BrokenPromiseError(f"rest: {'; '.join(found)}; pending: {pending}")


def _setup(scenario: Scenario) -> Setup:
    knobs: dict[str, Any] = {"slurmd_timeout_s": 20.0, "boot_s": 5.0, **scenario.knobs}
    setup = Setup(nodes=[NodeSpec(name=f"n{number}") for number in HOSTS], knobs=Knobs(**knobs))
    return replace(setup, partitions=scenario.partitions) if scenario.partitions else setup


def picture(worlds: Worlds) -> dict[str, Any]:
    """Return the fields that sunk-sync can change, without numbers that count its writes."""
    uids = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in worlds.kube.pods()}
    shown: dict[str, Any] = {}
    for name, node in worlds.slurm.nodes.items():
        row = row_of(node)
        mark = dict(mark_of(row.comment))
        if "uid" in mark:
            mark["uid"] = uids.get(mark["uid"], "gone")
        shown[f"slurm {name}"] = (sorted(row.state), row.reason, mark or row.comment, node.weight)
    for an_object in (*worlds.kube.nodes(), *worlds.kube.pods()):
        conditions = {
            type_: (one["status"], one.get("message") or "")
            for type_, one in words.conditions_of(an_object).items()
        }
        shown[f"kube {an_object['metadata']['name']}"] = (
            dict(words.annotations_of(an_object)),
            dict(words.labels_of(an_object)),
            bool(an_object["spec"].get("unschedulable")),
            conditions,
        )
    return shown


def play(
    scenario: Scenario,
    *,
    crashes: tuple[int, ...] = (),
    branch: Branch | None = None,
    aloud: bool = False,
) -> tuple[dict[str, Any], list[Point], History]:
    """Play a scenario. Return its end, the points of its last life, and its history.

    Raises BrokenPromiseError.
    """
    history = History(aloud=aloud)

    async def story() -> tuple[dict[str, Any], list[Point]]:
        asyncio.get_running_loop().set_exception_handler(_uncaught(history))
        stage = (scenario.staged_by or Stage)(
            scenario, history=history, crashes=crashes, branch=branch
        )
        return await stage.play(), stage.points

    end, points = clock.run(story())
    return end, points, history


def _uncaught(history: History) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    def tell(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        history.break_promise("uncaught", str(context.get("exception") or context["message"]))

    return tell
