"""Programs of Slurm that call at the hooks server: the gate, and the scripts of placeholders.

The embedded Slurm runs no programs; it tells when one would run (slurm_calls). They are played
here over HTTP, and call as those of deploy/slurm and placeholder.sh do. Left out are the ends of
their patience: a gate here waits for as long as it takes.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

import aiohttp
import msgspec

from sunk_sync.embedded.slurm.api.http import SlurmServer
from sunk_sync.embedded.slurm.calls import Call
from sunk_sync.embedded.slurm.model.job import Job
from sunk_sync.server.tokens import GATE, make_token

PATIENCE_S = 30.0
"""Told to the door, which answers in that time; then the same is asked again."""
MARGIN_S = 3.0
AGAIN_S = 0.2
"""After a refused connection, or a service that has not listed both sides yet."""

Run = tuple[int, float | None]
"""Id of a job and when it was started: a requeued job has the same id."""


class Callers:
    """Plays all of them, also those that waited for this. Made on the loop; end with `aclose`."""

    def __init__(self, server: SlurmServer, *, url: str, key: bytes) -> None:
        self._server = server
        self.slurm = server.world
        self._key = key
        self._session = aiohttp.ClientSession(url)
        self._woken = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._scripts: dict[Run, asyncio.Task[None]] = {}
        """What the script of a run is at."""
        self._spawn(self._listen())

    def wake(self) -> None:
        """Something changed in Slurm."""
        self._woken.set()

    async def aclose(self) -> None:
        """No call stays open."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await self._session.close()

    async def _listen(self) -> None:
        while True:
            self._woken.clear()
            for call in self.slurm.take_calls():
                self._hear(call)
            await self._woken.wait()

    def _hear(self, call: Call) -> None:
        job = call.job
        run = (job.job_id, job.started_s)
        if call.kind == "gate":
            self._spawn(self._gate(job))
        elif call.kind == "ended":
            self._spawn(self._tell_end(job))
        elif call.kind == "started":
            self._scripts[run] = self._spawn(self._record_event(job))
        elif run in self._scripts:
            self._scripts.pop(run).cancel()
            if call.kind == "term":
                self._scripts[run] = self._spawn(self._stop(job))

    def _spawn(self, doing: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- programs

    async def _gate(self, job: Job) -> None:
        """PrologSlurmctld: exits when no Pod stands in the job's way."""
        body = {"job_id": spelled(job), "nodes": ",".join(job.nodes), "deadline_s": PATIENCE_S}
        while self._waits(job):
            if await self._call("gate", body, subject=GATE) == "go" and self._waits(job):
                self.slurm.release_gate(job.job_id, now_s=self._server.now_s)
            elif self._waits(job):
                await asyncio.sleep(AGAIN_S)

    def _waits(self, job: Job) -> bool:
        known = self.slurm.jobs.get(job.job_id)
        return known is not None and known.configuring and known.started_s == job.started_s

    async def _tell_end(self, job: Job) -> None:
        """EpilogSlurmctld."""
        await self._call("ended", {"job_id": spelled(job)}, subject=GATE)

    async def _record_event(self, job: Job) -> None:
        """A placeholder's script begins (P24), and then sleeps."""
        started = {"extra": job.request.extra + ": started"}
        self.slurm.update_job(job.job_id, started, now_s=self._server.now_s)
        await self._insist("placeholder/started", job, until="noted", body={})

    async def _stop(self, job: Job) -> None:
        """It got SIGTERM: it holds its node until its Pods are gone, or Slurm kills it."""
        body = {"deadline_s": PATIENCE_S}
        await self._insist("placeholder/stopping", job, until="gone", body=body)
        self.slurm.exit_script(job.job_id, now_s=self._server.now_s)

    async def _insist(self, path: str, job: Job, *, until: str, body: Mapping[str, Any]) -> None:
        asked = {"job_id": spelled(job), **body}
        while True:
            if await self._call(path, asked, subject=job.request.name) == until:
                return
            await asyncio.sleep(AGAIN_S)

    async def _call(self, path: str, body: Mapping[str, Any], *, subject: str) -> str:
        """The action that was answered; empty: nobody answered, or not yet."""
        token = make_token(self._key, subject)
        try:
            async with self._session.post(
                f"/v1/{path}",
                data=msgspec.json.encode(body),
                headers={"Authorization": f"Bearer {token}"},
                timeout=aiohttp.ClientTimeout(PATIENCE_S + MARGIN_S),
            ) as answer:
                told = msgspec.json.decode(await answer.read())
        except (aiohttp.ClientError, TimeoutError):
            return ""
        return str(told.get("action", ""))


def spelled(job: Job) -> str:
    """As programs name their job: by array and task where it has one."""
    return f"{job.array_id}_{job.task}" if job.array_id else str(job.job_id)
