"""Ask the running service on the operators' address."""

from typing import TypeVar

import httpx
import msgspec

from sunk_sync.service.explanation import VERSION
from sunk_sync.settings.types import Address

TIMEOUT_S = 10.0
CANNOT = 2
"""Exit code."""

AnswerT = TypeVar("AnswerT")
OtherT = TypeVar("OtherT")


class CannotAskError(Exception):
    """The service cannot be asked; the text says what to do."""


def connection() -> httpx.Client:
    """Return a client that uses no proxy: the service is on this machine."""
    return httpx.Client(timeout=TIMEOUT_S, trust_env=False)


def ask(
    client: httpx.Client,
    address: Address | None,
    *,
    path: str,
    wanted: type[AnswerT],
    missing: type[OtherT],
) -> AnswerT | OtherT:
    """Return the answer; of type `missing` for a 404. Raises CannotAskError."""
    if address is None:
        raise CannotAskError("--operators-bind-address is empty, so the service cannot be asked")
    try:
        response = client.get(f"http://{address}{path}")
    except httpx.HTTPError as error:
        raise CannotAskError(
            f"nothing answers at {address}: {error}. Ask where sunk-sync runs: kubectl sunk …, or "
            "kubectl -n NAMESPACE exec deploy/sunk-sync -- sunk-sync …"
        ) from error
    try:
        if response.status_code == httpx.codes.OK:
            return _checked(msgspec.json.decode(response.content, type=wanted), address)
        if response.status_code == httpx.codes.NOT_FOUND:
            return msgspec.json.decode(response.content, type=missing)
    except msgspec.DecodeError as error:
        raise CannotAskError(f"{address} is no operators server of sunk-sync: {error}") from error
    raise CannotAskError(f"{address} answered {response.status_code}: {response.text[:200]}")


def _checked(answer: AnswerT, address: Address) -> AnswerT:
    if getattr(answer, "version", VERSION) != VERSION:
        raise CannotAskError(f"the service at {address} is of another version")
    return answer


def ago(seconds: float) -> str:
    for unit_s, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{seconds:.1f} s"
