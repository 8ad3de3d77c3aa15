"""The embedded API server on a socket, with the service's own client and reader."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from sunk_sync.core.model.facts import Taken
from sunk_sync.core.model.pod_spec import OtherPod
from sunk_sync.embedded.kubernetes.api.api import KubeApi
from sunk_sync.embedded.kubernetes.api.http import KubeServer, kubeconfig
from sunk_sync.embedded.kubernetes.kubernetes import Kubernetes
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.backoff import Ambient
from sunk_sync.kube.api.client import KubeClient, Request, ResourceAttributes
from sunk_sync.kube.read.other_pods import OtherPods
from sunk_sync.kube.read.watch import Watch
from tests.kit.selections import nodes, other_pods
from tests.kube.recorded.server import Ear


@pytest.fixture
def kube() -> Kubernetes:
    kube = Kubernetes(heartbeat_s=0.05)
    kube.add_node("n1")
    return kube


@pytest.fixture
async def server(kube: Kubernetes) -> AsyncIterator[KubeServer]:
    server = KubeServer(KubeApi(kube))
    await server.start()
    yield server
    await server.aclose()


@pytest.fixture
async def client(server: KubeServer, tmp_path: Path) -> AsyncIterator[KubeClient]:
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig(server.address, namespace="own"))
    client = await KubeClient.connect(
        kubeconfig=str(path), context=None, on_exchange=lambda _: None
    )
    assert not isinstance(client, KubeError)
    yield client
    await client.aclose()


async def until(claim: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not claim():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@asynccontextmanager
async def watching(server: KubeServer, **query: str) -> AsyncIterator[aiohttp.ClientResponse]:
    params = {"watch": "true", "resourceVersion": "0", **query}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{server.address}/api/v1/nodes", params=params) as answer,
    ):
        yield answer


async def test_our_client_reads_and_writes(client: KubeClient) -> None:
    assert client.namespace == "own"
    assert await client.server_version() == "v1.35.4"
    uid = await client.cluster_uid()
    assert not isinstance(uid, KubeError)
    assert await client.may(ResourceAttributes(verb="patch", resource="nodes")) is True
    refused = await client.call(Request(path="/api/v1/nodes/none"), bytes)
    assert isinstance(refused, KubeError)
    assert (refused.status, refused.reason, refused.object_name) == (404, "NotFound", "none")


async def test_our_reader_follows_changes(
    kube: Kubernetes, server: KubeServer, client: KubeClient
) -> None:
    ear = Ear()
    watch = Watch(client, nodes(), tell=ear.tell, on_bad=ear.on_bad, ambient=Ambient())
    reading = asyncio.create_task(watch.run())
    await ear.until(lambda ear: "ListingEnded" in ear.kinds())
    heard = len(ear.news)
    kube.cordon("n1")
    server.wake()
    await ear.until(lambda ear: len(ear.news) > heard)
    kube.remove_node("n1")
    await ear.until(lambda ear: "Deleted n1" in ear.kinds())
    assert ear.bad == []
    reading.cancel()


async def test_time_advances_without_requests(kube: Kubernetes, server: KubeServer) -> None:
    version = kube.store.version
    await until(lambda: kube.store.version > version + 2 or server.now_s > 3)
    kube.add_pod("p", node="n1")
    server.wake()
    await until(lambda: (kube.pod("p") or {})["status"]["phase"] == "Running")


async def test_a_closed_watch_is_removed(kube: Kubernetes, server: KubeServer) -> None:
    async with watching(server) as answer:
        assert b"ADDED" in await answer.content.readline()
    await until(lambda: not kube.store.on_restored)


async def test_a_watch_ends_after_its_timeout(server: KubeServer) -> None:
    async with watching(server, timeoutSeconds="1") as answer:
        assert (await answer.read()).count(b"\n") >= 1


async def test_open_watches_end_with_the_server(kube: Kubernetes) -> None:
    server = KubeServer(KubeApi(kube))
    await server.start()
    async with watching(server) as answer:
        assert b"ADDED" in await answer.content.readline()
        await server.aclose()
        await answer.read()


async def test_pods_of_others_are_followed_P28(
    kube: Kubernetes, server: KubeServer, client: KubeClient
) -> None:
    """Pods of this scheduler and Pods without a Node do not count."""
    ear = Ear()
    tell = OtherPods(ear.tell).tell
    selection = other_pods(scheduler_name="ours")
    watch = Watch(client, selection, tell=tell, on_bad=ear.on_bad, ambient=Ambient())
    reading = asyncio.create_task(watch.run())
    await ear.until(lambda ear: "ListingEnded" in ear.kinds())
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]}
    for name, more in (("p1", {"nodeName": "n1"}), ("p2", {}), ("p3", {"schedulerName": "ours"})):
        kube.add_pod(name, spec=spec | more)
    server.wake()
    await ear.until(lambda ear: any(isinstance(one, Taken) for one in ear.news))
    assert ear.news[-1] == Taken(
        "n1", (("cpu", 2000), ("pods", 1)), ((OtherPod(namespace="default"), 1),)
    )
    reading.cancel()
