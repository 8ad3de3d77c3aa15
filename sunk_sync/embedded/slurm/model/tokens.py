"""Who asks: the tokens that slurmrestd takes."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from sunk_sync.embedded.wire import Question

OPERATORS: Final = frozenset({"root", "slurm"})
"""They may change nodes, and speak for others."""


class Pass(Struct, frozen=True):
    """What a token stands for; `expires_s`: epoch second, None: never."""

    user: str
    expires_s: float | None = None


class Tokens:
    """A table of valid tokens. Empty: every token is root's (a demo without secrets)."""

    def __init__(self, passes: Mapping[str, Pass] | None = None) -> None:
        self._passes = dict(passes or {})
        self._open = not self._passes

    def add(self, token: str, *, user: str = "root", expires_s: float | None = None) -> None:
        """A token is valid from now on; from the first one on, only those of the table."""
        self._passes[token] = Pass(user, expires_s)
        self._open = False

    def revoke(self, token: str) -> None:
        """A token is worth nothing any more."""
        self._passes.pop(token, None)

    def user_of(self, question: Question, *, epoch_s: float) -> str | None:
        """Whom the question speaks for; None: slurmctld does not believe it."""
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
    """The token that came along, or nothing."""
    token = question.headers.get("x-slurm-user-token", "")
    if not token:
        scheme, _, token = question.headers.get("authorization", "").partition(" ")
        return token if scheme.lower() == "bearer" else ""
    return token
