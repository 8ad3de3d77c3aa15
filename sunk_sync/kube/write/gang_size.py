"""Read the number of Pods in a gang from its PodGroup or Job (G1)."""

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from sunk_sync.core.model.actions import GetGang
from sunk_sync.core.model.gang_size import GangSize
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.kube.api.answers import Decode, KubeError
from sunk_sync.kube.api.client import Caller, Request
from sunk_sync.kube.decode.gangs import SIZE_MAX

Clock = Callable[[], float]

POD_GROUPS: Final = "scheduling.x-k8s.io/v1alpha1"
# Group names are labels of Pods and untrusted: none may lead to another URL path.
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class _GroupSpec(Struct, frozen=True, rename="camel"):
    min_member: int = 0


class _Meta(Struct, frozen=True):
    uid: str = ""


class _Group(Struct, frozen=True):
    spec: _GroupSpec


class _JobSpec(Struct, frozen=True, rename="camel"):
    completions: int | None = None
    completion_mode: str = "NonIndexed"


class _JobStatus(Struct, frozen=True):
    succeeded: int = 0


class _IndexedJob(Struct, frozen=True):
    spec: _JobSpec
    metadata: _Meta = _Meta()
    status: _JobStatus = _JobStatus()


GangObject = _Group | _IndexedJob

_PATHS: Final[dict[str, tuple[str, Decode[Any]]]] = {
    "group": (
        f"/apis/{POD_GROUPS}/namespaces/{{}}/podgroups/{{}}",
        msgspec.json.Decoder(_Group).decode,
    ),
    "job": ("/apis/batch/v1/namespaces/{}/jobs/{}", msgspec.json.Decoder(_IndexedJob).decode),
}


async def read_size(client: Caller, action: GetGang, *, clock: Clock) -> Outcome:
    """Return Done with a GangSize, known or not; Unsure if another attempt may find it."""
    source = _PATHS.get(action.kind)
    if source is None or not (
        _NAME.fullmatch(action.name) and _NAMESPACE.fullmatch(action.namespace)
    ):
        return Refused(action, "no object can have this name")
    path, decode = source
    asked_s = clock()
    request = Request(path=path.format(action.namespace, action.name))
    answer: GangObject | KubeError = await client.call(request, decode)
    if isinstance(answer, KubeError) and answer.passing and answer.kind != "garbage":
        return Unsure(action, f"GET {request.path}: {answer.why}", answer.retry_after_s)
    size, why = _size(answer, owner=action.owner)
    known = GangSize(
        kind=action.kind,
        namespace=action.namespace,
        name=action.name,
        size=size,
        why=why,
        asked_s=asked_s,
        owner=action.owner,
        succeeded=answer.status.succeeded if size and isinstance(answer, _IndexedJob) else 0,
    )
    return Done(action, (known,))


def _size(answer: GangObject | KubeError, *, owner: str) -> tuple[int, str]:
    """Return the size, or 0 and why it is unknown. `owner`: UID of the Job that made the Pods."""
    match answer:
        case KubeError():
            return 0, answer.why
        case _Group():
            return _bounded(answer.spec.min_member, "spec.minMember")
        case _IndexedJob() if answer.metadata.uid != owner:
            return 0, "the Job of this Pod is gone, and another Job has its name"
        case _IndexedJob() if answer.spec.completion_mode != "Indexed":
            return 0, "only an Indexed Job can be a gang"
        case _IndexedJob():
            return _bounded(answer.spec.completions or 0, "spec.completions")


def _bounded(size: int, where: str) -> tuple[int, str]:
    if 0 < size <= SIZE_MAX:
        return size, ""
    return 0, f"{where} is {size}, not between 1 and {SIZE_MAX}"
