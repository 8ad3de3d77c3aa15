"""Simulated programs of Slurm that call the hooks: the gate, and the scripts of placeholders.

The embedded Slurm runs no programs; it reports when one would run. These callers send the same
requests as the scripts of deploy/slurm and placeholder.sh, without a time limit.
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

DEADLINE_S = 30.0
"""Deadline of a request; the server answers before it, then the caller asks again."""
MARGIN_S = 3.0
RETRY_S = 0.2
"""Pause after a refused connection, or while the service has not listed both sides."""

Run = tuple[int, float | None]
"""Job id and start time: a requeued job keeps its id."""


class Callers:
    """All callers, also for jobs that already wait. Create on the event loop; end with `aclose`."""

    def __init__(self, server: SlurmServer, *, url: str, key: bytes) -> None:
        self._server = server
        self.slurm = server.world
        self._key = key
        self._session = aiohttp.ClientSession(url)
        self._woken = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._scripts: dict[Run, asyncio.Task[None]] = {}
        self._spawn(self._listen())

    def wake(self) -> None:
        self._woken.set()

    async def aclose(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await self._session.close()

    async def _listen(self) -> None:
        while True:
            self._woken.clear()
            for call in self.slurm.take_calls():
                self._start_program(call)
            await self._woken.wait()

    def _start_program(self, call: Call) -> None:
        job = call.job
        run = (job.job_id, job.started_s)
        if call.kind == "gate":
            self._spawn(self._gate(job))
        elif call.kind == "ended":
            self._spawn(self._report_end(job))
        elif call.kind == "started":
            self._scripts[run] = self._spawn(self._report_start(job))
        elif run in self._scripts:
            self._scripts.pop(run).cancel()
            if call.kind == "term":
                self._scripts[run] = self._spawn(self._stop(job))

    def _spawn(self, doing: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _gate(self, job: Job) -> None:
        """Simulate PrologSlurmctld: exit when no Pod blocks the job."""
        body = {"job_id": job_name(job), "nodes": ",".join(job.nodes), "deadline_s": DEADLINE_S}
        while self._waits(job):
            if await self._call("gate", body, subject=GATE) == "go" and self._waits(job):
                self.slurm.release_gate(job.job_id, now_s=self._server.now_s)
            elif self._waits(job):
                await asyncio.sleep(RETRY_S)

    def _waits(self, job: Job) -> bool:
        known = self.slurm.jobs.get(job.job_id)
        return known is not None and known.configuring and known.started_s == job.started_s

    async def _report_end(self, job: Job) -> None:
        """Simulate EpilogSlurmctld."""
        await self._call("ended", {"job_id": job_name(job)}, subject=GATE)

    async def _report_start(self, job: Job) -> None:
        """Simulate the start of a placeholder's script (P24)."""
        started = {"extra": job.request.extra + ": started"}
        self.slurm.update_job(job.job_id, started, now_s=self._server.now_s)
        await self._ask_until("placeholder/started", job, until="noted", body={})

    async def _stop(self, job: Job) -> None:
        """Simulate SIGTERM: the script keeps its node until its Pods are gone or Slurm kills it."""
        body = {"deadline_s": DEADLINE_S}
        await self._ask_until("placeholder/stopping", job, until="gone", body=body)
        self.slurm.exit_script(job.job_id, now_s=self._server.now_s)

    async def _ask_until(self, path: str, job: Job, *, until: str, body: Mapping[str, Any]) -> None:
        asked = {"job_id": job_name(job), **body}
        while True:
            if await self._call(path, asked, subject=job.request.name) == until:
                return
            await asyncio.sleep(RETRY_S)

    async def _call(self, path: str, body: Mapping[str, Any], *, subject: str) -> str:
        """Return the action of the answer; empty if the service did not answer."""
        token = make_token(self._key, subject)
        try:
            async with self._session.post(
                f"/v1/{path}",
                data=msgspec.json.encode(body),
                headers={"Authorization": f"Bearer {token}"},
                timeout=aiohttp.ClientTimeout(DEADLINE_S + MARGIN_S),
            ) as answer:
                reply = msgspec.json.decode(await answer.read())
        except (aiohttp.ClientError, TimeoutError):
            return ""
        return str(reply.get("action", ""))


def job_name(job: Job) -> str:
    """Return the job id as programs write it: array and task for a task of an array."""
    return f"{job.array_id}_{job.task}" if job.array_id else str(job.job_id)
