"""One HTTP exchange, with an authority or with a caller, for logs and metrics."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct


class Exchange(Struct, frozen=True, kw_only=True):
    """One request and its outcome."""

    authority: str
    """kubernetes or slurm."""
    method: str
    path: str
    """Path with names replaced, so that label sets stay bounded: /slurm/node/{name}."""
    status: str
    """HTTP status, or the kind of failure: timeout, connection, garbage, too-large."""
    seconds: float
    """Seconds from the first byte sent to the last byte read."""
    received_bytes: int = 0


OnExchange = Callable[[Exchange], None]


class Reply(Struct, frozen=True):
    """The answer to a call."""

    status: int
    body: dict[str, Any]
    outcome: str
    """One word for the metrics; of a refusal its status."""
    job_id: str = ""
    """Of what was not refused."""


class Called(Struct, frozen=True):
    """One call, for logs and metrics; contains no secret."""

    call: str
    """The last word of its path; `other` where there is no such path."""
    reply: Reply | None
    """None: the caller went away."""
    seconds: float
    peer: str
