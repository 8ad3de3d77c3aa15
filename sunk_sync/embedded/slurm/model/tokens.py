"""Tokens that slurmrestd accepts, and their users."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from sunk_sync.embedded.wire import Question

OPERATORS: Final = frozenset({"root", "slurm"})
"""Users who may change nodes and act for others."""


class Pass(Struct, frozen=True):
    """The user of a token; `expires_s`: epoch second, None: never."""

    user: str
    expires_s: float | None = None


class Tokens:
    """The valid tokens. If it is empty, every token belongs to root."""

    def __init__(self, passes: Mapping[str, Pass] | None = None) -> None:
        self._passes = dict(passes or {})
        self._open = not self._passes

    def add(self, token: str, *, user: str = "root", expires_s: float | None = None) -> None:
        """Add a token; after the first one, only tokens of the table are valid."""
        self._passes[token] = Pass(user, expires_s)
        self._open = False

    def revoke(self, token: str) -> None:
        self._passes.pop(token, None)

    def user_of(self, question: Question, *, epoch_s: float) -> str | None:
        """Return the user of the request; None if the token is not valid."""
        wanted = question.headers.get("x-slurm-user-name", "")
        given = self._passes.get(token_of(question))
        if self._open:
            return wanted or "root"
        if given is None or (given.expires_s is not None and epoch_s >= given.expires_s):
            return None
        if not wanted or wanted == given.user:
            return given.user
        return wanted if given.user in OPERATORS else None


def token_of(question: Question) -> str:
    token = question.headers.get("x-slurm-user-token", "")
    if not token:
        scheme, _, token = question.headers.get("authorization", "").partition(" ")
        return token if scheme.lower() == "bearer" else ""
    return token
