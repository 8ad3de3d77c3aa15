"""Actions on workload Pods: bind, end, set conditions; read the sizes of gangs."""

import msgspec
from msgspec.structs import replace

from sunk_sync.core.model import names
from sunk_sync.core.model.actions import (
    Bind,
    EndPod,
    GetGang,
    SetScheduled,
    WorkloadAction,
)
from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.facts import BindTried, Observed, Pod, Reference
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.client import Caller
from sunk_sync.kube.decode.source_decoder import PODS, Unreadable
from sunk_sync.kube.decode.strings import cut
from sunk_sync.kube.write import gang_size
from sunk_sync.kube.write import pod_requests as requests
from sunk_sync.kube.write.outcomes import WallClock, failed, is_gone, is_missing, spelled

_decode_any = msgspec.json.decode

Pushed = Bind | EndPod | SetScheduled
NOT_TAKEN = (401, 429)
"""Statuses which prove that the API server did not perform the request."""


class WorkloadPush:
    """Performs actions on workload Pods. Never raises."""

    def __init__(self, client: Caller, *, wall_clock: WallClock, clock: gang_size.Clock) -> None:
        self._client = client
        self._wall_clock = wall_clock
        self._clock = clock

    async def push(self, action: WorkloadAction) -> Outcome:
        match action:
            case Bind():
                return await self._bind(action)
            case EndPod():
                return await self._end(action)
            case SetScheduled():
                return await self._set_scheduled(action)
            case GetGang():
                return await gang_size.read_size(self._client, action, clock=self._clock)

    async def _bind(self, action: Bind) -> Outcome:
        if action.shield and (outcome := await self._shield(action)):
            return outcome
        request = requests.binding(action)
        answer = await self._client.call(request, _decode_any)
        if not isinstance(answer, KubeError):
            return Done(action)
        outcome = failed(action, answer, request=request)
        if isinstance(outcome, Refused) or answer.status in NOT_TAKEN:
            return outcome
        if answer.status != 409:
            return self._perhaps(action, outcome)
        return await self._bound_already(action, outcome)

    async def _shield(self, action: Bind) -> Outcome | None:
        """Let the Pod tolerate the lock; return the outcome if it cannot be bound yet."""
        request = requests.tolerating(action)
        answer = await self._client.call(request, _decode_any)
        if isinstance(answer, KubeError) and answer.status == 422:
            request = requests.tolerating(action, first=True)
            answer = await self._client.call(request, _decode_any)
        return failed(action, answer, request=request) if isinstance(answer, KubeError) else None

    def _perhaps(self, action: Bind, outcome: Unsure) -> Unsure:
        """The binding may have succeeded."""
        tried = BindTried(action.reference.uid, action.job_id, self._clock(), action.slurm_node)
        return replace(outcome, seen=(tried,))

    async def _bound_already(self, action: Bind, outcome: Unsure) -> Outcome:
        """Read the Pod after a conflict: the binding may have succeeded and lost its answer."""
        seen = await self._read(action.reference)
        if not isinstance(seen, Observed):
            unread = _not_read(action, seen)
            return self._perhaps(action, unread) if isinstance(unread, Unsure) else unread
        pod = _pod(seen)
        if (pod.node_name, pod.job_id) == (action.node_name, action.job_id):
            return Done(action, (seen,))
        if pod.node_name or pod.terminating or pod.gated:
            return Refused(action, outcome.why, (seen,))
        return outcome

    async def _end(self, action: EndPod) -> Outcome:
        """Set the condition first: the owner's controller reads it when the deletion starts."""
        request = requests.disruption(action, at=spelled(self._wall_clock()))
        answer = await self._client.call(request, PODS.object)
        if isinstance(answer, KubeError):
            if is_missing(answer):
                return Done(action, missing=True)
            outcome = failed(action, answer, request=request)
            if isinstance(outcome, Unsure):
                return outcome
            # A permanent refusal (policy, missing permission) must not keep the Pod on its node.
        elif isinstance(answer, Observed) and _pod(answer).terminating:
            return Done(action, (answer,))
        return await self._delete(action)

    async def _delete(self, action: EndPod) -> Outcome:
        request = requests.deletion(action.reference)
        answer = await self._client.call(request, PODS.object)
        if not isinstance(answer, KubeError):
            return Done(action, (answer,) if isinstance(answer, Observed) else ())
        if is_missing(answer):
            return Done(action, missing=True)
        return failed(action, answer, request=request)

    async def _set_scheduled(self, action: SetScheduled) -> Outcome:
        """Read first: the API server itself sets this condition when it binds a Pod."""
        seen = await self._read(action.reference)
        if not isinstance(seen, Observed):
            return _not_read(action, seen)
        pod = _pod(seen)
        if pod.node_name:
            return Refused(action, f"{action.reference.path} is on Node {pod.node_name}", (seen,))
        current = _scheduled_condition(pod)
        if current == _wanted(action):
            return Done(action, (seen,))
        changes = current is None or current.status != "False"
        since = spelled(self._wall_clock()) if changes else None
        request = requests.scheduled(action, version=int(seen.order), since=since)
        answer = await self._client.call(request, PODS.object)
        if isinstance(answer, KubeError):
            return failed(action, answer, request=request)
        return Done(action, (answer,) if isinstance(answer, Observed) else ())

    async def _read(self, reference: Reference) -> Observed | Unreadable | KubeError | None:
        """Read the Pod; None if it is gone or another Pod has its name."""
        answer = await self._client.call(requests.reading(reference), PODS.object)
        if isinstance(answer, KubeError) and is_gone(answer):
            return None
        if isinstance(answer, Observed) and _pod(answer).uid != reference.uid:
            return None
        return answer


def _not_read(action: Pushed, seen: Unreadable | KubeError | None) -> Outcome:
    path = action.reference.path
    if seen is None:
        return Refused(action, f"{path} is gone", missing=True)
    retry_after_s = seen.retry_after_s if isinstance(seen, KubeError) else None
    return Unsure(action, f"{path} cannot be read: {seen.why}", retry_after_s)


def _pod(seen: Observed) -> Pod:
    assert isinstance(seen.row, Pod)
    return seen.row


def _scheduled_condition(pod: Pod) -> Condition | None:
    for one in pod.conditions:
        if one.type == names.SCHEDULED_CONDITION:
            return one
    return None


def _wanted(action: SetScheduled) -> Condition:
    kind, message = names.SCHEDULED_CONDITION, cut(action.message)
    return Condition(kind, "False", action.reason, message)
