"""The unchanged service on the event loop of the demo, which can start and kill it."""

import asyncio
import gc
import io
import socket
from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec

from sunk_sync.core.decide import NOTHING
from sunk_sync.core.model.keys import Key, host_key, workload_key
from sunk_sync.core.reconciler import Reconciler
from sunk_sync.demo.stage.worlds import CLUSTER, NAMESPACE, TOKEN
from sunk_sync.service.app import Service
from sunk_sync.settings.model import Settings
from sunk_sync.settings.sources import load
from sunk_sync.telemetry.logs import Logs

LINES_MAX = 2000
STOP_S = 10.0
"""Longer than the service waits for its writes in flight."""
LOCAL = "127.0.0.1"


class Tail(io.StringIO):
    """Buffer of the last log lines, written by the log's thread."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=LINES_MAX)

    def write(self, line: str) -> int:
        self._lines.append(line)
        return len(line)

    def take(self) -> list[dict[str, Any]]:
        """Return the log events since the last call."""
        lines = [self._lines.popleft() for _ in range(len(self._lines))]
        return [msgspec.json.decode(line) for line in lines]


class Syncer:
    """The current service; each new one has the same settings and addresses."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.tail = Tail()
        self._logs = Logs("info", "json", self.tail)
        self._service: Service | None = None
        self._task: asyncio.Task[int] | None = None

    @property
    def alive(self) -> bool:
        return self._task is not None and not self._task.done()

    def check(self) -> None:
        """Raise the exception that ended the service, unless the demo killed it."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()

    @property
    def ready(self) -> bool:
        """Whether /readyz would answer ok."""
        return self.alive and self._service is not None and self._service.health.ready()[0]

    @property
    def reads_slurm(self) -> bool:
        reconciler = self._reconciler
        return reconciler is not None and reconciler.graph.slurm_nodes.live

    def sentence(self, host: str, *uids: str) -> str:
        """Return the decision for this host; if it wants nothing, the one for these Pods."""
        of_host = self._because(host_key(host))
        if of_host != NOTHING.because:
            return of_host
        known = self._reconciler.graph.workloads.index.key_of_uid if self._reconciler else {}
        of_pods = [self._because(workload_key(known[uid])) for uid in uids if uid in known]
        return next(filter(None, of_pods), of_host)

    def _because(self, key: Key) -> str:
        standing = self._reconciler.standing.get(key) if self._reconciler else None
        return standing.verdict.because if standing else ""

    @property
    def _reconciler(self) -> Reconciler | None:
        return self._service.health.reconciler if self._service and self.alive else None

    def start(self) -> None:
        """Start a new service, without any state of the last one."""
        self._task = asyncio.create_task(self._run_after(self._task))

    def kill(self) -> None:
        """Cancel every task at once, as `kill -9` would."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> bool:
        """Stop the service as SIGTERM does; return whether it ended with exit code 0."""
        if self._service is None or self._task is None:
            return False
        self._service.stop()
        await asyncio.wait((self._task,), timeout=STOP_S)
        return self._task.done() and not self._task.cancelled() and self._task.result() == 0

    async def aclose(self) -> None:
        """Kill the service and close its log."""
        self.kill()
        if self._task is not None:
            await asyncio.wait((self._task,))
        self._logs.close()

    async def _run_after(self, previous: asyncio.Task[int] | None) -> int:
        if previous is not None:
            await asyncio.wait((previous,))
        gc.unfreeze()  # each service freezes its own objects, which must be collected after it ends
        self._service = Service(self.settings, self._logs)
        return await self._service.run()


def settings_for(*, kubeconfig: str, slurm_address: str, key_file: str) -> Settings:
    """Return the default settings, but for addresses and two grace periods of one second."""
    hooks = f"{LOCAL}:{_free_port()}"
    flags: Mapping[str, str] = {
        "cluster-name": CLUSTER,
        "kubeconfig": kubeconfig,
        "components": "syncer,scheduler,nodesets",
        "watch-namespace": "*",
        "slurm-api-base": slurm_address,
        "slurm-auth-token": TOKEN,
        "not-ready-grace": "1s",
        "node-not-ready-grace": "1s",
        "metrics-bind-address": f"{LOCAL}:{_free_port()}",
        "health-probe-bind-address": f"{LOCAL}:{_free_port()}",
        "hooks-api-bind-address": hooks,
        "operators-bind-address": f"{LOCAL}:{_free_port()}",
        "hooks-url": f"http://{hooks}",
        "hooks-key-file": key_file,
    }
    return load(flags, {}, NAMESPACE)


def _free_port() -> int:
    with socket.create_server((LOCAL, 0)) as listening:
        port: int = listening.getsockname()[1]
        return port
