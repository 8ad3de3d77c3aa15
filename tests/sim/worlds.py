"""The embedded Kubernetes and Slurm in one virtual time, with the author of each change."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from operator import is_
from typing import Any, Protocol, TypeVar

import msgspec

from sunk_sync.embedded.kubernetes.api.api import KubeApi
from sunk_sync.embedded.kubernetes.kubernetes import Kubernetes
from sunk_sync.embedded.kubernetes.store.kinds import (
    CSI_DRIVERS,
    CSI_NODES,
    EVENTS,
    NAMESPACES,
    NODE_SETS,
    NODES,
    PODS,
    STORAGE_CAPACITIES,
    VOLUME_CLAIMS,
    VOLUMES,
)
from sunk_sync.embedded.kubernetes.store.refusal import RefusalError
from sunk_sync.embedded.kubernetes.store.store import Change, Snapshot
from sunk_sync.embedded.slurm.api.rest import SlurmRest
from sunk_sync.embedded.slurm.calls import Call
from sunk_sync.embedded.slurm.memory import Setup
from sunk_sync.embedded.slurm.model.job import Job
from sunk_sync.embedded.slurm.model.node import Node
from sunk_sync.embedded.slurm.model.tokens import Tokens
from sunk_sync.embedded.slurm.slurm import SlurmWorld
from sunk_sync.embedded.wire import Question
from tests.sim.history import History

T = TypeVar("T")

US = "us"
"""Author of the changes by requests of sunk-sync."""
WORLD = "world"
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Onlooker(Protocol):
    """Observes each change on a server, from outside."""

    def kube_changed(self, change: Change, author: str) -> None:
        """One object was written."""

    def slurm_changed(self, before: Node | None, after: Node | None, author: str) -> None:
        """One Slurm node changed, appeared or was removed."""

    def job_changed(self, before: Job | None, after: Job | None, author: str) -> None:
        """One Slurm job changed, appeared or was forgotten."""

    def kube_restored(self) -> None:
        """Kubernetes was restored to an older state."""


class Worlds:
    def __init__(self, setup: Setup, history: History, *, cluster: int = 1) -> None:
        self.history = history
        self.author = WORLD
        self.onlookers: list[Onlooker] = []
        self.wall_shift_s = 0.0
        """Offset of the wall clock of the service."""
        self.restored = False
        """Kubernetes was restored: earlier Events can be lost."""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.kube = Kubernetes(heartbeat_s=0.0, cluster=cluster, epoch=EPOCH)
        self.kube.advance(self.now_s)
        self.kube_api = KubeApi(self.kube)
        self.tokens = Tokens()
        self.slurm = SlurmWorld(setup, now_s=self.now_s)
        self.slurm_rest = SlurmRest(self.slurm, self.tokens)
        self.on_calls: Callable[[Sequence[Call]], None] = _unheard
        """Called with the calls of slurmctld and of job scripts."""
        self._rows: dict[str, Node] = dict(self.slurm.nodes)
        self._jobs: dict[int, Job] = {}
        for kind in (
            NODES, PODS, NAMESPACES, EVENTS, VOLUME_CLAIMS, VOLUMES, CSI_NODES, CSI_DRIVERS,
            STORAGE_CAPACITIES,
        ):  # fmt: skip
            self.kube.store.listen(kind, self._kube_changed)

    def install_node_sets(self) -> None:
        self.kube.install_node_sets()
        self.kube.store.listen(NODE_SETS, self._kube_changed)

    @property
    def now_s(self) -> float:
        return self._loop.time()

    @cached_property
    def cluster_uid(self) -> str:
        stored = self.kube.store.get(NAMESPACES, "/kube-system")
        assert stored is not None
        return str(stored.an_object["metadata"]["uid"])

    def wall_clock(self) -> datetime:
        """Return the time of day on the machine of the service."""
        return EPOCH + timedelta(seconds=self.now_s + self.wall_shift_s)

    def advance(self) -> None:
        self.kube.advance(self.now_s)
        self.slurm.advance(self.now_s)
        self._look()

    def act(self, author: str, doing: Callable[[], T]) -> T:
        self.advance()
        self.author = author
        try:
            return doing()
        finally:
            self._look()
            self.author = WORLD
            self.rearm()

    def try_to(self, author: str, doing: Callable[[], object]) -> object:
        """Do the same as `act`, but return refusals."""
        try:
            return self.act(author, doing)
        except RefusalError as refusal:
            return refusal

    def patch(self, path: str, patch: dict[str, Any]) -> None:
        question = Question(
            method="PATCH",
            path=f"/api/v1/{path}",
            query={"fieldManager": "others"},
            headers={"content-type": "application/merge-patch+json"},
            body=msgspec.json.encode(patch),
        )
        self.kube_api.answer(question, self.now_s)

    def restore(self, backup: Snapshot) -> None:
        """Restore a snapshot of Kubernetes. The change has no author."""
        self.restored = True
        self.act(WORLD, lambda: self.kube.restore(backup))
        for onlooker in self.onlookers:
            onlooker.kube_restored()

    def rearm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = [due_s for world in (self.kube, self.slurm) if (due_s := world.next_s()) is not None]
        if due:
            self._timer = self._loop.call_at(max(min(due), self.now_s), self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.advance()
        self.rearm()

    def _kube_changed(self, change: Change) -> None:
        self.history.steps += 1
        for onlooker in self.onlookers:
            onlooker.kube_changed(change, self.author)

    def _look(self) -> None:
        """Report the changes of Slurm nodes and jobs since the last call.

        Report the killed scripts first, then the jobs that start on their hosts.
        """
        calls = self.slurm.take_calls()
        if calls:
            self.on_calls(calls)
        self._look_at_nodes()
        self._look_at_jobs()

    def _look_at_jobs(self) -> None:
        before, after = self._jobs, self.slurm.jobs
        if _same(before, after):
            return
        self._jobs = after = dict(after)
        for key in before | after:
            was, now = before.get(key), after.get(key)
            if was is not now:
                self.history.steps += 1
                for onlooker in self.onlookers:
                    onlooker.job_changed(was, now, self.author)

    def _look_at_nodes(self) -> None:
        before, after = self._rows, self.slurm.nodes
        if _same(before, after):
            return
        self._rows = after = dict(after)
        for name, row in before.items():
            if name not in after:
                self._tell(row, None)
        for name, row in after.items():
            if before.get(name) is not row:
                self._tell(before.get(name), row)

    def _tell(self, before: Node | None, after: Node | None) -> None:
        self.history.steps += 1
        for onlooker in self.onlookers:
            onlooker.slurm_changed(before, after, self.author)


def _same(before: Mapping[Any, object], after: Mapping[Any, object]) -> bool:
    """Whether both hold the same records in the same order: nothing was written."""
    return before.keys() == after.keys() and all(map(is_, before.values(), after.values()))


def _unheard(calls: Sequence[Call]) -> None:
    """Ignore calls of gates and scripts."""
