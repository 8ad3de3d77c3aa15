"""Tokens of the callers of the hooks server, derived from one key (L5). Only `read_key` does I/O.

A token is `<subject>.<64 hex>`; the hex is HMAC-SHA256(key, subject). The gate's subject is `gate`,
that of the lock's prolog is `lock`. A placeholder's names its job: the workload id, or the name of
an array.
"""

import hmac
import secrets
from pathlib import Path
from typing import Final

GATE: Final = "gate"
LOCK: Final = "lock"
"""Of the prolog on compute nodes, which must not have the gate's token."""
KEY_BYTES_MIN: Final = 16
KEY_BYTES_MAX: Final = 4096
TOKEN_LENGTH_MAX: Final = 2048


class KeyFileError(Exception):
    """The key cannot be read; the text names the file or the Secret and the reason."""


def new_key() -> bytes:
    """Return a new random key. Its tokens are valid only as long as the key is kept."""
    return secrets.token_hex(32).encode()


def read_key(path: Path) -> bytes:
    """Return the key in a file without surrounding blanks. Raises KeyFileError."""
    try:
        with path.open("rb") as file:
            key = file.read(KEY_BYTES_MAX + 1).strip()
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror or error}") from error
    return checked_key(key, str(path))


def checked_key(key: bytes, origin: str) -> bytes:
    """Return the key if its length is valid. Raises KeyFileError naming the origin."""
    if not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
        raise KeyFileError(
            f"{origin}: a key has {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes, this one {len(key)}"
        )
    return key


def make_token(key: bytes, subject: str) -> str:
    return f"{subject}.{_proof(key, subject)}"


def subject_of(key: bytes, token: str) -> str | None:
    """Return the subject of a valid token, else None. The comparison takes constant time."""
    if len(token) > TOKEN_LENGTH_MAX:
        return None
    subject, _, proof = token.rpartition(".")
    fits = hmac.compare_digest(proof.encode(errors="replace"), _proof(key, subject).encode())
    return subject if fits and subject else None


def _proof(key: bytes, subject: str) -> str:
    return hmac.new(key, subject.encode(errors="replace"), "sha256").hexdigest()
