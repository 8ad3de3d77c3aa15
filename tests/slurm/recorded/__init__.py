"""Recorded answers of slurmrestd, and a small server that gives them in good and bad ways."""

from pathlib import Path

from hypothesis import strategies as st

RELEASES = {"24.11": "v0.0.42", "26.05": "v0.0.45"}
"""Release of the recording → newest API version that it serves."""

_HERE = Path(__file__).parent


def recorded(release: str, name: str) -> bytes:
    """Return the bytes of one recorded body."""
    return (_HERE / release / f"{name}.json").read_bytes()


def changed(body: bytes, data: st.DataObject) -> bytes:
    """Return the body with one piece removed, doubled or overwritten."""
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(body))] * 2)))
    pieces = [b"", body[start:end] * 2, b"\xff", b"null", b'"', b"{", b"}", b"]"]
    return body[:start] + data.draw(st.sampled_from(pieces)) + body[end:]


def all_recorded() -> list[bytes]:
    """Return every recorded body."""
    return [path.read_bytes() for path in sorted(_HERE.glob("*/*.json"))]
