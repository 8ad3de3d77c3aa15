"""Who may speak at the hooks server: tokens that need no memory (L5). Pure but for the key's file.

A token is `<subject>.<64 hex>`, the hex being HMAC-SHA256(key, subject). The gate's subject is
`gate`; a placeholder's names its job: the workload id, or of an array the job's name.
"""

import hmac
import secrets
from pathlib import Path
from typing import Final

GATE: Final = "gate"
KEY_BYTES_MIN: Final = 16
KEY_BYTES_MAX: Final = 4096
TOKEN_LENGTH_MAX: Final = 2048


class KeyFileError(Exception):
    """The key cannot be had; the text names the file or the Secret and what is wrong."""


def new_key() -> bytes:
    """A key that dies with this process: so do all tokens made with it."""
    return secrets.token_hex(32).encode()


def read_key(path: Path) -> bytes:
    """The key in a file, blank ends cut off. Raises KeyFileError."""
    try:
        with path.open("rb") as file:
            key = file.read(KEY_BYTES_MAX + 1).strip()
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror or error}") from error
    return checked_key(key, str(path))


def checked_key(key: bytes, origin: str) -> bytes:
    """The key, where it is long enough. Raises KeyFileError, which names the origin."""
    if not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
        raise KeyFileError(
            f"{origin}: a key has {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes, this one {len(key)}"
        )
    return key


def make_token(key: bytes, subject: str) -> str:
    """The token of the gate (GATE), or of the job that the subject names."""
    return f"{subject}.{_proof(key, subject)}"


def subject_of(key: bytes, token: str) -> str | None:
    """Whose token this is; None: nobody's. The time it takes tells nothing about the key."""
    if len(token) > TOKEN_LENGTH_MAX:
        return None
    subject, _, proof = token.rpartition(".")
    fits = hmac.compare_digest(proof.encode(errors="replace"), _proof(key, subject).encode())
    return subject if fits and subject else None


def _proof(key: bytes, subject: str) -> str:
    return hmac.new(key, subject.encode(errors="replace"), "sha256").hexdigest()
