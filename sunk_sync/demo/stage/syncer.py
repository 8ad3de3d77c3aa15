"""The service as it runs in the demo: unchanged, on this event loop, started and killed at will."""

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
"""Longer than the service itself waits for what is in flight."""
LOCAL = "127.0.0.1"


class Tail(io.StringIO):
    """The last lines of the log, for whoever takes them; the log's thread writes."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=LINES_MAX)

    def write(self, line: str) -> int:
        """One line, as LineWriter sends it."""
        self._lines.append(line)
        return len(line)

    def taken(self) -> list[dict[str, Any]]:
        """The events since the last call."""
        lines = [self._lines.popleft() for _ in range(len(self._lines))]
        return [msgspec.json.decode(line) for line in lines]


class Syncer:
    """One service after the other, all with the same settings and addresses."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.tail = Tail()
        self._logs = Logs("info", "json", self.tail)
        self._service: Service | None = None
        self._life: asyncio.Task[int] | None = None

    @property
    def alive(self) -> bool:
        """It runs."""
        return self._life is not None and not self._life.done()

    def check(self) -> None:
        """Raises what it died of, where that was not our doing."""
        if self._life is not None and self._life.done() and not self._life.cancelled():
            self._life.result()

    @property
    def ready(self) -> bool:
        """As /readyz says."""
        return self.alive and self._service is not None and self._service.health.ready()[0]

    @property
    def reads_slurm(self) -> bool:
        """The picture of Slurm is whole and fresh."""
        reconciler = self._reconciler
        return reconciler is not None and reconciler.graph.slurm_nodes.live

    def sentence(self, host: str, *uids: str) -> str:
        """What was decided for this host, and why; with nothing to do there, for these Pods."""
        told = self._because(host_key(host))
        if told != NOTHING.because:
            return told
        known = self._reconciler.graph.workloads.workloads.key_of_uid if self._reconciler else {}
        of_pods = [self._because(workload_key(known[uid])) for uid in uids if uid in known]
        return next(filter(None, of_pods), told)

    def _because(self, key: Key) -> str:
        standing = self._reconciler.standing.get(key) if self._reconciler else None
        return standing.verdict.because if standing else ""

    @property
    def _reconciler(self) -> Reconciler | None:
        return self._service.health.reconciler if self._service and self.alive else None

    def start(self) -> None:
        """A new process, so to speak: it knows nothing but its settings."""
        self._life = asyncio.create_task(self._live(self._life))

    def kill(self) -> None:
        """As `kill -9`: nothing is brought to an end."""
        if self._life is not None:
            self._life.cancel()

    async def stop(self) -> bool:
        """As SIGTERM; whether it ended by itself, with exit code 0."""
        if self._service is None or self._life is None:
            return False
        self._service.stop()
        await asyncio.wait((self._life,), timeout=STOP_S)
        return self._life.done() and not self._life.cancelled() and self._life.result() == 0

    async def aclose(self) -> None:
        """End the service, however it stands, and its log."""
        self.kill()
        if self._life is not None:
            await asyncio.wait((self._life,))
        self._logs.close()

    async def _live(self, before: asyncio.Task[int] | None) -> int:
        if before is not None:
            await asyncio.wait((before,))
        gc.unfreeze()  # each life freezes its own picture, which should not outlive it
        self._service = Service(self.settings, self._logs)
        return await self._service.run()


def settings_for(*, kubeconfig: str, slurm_address: str, key_file: str) -> Settings:
    """As by flags: everything as it is but addresses, and shorter graces for a short story."""
    hooks = f"{LOCAL}:{_free_port()}"
    flags: Mapping[str, str] = {
        "cluster-name": CLUSTER,
        "kubeconfig": kubeconfig,
        "watch-namespace": "*",
        "slurm-api-base": slurm_address,
        "slurm-auth-token": TOKEN,
        "not-ready-grace": "1s",
        "node-not-ready-grace": "1s",
        "metrics-bind-address": f"{LOCAL}:{_free_port()}",
        "health-probe-bind-address": f"{LOCAL}:{_free_port()}",
        "hooks-api-bind-address": hooks,
        "hooks-url": f"http://{hooks}",
        "hooks-key-file": key_file,
    }
    return load(flags, {}, NAMESPACE)


def _free_port() -> int:
    with socket.create_server((LOCAL, 0)) as listening:
        port: int = listening.getsockname()[1]
        return port
