"""The token, and the file that others replace."""

import base64
import json
import os
from pathlib import Path

import pytest

from sunk_sync.slurm.api.token import Token


def jwt(claims: object) -> str:
    part = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"header.{part}.signature"


def test_a_replaced_file_is_read_again_F5(tmp_path: Path) -> None:
    """As Kubernetes does it: a link is turned to another file."""
    link = tmp_path / "token"
    for number, text in enumerate(("one", "two")):
        (tmp_path / text).write_text(f"{text}\n")
        (tmp_path / f"link{number}").symlink_to(tmp_path / text)
        (tmp_path / f"link{number}").replace(link)
        if number == 0:
            token = Token(path=str(link))
        assert token.current() == text


def test_an_unchanged_file_is_not_read_again_F5(tmp_path: Path) -> None:
    """Same file, same time, same size: only `reread` looks inside."""
    path = tmp_path / "token"
    path.write_text("one")
    token = Token(path=str(path))
    assert token.current() == "one"
    before = path.stat()
    path.write_text("two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert token.current() == "one"
    assert token.reread() == "two"


@pytest.mark.parametrize("content", [b"", b"two words", b"\xff\xfe", b"line\nline", None])
def test_the_last_good_token_outlives_a_bad_file_F5(tmp_path: Path, content: bytes | None) -> None:
    """Half-written, deleted or something else: said, and what worked stays in use."""
    path = tmp_path / "token"
    path.write_text("good")
    token = Token(path=str(path))
    assert token.current() == "good"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert token.current() == "good"
    assert str(path) in token.problem
    path.write_text("better")
    assert token.current() == "better"
    assert token.problem == ""


def test_a_given_token_is_trimmed_and_one_that_cannot_be_sent_is_none() -> None:
    """A line end in a header would be another header."""
    assert Token(text=" abc\n").current() == "abc"
    bad = Token(text="abc\r\nX-Evil: 1")
    assert bad.current() == ""
    assert bad.problem
    assert Token().problem == ""


@pytest.mark.parametrize(
    ("text", "expires"),
    [
        (jwt({"exp": 1795253436, "sun": "root"}), 1795253436),
        (jwt({"sun": "root"}), None),
        (jwt([1]), None),
        ("no-jwt", None),
        ("a.!!!.c", None),
        ("a.eyJ.c", None),
        ("", None),
    ],
)
def test_the_expiry_is_read_from_the_token_F5(text: str, expires: float | None) -> None:
    """For the metric and doctor; nothing is verified."""
    assert Token(text=text).expires_at_s == expires
