"""Decoder for the one protobuf body that kubectl sends: the DeleteOptions of `kubectl drain`."""

from collections.abc import Iterator

MAGIC = b"k8s\x00"
"""Prefix of every protobuf body. An envelope follows; its field 2 is the object."""
_RAW = 2
_GRACE, _PRECONDITIONS = 1, 2
_UID, _VERSION = 1, 2

Value = int | bytes


def _fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """Yield number and value of each field; ValueError if the bytes are no message."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        value, at = _varint(message, at)
        if wire == 0:
            yield number, value
        elif wire == 2 and at + value <= len(message):
            yield number, message[at : at + value]
            at += value
        else:
            raise ValueError(f"wire type {wire}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Decode a number; return it with the position after it."""
    value = shift = 0
    while at < len(message):
        byte = message[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return value, at
    raise ValueError("half a number")


def _nested(message: bytes, number: int) -> bytes:
    found = dict(_fields(message)).get(number, b"")
    return found if isinstance(found, bytes) else b""


def delete_options(body: bytes) -> dict[str, object]:
    """Return the DeleteOptions as JSON has them; ValueError if the body is malformed."""
    raw = _nested(body.removeprefix(MAGIC), _RAW)
    options: dict[str, object] = {}
    grace = dict(_fields(raw)).get(_GRACE)
    if isinstance(grace, int):
        options["gracePeriodSeconds"] = grace
    named = dict(_fields(_nested(raw, _PRECONDITIONS)))
    preconditions = {
        name: value.decode()
        for number, name in ((_UID, "uid"), (_VERSION, "resourceVersion"))
        if isinstance(value := named.get(number), bytes)
    }
    return {**options, "preconditions": preconditions} if preconditions else options
