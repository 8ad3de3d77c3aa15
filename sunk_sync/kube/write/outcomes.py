"""What writers of the Kubernetes side have in common: whom they call, and what a failure means."""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from sunk_sync.core.model.actions import Action, Refused, Unsure
from sunk_sync.kube.api.answers import Decode, KubeError, T
from sunk_sync.kube.api.client import Request

WallClock = Callable[[], datetime]
"""The time of day in UTC: for texts only."""


class Caller(Protocol):
    """The part of KubeClient that a writer needs."""

    async def call(self, request: Request, decode: Decode[T], /) -> T | KubeError:
        """Send the request, decode the answer."""
        ...


def failed(action: Action, trouble: KubeError, *, request: Request) -> Refused | Unsure:
    """What a write that brought no object means."""
    why = f"{request.method} {request.path}: {trouble.why}"
    if trouble.passing or (trouble.status == 409 and not is_other(trouble)):
        return Unsure(action, why, trouble.retry_after_s)
    return Refused(action, why, missing=is_missing(trouble))


def is_missing(trouble: KubeError) -> bool:
    """Whether the API server itself says that it has no object of this name and UID."""
    return is_other(trouble) or (is_gone(trouble) and bool(trouble.subject))


def is_other(trouble: KubeError) -> bool:
    """Whether the precondition did not hold: another object has the name now, or none has it."""
    if trouble.status == 422:
        return "metadata.uid" in trouble.why
    return trouble.status == 409 and "uid" in trouble.why.lower()


def is_gone(trouble: KubeError) -> bool:
    """Whether the API server itself says that there is no such object."""
    return trouble.status == 404 and trouble.reason == "NotFound"


def spelled(at: datetime) -> str:
    """A time as Kubernetes writes it."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
