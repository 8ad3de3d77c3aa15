"""What writers of the Kubernetes side have in common: whom they call, and what a failure means."""

from collections.abc import Callable
from datetime import datetime

from sunk_sync.core.model.actions import Action, Refused, Unsure
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.client import Request

WallClock = Callable[[], datetime]
"""The time of day in UTC: for texts only."""


def failed(action: Action, error: KubeError, *, request: Request) -> Refused | Unsure:
    """What a write that brought no object means."""
    why = f"{request.method} {request.path}: {error.why}"
    if error.passing or (error.status == 409 and not is_other(error)):
        return Unsure(action, why, error.retry_after_s)
    return Refused(action, why, missing=is_missing(error))


def is_missing(error: KubeError) -> bool:
    """Whether the API server itself says that it has no object of this name and UID."""
    return is_other(error) or (is_gone(error) and bool(error.object_name))


def is_other(error: KubeError) -> bool:
    """Whether the precondition did not hold: another object has the name now, or none has it."""
    if error.status == 422:
        return "metadata.uid" in error.why
    return error.status == 409 and "uid" in error.why.lower()


def is_gone(error: KubeError) -> bool:
    """Whether the API server itself says that there is no such object."""
    return error.status == 404 and error.reason == "NotFound"


def spelled(at: datetime) -> str:
    """A time as Kubernetes writes it."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
