"""Turn failed writes to Kubernetes into outcomes."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from sunk_sync.core.model.actions import Action, OnObject
from sunk_sync.core.model.outcomes import Outcome, Refused, Unsure
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.client import Request

TRIES = 3
WallClock = Callable[[], datetime]
"""The time of day in UTC, for texts only."""


def failed(action: Action, error: KubeError, *, request: Request) -> Refused | Unsure:
    why = f"{request.method} {request.path}: {error.why}"
    if error.passing or (error.status == 409 and not is_other(error)):
        return Unsure(action, why, error.retry_after_s)
    return Refused(action, why, missing=is_missing(error))


async def unless_crossed(
    action: OnObject, change: Callable[[], Awaitable[Outcome | KubeError]]
) -> Outcome:
    """Read an object and write what was read, again if somebody wrote in between.

    `change` returns a KubeError for that: the kubelet and the controllers of Kubernetes write to
    the same objects.
    """
    outcome = await change()
    tries = 1
    while isinstance(outcome, KubeError) and tries < TRIES:
        outcome = await change()
        tries += 1
    if isinstance(outcome, KubeError):
        return Unsure(action, f"{action.reference.path} changes all the time: {outcome.why}")
    return outcome


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
