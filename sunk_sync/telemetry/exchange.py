"""One HTTP exchange, with an authority or with a caller, for logs and metrics."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct


class Exchange(Struct, frozen=True, kw_only=True):
    authority: str
    """kubernetes or slurm."""
    method: str
    path: str
    """Path with names replaced, so that label sets stay bounded: /slurm/node/{name}."""
    status: str
    """HTTP status, or the kind of failure: timeout, connection, garbage, too-large."""
    seconds: float
    """From the first byte sent to the last byte read."""
    received_bytes: int = 0


OnExchange = Callable[[Exchange], None]


class Reply(Struct, frozen=True):
    status: int
    body: dict[str, Any]
    outcome: str
    """One word for the metrics; for a refusal its status."""
    job_id: str = ""
    """Empty for a refused call."""


class Called(Struct, frozen=True):
    """One call; contains no secret."""

    call: str
    """The last part of its path; `other`: unknown path."""
    reply: Reply | None
    """None: the caller disconnected."""
    seconds: float
    peer: str
