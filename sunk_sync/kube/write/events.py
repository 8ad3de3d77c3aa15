"""Events for `kubectl describe`. Equal Events have equal names: each exists once, with a count."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from sunk_sync.core.model.actions import RecordEvent
from sunk_sync.core.model.facts import Reference
from sunk_sync.core.model.names import EVENT_COMPONENT
from sunk_sync.core.model.node_set import API_VERSION
from sunk_sync.core.model.outcomes import Done, Outcome, Refused
from sunk_sync.core.translate.pending import MESSAGE_BYTES_MAX, within
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.client import Caller, Request
from sunk_sync.kube.write.apply import MERGE
from sunk_sync.kube.write.outcomes import WallClock, failed, spelled

NAME_LENGTH_MAX = 253
UNNAMED = "default"
"""Namespace of the Events of objects without a namespace."""
COUNT_PACE_S = 60.0
"""Seconds between two counts of one Event: a condition may come and go every second."""
REMEMBERED_MAX = 4096
"""Events whose repetition is recognized; the ones not recorded for the longest time go first."""
OVERTAKEN = (404, 409)
"""Statuses if the Event has expired meanwhile, or another replica has just counted it."""


class _Meta(Struct, frozen=True, rename="camel"):
    resource_version: str


class _Event(Struct, frozen=True):
    metadata: _Meta
    count: int | None = None


_decode_event = msgspec.json.Decoder(_Event).decode


class EventPush:
    """Records Events, and counts the repetitions of those that exist. Never raises.

    After a restart the same conditions are recorded again although nothing happened. So the first
    time that a process finds an Event, it leaves the Event as it is.
    """

    def __init__(
        self, client: Caller, *, clock: Callable[[], float], wall_clock: WallClock
    ) -> None:
        self._client = client
        self._clock = clock
        self._wall_clock = wall_clock
        self._recorded_s: OrderedDict[str, float] = OrderedDict()
        """Path of an Event → when this process found, created or counted it."""

    async def push(self, action: RecordEvent) -> Outcome:
        """Create the Event. A count that fails is not worth another try."""
        event = event_of(action, at=self._now())
        try:
            body = msgspec.json.encode(event)
        except UnicodeEncodeError as error:
            return Refused(action, f"its text cannot be encoded: {error.reason}")
        request = Request(method="POST", path=path_of(action), body=body)
        path = f"{request.path}/{event['metadata']['name']}"
        answer = await self._client.call(request, _decode_event)
        if not isinstance(answer, KubeError):
            self._remember(path)
            return Done(action)
        if answer.reason != "AlreadyExists":
            return failed(action, answer, request=request)
        repeated = self._is_repeated(path)
        return Done(action, why=await self._count(path) if repeated else "")

    def _is_repeated(self, path: str) -> bool:
        """Whether an Event that exists is to be counted now."""
        recorded_s = self._recorded_s.get(path)
        if recorded_s is not None and self._clock() < recorded_s + COUNT_PACE_S:
            return False
        self._remember(path)
        return recorded_s is not None

    def _remember(self, path: str) -> None:
        self._recorded_s[path] = self._clock()
        self._recorded_s.move_to_end(path)
        if len(self._recorded_s) > REMEMBERED_MAX:
            self._recorded_s.popitem(last=False)

    async def _count(self, path: str) -> str:
        """Add one to the count; return why this failed.

        A patch without a change answers with the Event and writes nothing. A read would need the
        permission `get` as well.
        """
        found = await self._patch(path, {})
        if not isinstance(found, KubeError):
            changes = {
                "metadata": {"resourceVersion": found.metadata.resource_version},
                "count": (found.count or 1) + 1,
                "lastTimestamp": self._now(),
            }
            found = await self._patch(path, changes)
        if isinstance(found, KubeError) and found.status not in OVERTAKEN:
            return f"not counted again: PATCH {path}: {found.why}"
        return ""

    async def _patch(self, path: str, changes: dict[str, Any]) -> _Event | KubeError:
        body = msgspec.json.encode(changes)
        request = Request(method="PATCH", path=path, body=body, content_type=MERGE)
        return await self._client.call(request, _decode_event)

    def _now(self) -> str:
        return spelled(self._wall_clock())


def path_of(record_event: RecordEvent) -> str:
    return f"/api/v1/namespaces/{_namespace(record_event.reference)}/events"


def event_of(record_event: RecordEvent, *, at: str) -> dict[str, Any]:
    reference = record_event.reference
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": _name(record_event), "namespace": _namespace(reference)},
        "involvedObject": _involved(reference),
        "type": record_event.event.type,
        "reason": record_event.reason,
        "action": record_event.event.action,
        "message": within(record_event.message, MESSAGE_BYTES_MAX),
        "source": {"component": EVENT_COMPONENT},
        "reportingComponent": EVENT_COMPONENT,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }


def _involved(reference: Reference) -> dict[str, str]:
    version = API_VERSION if reference.kind == "NodeSet" else "v1"
    involved = {"apiVersion": version, "kind": reference.kind, "name": reference.name}
    if reference.uid:
        involved["uid"] = reference.uid
    if reference.kind != "Node":
        involved["namespace"] = _namespace(reference)
    return involved


def _namespace(reference: Reference) -> str:
    """An Event about a Namespace belongs into it, for `kubectl get events -n`."""
    if reference.kind == "Namespace":
        return reference.name
    return reference.namespace or UNNAMED


def _name(record_event: RecordEvent) -> str:
    reference = record_event.reference
    parts = (reference.uid, record_event.event.type, record_event.reason, record_event.message)
    digest = hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:16]
    return f"{reference.name[: NAME_LENGTH_MAX - 17].rstrip('.-')}.{digest}"
