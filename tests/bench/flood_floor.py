"""The floor of a flood: `python -m tests.bench.flood_floor … SUBMISSIONS [SCRIPT]`; see floors.py.

SUBMISSIONS is the number of concurrent ones. Without SCRIPT the jobs are EXTERNAL, one each, since
slurmctld has no arrays of them: it polls /jobs/state until all run, then reads each job once. With
SCRIPT all waiting Pods are submitted as one array, and one GET of the array returns the hosts of
its tasks. Each binding is one write. It does not wait for the start of a script.
"""

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from tests.bench.floors import BATCH, JOB, JSON, PODS, UNBOUND, binding

BINDERS = 16
EXTERNAL = JOB | {"flags": ["EXTERNAL_JOB"]}
ARRAY_MAX = 64
POLL_S = 0.05
MAX_LINE_BYTES = 4 << 20


class Floor:
    """Clients of both servers, and the Pod of each job."""

    def __init__(
        self, kube: aiohttp.ClientSession, slurm: aiohttp.ClientSession, submissions: int
    ) -> None:
        self._kube, self._slurm = kube, slurm
        self._pods: dict[str, Any] = {}
        self._submissions = asyncio.Semaphore(submissions)
        self._binders = asyncio.Semaphore(BINDERS)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._start = tasks.create_task
            self._start(self._poll())
            async for pod in self._new_pods():
                self._take(pod)

    def _take(self, pod: Any) -> None:
        self._start(self._submit(pod))

    async def _new_pods(self) -> AsyncIterator[Any]:
        """Watch Pods; continue after the API server ends a watch that is read too slowly."""
        async with self._kube.get(PODS, params=UNBOUND | {"limit": "1"}) as answer:
            version = (await answer.json())["metadata"]["resourceVersion"]
        print("ready", flush=True)
        while True:
            watch = UNBOUND | {"watch": "true", "resourceVersion": version}
            async with self._kube.get(PODS, params=watch) as answer:
                while line := await answer.content.readline():
                    event = msgspec.json.decode(line)
                    pod = event["object"]["metadata"]
                    version = pod["resourceVersion"]
                    if event["type"] == "ADDED":
                        yield pod

    async def _submit(self, pod: Any) -> None:
        async with self._submissions:
            made = await self._ask("POST", "job/submit", {"job": EXTERNAL})
        self._pods[str(made["job_id"])] = pod

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request; retry if slurmrestd has closed the idle connection."""
        try:
            return await self._ask_once(method, path, body)
        except aiohttp.ServerDisconnectedError:
            return await self._ask_once(method, path, body)

    async def _ask_once(self, method: str, path: str, body: Any) -> Any:
        content = None if body is None else msgspec.json.encode(body)
        async with self._slurm.request(method, path, data=content) as answer:
            return msgspec.json.decode(await answer.read())

    async def _poll(self) -> None:
        while True:
            if self._pods:
                listed = await self._ask("GET", "jobs/state/")
                await self._see([job for job in listed["jobs"] if "RUNNING" in job["state"]])
            await asyncio.sleep(POLL_S)

    async def _see(self, running: Sequence[Any]) -> None:
        for job in running:
            pod = self._pods.pop(str(job["job_id"]), None)
            if pod is not None:
                self._start(self._place(pod, job["job_id"]))

    async def _place(self, pod: Any, job_id: str) -> None:
        async with self._binders:
            shown = await self._ask("GET", f"job/{job_id}?flags=ALL")
            await self._bind(pod, shown["jobs"][0]["nodes"])

    async def _bind(self, pod: Any, node: str) -> None:
        path, body = binding(pod, node)
        async with self._kube.post(path, data=msgspec.json.encode(body)) as answer:
            assert answer.status < 300, await answer.text()


class ArrayFloor(Floor):
    """A floor with arrays. `_pods`: array → task → Pod."""

    def __init__(self, script: str, *clients: Any) -> None:
        super().__init__(*clients)
        self._script = script
        self._waiting: list[Any] = []
        self._ran = 0

    def _take(self, pod: Any) -> None:
        self._waiting.append(pod)
        self._start(self._submit_all())

    async def _submit_all(self) -> None:
        async with self._submissions:
            pods, self._waiting = self._waiting[:ARRAY_MAX], self._waiting[ARRAY_MAX:]
            if pods:
                job = BATCH | {"array": f"0-{len(pods) - 1}"}
                made = await self._ask("POST", "job/submit", {"script": self._script, "job": job})
                self._pods[str(made["job_id"])] = dict(enumerate(pods))

    async def _see(self, running: Sequence[Any]) -> None:
        if len(running) != self._ran:
            self._ran = len(running)
            await asyncio.gather(*map(self._read, list(self._pods)))

    async def _read(self, array: str) -> None:
        shown = await self._ask("GET", f"job/{array}?flags=ALL")
        pods = self._pods[array]
        for job in shown["jobs"]:
            task = job["array_task_id"]["number"]
            if "RUNNING" in job["job_state"] and task in pods:
                self._start(self._bind_task(pods.pop(task), job["nodes"]))
        if not pods:
            del self._pods[array]

    async def _bind_task(self, pod: Any, node: str) -> None:
        async with self._binders:
            await self._bind(pod, node)


async def run(kube: str, ca_file: str, kube_token: str, *argv: str) -> None:
    slurm, version, token, submissions, *script = argv
    secured = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=ca_file), limit=32)
    async with (
        aiohttp.ClientSession(
            f"https://{kube}",
            connector=secured,
            headers={"Authorization": f"Bearer {kube_token}"} | JSON,
            timeout=aiohttp.ClientTimeout(),
            read_bufsize=MAX_LINE_BYTES,
        ) as api,
        aiohttp.ClientSession(
            f"http://{slurm}/slurm/{version}/", headers={"X-SLURM-USER-TOKEN": token} | JSON
        ) as rest,
    ):
        clients = (api, rest, int(submissions))
        await (ArrayFloor(script[0], *clients) if script else Floor(*clients)).run()


def main(kube: str, ca_file: str, token_file: str, *argv: str) -> None:
    slurm, script = argv[:4], [Path(one).read_text() for one in argv[4:]]
    asyncio.run(run(kube, ca_file, Path(token_file).read_text(), *slurm, *script))


if __name__ == "__main__":
    main(*sys.argv[1:])
