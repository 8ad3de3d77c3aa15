"""Recorded answers of slurmrestd, and a small server that gives them in good and bad ways."""

from pathlib import Path

RELEASES = {"24.11": "v0.0.42", "26.05": "v0.0.45"}
"""Release of the recording → newest API version that it serves."""

_HERE = Path(__file__).parent


def recorded(release: str, name: str) -> bytes:
    """Return the bytes of one recorded body."""
    return (_HERE / release / f"{name}.json").read_bytes()


def all_recorded() -> list[bytes]:
    """Return every recorded body."""
    return [path.read_bytes() for path in sorted(_HERE.glob("*/*.json"))]
