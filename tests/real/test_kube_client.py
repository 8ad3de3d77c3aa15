"""The Kubernetes client with a real API server and etcd."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model import names
from sunk_sync.core.model.actions import (
    Action,
    Cordon,
    GetObject,
    RecordEvent,
    SetConditions,
    SetMetadata,
    Uncordon,
)
from sunk_sync.core.model.condition import Condition, ConditionStatus
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.event_kinds import EVENT_CONFLICT
from sunk_sync.core.model.facts import GetResult, Lost, News, Reference
from sunk_sync.core.model.outcomes import Done, Outcome, Refused
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.backoff import Ambient
from sunk_sync.kube.api.client import KubeClient, ResourceAttributes
from sunk_sync.kube.read.selection import Selection
from sunk_sync.kube.read.watch import Watch
from sunk_sync.kube.write.outcomes import spelled
from sunk_sync.kube.write.push import KubePush
from tests.kit.selections import nodes, slurmd_pods
from tests.real.conftest import require
from tests.real.testbed import KubeServer, kube_objects
from tests.real.testbed.cache import KUBE_DEFAULT

pytestmark = pytest.mark.real

OTHER_UID = "0e8b7a5c-6a1f-4a0e-9a8e-2c6a4f1c1a11"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


@pytest.fixture
def own_server() -> Iterator[KubeServer]:
    """A control plane that a test may break."""
    require(kube=KUBE_DEFAULT)
    with KubeServer(controllers=False, kubelet=False) as server:
        yield server


@asynccontextmanager
async def client_of(
    server: KubeServer, kubeconfig: Path | None = None
) -> AsyncIterator[KubeClient]:
    path = str(kubeconfig or server.admin_kubeconfig)
    made = await KubeClient.connect(kubeconfig=path, context=None, on_exchange=lambda _: None)
    assert not isinstance(made, KubeError), made
    try:
        yield made
    finally:
        await made.aclose()


class Picture:
    """A graph fed by one watch."""

    def __init__(self, client: KubeClient, selection: Selection) -> None:
        self.graph = Graph(Configuration())
        self.news: list[News] = []
        self.watch = Watch(
            client, selection, tell=self._tell, on_bad=self._on_bad, ambient=Ambient()
        )

    async def _tell(self, news: Any) -> None:
        self.news += news
        self.graph.observe(news, now=asyncio.get_running_loop().time())

    def _on_bad(self, kind: str, name: str, why: str) -> None:
        raise AssertionError((kind, name, why))

    def kinds(self) -> list[str]:
        return [type(one).__name__ for one in self.news]

    async def until(self, claim: Callable[[], bool]) -> None:
        async with asyncio.timeout(15):
            while not claim():  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    async def until_cordoned(self, name: str) -> None:
        rows = self.graph.nodes
        await self.until(lambda: (row := rows.get(name)) is not None and row.unschedulable)


@asynccontextmanager
async def watching(client: KubeClient, selection: Selection) -> AsyncIterator[Picture]:
    picture = Picture(client, selection)
    task = asyncio.create_task(picture.watch.run())
    try:
        await picture.until(lambda: task.done() or "ListingEnded" in picture.kinds())
        yield picture
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def node(kube: KubeServer, request: pytest.FixtureRequest) -> Iterator[Reference]:
    name = f"n{abs(hash(request.node.nodeid)) % 10**8}"
    kube.add_nodes(name)
    yield Reference("Node", "", name, kube.node(name)["metadata"]["uid"])
    kube.rest.call("DELETE", f"/api/v1/nodes/{name}")


async def push(server: KubeServer, action: Action) -> Outcome:
    async with client_of(server) as client:
        (outcome,) = await KubePush(client, relist={}).push([action])
        return outcome


async def push_done(server: KubeServer, action: Action) -> None:
    assert isinstance(await push(server, action), Done)


def conditions_of(an_object: Any) -> dict[str, str]:
    return {kind: one["status"] for kind, one in kube_objects.conditions(an_object).items()}


def ours_of(server: KubeServer, name: str) -> tuple[set[str], Any]:
    """Return our conditions of a Pod and all other ones."""
    now = conditions_of(server.pod(name, "slurm"))
    ours = {kind for kind in now if kind.startswith("Slurm")}
    return ours, now.keys() - ours


def slurm(kind: str, value: ConditionStatus = "True") -> Condition:
    return Condition(kind, value, "Slurm", "as Slurm says")


async def test_each_change_of_a_node_arrives(kube: KubeServer) -> None:
    async with client_of(kube) as client, watching(client, nodes()) as picture:
        rows = picture.graph.nodes
        kube.add_nodes("seen")
        await picture.until(lambda: rows.get("seen") is not None)
        kube.cordon("seen")
        await picture.until_cordoned("seen")
        kube.delete_node("seen")
        await picture.until(lambda: rows.get("seen") is None)
        assert "Lost" not in picture.kinds()


async def test_a_listing_of_several_pages_is_complete(own_server: KubeServer) -> None:
    """600 Nodes come by WatchList, and in two pages by the second listing."""
    own_server.add_nodes(*(f"n{i}" for i in range(600)))
    async with client_of(own_server) as client, watching(client, nodes()) as picture:
        assert len(picture.graph.nodes.entries) == 600
        assert await picture.watch.relist(0.0) is None
        assert len(picture.graph.nodes.entries) == 600
        assert picture.kinds().count("ListingEnded") == 2


async def test_several_namespaces_are_listed_at_one_version(kube: KubeServer) -> None:
    for namespace in ("left", "right"):
        kube.ensure_namespace(namespace)
        kube.create(kube_objects.slurmd_pod(namespace, namespace=namespace))
    kube.create(kube_objects.pod("foreign", namespace="left"))
    selection = slurmd_pods(["left", "right"], selector="app.kubernetes.io/component=slurmd")
    async with client_of(kube) as client, watching(client, selection) as picture:
        rows = picture.graph.slurmd_pods
        assert sorted(rows.entries) == ["left/slurmd-left", "right/slurmd-right"]
        for namespace in ("left", "right"):
            kube.delete_pod(f"slurmd-{namespace}", namespace, grace_s=0)
        await picture.until(lambda: not rows.entries)
    kube.delete_pod("foreign", "left", grace_s=0)


async def test_a_server_without_watch_lists_is_read_in_pages() -> None:
    require(kube=KUBE_DEFAULT)
    flags = ["--feature-gates=WatchList=false"]
    with KubeServer(controllers=False, kubelet=False, apiserver_flags=flags) as server:
        server.add_nodes("a", "b")
        async with client_of(server) as client, watching(client, nodes()) as picture:
            assert sorted(picture.graph.nodes.entries) == ["a", "b"]
            server.add_nodes("c")
            await picture.until(lambda: "c" in picture.graph.nodes.entries)


async def test_a_restart_of_the_api_server_removes_no_row_F3(own_server: KubeServer) -> None:
    own_server.add_nodes("a", "b")
    async with client_of(own_server) as client, watching(client, nodes()) as picture:
        await asyncio.to_thread(own_server.restart)
        own_server.cordon("a")
        await picture.until_cordoned("a")
        assert "Deleted" not in picture.kinds()
        assert sorted(picture.graph.nodes.entries) == ["a", "b"]
        assert picture.graph.nodes.live


async def test_410_leads_to_a_new_listing_F3(own_server: KubeServer) -> None:
    """A new watch cache refuses old versions with an ERROR event in a 200 stream."""
    own_server.add_nodes("a")
    async with client_of(own_server) as client:
        picture = Picture(client, nodes())
        await picture.watch.relist(0.0)
        old = picture.news[0]
        own_server.add_nodes("b")
        await asyncio.to_thread(own_server.restart)
        error = await picture.watch._follow_all(f"{old.order - 1:.0f}", restores=0)  # type: ignore[union-attr]
    assert (error.status, error.reason) == (410, "Expired")


async def test_a_restore_of_etcd_leads_to_a_new_listing(own_server: KubeServer) -> None:
    own_server.add_nodes("kept")
    async with client_of(own_server) as client, watching(client, nodes()) as picture:
        await asyncio.to_thread(back_up, own_server)
        own_server.add_nodes(*(f"later{i}" for i in range(30)))
        await picture.until(lambda: len(picture.graph.nodes.entries) == 31)
        await asyncio.to_thread(restore, own_server)
        await picture.until(lambda: list(picture.graph.nodes.entries) == ["kept"])
        own_server.cordon("kept")
        await picture.until_cordoned("kept")


def back_up(server: KubeServer) -> None:
    with etcd_stopped(server) as data:
        shutil.copytree(data, server.directory / "backup")


def restore(server: KubeServer) -> None:
    with etcd_stopped(server) as data:
        shutil.rmtree(data)
        (server.directory / "backup").rename(data)


@contextmanager
def etcd_stopped(server: KubeServer) -> Iterator[Path]:
    server.stop()
    server.daemons["etcd"].stop()
    yield server.directory / "etcd"
    server.start_etcd()
    server.start()


async def test_a_service_account_sees_what_its_roles_allow(kube: KubeServer) -> None:
    kubeconfig = kube.kubeconfig_for("reader", "default")
    list_nodes = ResourceAttributes(verb="list", resource="nodes")
    async with client_of(kube, kubeconfig) as client:
        assert await client.may(list_nodes) is False
        picture = Picture(client, nodes())
        task = asyncio.create_task(picture.watch.run())
        await picture.until(lambda: bool(picture.news))
        lost = picture.news[0]
        assert isinstance(lost, Lost)
        assert "cannot list" in lost.why or "cannot watch" in lost.why
        assert '"nodes"' in lost.why
        (read,) = await KubePush(client, relist={}).push([GetObject("Node", "", "none", 0.0)])
        assert isinstance(read, Done)
        assert read.seen[0].found == "unknown"  # type: ignore[union-attr]
        create = partial(kube.kubectl, "create")
        create("clusterrole", "reader", "--verb=get,list,watch", "--resource=nodes")
        subject = "--serviceaccount=default:reader"
        create("clusterrolebinding", "reader", "--clusterrole=reader", subject)
        assert await client.may(list_nodes) is True
        await picture.until(lambda: "ListingEnded" in picture.kinds())
        task.cancel()


async def test_a_replaced_token_is_read_after_401_F5(kube: KubeServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("no-such-token")
    kubeconfig = kube._write_kubeconfig("by-file", {"tokenFile": str(token)})
    async with client_of(kube, kubeconfig) as client:
        refused = await client.cluster_uid()
        assert isinstance(refused, KubeError)
        assert refused.status == 401
        token.write_text(kube.admin_token)
        await asyncio.sleep(5.1)
        assert isinstance(await client.cluster_uid(), str)


async def test_our_conditions_do_not_touch_those_of_others_M2(
    kube: KubeServer, node: Reference
) -> None:
    path = f"/api/v1/nodes/{node.name}"
    both = (slurm(names.NODE_DRAIN_CONDITION), slurm(names.NODE_RUNNING_CONDITION))
    await push_done(kube, SetConditions(node, both))
    patch = {"conditions": [{"type": "Ready", "status": "False"}, {"type": "X", "status": "True"}]}
    kube.rest.call("PATCH", f"{path}/status", {"status": patch}, content_type=STRATEGIC)
    one = (slurm(names.NODE_DRAIN_CONDITION, "False"),)
    await push_done(kube, SetConditions(node, one))
    theirs = {"Ready": "False", "X": "True"}
    now = conditions_of(kube.node(node.name))
    assert now == {**theirs, names.NODE_DRAIN_CONDITION: "False"}
    await push_done(kube, SetConditions(node, ()))
    assert conditions_of(kube.node(node.name)) == theirs


async def test_our_conditions_of_a_pod_do_not_touch_those_of_the_kubelet_M1(
    kube: KubeServer,
) -> None:
    kube.add_hosts("m1")
    pod = kube.pod("slurmd-m1", "slurm")
    reference = Reference("Pod", "slurm", "slurmd-m1", pod["metadata"]["uid"])
    for state in ("Idle", "Drain"):
        await push(kube, SetConditions(reference, (slurm(f"SlurmNodeState{state}"),)))
    ours, theirs = ours_of(kube, "slurmd-m1")
    assert ours == {"SlurmNodeStateDrain"}
    await push(kube, SetConditions(reference, ()))
    assert ours_of(kube, "slurmd-m1") == (set(), theirs)
    kube.delete_pod("slurmd-m1", "slurm", grace_s=0)
    kube.delete_node("m1")


@pytest.mark.parametrize("conditions", [(), (slurm("SlurmDrain"),)])
async def test_a_write_for_another_uid_is_refused(
    kube: KubeServer, node: Reference, conditions: tuple[Condition, ...]
) -> None:
    for name in (node.name, "never-was"):
        other = Reference("Node", "", name, OTHER_UID)
        for action in (
            SetConditions(other, conditions),
            SetMetadata(other, names.MANAGER_MIRROR, ((names.LABEL_POD, "p"),), ()),
            Cordon(other),
            Uncordon(other),
        ):
            outcome = await push(kube, action)
            assert isinstance(outcome, Refused), outcome
    writers = {one["manager"] for one in kube.node(node.name)["metadata"]["managedFields"]}
    assert not any(writer.startswith("sunk-sync") for writer in writers)
    assert "never-was" not in kube.kubectl("get", "nodes", "-o", "name")


async def test_the_same_write_twice_changes_nothing_M5(kube: KubeServer, node: Reference) -> None:
    """Controllers write to a new Node, too: compare two writes in a row."""
    for action in (
        SetConditions(node, (slurm("SlurmDrain"),), ("2026-01-01T00:00:00Z",)),
        SetMetadata(node, names.MANAGER_MIRROR, ((names.LABEL_POD, "p"),), ((names.DRAIN, "x"),)),
    ):
        outcomes = [await push(kube, action) for _ in range(5)]
        assert any(first == second for first, second in pairwise(outcomes))


async def test_two_field_managers_keep_their_own_metadata(
    kube: KubeServer, node: Reference
) -> None:
    kube.kubectl("label", "node", node.name, "human=yes")
    mirror, retire = names.MANAGER_MIRROR, names.MANAGER_RETIRE
    await push(kube, SetMetadata(node, mirror, ((names.LABEL_POD, "p"),), ()))
    await push(kube, SetMetadata(node, retire, (), ((names.DRAINED, "true"),)))
    await push(kube, SetMetadata(node, mirror, (), ()))
    meta = kube.node(node.name)["metadata"]
    assert names.LABEL_POD not in meta["labels"]
    assert meta["labels"]["human"] == "yes"
    assert meta["annotations"][names.DRAINED] == "true"


async def test_our_cordon_is_lifted_and_a_humans_stays_M7(
    kube: KubeServer, node: Reference
) -> None:
    await push_done(kube, Cordon(node))
    assert is_cordoned(kube, node) == (True, True)
    await push_done(kube, Uncordon(node))
    assert is_cordoned(kube, node) == (False, False)
    kube.kubectl("cordon", node.name)
    await push(kube, Cordon(node))
    await push(kube, Uncordon(node))
    assert is_cordoned(kube, node) == (True, False)


async def test_a_human_who_uncordons_wins_M7(kube: KubeServer, node: Reference) -> None:
    await push(kube, Cordon(node))
    kube.kubectl("uncordon", node.name)
    assert is_cordoned(kube, node) == (False, True)
    await push(kube, Uncordon(node))
    assert is_cordoned(kube, node) == (False, False)


async def test_kubectl_cordon_of_a_cordoned_node_changes_nothing_M7(
    kube: KubeServer, node: Reference
) -> None:
    """kubectl cordon sends nothing for a cordoned Node; only an apply would make it theirs."""
    await push(kube, Cordon(node))
    kube.kubectl("cordon", node.name)
    await push(kube, Uncordon(node))
    assert is_cordoned(kube, node) == (False, False)
    await push(kube, Cordon(node))
    theirs = {"apiVersion": "v1", "kind": "Node", "spec": {"unschedulable": True}}
    path = f"/api/v1/nodes/{node.name}?fieldManager=human"
    kube.rest.call("PATCH", path, theirs, content_type=APPLY)
    await push(kube, Uncordon(node))
    assert is_cordoned(kube, node) == (True, False)


def is_cordoned(server: KubeServer, node: Reference) -> tuple[bool, bool]:
    """Whether the Node is unschedulable, and marked as ours."""
    now = server.node(node.name)
    annotations = now["metadata"].get("annotations", {})
    return now["spec"].get("unschedulable", False), names.CORDONED_FOR_DRAIN in annotations


async def test_an_event_of_two_processes_stays_one_with_its_action_and_describe_shows_it(
    kube: KubeServer, node: Reference
) -> None:
    kube.create(kube_objects.pod("subject", node=node.name))
    pod = kube.pod("subject")
    for reference in (
        node,
        Reference("Pod", "default", "subject", pod["metadata"]["uid"]),
        Reference("Namespace", "", "default", ""),
    ):
        say = RecordEvent(reference, EVENT_CONFLICT, f"said of {reference.path}")
        assert await push(kube, say) == Done(say)
        assert await push(kube, say) == Done(say)
        which = f"involvedObject.name={reference.name},reason={say.reason}"
        shown = "jsonpath={range .items[*]}{.type} {.action} {.reportingComponent};{end}"
        events = kube.kubectl("get", "events", "-A", "-o", shown, "--field-selector", which)
        assert events == "Warning Matching sunk-sync;"
    assert f"said of Node {node.name}" in kube.kubectl("describe", "node", node.name)
    assert "said of Pod default/subject" in kube.kubectl("describe", "pod", "subject")
    kube.delete_pod("subject", grace_s=0)


async def test_describe_shows_how_often_an_event_happened_and_over_how_long(
    kube: KubeServer, node: Reference
) -> None:
    """The second process finds two, and the repetition that it sees itself is the third."""
    say = RecordEvent(node, EVENT_CONFLICT, "happens again and again")
    begun = datetime.now(UTC) - timedelta(minutes=10)
    async with client_of(kube) as client:
        for moments_s in ((0.0, 120.0, 121.0), (181.0, 300.0)):
            await record_at(client, say, moments_s, begun=begun)
    described = kube.kubectl("describe", "node", node.name)
    (line,) = [line for line in described.splitlines() if say.message in line]
    assert re.search(r"\(x3 over 1\dm\)", line), line
    which = f"involvedObject.name={node.name},reason={say.reason}"
    shown = "jsonpath={range .items[*]}{.count} {.firstTimestamp} {.lastTimestamp};{end}"
    last = begun + timedelta(seconds=300)
    events = kube.kubectl("get", "events", "-A", "-o", shown, "--field-selector", which)
    assert events == f"3 {spelled(begun)} {spelled(last)};"


async def record_at(
    client: KubeClient, say: RecordEvent, moments_s: Sequence[float], *, begun: datetime
) -> None:
    """Let a new process record the Event at each of these moments."""
    now_s = list(moments_s[:1])
    process = KubePush(
        client,
        relist={},
        clock=lambda: now_s[-1],
        wall_clock=lambda: begun + timedelta(seconds=now_s[-1]),
    )
    for moment_s in moments_s:
        now_s.append(moment_s)
        assert list(await process.push([say])) == [Done(say)]


async def test_a_read_by_name_reports_presence_and_absence_S7(
    kube: KubeServer, node: Reference
) -> None:
    for read, found, uid in (
        (GetObject("Node", "", node.name, 0.0), "yes", node.uid),
        (GetObject("Node", "", "nobody", 0.0), "no", ""),
        (GetObject("Pod", "default", "nobody", 0.0), "no", ""),
        (GetObject("Pod", "nowhere", "nobody", 0.0), "no", ""),
    ):
        outcome = await push(kube, read)
        assert isinstance(outcome, Done)
        (seen,) = outcome.seen
        assert isinstance(seen, GetResult)
        assert (seen.found, seen.uid) == (found, uid)
