"""Actions on NodeSets and their Pods: make, condemn, delete, show."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from sunk_sync.core.model import names
from sunk_sync.core.model.actions import SetMetadata
from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.facts import GetResult, Observed, SlurmdPod
from sunk_sync.core.model.node_set import API_VERSION, FINALIZER, GROUP, VERSION
from sunk_sync.core.model.node_set_actions import (
    ClearPod,
    Condemn,
    CreatePod,
    DeletePod,
    NodeSetAction,
    PodEnd,
    RemakePod,
    SetFinalizer,
    SetStatus,
)
from sunk_sync.core.model.node_set_answers import CreateRefused
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.core.translate.slurmd_pod import selector_of, slurmd_pod
from sunk_sync.kube.api.answers import Decode, KubeError
from sunk_sync.kube.api.client import Caller, Request
from sunk_sync.kube.decode.source_decoder import NODE_SETS, SLURMD_PODS, Unreadable
from sunk_sync.kube.decode.strings import cut
from sunk_sync.kube.write.apply import CONTENT_TYPE, MERGE, request_of
from sunk_sync.kube.write.outcomes import WallClock, failed, is_missing, spelled
from sunk_sync.kube.write.pod_requests import deletion, reading

Seen = Observed | Unreadable


class NodeSetPush:
    """Performs actions on NodeSets and their Pods. Never raises."""

    def __init__(
        self, client: Caller, *, clock: Callable[[], float], wall_clock: WallClock
    ) -> None:
        self._client = client
        self._clock = clock
        self._wall_clock = wall_clock

    async def push(self, action: NodeSetAction) -> Outcome:
        match action:
            case CreatePod():
                return await self._create(action)
            case DeletePod() | ClearPod() | RemakePod():
                return await self._delete(action)
            case Condemn():
                return await self._write(action, _condemning(action), SLURMD_PODS.object)
            case SetStatus():
                at = spelled(self._wall_clock())
                return await self._write(action, _status(action, at=at), NODE_SETS.object)
            case SetFinalizer():
                return await self._write(action, _holding(action), NODE_SETS.object)

    async def _write(
        self, action: NodeSetAction, request: Request, decode: Decode[Seen]
    ) -> Outcome:
        answer = await self._client.call(request, decode)
        if isinstance(answer, KubeError):
            return failed(action, answer, request=request)
        return Done(action, (answer,) if isinstance(answer, Observed) else ())

    async def _create(self, action: CreatePod) -> Outcome:
        """Make the Pod. If the name is taken the watch shows by whom, sooner or later.

        Without an answer the Pod may be there, so an older read that found none proves nothing.
        """
        body = slurmd_pod(action.spec, action.plan, name=action.name, node_name=action.node_name)
        request = Request(
            method="POST",
            path=f"/api/v1/namespaces/{action.spec.namespace}/pods",
            query=(("fieldValidation", "Strict"),),
            body=msgspec.json.encode(body),
        )
        answer = await self._client.call(request, SLURMD_PODS.object)
        if not isinstance(answer, KubeError):
            return Done(action, (answer,) if isinstance(answer, Observed) else ())
        outcome = failed(action, answer, request=request)
        of = action.reference
        if isinstance(outcome, Unsure):
            perhaps = GetResult("Pod", of.namespace, action.name, "unknown", "", self._clock())
            return replace(outcome, seen=(perhaps,))
        return Refused(
            action,
            outcome.why,
            (CreateRefused(of.namespace, of.name, action.name, cut(answer.why)),),
        )

    async def _delete(self, action: PodEnd) -> Outcome:
        """Read the Pod, and delete exactly what was read: any change in between is a conflict."""
        read = await self._client.call(reading(action.reference), SLURMD_PODS.object)
        if isinstance(read, KubeError):
            if is_missing(read):
                return Done(action, missing=True)
            return failed(action, read, request=reading(action.reference))
        if not isinstance(read, Observed):
            return Unsure(action, f"{action.reference.path} cannot be read: {read.why}")
        pod = read.row
        assert isinstance(pod, SlurmdPod)
        if pod.uid != action.reference.uid:
            return Done(action, missing=True)
        if pod.terminating:
            return Done(action, (read,))
        if why := _why_not(action, pod):
            return Refused(action, why, (read,))
        request = deletion(action.reference, version=int(read.order))
        answer = await self._client.call(request, SLURMD_PODS.object)
        if not isinstance(answer, KubeError):
            return Done(action, (answer,) if isinstance(answer, Observed) else ())
        if is_missing(answer):
            return Done(action, missing=True)
        return failed(action, answer, request=request)


def _why_not(action: PodEnd, pod: SlurmdPod) -> str:
    """Return why the Pod as read must not be deleted, or empty."""
    if not pod.owner:
        return "its NodeSet has left it alone"
    if isinstance(action, ClearPod):
        return "" if pod.finished else "it lives"
    if isinstance(action, RemakePod):
        return "" if pod.ready else "it is not ready any more: slurmd may register when it is"
    if pod.pending_deletion != action.why:
        return "its deletion was taken back"
    if action.drained and not pod.drained:
        return "it is not drained any more"
    if action.unbound and pod.node_name:
        return f"it is on Node {pod.node_name} now"
    return ""


def _condemning(action: Condemn) -> Request:
    annotations = ((names.PENDING_DELETION, action.why),) if action.why else ()
    metadata = SetMetadata(action.reference, names.MANAGER_CONDEMN, (), annotations)
    return request_of(metadata, at="")


def _node_set_path(namespace: str, name: str) -> str:
    return f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/nodesets/{name}"


def _holding(action: SetFinalizer) -> Request:
    """Own the finalizer, or give it up. A list of finalizers is a set: those of others stay."""
    of = action.reference
    metadata: dict[str, Any] = {"name": of.name, "uid": of.uid}
    if action.held:
        metadata["finalizers"] = [FINALIZER]
    body = {"apiVersion": API_VERSION, "kind": "NodeSet", "metadata": metadata}
    return Request(
        method="PATCH",
        path=_node_set_path(of.namespace, of.name),
        query=(("fieldManager", names.MANAGER_NODE_SET), ("force", "true")),
        body=msgspec.json.encode(body),
        content_type=CONTENT_TYPE,
    )


def _status(action: SetStatus, *, at: str) -> Request:
    spec = action.spec
    since = dict(zip((one.type for one in spec.conditions), spec.changed_at, strict=False))
    before = {one.type: one.status for one in spec.conditions}
    status = {
        "observedGeneration": spec.generation,
        "revision": action.revision,
        "selector": selector_of(spec),
        **msgspec.structs.asdict(action.counts),
        "conditions": [
            _condition(one, at=since[one.type] if before.get(one.type) == one.status else at)
            for one in action.conditions
        ],
    }
    of = action.reference
    return Request(
        method="PATCH",
        path=_node_set_path(of.namespace, of.name) + "/status",
        query=(("fieldManager", names.MANAGER_NODE_SET),),
        body=msgspec.json.encode({"metadata": {"uid": of.uid}, "status": status}),
        content_type=MERGE,
    )


def _condition(condition: Condition, *, at: str) -> dict[str, str]:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": cut(condition.message),
        "lastTransitionTime": at,
    }
