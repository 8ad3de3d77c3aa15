"""One process in the leader election: its task, log lines, metric and check (F6)."""

import asyncio
import secrets
import socket
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.backoff import Ambient
from sunk_sync.kube.api.client import KubeClient
from sunk_sync.kube.write.lease import LeasePlace, LeaseStore, own_object_name
from sunk_sync.server.bounded import HostPort
from sunk_sync.server.metrics_server import Check
from sunk_sync.service.election import ElectionTiming, Elector
from sunk_sync.service.fence import Fence, boot_s
from sunk_sync.settings.model import Settings
from sunk_sync.telemetry.telemetry import Telemetry

PAUSE_DEADLINE_S: Final = 5.0
ANYWHERE: Final = ("", "0.0.0.0", "::")


class Leadership:
    """Call `run` once the hooks server listens, and `release` at the end."""

    def __init__(self, settings: Settings, kube: KubeClient, telemetry: Telemetry) -> None:
        self.elected = asyncio.Event()
        self.lost = False
        self.fence = Fence()
        self.on_change: Callable[[], None] = lambda: None
        """Called when another replica leads than before."""
        self._identity = f"{socket.gethostname()}_{secrets.token_hex(4)}"
        self._place = LeasePlace(kube.namespace, own_object_name(settings.cluster_name))
        self._telemetry = telemetry
        self._log = telemetry.log
        self._store = LeaseStore(kube, self._place)
        self._elector = Elector(
            self._store,
            self._identity,
            fence=self.fence,
            timing=ElectionTiming(settings.leader_elect_lease_duration_s),
            ambient=replace(Ambient(), clock=boot_s),
        )
        self._elector.on_change = self._changed
        telemetry.leads(self._place.name, leads=False)

    @property
    def leader_address(self) -> str:
        """Return host:port of the hooks server of another replica that leads; empty: none does."""
        state = self._elector.state
        return "" if state.leader == self._identity else state.address

    @property
    def paused(self) -> str:
        """Return the annotation paused of the Lease, as last read."""
        return self._elector.state.paused

    async def set_paused(self, text: str) -> str:
        """Set the annotation, for all replicas; return why that failed, or nothing."""
        answer = await self._store.set_paused(text, deadline_s=PAUSE_DEADLINE_S)
        if isinstance(answer, KubeError):
            return f"Lease {self._place}: {answer.why}"
        self._elector.saw_paused(answer.paused)
        return ""

    async def run(self, address: str) -> None:
        """Take part until this replica has led and lost; `address` is that of its hooks server."""
        self._elector.address = address
        self._log.info("stands by for the Lease", lease=str(self._place), identity=self._identity)
        await self._elector.acquire()
        self._telemetry.leads(self._place.name, leads=True)
        self._log.info("became leader", lease=str(self._place), identity=self._identity)
        self.elected.set()
        why = await self._elector.hold()
        self._telemetry.leads(self._place.name, leads=False)
        self.lost = True
        self._log.error("lost the Lease: this process ends", lease=str(self._place), why=why)

    async def release(self) -> None:
        """Give the Lease back if this replica holds it: the others take it at once."""
        if not self._elector.leads:
            return
        failure = await self._elector.release()
        self._telemetry.leads(self._place.name, leads=False)
        if failure is None:
            self._log.info("released the Lease", lease=str(self._place))
        else:
            self._log.warning("cannot release the Lease: it expires", why=failure.why)

    def check(self) -> Check:
        """Say which replica leads. A standby is ready too."""
        state = self._elector.state
        if self._elector.leads:
            return Check("leader", "ok", f"this replica leads: {self._identity}")
        if state.trouble:
            return Check("leader", "degraded", f"Lease {self._place}: {state.trouble}")
        if not state.leader:
            return Check("leader", "degraded", "no replica leads")
        return Check("leader", "ok", f"this replica stands by; the leader is {state.leader}")

    def _changed(self) -> None:
        state = self._elector.state
        if state.trouble:
            self._log.warning("the Lease cannot be used", lease=str(self._place), why=state.trouble)
        elif not self._elector.leads:
            self._log.info("stands by", leader=state.leader or "nobody", address=state.address)
        self.on_change()


def own_address(bound: str, wanted: HostPort, *, kubernetes: str) -> str:
    """Return host:port at which other replicas reach this server.

    A server that listens on every address is reached at the one that reaches Kubernetes.
    """
    if wanted.host not in ANYWHERE:
        return bound
    host = _host_towards(kubernetes)
    port = bound.rpartition(":")[2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}" if host else ""


def _host_towards(url: str) -> str:
    """Return the own address of connections to this URL; empty if there is no route."""
    parts = urlsplit(url)
    try:
        family, _, _, _, place = socket.getaddrinfo(
            parts.hostname, parts.port or 443, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, socket.SOCK_DGRAM) as unsent:
            unsent.connect(place)
            host: str = unsent.getsockname()[0]
    except (OSError, ValueError):
        return ""
    return host
