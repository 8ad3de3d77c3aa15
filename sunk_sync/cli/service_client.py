"""Ask the running service on the operators' address."""

from typing import TypeVar

import httpx
import msgspec

from sunk_sync.server.operators import Problem
from sunk_sync.service.explanation import VERSION
from sunk_sync.settings.types import Address

TIMEOUT_S = 10.0
CANNOT = 2
"""Exit code."""

AnswerT = TypeVar("AnswerT")


class CannotAskError(Exception):
    """The service cannot be asked; the text says what to do."""


class NotFoundError(CannotAskError):
    """The service has no such object; or nothing of sunk-sync listens there."""

    def __init__(self, text: str, content: bytes) -> None:
        super().__init__(text)
        self.content = content


def connection() -> httpx.Client:
    """Return a client that uses no proxy: the service is on this machine."""
    return httpx.Client(timeout=TIMEOUT_S, trust_env=False)


def ask(
    client: httpx.Client,
    address: Address | None,
    *,
    path: str,
    wanted: type[AnswerT],
    order: object = None,
) -> AnswerT:
    """Return the answer; an order is sent by POST. Raises CannotAskError, NotFoundError for 404."""
    if address is None:
        raise CannotAskError("--operators-bind-address is empty, so the service cannot be asked")
    try:
        response = client.send(_request(client, f"http://{address}{path}", order))
    except httpx.HTTPError as error:
        raise CannotAskError(
            f"nothing answers at {address}: {error}. Ask where sunk-sync runs: kubectl sunk …, or "
            "kubectl -n NAMESPACE exec deploy/sunk-sync -- sunk-sync …"
        ) from error
    try:
        if response.status_code == httpx.codes.OK:
            return _checked(msgspec.json.decode(response.content, type=wanted), address)
    except msgspec.DecodeError as error:
        raise CannotAskError(f"{address} is no operators server of sunk-sync: {error}") from error
    if response.status_code == httpx.codes.NOT_FOUND:
        raise NotFoundError(f"{address} is no operators server of sunk-sync", response.content)
    raise CannotAskError(f"{address} answered {response.status_code}: {_why(response)[:200]}")


def _why(response: httpx.Response) -> str:
    """Return the reason that sunk-sync gives, or the text of whatever answered."""
    try:
        return msgspec.json.decode(response.content, type=Problem).why
    except msgspec.DecodeError:
        return response.text


def _request(client: httpx.Client, url: str, order: object) -> httpx.Request:
    if order is None:
        return client.build_request("GET", url)
    headers = {"Content-Type": "application/json"}
    return client.build_request("POST", url, content=msgspec.json.encode(order), headers=headers)


def _checked(answer: AnswerT, address: Address) -> AnswerT:
    if getattr(answer, "version", VERSION) != VERSION:
        raise CannotAskError(f"the service at {address} is of another version")
    return answer
