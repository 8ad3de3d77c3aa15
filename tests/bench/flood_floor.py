"""The floor of a flood: a job for each new Pod, a binding for each running job.

`python -m tests.bench.flood_floor KUBE CA_FILE TOKEN_FILE SLURM VERSION SLURM_TOKEN LANES [SCRIPT]`
LANES is the number of concurrent submissions. Without SCRIPT the jobs are EXTERNAL, one each, since
slurmctld has no arrays of them: it polls /jobs/state until all run, then reads each job once. With
SCRIPT all waiting Pods are submitted as one array, and one GET of the array returns the hosts of
its tasks. Each binding is one write. The floor has no state and no safety: it does not wait for the
start of a script.
"""

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

NAME = "floor"
BINDERS = 16
JOB = {
    "name": NAME,
    "current_working_directory": "/",
    "nodes": "1",
    "tasks": 1,
    "tasks_per_node": 1,
    "cpus_per_task": 1,
    "memory_per_node": {"set": True, "number": 100},
    "requeue": False,
}
EXTERNAL = JOB | {"flags": ["EXTERNAL_JOB"]}
BATCH = JOB | {
    "environment": ["PATH=/usr/local/bin:/usr/bin:/bin"],
    "standard_output": "/dev/null",
    "standard_error": "/dev/null",
    "standard_input": "/dev/null",
}
ARRAY_MAX = 64
POLL_S = 0.05
PODS = "/api/v1/namespaces/default/pods"
MAX_LINE_BYTES = 4 << 20


class Floor:
    """Both servers, and the Pod of each job."""

    def __init__(self, kube: aiohttp.ClientSession, slurm: aiohttp.ClientSession, root: str):
        self._kube, self._slurm, self._root = kube, slurm, root
        self._pods: dict[str, Any] = {}
        self._lanes = asyncio.Semaphore(1)
        self._binders = asyncio.Semaphore(BINDERS)
        self.script = ""

    async def run(self, work_queues: int) -> None:
        """Run until something fails."""
        self._lanes = asyncio.Semaphore(work_queues)
        async with asyncio.TaskGroup() as tasks:
            self._start = tasks.create_task
            self._start(self._poll())
            async for pod in self._come():
                self._take(pod)

    def _take(self, pod: Any) -> None:
        self._start(self._submit(pod))

    async def _come(self) -> AsyncIterator[Any]:
        """Watch Pods; continue after the API server ends a watch that is read too slowly."""
        only = {"fieldSelector": f"spec.schedulerName={NAME},spec.nodeName="}
        async with self._kube.get(PODS, params=only | {"limit": "1"}) as answer:
            version = (await answer.json())["metadata"]["resourceVersion"]
        print("ready", flush=True)
        while True:
            watch = only | {"watch": "true", "resourceVersion": version}
            async with self._kube.get(PODS, params=watch) as answer:
                while line := await answer.content.readline():
                    told = msgspec.json.decode(line)
                    pod = told["object"]["metadata"]
                    version = pod["resourceVersion"]
                    if told["type"] == "ADDED":
                        yield pod

    async def _submit(self, pod: Any) -> None:
        async with self._lanes:
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
        async with self._slurm.request(method, self._root + path, data=content) as answer:
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
                self._start(self._place(pod, str(job["job_id"])))

    async def _place(self, pod: Any, job_id: str) -> None:
        async with self._binders:
            shown = await self._ask("GET", f"job/{job_id}?flags=ALL")
            await self._bind(pod, shown["jobs"][0]["nodes"])

    async def _bind(self, pod: Any, node: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod["name"], "uid": pod["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        content = msgspec.json.encode(body)
        async with self._kube.post(f"{PODS}/{pod['name']}/binding", data=content) as answer:
            assert answer.status < 300, await answer.text()


class ArrayFloor(Floor):
    """A floor with arrays. `_pods`: array → task → Pod."""

    def __init__(self, kube: aiohttp.ClientSession, slurm: aiohttp.ClientSession, root: str):
        super().__init__(kube, slurm, root)
        self._waiting: list[Any] = []
        self._ran = 0

    def _take(self, pod: Any) -> None:
        self._waiting.append(pod)
        self._start(self._submit_all())

    async def _submit_all(self) -> None:
        """Submit all Pods that have arrived."""
        async with self._lanes:
            pods, self._waiting = self._waiting[:ARRAY_MAX], self._waiting[ARRAY_MAX:]
            if pods:
                job = BATCH | {"array": f"0-{len(pods) - 1}"}
                body = {"script": self.script, "job": job}
                made = await self._ask("POST", "job/submit", body)
                self._pods[str(made["job_id"])] = dict(enumerate(pods))

    async def _see(self, running: Sequence[Any]) -> None:
        if len(running) != self._ran:
            self._ran = len(running)
            await asyncio.gather(*map(self._read, list(self._pods)))

    async def _read(self, array: str) -> None:
        shown = await self._ask("GET", f"job/{array}?flags=ALL")
        pods = self._pods[array]
        for job in shown["jobs"]:
            pod = (
                pods.get(job["array_task_id"]["number"]) if "RUNNING" in job["job_state"] else None
            )
            if pod is not None:
                del pods[job["array_task_id"]["number"]]
                self._start(self._bind_task(pod, job["nodes"]))
        if not pods:
            del self._pods[array]

    async def _bind_task(self, pod: Any, node: str) -> None:
        async with self._binders:
            await self._bind(pod, node)


async def main(*argv: str) -> None:
    kube, ca, kube_token, slurm, version, token, work_queues, *script = argv
    own = {"Authorization": f"Bearer {kube_token}"}
    sort = {"Content-Type": "application/json"}
    secured = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=ca), limit=32)
    async with (
        aiohttp.ClientSession(
            f"https://{kube}",
            connector=secured,
            headers=own | sort,
            timeout=aiohttp.ClientTimeout(),
            read_bufsize=MAX_LINE_BYTES,
        ) as api,
        aiohttp.ClientSession(
            f"http://{slurm}", headers={"X-SLURM-USER-TOKEN": token} | sort
        ) as rest,
    ):
        root = f"/slurm/{version}/"
        floor = ArrayFloor(api, rest, root) if script else Floor(api, rest, root)
        floor.script = "".join(script)
        await floor.run(int(work_queues))


if __name__ == "__main__":
    _kube, _ca, _token_file, *_rest = sys.argv[1:]
    _rest[4:] = [Path(one).read_text() for one in _rest[4:]]
    asyncio.run(main(_kube, _ca, Path(_token_file).read_text(), *_rest))
