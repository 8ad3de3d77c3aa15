"""The lock of a Node as requests: one patch of what was read, and a listing of its Pods."""

import json
from typing import Any

import pytest
from aiohttp import web

from sunk_sync.core.model.actions import Action, Bind
from sunk_sync.core.model.facts import Node, Observed, Reference, SlurmdPod
from sunk_sync.core.model.lock_actions import GetNodePods, Lock, Unlock
from sunk_sync.core.model.node_lock import NodePods
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.kube.decode.source_decoder import (
    NODES,
    OFFERING_NODES,
    SLURMD_PODS,
    SourceDecoder,
)
from tests.kit.pod_push import POD, outcome_of
from tests.kube.recorded.server import status

Json = dict[str, Any]
KEY = "sunk.coreweave.com/lock"
NODE = Reference("Node", "", "kn1", "uid-kn1")
OURS = {"key": KEY, "value": "true", "effect": "NoExecute"}
OTHER = {"key": "team", "value": "a", "effect": "NoSchedule"}
LIKE_OURS = {"key": KEY, "value": "true", "effect": "NoSchedule"}
PATH = "/metadata/annotations/sunk.coreweave.com~1lock"
TEST = {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
STALE = status(422, "Invalid", message="testing value /metadata/resourceVersion failed")
GONE = status(404, "NotFound", details={"name": "kn1"})
LOCK = Lock(NODE, "pending")
UNLOCK = Unlock(NODE)


def a_node(*taints: Json, uid: str = "uid-kn1", **annotations: str) -> Json:
    """Return the Node as the API server does; without arguments it has neither list."""
    metadata: Json = {"name": "kn1", "uid": uid, "resourceVersion": "7"}
    if annotations:
        metadata["annotations"] = {
            key.replace("_", "/"): value for key, value in annotations.items()
        }
    spec = {"taints": list(taints)} if taints else {}
    return {"kind": "Node", "metadata": metadata, "spec": spec, "status": {}}


def marked(state: str, *taints: Json, **more: str) -> Json:
    made = a_node(*taints)
    made["metadata"]["annotations"] = {**more, KEY: state}
    return made


class Server:
    """Answers reads with `node`, and patches with `patched` in turn."""

    def __init__(self, node: Json, *patched: Json) -> None:
        self.node = node
        self.patched = list(patched) or [node]
        self.sent: list[Any] = []
        self.kinds: list[str] = []

    async def __call__(self, request: web.Request) -> web.Response:
        assert request.path == "/api/v1/nodes/kn1"
        if request.method == "GET":
            return web.json_response(self.node, status=self.node.get("code", 200))
        self.kinds.append(request.content_type)
        self.sent.append(json.loads(await request.read()))
        answer = self.patched.pop(0) if len(self.patched) > 1 else self.patched[0]
        return web.json_response(answer, status=answer.get("code", 200))


def add(path: str, value: object) -> Json:
    return {"op": "add", "path": path, "value": value}


def remove(path: str) -> Json:
    return {"op": "remove", "path": path}


WRITES: list[tuple[Action, Json, list[Json]]] = [
    (LOCK, a_node(), [add("/spec/taints", [OURS]), add("/metadata/annotations", {KEY: "pending"})]),
    (LOCK, a_node(OTHER, a="b"), [add("/spec/taints/-", OURS), add(PATH, "pending")]),
    (LOCK, a_node(LIKE_OURS, a="b"), [add("/spec/taints/-", OURS), add(PATH, "pending")]),
    (LOCK, marked("locked", OTHER, OURS), [add(PATH, "pending")]),
    (LOCK, marked("pending", OTHER), [add("/spec/taints/-", OURS)]),
    (Lock(NODE, "locked_strict"), marked("pending", OURS), [add(PATH, "locked_strict")]),
    (UNLOCK, marked("locked", OTHER, OURS, LIKE_OURS), [remove("/spec/taints/1"), remove(PATH)]),
    (UNLOCK, marked("pending", OTHER), [remove(PATH)]),
    (UNLOCK, a_node(OURS, a="b"), [remove("/spec/taints/0")]),
]


@pytest.mark.parametrize(("action", "node", "operations"), WRITES)
async def test_one_patch_of_what_was_read_leaves_the_taints_of_others_L1_L3_L4(
    action: Action, node: Json, operations: list[Json]
) -> None:
    server = Server(node, marked("pending", OTHER, OURS))
    outcome = await outcome_of(server, action)
    assert server.sent == [[TEST, *operations]]
    assert server.kinds == ["application/json-patch+json"]
    assert isinstance(outcome, Done)
    (seen,) = outcome.seen
    assert isinstance(seen, Observed)
    assert isinstance(seen.row, Node)
    assert (seen.row.lock, seen.row.tainted) == ("pending", True)


@pytest.mark.parametrize(
    ("action", "node"),
    [(LOCK, marked("pending", OURS)), (UNLOCK, a_node(OTHER, a="b")), (UNLOCK, a_node())],
)
async def test_nothing_is_written_if_the_node_is_so_already_L4(action: Action, node: Json) -> None:
    server = Server(node)
    assert type(await outcome_of(server, action)) is Done
    assert server.sent == []


async def test_a_taint_of_another_with_our_key_and_effect_stays_L4() -> None:
    server = Server(a_node({**OURS, "value": "theirs"}))
    assert type(await outcome_of(server, LOCK)) is Refused
    assert server.sent == []


@pytest.mark.parametrize(
    ("answers", "kind", "tries"),
    [
        ((STALE, a_node(OURS)), Done, 2),
        ((status(409, "Conflict"), a_node(OURS)), Done, 2),
        ((STALE,), Unsure, 3),
        ((status(403, "Forbidden"),), Refused, 1),
        ((status(500, "InternalError"),), Unsure, 1),
        ((GONE,), Refused, 1),
    ],
)
async def test_a_node_that_changed_in_between_is_read_again_L4(
    answers: tuple[Json, ...], kind: type[Outcome], tries: int
) -> None:
    server = Server(a_node(), *answers)
    assert type(await outcome_of(server, LOCK)) is kind
    assert len(server.sent) == tries


@pytest.mark.parametrize("node", [a_node(OURS, uid="another"), GONE])
async def test_another_node_of_the_name_is_not_written_L4(node: Json) -> None:
    server = Server(node)
    unlocked, locked = await outcome_of(server, UNLOCK), await outcome_of(server, LOCK)
    assert (unlocked, type(locked)) == (Done(UNLOCK, missing=True), Refused)
    assert server.sent == []


def a_pod(name: str, *, scheduler: str = "default-scheduler", **parts: Any) -> Json:
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", **parts.get("metadata", {})}
    tolerations = [{"key": KEY, "operator": "Exists"}] if parts.get("tolerates") else None
    return {"metadata": metadata, "spec": {"schedulerName": scheduler, "tolerations": tolerations}}


DAEMON = {"ownerReferences": [{"kind": "DaemonSet", "name": "d", "controller": True}]}
MIRROR = {"annotations": {"kubernetes.io/config.mirror": "x"}}
PODS = [
    a_pod("b"),
    a_pod("a"),
    a_pod("stays", tolerates=True),
    a_pod("daemon", tolerates=True, metadata=DAEMON),
    a_pod("weak-daemon", metadata=DAEMON),
    a_pod("mirror", metadata=MIRROR),
    a_pod("slurmd", tolerates=True),
    a_pod("ours", scheduler="slurm-slurm"),
]
LOOK = GetNodePods(NODE, "uid-slurmd", "slurm-slurm", 0.0)


async def test_the_listing_shows_foreign_pods_by_toleration_L1_L2() -> None:
    queries: list[dict[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        assert request.path == "/api/v1/pods"
        queries.append(dict(request.query))
        return web.json_response({"kind": "PodList", "items": PODS})

    outcome = await outcome_of(answer, LOOK)
    pods = NodePods("kn1", 42.0, ("ns/a", "ns/b", "ns/weak-daemon"), ("ns/stays",))
    assert outcome == Done(LOOK, (pods,))
    fields = "spec.nodeName=kn1,status.phase!=Succeeded,status.phase!=Failed"
    assert queries == [{"fieldSelector": fields}]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (status(403, "Forbidden"), Refused),
        (status(500, "InternalError"), Unsure),
        ({"kind": "NodeList", "items": []}, Unsure),
    ],
)
async def test_a_failed_listing_shows_nothing_L1(answer: Json, kind: type[Outcome]) -> None:
    async def reply(_: web.Request) -> web.Response:
        return web.json_response(answer, status=answer.get("code", 200))

    outcome = await outcome_of(reply, LOOK)
    assert (type(outcome), outcome.seen) == (kind, ())


@pytest.mark.parametrize("first", [False, True])
async def test_a_pod_tolerates_the_lock_before_it_is_bound_L1(first: bool) -> None:
    """`first`: the Pod has no list of tolerations, so that an addition at its end is refused."""
    sent: list[tuple[str, Any]] = []

    async def answer(request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        sent.append((request.path.rpartition("/")[2], body))
        refused = first and request.method == "PATCH" and body[1]["path"].endswith("-")
        reply: Json = status(422, "Invalid", message="missing path") if refused else {"ok": True}
        return web.json_response(reply, status=reply.get("code", 200))

    bind = Bind(POD, "n1", "17", "n1", shield=True)
    assert await outcome_of(answer, bind) == Done(bind)
    value = {"key": KEY, "operator": "Exists", "effect": "NoExecute"}
    test = {"op": "test", "path": "/metadata/uid", "value": "uid-p"}
    patches = [body for path, body in sent if path == "p"]
    assert patches[0] == [test, add("/spec/tolerations/-", value)]
    assert patches[1:] == ([[test, add("/spec/tolerations", [value])]] if first else [])
    assert sent[-1][0] == "binding"


async def test_a_pod_without_the_toleration_is_not_bound_L1() -> None:
    async def answer(request: web.Request) -> web.Response:
        assert request.method == "PATCH"
        return web.json_response(status(500, "x"), status=500)

    bind = Bind(POD, "n1", "17", "n1", shield=True)
    assert type(await outcome_of(answer, bind)) is Unsure


@pytest.mark.parametrize(
    ("tolerations", "tolerates"),
    [
        (None, False),
        ([{"key": KEY, "operator": "Exists"}], True),
        ([{"key": "other", "operator": "Exists"}], False),
        ([{"operator": "Exists", "effect": "NoExecute"}], True),
    ],
)
def test_a_slurmd_pod_shows_whether_it_tolerates_the_lock_L1(
    tolerations: list[Json] | None, tolerates: bool
) -> None:
    made = a_pod("slurmd")
    made |= {"kind": "Pod", "spec": {"tolerations": tolerations} if tolerations else {}}
    made["metadata"]["resourceVersion"] = "7"
    seen = SLURMD_PODS.object(json.dumps(made).encode())
    assert isinstance(seen, Observed)
    assert isinstance(seen.row, SlurmdPod)
    assert seen.row.tolerates_lock == tolerates


@pytest.mark.parametrize("nodes", [NODES, OFFERING_NODES], ids=["syncer", "scheduler"])
@pytest.mark.parametrize(
    ("taints", "tainted"),
    [((), False), ((OURS,), True), ((OTHER, OURS), True), ((LIKE_OURS,), False)],
)
def test_a_node_shows_its_taint_with_and_without_the_scheduler_L4(
    nodes: SourceDecoder[Node], taints: tuple[Json, ...], tainted: bool
) -> None:
    seen = nodes.object(json.dumps(a_node(*taints)).encode())
    assert isinstance(seen, Observed)
    assert isinstance(seen.row, Node)
    assert seen.row.tainted == tainted
