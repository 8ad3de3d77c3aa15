"""Actions on volumes: read the object, and change it only as it was read."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Struct

from sunk_sync.core.model import names
from sunk_sync.core.model.actions import Action
from sunk_sync.core.model.facts import Observed
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.core.model.volume_actions import (
    GetProvisioning,
    ReserveVolume,
    SelectNode,
    UnselectNode,
    VolumeAction,
    VolumeWrite,
)
from sunk_sync.core.model.volumes import ProvisionerSaid, Volume, VolumeClaim
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.client import Caller, Request
from sunk_sync.kube.decode.source_decoder import (
    VOLUME_CLAIMS,
    VOLUMES,
    SourceDecoder,
    Unreadable,
)
from sunk_sync.kube.write.apply import MERGE, path_of
from sunk_sync.kube.write.outcomes import failed, is_gone, unless_crossed

CLAIM_KIND: Final = "PersistentVolumeClaim"
FAILED: Final = "ProvisioningFailed"
"""Reason of the Events of provisioners, as sig-storage's library names it."""
WORDS_MAX: Final = 300
CONFLICT: Final = 409


class _Event(Struct, frozen=True, rename="camel"):
    message: str = ""
    last_timestamp: str | None = None
    event_time: str | None = None


class _Events(Struct, frozen=True):
    items: list[_Event] = []


_decode_events = msgspec.json.Decoder(_Events).decode


class Change(Struct, frozen=True):
    """What to write over the object as it was read; neither: nothing."""

    body: dict[str, Any] | None = None
    refused: str = ""
    """Why the object may not be changed any more."""


class VolumePush:
    """Performs actions on claims and volumes. Never raises."""

    def __init__(self, client: Caller, *, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock

    async def push(self, action: VolumeAction) -> Outcome:
        if isinstance(action, GetProvisioning):
            return await self._ask(action)
        return await unless_crossed(action, partial(self._try, action))

    async def _try(self, action: VolumeWrite) -> Outcome | KubeError:
        """Read and write once; KubeError: somebody wrote in between."""
        decoder: SourceDecoder[Any] = (
            VOLUMES if isinstance(action, ReserveVolume) else VOLUME_CLAIMS
        )
        reading = Request(path=path_of(action.reference))
        read = await self._client.call(reading, decoder.object)
        if isinstance(read, KubeError):
            return _gone(action) if is_gone(read) else failed(action, read, request=reading)
        if isinstance(read, Unreadable):
            return Unsure(action, f"{action.reference.path} cannot be read: {read.why}")
        if getattr(read.row, "uid", "") != action.reference.uid:
            return _gone(action)
        change = _change(action, read)
        if change.refused:
            return Refused(action, change.refused, (read,))
        if change.body is None:
            return Done(action, (read,))
        return await self._patch(action, change.body, decoder=decoder, read=read)

    async def _patch(
        self,
        action: VolumeWrite,
        body: dict[str, Any],
        *,
        decoder: SourceDecoder[Any],
        read: Observed,
    ) -> Outcome | KubeError:
        metadata = body.setdefault("metadata", {})
        metadata["resourceVersion"] = str(int(read.order))
        metadata["uid"] = action.reference.uid
        request = Request(
            method="PATCH",
            path=path_of(action.reference),
            query=(("fieldManager", names.MANAGER_VOLUME),),
            body=msgspec.json.encode(body),
            content_type=MERGE,
        )
        answer = await self._client.call(request, decoder.object)
        if isinstance(answer, KubeError):
            if is_gone(answer):
                return _gone(action)
            is_late = answer.status == CONFLICT
            return answer if is_late else failed(action, answer, request=request)
        return Done(action, (answer,) if isinstance(answer, Observed) else ())

    async def _ask(self, action: GetProvisioning) -> Outcome:
        """Read the newest Event of the claim that says why there is no volume."""
        asked_s, of = self._clock(), action.reference
        fields = f"involvedObject.uid={of.uid},reason={FAILED}"
        request = Request(
            path=f"/api/v1/namespaces/{of.namespace}/events", query=(("fieldSelector", fields),)
        )
        answer = await self._client.call(request, _decode_events)
        if isinstance(answer, KubeError):
            return Done(action, (ProvisionerSaid(of.uid, "", asked_s),), why=answer.why)
        newest = max(answer.items, key=_time_of, default=None)
        words = " ".join(newest.message.split()) if newest is not None else ""
        return Done(action, (ProvisionerSaid(of.uid, words[:WORDS_MAX], asked_s),))


def _time_of(event: _Event) -> str:
    return event.last_timestamp or event.event_time or ""


def _gone(action: Action) -> Outcome:
    if isinstance(action, UnselectNode):
        return Done(action, missing=True)
    assert isinstance(action, ReserveVolume | SelectNode)
    return Refused(action, f"{action.reference.path} is gone", missing=True)


def _change(action: VolumeWrite, read: Observed) -> Change:
    row = read.row
    match action:
        case ReserveVolume():
            assert isinstance(row, Volume)
            return _reserve(action, row)
        case SelectNode():
            assert isinstance(row, VolumeClaim)
            return _select(action, row)
        case UnselectNode():
            assert isinstance(row, VolumeClaim)
            return _unselect(action, row)


def _reserve(action: ReserveVolume, volume: Volume) -> Change:
    claim = action.claim
    if volume.claim_uid == claim.uid:
        return Change()
    if volume.claim or volume.terminating or not volume.available:
        return Change(refused=f"{action.reference.path} is not free any more")
    owner = {
        "apiVersion": "v1",
        "kind": CLAIM_KIND,
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
    }
    marks = {names.BOUND_BY_CONTROLLER: "yes"}
    return Change({"metadata": {"annotations": marks}, "spec": {"claimRef": owner}})


def _select(action: SelectNode, claim: VolumeClaim) -> Change:
    if claim.volume:
        return Change(refused=f"{action.reference.path} has volume {claim.volume}")
    if (claim.selected_node, claim.selected_for) == (action.node_name, action.owner):
        return Change()
    if claim.selected_node and claim.selected_for != action.owner:
        other = f"{action.reference.path} gets a volume on Node {claim.selected_node}"
        return Change(refused=other)
    marks = {names.SELECTED_NODE: action.node_name, names.VOLUME_FOR: action.owner}
    return Change({"metadata": {"annotations": marks}})


def _unselect(action: UnselectNode, claim: VolumeClaim) -> Change:
    """Where the volume was made meanwhile, its Node is its own: only the mark goes."""
    if claim.selected_for != action.owner:
        return Change()
    marks: dict[str, None] = {names.VOLUME_FOR: None}
    if not claim.volume:
        marks[names.SELECTED_NODE] = None
    return Change({"metadata": {"annotations": marks}})
