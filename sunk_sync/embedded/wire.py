"""HTTP requests and responses of the embedded servers."""

from collections.abc import Mapping

from msgspec import Struct


class Question(Struct, frozen=True, kw_only=True):
    """One request. `path` is decoded and without query; header names are in lower case."""

    method: str = "GET"
    path: str
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: bytes = b""


class Answer(Struct, frozen=True, kw_only=True):
    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = {}
