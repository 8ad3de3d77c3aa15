"""Turn failed writes to Kubernetes into outcomes."""

from collections.abc import Callable
from datetime import datetime

from sunk_sync.core.model.actions import Action
from sunk_sync.core.model.outcomes import Refused, Unsure
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.client import Request

WallClock = Callable[[], datetime]
"""The time of day in UTC, for texts only."""


def failed(action: Action, error: KubeError, *, request: Request) -> Refused | Unsure:
    why = f"{request.method} {request.path}: {error.why}"
    if error.passing or (error.status == 409 and not is_other(error)):
        return Unsure(action, why, error.retry_after_s)
    return Refused(action, why, missing=is_missing(error))


def is_missing(error: KubeError) -> bool:
    """Whether the API server itself reports no object with this name and UID."""
    return is_other(error) or (is_gone(error) and bool(error.object_name))


def is_other(error: KubeError) -> bool:
    """Whether the UID did not match: another object has the name now, or none."""
    if error.status == 422:
        return "metadata.uid" in error.why
    return error.status == 409 and "uid" in error.why.lower()


def is_gone(error: KubeError) -> bool:
    """Whether the API server itself reports that the object does not exist."""
    return error.status == 404 and error.reason == "NotFound"


def spelled(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
