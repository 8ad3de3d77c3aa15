"""The token and its file."""

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
    """Kubernetes replaces a mounted Secret by moving a link."""
    link = tmp_path / "token"
    for number, text in enumerate(("one", "two")):
        (tmp_path / text).write_text(f"{text}\n")
        (tmp_path / f"link{number}").symlink_to(tmp_path / text)
        (tmp_path / f"link{number}").replace(link)
        if number == 0:
            token = Token(path=str(link))
        assert token.current() == text


def test_an_unchanged_file_is_not_read_again_F5(tmp_path: Path) -> None:
    """Same file, time and size: only `reread` opens it."""
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
def test_a_bad_file_keeps_the_last_good_token_F5(tmp_path: Path, content: bytes | None) -> None:
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


def test_a_token_is_trimmed_and_one_with_a_line_end_inside_is_refused() -> None:
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
def test_the_expiry_of_a_token_is_read_unverified_F5(text: str, expires: float | None) -> None:
    assert Token(text=text).expires_at_s == expires
