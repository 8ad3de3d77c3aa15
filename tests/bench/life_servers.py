"""Both embedded servers in one process, which also creates, watches and deletes the Pods.

`python -m tests.bench.life_servers HOSTS PODS BOUND DEADLINE_S` prints a kubeconfig and the address
of Slurm as JSON. Each line of its input is a step: `submit` creates the Pods and waits until all
have jobs, `bind` waits until BOUND are bound, `end` deletes all and waits until no Pod and no job
is alive. It answers each with a line: the seconds, or why it did not end.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from sunk_sync.embedded.kubernetes.api.api import KubeApi
from sunk_sync.embedded.kubernetes.api.http import KubeServer, kubeconfig
from sunk_sync.embedded.kubernetes.kubernetes import Kubernetes
from sunk_sync.embedded.slurm.api.http import SlurmServer
from sunk_sync.embedded.slurm.api.reply import SlurmAnswer
from sunk_sync.embedded.slurm.api.rest import SlurmRest
from sunk_sync.embedded.slurm.memory import Knobs, Setup
from sunk_sync.embedded.slurm.model.job import ALIVE
from sunk_sync.embedded.slurm.model.node import NodeSpec
from sunk_sync.embedded.slurm.model.tokens import Tokens
from sunk_sync.embedded.slurm.slurm import SlurmWorld
from sunk_sync.embedded.wire import Question

TOKEN = "bench"
SCHEDULER = "default-slurm"
PLACEHOLDER = "Placeholder of sunk-sync"
"""Text that marks the script of a placeholder."""
TICK_S = 0.5
"""Interval of the scheduler, which starts 100 jobs in each."""
AT_ONCE = 50
POLL_S = 0.5


class Scripts(SlurmRest):
    """slurmrestd with simulated placeholder scripts: they start at once and end on request."""

    def answer(self, question: Question, now_s: float) -> SlurmAnswer:
        """Answer without the jobs whose script has not reported its start yet."""
        self.world.advance(now_s)
        for call in self.world.take_calls():
            job = call.job
            if call.kind == "started":
                extra = {"extra": f"{job.request.extra}: started"}
                self.world.update_job(job.job_id, extra, now_s=now_s)
            elif call.kind == "term":
                self.world.exit_script(job.job_id, now_s=now_s)
        return super().answer(question, now_s)


class Servers:
    """Hosts of ten CPUs, each with a slurmd Pod; Pods of one CPU."""

    def __init__(self, hosts: int, pods: int, bound: int, *, deadline_s: float) -> None:
        self._names = [f"work-{number:05d}" for number in range(pods)]
        self._bound = bound
        self._deadline_s = deadline_s
        self._kube = Kubernetes(epoch=datetime.now(UTC))
        self._slurm = SlurmWorld(
            Setup(
                nodes=[NodeSpec(name=_host(number), cpus=10) for number in range(hosts)],
                knobs=Knobs(acted_script=PLACEHOLDER, schedule_every_s=TICK_S),
                epoch_s=time.time(),
            )
        )
        tokens = Tokens()
        tokens.add(TOKEN)
        self._kube_server = KubeServer(KubeApi(self._kube))
        self._slurm_server = SlurmServer(Scripts(self._slurm, tokens))
        for host in map(_host, range(hosts)):
            self._kube.add_node(host)
            metadata = {"labels": {"app.kubernetes.io/component": "slurmd"}}
            spec = {"hostNetwork": True, "nodeName": host}
            self._kube.add_pod(f"slurmd-{host}", namespace="slurm", metadata=metadata, spec=spec)

    async def run(self) -> None:
        config = kubeconfig(await self._kube_server.start())
        print(json.dumps([config, await self._slurm_server.start()]), flush=True)
        steps = {"submit": self._submit, "bind": self._bind, "end": self._end}
        while step := (await asyncio.to_thread(sys.stdin.readline)).strip():
            print(await self._timed(steps[step]), flush=True)

    async def _timed(self, step: Callable[[], Awaitable[None]]) -> str:
        begun_s = time.monotonic()
        try:
            async with asyncio.timeout(self._deadline_s):
                await step()
        except TimeoutError:
            return f"{self._pods_bound()} Pods bound, {self._jobs()} jobs live"
        return str(time.monotonic() - begun_s)

    async def _submit(self) -> None:
        await self._each(self._create)
        await _until(lambda: self._jobs() >= len(self._names))

    async def _bind(self) -> None:
        await _until(lambda: self._pods_bound() >= self._bound)

    async def _end(self) -> None:
        await self._each(self._kube.delete_pod)
        await _until(lambda: not self._jobs() and not any(self._workloads()))

    async def _each(self, act: Callable[[str], object]) -> None:
        """Act on all Pods in small batches, so that both servers keep answering."""
        for start in range(0, len(self._names), AT_ONCE):
            self._kube.advance(self._kube_server.now_s)
            for name in self._names[start : start + AT_ONCE]:
                act(name)
            self._kube_server.wake()
            await asyncio.sleep(0.01)

    def _create(self, name: str) -> None:
        resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
        container = {"name": "main", "image": "none.invalid/none:1", "resources": resources}
        spec = {"schedulerName": SCHEDULER, "terminationGracePeriodSeconds": 1}
        self._kube.add_pod(name, spec=spec | {"containers": [container]})

    def _workloads(self) -> Iterable[Any]:
        return self._kube.pods("default")

    def _pods_bound(self) -> int:
        return sum(1 for pod in self._workloads() if pod["spec"].get("nodeName"))

    def _jobs(self) -> int:
        """Return the live jobs; each waiting task of an array counts."""
        alive = (job for job in self._slurm.jobs.values() if job.state in ALIVE)
        return sum(len(job.waiting_tasks) or 1 for job in alive)


def _host(number: int) -> str:
    return f"host-{number:03d}"


async def _until(done: Callable[[], bool]) -> None:
    """Poll until the condition holds; the servers do not report it."""
    while not done():  # noqa: ASYNC110
        await asyncio.sleep(POLL_S)


async def main(*counts: str) -> None:
    hosts, pods, bound, deadline_s = map(int, counts)
    await Servers(hosts, pods, bound, deadline_s=deadline_s).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
