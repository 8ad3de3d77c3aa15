"""Addresses of Pods: each has a network of its own, on one bridge with this machine.

The links are in namespaces of podman's sandbox, so they end with it.
"""

import asyncio
import random
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import NamedTuple

from tests.image.podman import Podman
from tests.real.service import NAMESPACE
from tests.real.testbed import KubeServer
from tests.real.testbed.closing import Closing
from tests.real.testbed.sandbox import Daemon, run, wait_until

HOLD = ("unshare", "--net", "sleep", "infinity")
PIECE_BYTES = 64 << 10
CONNECT_S = 1.0
"""A Pod that has just ended answers nothing. A real Service leaves the client's own limit."""
Address = tuple[str, int]


class PodPlace(NamedTuple):
    """The network of one Pod, as the pause container of a kubelet holds it."""

    address: str
    namespace: Path
    """As the sandbox sees it."""
    holder: Daemon


class PodNetwork:
    """`attach` makes the network of one more Pod."""

    def __init__(self, podman: Podman) -> None:
        self._podman = podman
        self._prefix = f"10.77.{random.randrange(256)}"
        self.gateway = f"{self._prefix}.1"
        """The address of this machine, as Pods see it."""
        self._numbers = count(2)
        self._switch = self._hold("switch")
        ours = f"sunk{self._prefix.replace('.', '')}"
        run(["ip", "link", "add", ours, "type", "veth", "peer", "name", "uplink", *self._at_switch])
        _up(ours, f"{self.gateway}/24")
        run([*_entering(self._switch), "ip", "link", "add", "bridge", "type", "bridge"])
        _up("bridge", inside=self._switch)
        self._join("uplink")

    @property
    def _at_switch(self) -> list[str]:
        return ["netns", str(self._switch.pid)]

    def attach(self, name: str) -> PodPlace:
        number = next(self._numbers)
        holder = self._hold(f"network-of-{name}")
        theirs = ["peer", "name", "eth0", "netns", str(holder.pid)]
        run(["ip", "link", "add", f"pod{number}", *self._at_switch, "type", "veth", *theirs])
        self._join(f"pod{number}")
        address = f"{self._prefix}.{number}"
        _up("lo", inside=holder)
        _up("eth0", f"{address}/24", inside=holder)
        status = Path(f"/proc/{holder.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("NSpid:")]
        return PodPlace(address, Path(f"/proc/{line.split()[-1]}/ns/net"), holder)

    def _hold(self, name: str) -> Daemon:
        holder = self._podman.process(name, *HOLD)
        ours, its = Path("/proc/self/ns/net"), Path(f"/proc/{holder.pid}/ns/net")
        wait_until(
            lambda: its.readlink() != ours.readlink(), "a network", deadline_s=30, daemons=[holder]
        )
        return holder

    def _join(self, link: str) -> None:
        run([*_entering(self._switch), "ip", "link", "set", link, "master", "bridge"])
        _up(link, inside=self._switch)


def _entering(holder: Daemon) -> list[str]:
    return ["nsenter", f"--net=/proc/{holder.pid}/ns/net", "--"]


def _up(link: str, address: str = "", *, inside: Daemon | None = None) -> None:
    enter = _entering(inside) if inside else []
    if address:
        run([*enter, "ip", "address", "add", address, "dev", link])
    run([*enter, "ip", "link", "set", link, "up"])


class Service(Closing):
    """Takes connections at one address, and passes each on to where `find` says, as a Service."""

    def __init__(self, at: Address, find: Callable[[], Address | None]) -> None:
        self._find = find
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        listening = asyncio.start_server(self._serve, *at)
        asyncio.run_coroutine_threadsafe(listening, self._loop).result()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            found = await asyncio.to_thread(self._find)
            if found is None:
                raise ConnectionRefusedError
            theirs = await asyncio.wait_for(asyncio.open_connection(*found), CONNECT_S)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(_pass_on(reader, theirs[1]), _pass_on(theirs[0], writer))

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _end(self) -> None:
        links = asyncio.all_tasks() - {asyncio.current_task()}
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)


def hooks_endpoint(kube: KubeServer) -> Address | None:
    """Return a ready Pod of the Service of the hooks, as the controllers list them."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
    query = "labelSelector=kubernetes.io/service-name=sunk-sync-hooks"
    for one in kube.rest.call("GET", f"{path}?{query}")["items"]:
        for pod in one["endpoints"] or []:
            if pod["conditions"]["ready"]:
                return pod["addresses"][0], one["ports"][0]["port"]
    return None


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass
    writer.close()
