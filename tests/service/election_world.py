"""Three replicas and one Lease in virtual time, with everything that can go wrong between them.

Every write of a replica is compared with the replica that last took the Lease. A human's change of
the Lease does not count as taking it.
"""

import asyncio
import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sunk_sync.embedded.kubernetes.api.api import KubeApi
from sunk_sync.embedded.kubernetes.kubernetes import Kubernetes
from sunk_sync.embedded.wire import Answer, Question
from sunk_sync.kube.api.answers import Decode, KubeError, T, refusal
from sunk_sync.kube.api.backoff import Ambient
from sunk_sync.kube.api.client import Request
from sunk_sync.kube.write.lease import LeasePlace, LeaseStore
from sunk_sync.service.election import ElectionTiming, Elector
from sunk_sync.service.fence import Fence
from tests.kit.clock import now

PLACE: Final = LeasePlace("default", "sunk-sync-slurm")
FOLDER: Final = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
PATH: Final = f"{FOLDER}/{PLACE.name}"
DURATION_S: Final = 6.0
EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
COPY_AGE_S: Final = DURATION_S
"""A restored Lease is older than this: decision 31 says why a younger one is out of reach."""
TIMED_OUT: Final = KubeError(kind="timeout", why="no answer in time")
BUSY: Final = KubeError(kind="answer", status=429, why="too many requests")


class LeaseServer:
    """The embedded API server, and the holder by the replicas' own requests."""

    def __init__(self) -> None:
        self.kube = Kubernetes(heartbeat_s=0.0, cluster=1, epoch=EPOCH)
        self.kube.advance(now())
        self.api = KubeApi(self.kube)
        self.holder = ""
        """Who took the Lease last; empty: it was given back."""
        self.taken: list[tuple[float, str]] = []
        self.violations: list[str] = []
        self.writes = 0
        self._copies: list[tuple[float, Any]] = []

    def answer(self, request: Request, identity: str) -> Answer:
        question = Question(
            method=request.method,
            path=request.path,
            headers={"content-type": request.content_type},
            body=request.body or b"",
        )
        self.kube.advance(now())
        answer = self.api.answer(question, now())
        assert isinstance(answer, Answer)
        if answer.status < 300 and request.method != "GET":
            claim = json.loads(request.body or b"{}")["spec"]
            if "holderIdentity" in claim:
                self._took(claim["holderIdentity"], identity)
        self._copy()
        return answer

    def _took(self, holder: str, identity: str) -> None:
        assert holder in ("", identity)
        if holder != self.holder:
            self.taken.append((now(), holder))
        self.holder = holder

    def wrote(self, identity: str) -> None:
        """Take a write of this replica that arrives now."""
        self.writes += 1
        if identity != self.holder:
            self.violations.append(f"{now():.3f}: {identity} wrote while {self.holder} leads")

    def lease(self) -> Any:
        answer = self.api.answer(Question(path=PATH), now())
        assert isinstance(answer, Answer)
        return json.loads(answer.body) if answer.status == 200 else None

    def _copy(self) -> None:
        lease = self.lease()
        if lease is not None:
            self._copies.append((now(), lease))

    def delete(self) -> None:
        self.api.answer(Question(method="DELETE", path=PATH), now())

    def change(self, patch: dict[str, Any]) -> None:
        """Change the Lease as a human does."""
        headers = {"content-type": "application/merge-patch+json"}
        body = json.dumps(patch).encode()
        self.api.answer(Question(method="PATCH", path=PATH, headers=headers, body=body), now())

    def restore(self, rng: random.Random) -> None:
        """Put an old copy back, as a human does with a backup."""
        copies = [lease for at, lease in self._copies if at < now() - COPY_AGE_S]
        if not copies:
            return
        lease = rng.choice(copies)
        self.delete()
        metadata = {
            "name": PLACE.name,
            "annotations": lease["metadata"].get("annotations", {}),
        }
        body = json.dumps({"metadata": metadata, "spec": lease.get("spec", {})}).encode()
        self.api.answer(Question(method="POST", path=FOLDER, body=body), now())


class Replica:
    """One process: it stands by, leads, writes all the time while its fence is open."""

    def __init__(self, server: LeaseServer, rng: random.Random, identity: str) -> None:
        self.identity = identity
        self.cut_off = False
        self.flaky = 0.0
        """Share of lost requests, of lost answers and of refusals."""
        self._server = server
        self._rng = rng
        self._running = asyncio.Event()
        self._running.set()
        self.wall_shift_s = 0.0
        self.fence = Fence(now)
        self.elector = Elector(
            LeaseStore(self, PLACE),
            identity,
            fence=self.fence,
            timing=ElectionTiming(DURATION_S),
            ambient=Ambient(
                clock=now, sleep=self._sleep, random=rng.random, wall_clock=self._wall_clock
            ),
        )
        self.ended = False
        self.lost = ""
        self._arrived_s = 0.0
        """When the last of its writes arrives."""
        self._tasks = [asyncio.create_task(self._live()), asyncio.create_task(self._write())]

    def pause(self) -> None:
        """Stop the process, as SIGSTOP does."""
        self._running.clear()

    def wake(self) -> None:
        self._running.set()

    @property
    def paused(self) -> bool:
        return not self._running.is_set()

    def kill(self) -> None:
        self.ended = True
        for task in self._tasks:
            task.cancel()

    async def stop(self) -> None:
        """End as after SIGTERM: first the writes in flight arrive, then the Lease is given back."""
        self._tasks.pop().cancel()
        await asyncio.sleep(max(0.0, self._arrived_s - now()))
        self.kill()
        await asyncio.wait(self._tasks)
        await self.elector.release()

    async def _live(self) -> None:
        await self.elector.acquire()
        self.lost = await self.elector.hold()
        self.ended = True

    async def _write(self) -> None:
        """Write all the time; a write is on its way for at most as long as the fence says."""
        loop = asyncio.get_running_loop()
        while True:
            await self._sleep(0.2 * self._rng.random())
            left_s = self.fence.left_s()
            if left_s > 0:
                travel_s = left_s * self._rng.choice((0.0, 0.1, 0.99)) * self._rng.random()
                self._arrived_s = max(self._arrived_s, now() + travel_s)
                loop.call_later(travel_s, self._server.wrote, self.identity)

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._running.wait()

    def _wall_clock(self) -> datetime:
        return EPOCH + timedelta(seconds=now() + self.wall_shift_s)

    async def call(self, request: Request, decode: Decode[T], /) -> T | KubeError:
        """Send a request through a network that loses and delays."""
        answer = await self._ask(request)
        await self._running.wait()
        if isinstance(answer, KubeError):
            return answer
        if answer.status >= 300:
            return refusal(answer.status, answer.body)
        return decode(answer.body)

    async def _ask(self, request: Request) -> Answer | KubeError:
        rng, began_s = self._rng, now()
        there_s, back_s = rng.random() * 0.02, rng.random() * 0.02
        if rng.random() < self.flaky / 2:
            there_s, back_s = rng.random() * request.deadline_s, rng.random() * request.deadline_s
        await asyncio.sleep(there_s)
        lost = self.cut_off or rng.random() < self.flaky
        if rng.random() < self.flaky / 2:
            return BUSY
        answer = TIMED_OUT if lost else self._server.answer(request, self.identity)
        lost = lost or there_s + back_s > request.deadline_s or rng.random() < self.flaky
        await asyncio.sleep(max(0.0, request.deadline_s - there_s) if lost else back_s)
        stopped = now() - began_s > request.deadline_s and rng.random() < 0.5
        return TIMED_OUT if lost or stopped else answer


def tamperings(server: LeaseServer, rng: random.Random) -> list[Callable[[], None]]:
    """What people and backups do to the Lease."""
    return [
        server.delete,
        lambda: server.change({"spec": {"holderIdentity": ""}}),
        lambda: server.change({"spec": {"holderIdentity": "somebody"}}),
        lambda: server.change({"spec": None}),
        lambda: server.change({"metadata": {"annotations": {"a": str(rng.random())}}}),
        lambda: server.change({"spec": {"leaseDurationSeconds": rng.choice((1, 100000))}}),
        lambda: server.restore(rng),
    ]


class History:
    """A random history of three replicas; `play` returns the server with what it saw."""

    def __init__(self, seed: int, *, replicas: int = 3) -> None:
        self.rng = random.Random(seed)
        self.server = LeaseServer()
        self._born = 0
        self.replicas = [self._new() for _ in range(replicas)]
        self._tamperings = tamperings(self.server, self.rng)

    def _new(self) -> Replica:
        self._born += 1
        return Replica(self.server, random.Random(self.rng.random()), f"r{self._born}")

    async def play(self, *, acts: int = 40) -> LeaseServer:
        for _ in range(acts):
            await asyncio.sleep(self.rng.choice((0.05, 0.5, 2.0, 9.0, 30.0)) * self.rng.random())
            await self._act()
            self._revive()
        return self.server

    async def calm(self, seconds: float) -> None:
        """End all faults, and let the time pass."""
        for replica in self.replicas:
            replica.wake()
            replica.cut_off, replica.flaky = False, 0.0
        end_s = now() + seconds
        while now() < end_s:
            await asyncio.sleep(0.1)
            self._revive()

    def _revive(self) -> None:
        """A Deployment starts a new process for each one that ended."""
        for ended in [one for one in self.replicas if one.ended]:
            ended.kill()
            self.replicas[self.replicas.index(ended)] = self._new()

    async def _act(self) -> None:
        rng = self.rng
        leaders = [one for one in self.replicas if one.identity == self.server.holder]
        replica = rng.choice(leaders if leaders and rng.random() < 0.6 else self.replicas)
        match rng.randrange(9):
            case 0:
                replica.kill()
            case 1 if not replica.paused:
                await replica.stop()
            case 2 | 3:
                replica.wake() if replica.paused else replica.pause()
            case 4:
                replica.cut_off = not replica.cut_off
            case 5:
                replica.flaky = rng.choice((0.0, 0.1, 0.5))
            case 6:
                replica.wall_shift_s = rng.choice((0.0, 3600.0, -3600.0))
            case _:
                rng.choice(self._tamperings)()
