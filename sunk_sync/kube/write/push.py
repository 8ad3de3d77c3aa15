"""Perform all actions on Kubernetes."""

import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

import anyio
import msgspec
from msgspec import Struct

from sunk_sync.core.model.actions import (
    Action,
    Bind,
    EndPod,
    GetGang,
    GetObject,
    RecordEvent,
    Relist,
    SetMetadata,
    SetScheduled,
)
from sunk_sync.core.model.facts import GetResult, Kind, Node, Observed, Source
from sunk_sync.core.model.lock_actions import LockAction
from sunk_sync.core.model.names import WORKLOAD_MANAGERS
from sunk_sync.core.model.node_set_actions import NodeSetAction
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.core.model.volume_actions import VolumeAction
from sunk_sync.kube.api.answers import Decode, KubeError
from sunk_sync.kube.api.client import Caller, Request
from sunk_sync.kube.decode.source_decoder import NODES, PODS, SLURMD_PODS, SourceDecoder, Unreadable
from sunk_sync.kube.write import apply
from sunk_sync.kube.write.events import EventPush
from sunk_sync.kube.write.node_locks import LockPush
from sunk_sync.kube.write.node_sets import NodeSetPush
from sunk_sync.kube.write.outcomes import WallClock, failed, spelled
from sunk_sync.kube.write.pods import WorkloadPush
from sunk_sync.kube.write.volumes import VolumePush

RelistOne = Callable[[float], Awaitable[KubeError | None]]
"""Waits for a complete listing that starts later than this second."""


class _NamedMeta(Struct, frozen=True, rename="camel"):
    name: str
    uid: str
    resource_version: str = ""


class _NamedSpec(Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _Named(Struct, frozen=True):
    metadata: _NamedMeta
    spec: _NamedSpec = _NamedSpec()


_KINDS: dict[str, Kind] = {"Node": "Node", "Pod": "Pod", "Namespace": "Namespace"}
# Names in marks on Slurm nodes are untrusted: none may lead to another URL path.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_NAMESPACE = re.compile(r"([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?")

_decode_named = msgspec.json.Decoder(_Named).decode


class KubePush:
    """Performs actions on one Kubernetes cluster. Never raises.

    `relist` has one function for each source.
    """

    def __init__(
        self,
        client: Caller,
        *,
        relist: Mapping[Source, RelistOne],
        clock: Callable[[], float] = time.monotonic,
        wall_clock: WallClock = lambda: datetime.now(UTC),
        nodes: SourceDecoder[Node] = NODES,
    ) -> None:
        """`nodes` is the decoder of the watch of Nodes, so that answers keep the offers."""
        self._client = client
        self._relist = relist
        self._clock = clock
        self._wall_clock = wall_clock
        self._nodes = nodes
        self._events = EventPush(client, clock=clock, wall_clock=wall_clock)
        self._node_sets = NodeSetPush(client, clock=clock, wall_clock=wall_clock)
        self._locks = LockPush(client, clock=clock, nodes=nodes)
        self._volumes = VolumePush(client, clock=clock)
        self._workload = WorkloadPush(client, wall_clock=wall_clock, clock=clock)

    async def push(self, actions: Sequence[Action]) -> Sequence[Outcome]:
        """Perform all actions concurrently; return the outcomes in their order."""
        if len(actions) == 1:
            return [await self._one(actions[0])]
        return await anyio.gather(*map(self._one, actions))

    async def _one(self, action: Action) -> Outcome:
        if isinstance(action, apply.Apply):
            return await self._apply(action)
        match action:
            case RecordEvent():
                return await self._events.push(action)
            case GetObject():
                return await self._get_object(action)
            case Relist():
                return await self._list_again(action)
            case Bind() | EndPod() | SetScheduled() | GetGang():
                return await self._workload.push(action)
            case action if isinstance(action, VolumeAction):
                return await self._volumes.push(action)
            case action if isinstance(action, LockAction):
                return await self._locks.push(action)
            case action if isinstance(action, NodeSetAction):
                return await self._node_sets.push(action)
            case _:
                return Refused(action, f"{type(action).__name__} is not an action on Kubernetes")

    async def _apply(self, action: apply.Apply) -> Outcome:
        try:
            request = apply.request_of(action, at=self._now())
        except UnicodeEncodeError as error:
            return Refused(action, f"its text cannot be encoded: {error.reason}")
        answer = await self._client.call(request, self._decoder(action))
        if isinstance(answer, KubeError):
            return failed(action, answer, request=request)
        return Done(action, (answer,) if isinstance(answer, Observed) else ())

    async def _get_object(self, action: GetObject) -> Outcome:
        kind = _KINDS.get(action.kind)
        named = _NAME.fullmatch(action.name) and _NAMESPACE.fullmatch(action.namespace)
        if kind is None or not named:
            return Refused(action, "no object can have this name")
        asked_s = self._clock()
        path = apply.object_path(action.kind, action.namespace, action.name)
        answer = await self._client.call(Request(path=path), _decode_named)
        get_result = _get_result(kind, action, answer, asked_s)
        return Done(action, (get_result,), why=_why_unknown(get_result, answer))

    async def _list_again(self, action: Relist) -> Outcome:
        relist = self._relist.get(action.source)
        if relist is None:
            return Refused(action, f"{action.source} is not a source in Kubernetes")
        error = await relist(action.after_s)
        if error is None:
            return Done(action)
        return Unsure(action, error.why, error.retry_after_s)

    def _decoder(self, action: apply.Apply) -> Decode[Observed | Unreadable]:
        """Return the decoder of the source that the rule read."""
        if action.reference.kind == "Node":
            return self._nodes.object
        theirs = isinstance(action, SetMetadata) and action.manager in WORKLOAD_MANAGERS
        return PODS.object if theirs else SLURMD_PODS.object

    def _now(self) -> str:
        return spelled(self._wall_clock())


def _why_unknown(get_result: GetResult, answer: _Named | KubeError) -> str:
    if get_result.found != "unknown":
        return ""
    return answer.why if isinstance(answer, KubeError) else "the answer is another object"


def _get_result(
    kind: Kind, action: GetObject, answer: _Named | KubeError, asked_s: float
) -> GetResult:
    """Conclude yes or no only if the API server itself names this object.

    A 404 from a proxy, or a 404 for the path itself, is no evidence.
    """
    found: Literal["yes", "no", "unknown"] = "unknown"
    uid = node_name = version = ""
    if not isinstance(answer, KubeError):
        if answer.metadata.name == action.name:
            found, uid, node_name = "yes", answer.metadata.uid, answer.spec.node_name
            version = answer.metadata.resource_version
    elif answer.status == 404 and answer.reason == "NotFound" and answer.object_name == action.name:
        found = "no"
    return GetResult(
        kind=kind,
        namespace=action.namespace,
        name=action.name,
        found=found,
        uid=uid,
        asked_s=asked_s,
        node_name=node_name,
        order=float(version) if node_name and version.isdecimal() else 0.0,
    )
