"""Actions on the lock of a Node: set, remove, list the Pods that it must wait for (L1-L4)."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, field

from sunk_sync.core.model import names
from sunk_sync.core.model.facts import Node, Observed
from sunk_sync.core.model.lock_actions import GetNodePods, Lock, LockAction, Unlock
from sunk_sync.core.model.node_lock import TAINT, NodePods, tolerates_lock
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.client import Caller, Request
from sunk_sync.kube.decode.pod_specs import tolerations_of
from sunk_sync.kube.decode.source_decoder import SourceDecoder, Unreadable
from sunk_sync.kube.write.apply import path_of
from sunk_sync.kube.write.outcomes import failed, is_gone, is_missing, unless_crossed

JSON_PATCH: Final = "application/json-patch+json"
OTHER_VERSION: Final = (409, 422)
"""Statuses for a patch whose test of the resourceVersion failed."""
PODS_BYTES_MAX: Final = 64 << 20
OURS: Final = {"key": TAINT.key, "value": TAINT.value, "effect": TAINT.effect}
ANNOTATION: Final = "/metadata/annotations/" + names.LOCK.replace("/", "~1")
MIRROR: Final = "kubernetes.io/config.mirror"
"""Annotation of a Pod that the kubelet runs from a file."""
Operation = dict[str, Any]


class _Taint(Struct, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class _NodeMeta(Struct, frozen=True, rename="camel"):
    uid: str
    resource_version: str
    annotations: dict[str, str] | None = None


class _NodeSpec(Struct, frozen=True):
    taints: tuple[_Taint, ...] | None = None


class _Node(Struct, frozen=True):
    metadata: _NodeMeta
    spec: _NodeSpec = _NodeSpec()


class _PodAnnotations(Struct, frozen=True):
    mirror: str | None = field(name=MIRROR, default=None)


class _Owner(Struct, frozen=True):
    kind: str = ""
    controller: bool = False


class _PodMeta(Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    uid: str
    annotations: _PodAnnotations | None = None
    owner_references: tuple[_Owner, ...] | None = None


class _PodSpec(Struct, frozen=True, rename="camel"):
    scheduler_name: str = ""
    tolerations: Raw = Raw()


class _Pod(Struct, frozen=True):
    metadata: _PodMeta
    spec: _PodSpec = _PodSpec()


class _Pods(Struct, frozen=True):
    kind: str
    items: tuple[_Pod, ...]


_decode_node = msgspec.json.Decoder(_Node).decode
_decode_pods = msgspec.json.Decoder(_Pods).decode
Seen = Observed | Unreadable


class LockPush:
    """Performs actions on the locks of Nodes. Never raises."""

    def __init__(
        self, client: Caller, *, clock: Callable[[], float], nodes: SourceDecoder[Node]
    ) -> None:
        self._client = client
        self._clock = clock
        self._nodes = nodes

    async def push(self, action: LockAction) -> Outcome:
        if isinstance(action, GetNodePods):
            return await self._list(action)
        return await unless_crossed(action, partial(self._change, action))

    async def _change(self, action: Lock | Unlock) -> Outcome | KubeError:
        """Read the Node and patch what was read; KubeError: it changed in between."""
        reading = Request(path=path_of(action.reference))
        read = await self._client.call(reading, self._both)
        if isinstance(read, KubeError):
            if is_gone(read):
                return _missing(action)
            return failed(action, read, request=reading)
        node, seen = read
        if node.metadata.uid != action.reference.uid:
            return _missing(action)
        if isinstance(action, Lock) and any(map(_is_in_the_way, node.spec.taints or ())):
            return Refused(action, f"{action.reference.path} has another taint {names.LOCK}")
        operations = _locking(node, action) if isinstance(action, Lock) else _unlocking(node)
        if not operations:
            return _done(action, seen)
        request = _patch(action, node, operations)
        answer = await self._client.call(request, self._nodes.object)
        if not isinstance(answer, KubeError):
            return _done(action, answer)
        if is_missing(answer):
            return _missing(action)
        if answer.status in OTHER_VERSION:
            return answer
        return failed(action, answer, request=request)

    def _both(self, body: bytes) -> tuple[_Node, Seen]:
        return _decode_node(body), self._nodes.object(body)

    async def _list(self, action: GetNodePods) -> Outcome:
        """List without a resourceVersion: the answer is no older than the request."""
        asked_s = self._clock()
        name = action.reference.name
        fields = f"spec.nodeName={name},status.phase!=Succeeded,status.phase!=Failed"
        request = Request(
            path="/api/v1/pods", query=(("fieldSelector", fields),), bytes_max=PODS_BYTES_MAX
        )
        answer = await self._client.call(request, _decode_pods)
        if isinstance(answer, KubeError):
            return failed(action, answer, request=request)
        if answer.kind != "PodList":
            return Unsure(action, f"the answer is a {answer.kind[:40]!r}, no PodList")
        foreign = sorted(_foreign(action, answer.items))
        intolerant = tuple(path for path, tolerates in foreign if not tolerates)
        tolerant = tuple(path for path, tolerates in foreign if tolerates)
        return Done(action, (NodePods(name, asked_s, intolerant, tolerant),))


def _foreign(action: GetNodePods, pods: Iterable[_Pod]) -> Iterator[tuple[str, bool]]:
    """Yield each foreign Pod, and whether it tolerates the lock."""
    for pod in pods:
        meta = pod.metadata
        if meta.uid == action.slurmd_uid or _is_mirror(meta):
            continue
        if action.scheduler and pod.spec.scheduler_name == action.scheduler:
            continue
        tolerates = tolerates_lock(tolerations_of(pod.spec.tolerations))
        if not (tolerates and _is_of_daemon_set(meta)):
            yield f"{meta.namespace}/{meta.name}", tolerates


def _is_mirror(meta: _PodMeta) -> bool:
    return meta.annotations is not None and meta.annotations.mirror is not None


def _is_of_daemon_set(meta: _PodMeta) -> bool:
    return any(one.controller and one.kind == "DaemonSet" for one in meta.owner_references or ())


def _is_in_the_way(taint: _Taint) -> bool:
    """A Node has each key with each effect once; another's value stays."""
    return (taint.key, taint.effect) == (TAINT.key, TAINT.effect) and taint.value != TAINT.value


def _is_ours(taint: _Taint) -> bool:
    return (taint.key, taint.value, taint.effect) == (TAINT.key, TAINT.value, TAINT.effect)


def _locking(node: _Node, action: Lock) -> list[Operation]:
    taints, annotations = node.spec.taints, node.metadata.annotations
    operations: list[Operation] = []
    if not taints:
        operations.append({"op": "add", "path": "/spec/taints", "value": [OURS]})
    elif not any(map(_is_ours, taints)):
        operations.append({"op": "add", "path": "/spec/taints/-", "value": OURS})
    if annotations is None:
        marks = {names.LOCK: action.state}
        operations.append({"op": "add", "path": "/metadata/annotations", "value": marks})
    elif annotations.get(names.LOCK) != action.state:
        operations.append({"op": "add", "path": ANNOTATION, "value": action.state})
    return operations


def _unlocking(node: _Node) -> list[Operation]:
    places = [place for place, taint in enumerate(node.spec.taints or ()) if _is_ours(taint)]
    operations = [{"op": "remove", "path": f"/spec/taints/{place}"} for place in places]
    if names.LOCK in (node.metadata.annotations or {}):
        operations.append({"op": "remove", "path": ANNOTATION})
    return operations


def _patch(action: Lock | Unlock, node: _Node, operations: list[Operation]) -> Request:
    version = node.metadata.resource_version
    test = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
    return Request(
        method="PATCH",
        path=path_of(action.reference),
        query=(("fieldManager", names.MANAGER_LOCK),),
        body=msgspec.json.encode([test, *operations]),
        content_type=JSON_PATCH,
    )


def _missing(action: Lock | Unlock) -> Outcome:
    if isinstance(action, Unlock):
        return Done(action, missing=True)
    return Refused(action, f"{action.reference.path} is gone", missing=True)


def _done(action: Lock | Unlock, seen: Seen) -> Outcome:
    return Done(action, (seen,) if isinstance(seen, Observed) else ())
