"""The JWT for slurmrestd, given as text or in a file that may be replaced at any time."""

import base64
import os
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from sunk_sync.slurm.api.answers import Number, number_of, printable

_SIZE_MAX: Final = 64 * 1024


class _Claims(Struct, frozen=True):
    exp: Number = None
    sun: object = ""


class Token:
    """The current token; of a file, always its current content.

    Kubernetes replaces the file of a mounted Secret. So `current` checks the file before each use
    (2 µs), and reads it if identity, size or time has changed.
    """

    def __init__(self, *, text: str = "", path: str = "") -> None:
        self.problem = ""
        """Why the file is unusable. The last good token stays in use."""
        self._path = path
        self._text = self._usable(text, "the token given")
        self._seen: tuple[int, ...] = ()

    def current(self) -> str:
        if self._path and self._stamp() != self._seen:
            return self.reread()
        return self._text

    def reread(self) -> str:
        """Read the file even if unchanged: the server has refused the token."""
        if self._path:
            self._seen = self._stamp()
            self._text = self._read() or self._text
        return self._text

    @property
    def expires_at_s(self) -> float | None:
        """Return the epoch second in the claim `exp`, not verified; None: no JWT, or no expiry."""
        return number_of(self._claims().exp)

    @property
    def user(self) -> str:
        """Return the user in the claim `sun`, not verified; empty if absent."""
        name = self._claims().sun
        return printable(name) if isinstance(name, str) else ""

    def _claims(self) -> _Claims:
        try:
            claims = self._text.split(".")[1]
            padded = claims + "=" * (-len(claims) % 4)
            return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Claims)
        except (IndexError, ValueError, RecursionError):
            return _Claims()

    def _stamp(self) -> tuple[int, ...]:
        try:
            status = os.stat(self._path)
        except OSError:
            return ()
        return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)

    def _read(self) -> str:
        try:
            with Path(self._path).open("rb") as file:
                text = file.read(_SIZE_MAX).decode("ascii")
        except (OSError, UnicodeDecodeError) as error:
            self.problem = f"token file {self._path}: {error}"
            return ""
        return self._usable(text, f"token file {self._path}")

    def _usable(self, text: str, origin: str) -> str:
        """Return the token if it is valid in a header; else empty, and set `problem`."""
        token = text.strip()
        fine = token.isascii() and token.isprintable() and " " not in token
        self.problem = "" if fine and (token or not self._path) else f"{origin} is not one token"
        return token if fine else ""
