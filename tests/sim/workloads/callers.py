"""The clients of the hooks server in virtual time: gates, placeholder scripts, epilogs.

Their timing and calls are those of deploy/slurm and placeholder.sh. They outlive the service. Their
calls break when it is killed.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from sunk_sync.embedded.slurm.calls import Call
from sunk_sync.embedded.slurm.model.job import Job
from sunk_sync.server.tokens import GATE, make_token
from tests.sim.life import HOOK_KEY, Life
from tests.sim.workloads.truth import Run, run_of, spelled
from tests.sim.worlds import WORLD, Worlds

Told = Mapping[str, Any]
STARTED = ": started"


class Habits(Struct, frozen=True, kw_only=True):
    """Arguments of the gate's script, and the quality of the network to the service."""

    busy_s: float = 90.0
    busy_max_s: float = 600.0
    silent_s: float = 60.0
    lost: float = 0.0
    """Share of calls whose request or answer is lost."""
    unreached: bool = False
    """No call of a placeholder arrives, because `--hooks-url` is wrong."""


class Asked:
    def __init__(self, path: str, body: bytes, token: str) -> None:
        self.method, self.path, self.remote = "POST", path, "10.0.0.1"
        self.headers = {"Authorization": f"Bearer {token}"}
        self._body = body

    async def read(self) -> bytes:
        return self._body


class Callers:
    """All callers. `life` is None while the service is down."""

    def __init__(self, rng: random.Random, worlds: Worlds, habits: Habits) -> None:
        self._rng = rng
        self._worlds = worlds
        self.habits = habits
        self.life: Life | None = None
        """The life whose hooks server the callers reach."""
        self.passed: dict[Run, str] = {}
        """Run of a job → why its gate released it: go, busy, silent."""
        self.killed: set[Run] = set()
        self._scripts: dict[Run, Script] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        worlds.on_calls = self._hear

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    @property
    def now_s(self) -> float:
        return self._worlds.now_s

    def do(self, doing: Callable[[], object]) -> None:
        self._worlds.act(WORLD, doing)

    def slurm(self) -> Any:
        return self._worlds.slurm

    def _hear(self, calls: Sequence[Call]) -> None:
        for call in calls:
            run = run_of(call.job)
            self._worlds.history.note("slurm", call.kind, f"job {call.job.job_id}")
            if call.kind == "gate":
                self._spawn(self._gate(call.job))
            elif call.kind == "started":
                self._scripts[run] = script = Script(self, call.job)
                self._spawn(script.run())
            elif call.kind == "ended":
                self._spawn(self._tell_end(call.job))
            elif call.kind == "killed":
                self.killed.add(run)
            if call.kind in ("term", "killed") and run in self._scripts:
                getattr(self._scripts[run], call.kind).set()

    def _spawn(self, doing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def call(
        self, path: str, body: Mapping[str, Any], *, token: str, seconds: float
    ) -> Told | None:
        """Return the body of an answer 200. Return None without an answer or for another status."""
        await asyncio.sleep(self._rng.uniform(0.0003, 0.003))
        life, lost = self.life, self._rng.random() < self.habits.lost
        if self.habits.unreached and path.startswith("placeholder/"):
            self._worlds.history.count("calls of placeholders that reach nobody")
            return None
        if life is None or (lost and self._rng.random() < 0.5):
            return None
        asked: Any = Asked(f"/v1/{path}", msgspec.json.encode(body), token)
        answering = life.create_task(life.parts.hooks._answer(asked))
        try:
            await asyncio.wait({answering}, timeout=seconds)
        finally:
            answering.cancel()
        if lost or not answering.done() or answering.cancelled() or answering.exception():
            return None
        answer = answering.result()
        assert isinstance(answer.body, bytes)
        told: Told = msgspec.json.decode(answer.body)
        self._worlds.history.note("callers", path, body.get("job_id"), answer.status, told)
        return told if answer.status == 200 else None

    async def _tell_end(self, job: Job) -> None:
        token = make_token(HOOK_KEY, GATE)
        await self.call("ended", {"job_id": spelled(job)}, token=token, seconds=3.0)

    def _waits(self, job: Job) -> bool:
        known = self._worlds.slurm.jobs.get(job.job_id)
        return known is not None and known.configuring and run_of(known) == run_of(job)

    async def _gate(self, job: Job) -> None:
        habits, token = self.habits, make_token(HOOK_KEY, GATE)
        begun_s = heard_s = self.now_s
        while self._waits(job):
            at_s = self.now_s
            if at_s >= begun_s + habits.busy_max_s:
                return self._release(job, "busy")
            if at_s - heard_s >= habits.silent_s:
                return self._release(job, "silent")
            busy = at_s < begun_s + habits.busy_s
            ends_s = begun_s + (habits.busy_s if busy else habits.busy_max_s)
            then = "requeue" if busy else "pass"
            margin_s = 5.0
            longest_s = max(heard_s + habits.silent_s - at_s - margin_s, 1.0)
            if ends_s - at_s > longest_s:
                ends_s, then = at_s + longest_s, "ask"
            left_s = max(ends_s - at_s, 1.0)
            body = {
                "job_id": spelled(job),
                "nodes": ",".join(job.nodes),
                "deadline_s": left_s,
                "then": then,
            }
            told = await self.call("gate", body, token=token, seconds=left_s + margin_s)
            action = told["action"] if told else ""
            if action == "go":
                return self._release(job, "go")
            if action == "requeue" and then == "requeue":
                return self._release(job, "requeue")
            heard_s = self.now_s if told else heard_s
            if not told or self.now_s < ends_s - 1.0:
                await asyncio.sleep(1.0)
        return None

    def _release(self, job: Job, why: str) -> None:
        if self._waits(job):
            self._worlds.history.count(f"gates: {why}")
            self.passed[run_of(job)] = why
            slurm, passes = self._worlds.slurm, why != "requeue"
            number = job.job_id
            self.do(lambda: slurm.release_gate(number, now_s=self.now_s, passes=passes))


class Script:
    def __init__(self, callers: Callers, job: Job) -> None:
        self._callers = callers
        self._job = job
        self._token = make_token(HOOK_KEY, job.request.name)
        self.term, self.killed = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        announcing = asyncio.create_task(self._record_event())
        try:
            await _either(self.term, self.killed)
            announcing.cancel()
            if not self.killed.is_set():
                stopping = asyncio.create_task(self._stop())
                killed = asyncio.create_task(self.killed.wait())
                wait_s = self._callers.slurm().setup.knobs.kill_wait_s
                ended, _ = await asyncio.wait(
                    {stopping, killed}, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED
                )
                if stopping not in ended:
                    self._callers.killed.add(run_of(self._job))
                stopping.cancel()
                killed.cancel()
        finally:
            announcing.cancel()

    async def _record_event(self) -> None:
        body = {"job_id": spelled(self._job)}
        await asyncio.sleep(0.05)
        slurm, job = self._callers.slurm(), self._job
        extra = {"extra": job.request.extra + STARTED}
        if slurm.controller_up:
            self._callers.do(lambda: slurm.update_job(job.job_id, extra, now_s=self._callers.now_s))
        pause_s = 1.0
        while not await self._callers.call(
            "placeholder/started", body, token=self._token, seconds=10.0
        ):
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, 16.0)

    async def _stop(self) -> None:
        ends_s = self._callers.now_s + self._callers.slurm().setup.knobs.kill_wait_s
        while True:
            left_s = max(ends_s - self._callers.now_s, 1.0)
            body = {"job_id": spelled(self._job), "deadline_s": left_s}
            told = await self._callers.call(
                "placeholder/stopping", body, token=self._token, seconds=left_s + 3.0
            )
            if told and told["action"] == "gone":
                break
            await asyncio.sleep(1.0)
        slurm, number = self._callers.slurm(), self._job.job_id
        self._callers.do(lambda: slurm.exit_script(number, now_s=self._callers.now_s))


async def _either(*events: asyncio.Event) -> None:
    waiting = [asyncio.create_task(one.wait()) for one in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
