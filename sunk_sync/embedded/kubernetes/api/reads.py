"""Lists and the start of a watch: pages of one version, selectors, versions."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from sunk_sync.embedded.kubernetes.api.selectors import Selector, selector_of
from sunk_sync.embedded.kubernetes.store.kinds import Key, Kind
from sunk_sync.embedded.kubernetes.store.refusal import (
    RefusalError,
    StatusCause,
    bad_request,
    forbidden,
    invalid_options,
    too_large,
)
from sunk_sync.embedded.kubernetes.store.store import Store, Stored

_MATCH = "resourceVersionMatch"
_TOKEN_KIND = "meta.k8s.io/v1"


class Page(Struct, frozen=True, kw_only=True):
    version: int
    rows: list[Stored]
    next: str = ""
    remaining: int = 0
    """Objects after this page; 0 with a selector, as the real server does not count them then."""


class _Token(Struct, frozen=True):
    v: str
    rv: int
    start: str


_encode = msgspec.json.Encoder().encode
_decode_token = msgspec.json.Decoder(_Token).decode


class Listed(Struct, frozen=True, kw_only=True):
    kind: Kind
    namespace: str
    selector: Selector | None
    limit: int
    continue_: str
    version: str
    match: str
    initial: bool | None


def listed_of(kind: Kind, namespace: str, *, query: Mapping[str, str]) -> Listed:
    initial = query.get("sendInitialEvents")
    return Listed(
        kind=kind,
        namespace=namespace,
        selector=selector_of(
            kind, labels=query.get("labelSelector", ""), fields=query.get("fieldSelector", "")
        ),
        limit=max(_whole_number(query.get("limit", "")), 0),
        continue_=query.get("continue", ""),
        version=query.get("resourceVersion", ""),
        match=query.get(_MATCH, ""),
        initial=None if initial is None else initial in ("true", "1"),
    )


def _whole_number(text: str) -> int:
    if not text:
        return 0
    try:
        return int(text)
    except ValueError:
        why = f'strconv.ParseInt: parsing "{text}": invalid syntax'
        raise bad_request(why) from None


def number_of(version: str) -> int | None:
    """Return a resourceVersion as a number; None if it is no number."""
    return int(version) if version.isascii() and version.isdecimal() else None


def not_a_number(version: str) -> str:
    why = f'strconv.ParseUint: parsing "{version}": invalid syntax'
    return f'resourceVersion: Invalid value: "{version}": {why}'


def check_list(listed: Listed) -> None:
    causes = [*_check_match(listed)]
    if listed.initial is not None:
        causes.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if causes:
        raise invalid_options("ListOptions", causes)


def _check_match(listed: Listed) -> Iterator[StatusCause]:
    match, version = listed.match, listed.version
    if not match:
        return
    if not version:
        yield forbidden(_MATCH, f"{_MATCH} is forbidden unless resourceVersion is provided")
    elif listed.continue_:
        yield forbidden(_MATCH, f"{_MATCH} is forbidden when continue is provided")
    if match not in ("Exact", "NotOlderThan"):
        text = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
        yield StatusCause((_MATCH, "FieldValueNotSupported", text))
    elif match == "Exact" and version == "0":
        why = f'{_MATCH} "exact" is forbidden for resourceVersion "0"'
        yield forbidden(_MATCH, why)


def check_watch(listed: Listed) -> None:
    causes = []
    if listed.initial is None and listed.match:
        why = f"{_MATCH} is forbidden for watch unless sendInitialEvents is provided"
        causes.append(forbidden(_MATCH, why))
    if listed.initial is not None and listed.match != "NotOlderThan":
        why = f"sendInitialEvents requires setting {_MATCH} to NotOlderThan"
        causes.append(forbidden(_MATCH, why))
    if causes:
        raise invalid_options("ListOptions", causes)


def page_of(store: Store, listed: Listed) -> Page:
    """Return one page; RefusalError if its version is compacted or in the future."""
    check_list(listed)
    after, at = _start(store, listed)
    rows: list[Stored] = []
    try:
        scanned = store.scan(listed.kind, namespace=listed.namespace, after=after, at=at)
        for _, stored in scanned:
            if listed.selector is not None and not listed.selector(stored.an_object):
                continue
            if listed.limit and len(rows) == listed.limit:
                return _full(store, listed, rows, at=at)
            rows.append(stored)
    except RefusalError as refusal:
        raise _forgotten(listed, after) if refusal.status == 410 else refusal from None
    return Page(version=at or store.version, rows=rows)


def _full(store: Store, listed: Listed, rows: list[Stored], *, at: int) -> Page:
    metadata = rows[-1].an_object["metadata"]
    last = f"{metadata.get('namespace', '')}/{metadata['name']}"
    version = at or store.version
    remaining = 0
    if listed.selector is None:
        remaining = store.count(listed.kind, namespace=listed.namespace, after=last, at=at)
    return Page(version=version, rows=rows, next=_token(version, last), remaining=remaining)


def _start(store: Store, listed: Listed) -> tuple[Key, int]:
    """Return the key after which the page starts, and its version (0: now)."""
    if listed.continue_:
        if listed.version not in ("", "0"):
            what = "specifying resource version is not allowed when using continue"
            raise bad_request(what)
        token = _read_token(listed.continue_)
        return token.start, token.rv if token.rv > 0 else 0
    if not listed.version:
        return "", 0
    version = number_of(listed.version)
    if version is None:
        raise bad_request(f"invalid resource version: {not_a_number(listed.version)}")
    if version > store.version:
        raise too_large(version, store.version)
    return "", version if listed.match == "Exact" else 0


def _token(version: int, last: Key) -> str:
    encoded = base64.urlsafe_b64encode(_encode(_Token(_TOKEN_KIND, version, last)))
    return encoded.decode().rstrip("=")


def _read_token(text: str) -> _Token:
    try:
        padded = text + "=" * (-len(text) % 4)
        return _decode_token(base64.b64decode(padded, altchars=b"-_", validate=True))
    except binascii.Error:
        why = "illegal base64 data at input byte 0"
    except (ValueError, msgspec.MsgspecError):
        why = "invalid character"
    raise bad_request(f"invalid continue token: continue key is not valid: {why}")


def _forgotten(listed: Listed, after: Key) -> RefusalError:
    if not listed.continue_:
        message = "The resourceVersion for the provided list is too old."
        return RefusalError(410, "Expired", message)
    refusal = RefusalError(
        410,
        "Expired",
        "The provided continue parameter is too old to display a consistent list result. You can"
        " start a new list without the continue parameter, or use the continue token in this"
        " response to retrieve the remainder of the results. Continuing with the provided token"
        " results in an inconsistent list - objects that were created, modified, or deleted"
        " between the time the first chunk was returned and now may show up in the list.",
    )
    refusal.body["metadata"] = {"continue": _token(-1, after)}
    return refusal


def first_of(store: Store, listed: Listed) -> list[Stored]:
    """Return all current objects, with which a watch starts."""
    scanned = store.scan(listed.kind, namespace=listed.namespace)
    return [stored for _, stored in islice(scanned, None)]


def list_metadata(page: Page) -> dict[str, Any]:
    metadata: dict[str, Any] = {"resourceVersion": str(page.version)}
    if page.next:
        metadata["continue"] = page.next
    if page.remaining:
        metadata["remainingItemCount"] = page.remaining
    return metadata
