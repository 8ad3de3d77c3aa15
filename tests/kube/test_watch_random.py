"""Watch, Listing and Graph against a server with random faults, which then end.

Always: the graph loses no row whose object exists. At the end: it equals the cluster.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import News
from sunk_sync.kube.api.answers import Decode, KubeError, T, refusal
from sunk_sync.kube.api.backoff import Ambient
from sunk_sync.kube.api.client import Request, Restores
from sunk_sync.kube.api.transport import decoded
from sunk_sync.kube.read.selection import Selection
from sunk_sync.kube.read.watch import Watch
from tests.kit.selections import nodes, slurmd_pods
from tests.kube.recorded.server import bookmark, event, node, pod, status

STEPS = 150


class Cluster:
    """Objects with versions and a history, as etcd keeps them."""

    def __init__(self, paths: Sequence[str], random: Random, *, restores: bool) -> None:
        self.paths = paths
        self._restores = restores
        self.random = random
        self.version = 100
        self.compacted = 0
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.history: list[tuple[int, str, str, dict[str, Any]]] = []
        self.snapshots: dict[int, dict[tuple[str, str], dict[str, Any]]] = {}
        self.epoch = 0
        """Grows with every restart of the server, which breaks all streams."""
        self.restored = False
        self._born = 0

    def step(self) -> None:
        """Create, change or delete an object."""
        key = (self.random.choice(self.paths), f"o{self.random.randrange(12)}")
        kind = self.random.random()
        if self._restores and self.objects and kind < 0.8:
            key = self.random.choice(sorted(self.objects))
        if key not in self.objects:
            self._born += 1
            key = (key[0], f"b{self._born}") if self._restores else key
            self._write(key, "ADDED", uid=f"uid-{self._born}")
        elif kind < 0.3:
            self._write(key, "DELETED", uid=self.objects[key]["metadata"]["uid"])
            del self.objects[key]
        else:
            self._write(key, "MODIFIED", uid=self.objects[key]["metadata"]["uid"])
        if self.random.random() < 0.05:
            self.compacted = self.version - self.random.randrange(5)

    def restore(self) -> None:
        """Restore a backup with its objects and versions."""
        if not self.snapshots:
            return
        self.version = self.random.choice(sorted(self.snapshots))
        self.objects = dict(self.snapshots[self.version])
        self.history = [one for one in self.history if one[0] <= self.version]
        self.compacted = min(self.compacted, self.version)
        self.snapshots = {v: s for v, s in self.snapshots.items() if v <= self.version}
        self.epoch += 1
        self.restored = True

    def snapshot(self) -> int:
        """Keep this state for a list of several pages."""
        self.snapshots[self.version] = dict(self.objects)
        return self.version

    def _write(self, key: tuple[str, str], kind: str, *, uid: str) -> None:
        self.version += 1
        path, name = key
        made = node(name, self.version) if path.endswith("nodes") else _pod(path, name, self)
        made["metadata"]["uid"] = uid
        made["metadata"]["annotations"] = {"sunk.coreweave.com/drain": str(self.version)}
        self.objects[key] = made
        self.history.append((self.version, kind, path, made))

    def picture(self) -> dict[str, tuple[str, str]]:
        """Return name, uid and last write of every object."""
        return {
            _key(path, name): (
                one["metadata"]["uid"],
                one["metadata"]["annotations"]["sunk.coreweave.com/drain"],
            )
            for (path, name), one in self.objects.items()
        }

    def living(self) -> set[str]:
        return {one["metadata"]["uid"] for one in self.objects.values()}


def _pod(path: str, name: str, cluster: Cluster) -> dict[str, Any]:
    return pod(name, cluster.version, namespace=path.split("/")[4])


def _key(path: str, name: str) -> str:
    return name if path.endswith("nodes") else f"{path.split('/')[4]}/{name}"


class BadServer:
    """Serves the cluster; while `faulty`, with every kind of fault."""

    def __init__(self, cluster: Cluster, *, watch_list: bool) -> None:
        self.restores = Restores()
        self.cluster = cluster
        self.random = cluster.random
        self.faulty = True
        self.down = False
        self._watch_list = watch_list

    def strikes(self, chance: float) -> bool:
        return self.faulty and self.random.random() < chance

    def trouble(self) -> KubeError | None:
        if self.down:
            return KubeError(kind="connection", why="down")
        if not self.strikes(0.25):
            return None
        return self.random.choice(
            [
                KubeError(kind="connection", why="refused"),
                KubeError(kind="timeout", why="slow"),
                KubeError(kind="garbage", why="half"),
                refusal(503, b""),
                refusal(429, b"", retry_after="1"),
                refusal(410, json.dumps(status(410, "Expired")).encode()),
            ]
        )

    async def call(self, request: Request, decode: Decode[T]) -> T | KubeError:
        for _ in range(self.random.randrange(4)):
            await asyncio.sleep(0)
        trouble = self.trouble()
        if trouble is not None:
            return trouble
        body = self._list(request.path, dict(request.query))
        if isinstance(body, KubeError):
            return body
        if self.strikes(0.1):
            body = body[: self.random.randrange(len(body))]
        return decoded(body, decode)

    def _list(self, path: str, query: dict[str, str]) -> bytes | KubeError:
        cluster, begin = self.cluster, 0
        if "continue" in query:
            version, begin = map(int, query["continue"].split(":"))
        elif "resourceVersion" in query:
            version = int(query["resourceVersion"])
        else:
            version = cluster.snapshot()
        if version < cluster.compacted or version not in cluster.snapshots:
            return refusal(410, json.dumps(status(410, "Expired")).encode())
        items = [one for (at, _), one in cluster.snapshots[version].items() if at == path]
        end = begin + 3
        next_ = f"{version}:{end}" if end < len(items) else ""
        kind = "NodeList" if path.endswith("nodes") else "PodList"
        meta = {"resourceVersion": str(version), "continue": next_}
        answer = {"kind": kind, "metadata": meta, "items": items[begin:end]}
        return json.dumps(answer).encode()

    async def open(self, request: Request, *, silence_s: float) -> "BadStream | KubeError":
        assert silence_s > 0
        await asyncio.sleep(0)
        query = dict(request.query)
        trouble = self.trouble()
        if trouble is not None:
            return trouble
        if "sendInitialEvents" in query:
            if not self._watch_list:
                return refusal(422, json.dumps(status(422, "Invalid")).encode())
            return BadStream(self, request.path, self.cluster.version, initial=True)
        return BadStream(self, request.path, int(query["resourceVersion"]))


class BadStream:
    """An open watch of one collection."""

    def __init__(
        self, server: BadServer, path: str, version: int, *, initial: bool = False
    ) -> None:
        self._server = server
        self._path = path
        self._version = version
        self._kind = "Node" if path.endswith("nodes") else "Pod"
        self._epoch = server.cluster.epoch
        self._pending = self._initial() if initial else []
        self._is_gone = version < server.cluster.compacted

    def _initial(self) -> list[bytes]:
        objects = self._server.cluster.objects
        rows = [event("ADDED", one) for (path, _), one in objects.items() if path == self._path]
        return [*rows, bookmark(self._kind, self._version, ends_listing=True)]

    async def lines(self) -> list[bytes] | KubeError:
        server, cluster = self._server, self._server.cluster
        while True:
            await asyncio.sleep(0)
            if self._epoch != cluster.epoch:
                return KubeError(kind="connection", why="the server restarted")
            if self._is_gone:
                return [event("ERROR", status(410, "Expired")).rstrip()]
            if server.strikes(0.05):
                return KubeError(kind=server.random.choice(["ended", "timeout"]), why="broken")
            if server.strikes(0.03):
                return [b'{"type":"MODIF']
            lines = self._news()
            if lines:
                return [line.rstrip() for line in lines]

    def _news(self) -> list[bytes]:
        server, cluster = self._server, self._server.cluster
        lines, self._pending = self._pending, []
        behind = [one for one in cluster.history if one[0] > self._version]
        for version, kind, path, one in behind[: server.random.randrange(1, 4)]:
            self._version = version
            if path == self._path:
                line = event(kind, one)
                lines += [line, line] if server.strikes(0.1) else [line]
        if not lines and server.random.random() < 0.05:
            lines.append(bookmark(self._kind, self._version))
        return lines

    def close(self) -> None:
        """Hold no resources."""


class WatchedGraph:
    """A graph that the watch feeds; it checks safety after every fact."""

    def __init__(self, cluster: Cluster, clock: Callable[[], float]) -> None:
        self.graph = Graph(Configuration())
        self._cluster = cluster
        self._clock = clock

    async def tell(self, news: Sequence[News]) -> None:
        for one in news:
            before = self.uids()
            self.graph.observe([one], now=self._clock())
            lost = (before - self.uids()) & self._cluster.living()
            assert self._cluster.restored or not lost, (one, lost)
        await asyncio.sleep(0)

    def uids(self) -> set[str]:
        nodes_ = {row.uid for row in self.graph.nodes.rows()}
        return nodes_ | {row.uid for row in self.graph.slurmd_pods.rows()}

    def picture(self) -> dict[str, tuple[str, str | None]]:
        tables = (self.graph.nodes, self.graph.slurmd_pods)
        return {
            key: (entry.row.uid, entry.row.drain)
            for table in tables
            for key, entry in table.entries.items()
        }


async def live_through(seed: int, subject: Selection, *, watch_list: bool, restores: bool) -> None:
    random = Random(seed)
    cluster = Cluster(subject.paths, random, restores=restores)
    server = BadServer(cluster, watch_list=watch_list)
    now_s = 0.0

    async def sleep(delay_s: float) -> None:
        nonlocal now_s
        now_s += delay_s
        await asyncio.sleep(0)

    ambient = Ambient(clock=lambda: now_s, sleep=sleep, random=random.random)
    picture = WatchedGraph(cluster, ambient.clock)
    reader = Watch(server, subject, tell=picture.tell, on_bad=lambda *_: None, ambient=ambient)
    task = asyncio.create_task(reader.run())
    relists: list[asyncio.Task[KubeError | None]] = []
    for _ in range(STEPS):
        now_s += 0.01
        cluster.step()
        if restores and random.random() < 0.02:
            cluster.restore()
            server.down = True
            for _ in range(100):
                await asyncio.sleep(0)
            server.down = False
        if random.random() < 0.05:
            relists.append(asyncio.create_task(reader.relist(0.0)))
        for _ in range(random.randrange(12)):
            await asyncio.sleep(0)
    server.faulty = False
    for _ in range(20_000):
        now_s += 0.01
        await asyncio.sleep(0)
        assert not task.done(), task
        table = picture.graph.sources.tables[subject.source]
        quiet = table.live and all(map(asyncio.Task.done, relists))
        if quiet and picture.picture() == cluster.picture():
            break
    task.cancel()
    await asyncio.gather(task, *relists, return_exceptions=True)
    assert picture.picture() == cluster.picture()


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("watch_list", [True, False])
async def test_no_fault_removes_an_existing_object_F3(seed: int, watch_list: bool) -> None:
    await live_through(seed, nodes(), watch_list=watch_list, restores=False)


@pytest.mark.parametrize("seed", range(40))
async def test_no_fault_removes_an_existing_object_of_several_namespaces_F3(seed: int) -> None:
    subject = slurmd_pods(["a", "b"], selector="x=y")
    await live_through(seed, subject, watch_list=False, restores=False)


@pytest.mark.parametrize("seed", range(40))
async def test_after_a_restore_the_graph_equals_the_cluster(seed: int) -> None:
    await live_through(seed, nodes(), watch_list=seed % 2 == 0, restores=True)
