"""Decoding of request bodies, with the error texts of the real server."""

from typing import Any

import msgspec

from sunk_sync.embedded.kubernetes.api import protobuf
from sunk_sync.embedded.kubernetes.store.kinds import Kind, Object
from sunk_sync.embedded.kubernetes.store.place import DeleteOptions
from sunk_sync.embedded.kubernetes.store.refusal import RefusalError, bad_request
from sunk_sync.embedded.wire import Question

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
PATCH_TYPES = (APPLY, MERGE, STRATEGIC)
_ACCEPTED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_TOP = ("apiVersion", "kind", "metadata", "spec", "status")

_decode = msgspec.json.Decoder().decode


def manager_of(question: Question) -> str:
    """Return the field manager of the query, else the name of the client program."""
    named = question.query.get("fieldManager")
    return named or question.headers.get("user-agent", "").partition("/")[0] or "unknown"


def decoded(question: Question, kind: Kind) -> Object:
    content_type = question.headers.get("content-type", "application/json")
    if content_type.partition(";")[0].strip() != "application/json":
        what = "the body of the request was in an unknown format - accepted media types include:"
        raise RefusalError(415, "UnsupportedMediaType", f"{what} {_ACCEPTED}")
    try:
        body = _decode(question.body or b"{}")
    except (msgspec.MsgspecError, RecursionError):
        body = None
    if not isinstance(body, dict):
        text = question.body.decode(errors="replace")
        what = f"the object provided is unrecognized (must be of type {kind.name})"
        raise bad_request(f"{what}: couldn't get version/kind; json parse error ({text[:80]})")
    return checked_kind(kind, body)


def checked_kind(kind: Kind, an_object: Object) -> Object:
    """Check that the object is of this kind, if it names one."""
    named = an_object.get("kind", kind.name), an_object.get("apiVersion", kind.api_version)
    if named != (kind.name, kind.api_version):
        what = f'{named[0]} in version "{kind.api_version}" cannot be handled as a {kind.name}'
        raise bad_request(
            f"{what}: converting (v1.{named[0]}) to (core.{kind.name}): unknown conversion"
        )
    for part in ("metadata", "spec", "status"):
        if not isinstance(an_object.get(part) or {}, dict):
            raise bad_request(f"{kind.name} with a {part} that is no object")
    return {**an_object, "metadata": an_object.get("metadata") or {}}


def decoded_patch(body: bytes, *, wanted: Kind | None = None) -> dict[str, Any]:
    """Decode a patch or, if its kind is given, an applied configuration."""
    try:
        patch = _decode(body)
    except (msgspec.MsgspecError, RecursionError):
        raise bad_request("error decoding patch: unexpected end of JSON input") from None
    if not isinstance(patch, dict):
        what = "json: cannot unmarshal array into Go value of type map[string]interface {}"
        raise bad_request(f"error decoding patch: {what}")
    if wanted is not None:
        _check_config(patch, wanted)
    return patch


def _check_config(config: dict[str, Any], wanted: Kind) -> None:
    named = config.get("apiVersion", ""), config.get("kind", "")
    if not all(named):
        raise bad_request("invalid object type: /, Kind=")
    checked_kind(wanted, config)
    if "managedFields" in (config.get("metadata") or {}):
        raise bad_request("metadata.managedFields must be nil")
    for name in config:
        if wanted.name in ("Node", "Pod", "Namespace") and name not in _TOP:
            what = f"failed to create typed patch object (/; /v1, Kind={wanted.name})"
            raise RefusalError(500, "", f"{what}: .{name}: field not declared in schema")


def delete_options(question: Question) -> DeleteOptions:
    body = _options(question.body) if question.body else {}
    grace = body.get("gracePeriodSeconds", question.query.get("gracePeriodSeconds"))
    preconditions = body.get("preconditions") or {}
    return DeleteOptions(
        grace_s=None if grace is None else int(grace),
        uid=preconditions.get("uid") or "",
        resource_version=preconditions.get("resourceVersion") or "",
    )


def _options(body: bytes) -> dict[str, Any]:
    if not body.startswith(protobuf.MAGIC):
        return decoded_patch(body)
    try:
        return protobuf.delete_options(body)
    except ValueError as error:
        raise bad_request(f"DeleteOptions that cannot be read: {error}") from None
