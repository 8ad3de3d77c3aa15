"""What `sunk-sync diff` and `sunk-sync status` show, as the JSON of /v1/diff and /v1/status."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import get_args

from msgspec import Struct

from sunk_sync import __version__
from sunk_sync.controller.loop import Loop
from sunk_sync.controller.outbox import Outbox
from sunk_sync.core.explain.differences import Difference, about, differences_of
from sunk_sync.core.explain.overview import HostTile, PodPhase, phase, tile
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.actions import GetGang, GetJob, GetObject, Relist
from sunk_sync.core.model.keys import Key
from sunk_sync.core.translate.node_states import is_busy, is_drained, is_ours
from sunk_sync.server.metrics_server import Check
from sunk_sync.service.explanation import VERSION, utc
from sunk_sync.service.health import Health
from sunk_sync.telemetry.action_words import phrase
from sunk_sync.telemetry.latencies import Latency

READS = (GetObject, GetGang, GetJob, Relist)
KEYS_PER_STEP = 100
"""Keys between two awaits: the loop must not stop for long."""
PODS_PER_STEP = 1000
SHOWN_MAX = 1000
"""Differences in one answer, the oldest first."""


class Differences(Struct, frozen=True, kw_only=True):
    version: int = VERSION
    at: str
    total: int
    differences: tuple[Difference, ...]
    """The oldest first, at most a thousand."""
    standby: str = ""


class Status(Struct, frozen=True, kw_only=True):
    version: int = VERSION
    at: str
    code: str
    """Version of sunk-sync."""
    leads: bool
    checks: tuple[Check, ...]
    """As /readyz?verbose has them."""
    waiting: dict[str, int]
    """Work queue → writes that wait; `in flight`: those without an answer."""
    hosts: dict[str, int]
    """State → Slurm nodes that Kubernetes knows."""
    pods: dict[str, int]
    """Phase → workload Pods; `all`, and `waiting` for those that are not bound."""
    latencies: Mapping[str, Latency]
    """What took how long in the last minute."""


class Overview:
    def __init__(
        self,
        loop: Loop,
        outbox: Outbox,
        health: Health,
        *,
        latencies: Callable[[], Mapping[str, Latency]],
        clock: Callable[[], float],
    ) -> None:
        self._loop = loop
        self._outbox = outbox
        self._health = health
        self._latencies = latencies
        self._clock = clock

    async def differences(self) -> Differences:
        found = await self.all_differences()
        found.sort(key=lambda one: -one.age_s)
        return Differences(
            at=utc(time.time()),
            total=len(found),
            differences=tuple(found[:SHOWN_MAX]),
            standby="" if self._loop.leading else "a standby does not know what was written",
        )

    async def all_differences(self) -> list[Difference]:
        """Look at every key, a few at a time."""
        found: list[Difference] = []
        keys = self._loop.reconciler.graph.keys.all()
        for number, key in enumerate(keys):
            if number % KEYS_PER_STEP == 0:
                await asyncio.sleep(0)
            found += self._of(key)
        return found

    def _of(self, key: Key) -> Sequence[Difference]:
        """Return the differences of a key that still exists."""
        reconciler = self._loop.reconciler
        if not reconciler.graph.keys.knows(key):
            return ()
        now = self._clock()
        found = [*differences_of(reconciler, key, now=now)]
        states = self._outbox.states_of(key)
        standing = reconciler.standing.get(key)
        held = standing.kept if standing is not None else ()
        if not (states or held):
            return found
        named = about(reconciler.graph, key)
        for state in states:
            if not (state.answered or isinstance(state.action, READS)):
                what = f"{phrase(state.action)}: {state.says}"
                age_s = now - state.desired_at_s
                found.append(Difference(kind="write", about=named, what=what, age_s=age_s))
        for kept in held:
            what = f"{phrase(kept.action)}: {kept.why}"
            age_s = now - self._loop.history.since_s(key, kept, now=now)
            found.append(Difference(kind="held", about=named, what=what, age_s=age_s))
        return found

    async def tiles(self) -> dict[str, HostTile]:
        """Return the state of each host, some at a time."""
        graph = self._loop.reconciler.graph
        found: dict[str, HostTile] = {}
        for number, name in enumerate([*graph.slurm_nodes.entries]):
            if number % KEYS_PER_STEP == 0:
                await asyncio.sleep(0)
            found[name] = tile(graph, name)
        return found

    async def status(self) -> Status:
        graph = self._loop.reconciler.graph
        _, checks = self._health.ready()
        waiting = {
            "kubernetes": self._outbox.kube.depth(),
            "slurm": self._outbox.slurm.depth(),
            "jobs": self._outbox.jobs.depth(),
            "in flight": self._outbox.in_flight,
        }
        return Status(
            at=utc(time.time()),
            code=__version__,
            leads=self._loop.leading,
            checks=(*self._health.live(), *checks),
            waiting=waiting,
            hosts=_hosts(graph),
            pods=await _pods(graph),
            latencies=self._latencies(),
        )


def _hosts(graph: Graph) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for name in graph.last_seen.marks:
        row = graph.slurm_nodes.get(name)
        if row is None:
            continue
        counts["all"] += 1
        counts["busy"] += is_busy(row.state)
        counts["drained by sunk-sync"] += is_ours(row)
        counts["drained by others"] += is_drained(row.state) and not is_ours(row)
    return dict(counts)


async def _pods(graph: Graph) -> dict[str, int]:
    """Count Pods by phase, some at a time: a Pod that waits costs a look at its jobs."""
    workloads = graph.workloads
    every, bound = len(workloads.index.key_of_uid), workloads.bound_count()
    counts: Counter[str] = Counter()
    waiting = workloads.index.key_of_uid.keys() - workloads.memory.bound_s.keys()
    for number, uid in enumerate(waiting):
        if number % PODS_PER_STEP == 0:
            await asyncio.sleep(0)
        counts[phase(graph, uid)] += 1
    by_phase = {one: counts[one] for one in get_args(PodPhase) if counts[one]}
    return {"all": every, "waiting": every - bound, **by_phase, "bound": bound}
