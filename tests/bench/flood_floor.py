"""The floor of a flood: a job for each Pod that comes, a binding for each job that runs.

`python -m tests.bench.flood_floor KUBE CA_FILE TOKEN_FILE SLURM VERSION SLURM_TOKEN LANES`.
EXTERNAL jobs, LANES submissions at once (slurmctld takes no arrays of them); /jobs/state until all
run, one GET for where each does, a binding in one write. No state, no safety.
"""

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator
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
    "flags": ["EXTERNAL_JOB"],
}
PODS = "/api/v1/namespaces/default/pods"
MAX_LINE_BYTES = 4 << 20


class Floor:
    """Both servers, and which Pod waits for which job."""

    def __init__(self, kube: aiohttp.ClientSession, slurm: aiohttp.ClientSession, root: str):
        self._kube, self._slurm, self._root = kube, slurm, root
        self._pods: dict[str, Any] = {}
        self._lanes = asyncio.Semaphore(1)
        self._binders = asyncio.Semaphore(BINDERS)

    async def run(self, lanes: int) -> None:
        """For ever; whatever fails ends it."""
        self._lanes = asyncio.Semaphore(lanes)
        async with asyncio.TaskGroup() as tasks:
            self._start = tasks.create_task
            self._start(self._poll())
            async for pod in self._come():
                self._start(self._submit(pod))

    async def _come(self) -> AsyncIterator[Any]:
        """The API server ends a watch that is read too slowly: on from where it was."""
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
            made = await self._ask("POST", "job/submit", {"job": JOB})
        self._pods[str(made["job_id"])] = pod

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        """Asked again where slurmrestd closed an idle connection in the same moment."""
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
                for job in listed["jobs"]:
                    pod = self._pods.get(str(job["job_id"]))
                    if pod is not None and "RUNNING" in job["state"]:
                        del self._pods[str(job["job_id"])]
                        self._start(self._bind(pod, str(job["job_id"])))
            await asyncio.sleep(0.05)

    async def _bind(self, pod: Any, job_id: str) -> None:
        async with self._binders:
            shown = await self._ask("GET", f"job/{job_id}?flags=ALL")
            body = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": pod["name"], "uid": pod["uid"]},
                "target": {"apiVersion": "v1", "kind": "Node", "name": shown["jobs"][0]["nodes"]},
            }
            content = msgspec.json.encode(body)
            path = f"{PODS}/{pod['name']}/binding"
            async with self._kube.post(path, data=content) as answer:
                assert answer.status < 300, await answer.text()


async def main(*argv: str) -> None:
    kube, ca, kube_token, slurm, version, token, lanes = argv
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
        await Floor(api, rest, f"/slurm/{version}/").run(int(lanes))


if __name__ == "__main__":
    _kube, _ca, _token_file, *_rest = sys.argv[1:]
    asyncio.run(main(_kube, _ca, Path(_token_file).read_text(), *_rest))
