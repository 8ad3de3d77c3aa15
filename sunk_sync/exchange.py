"""One HTTP exchange of ours with an authority, as metrics and logs want to know it."""

from collections.abc import Callable

from msgspec import Struct


class Exchange(Struct, frozen=True, kw_only=True):
    """One request and what came of it."""

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
