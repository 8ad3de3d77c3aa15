"""Cut a big JSON answer into the elements of one of its arrays while it arrives.

The answer is one object, `{"nodes": [{…}, {…}], "errors": [], …}`. Elements are passed on as raw
bytes, so the whole body is never in memory. The envelope around them is small and comes last. The
decoders of elements and envelope check that they are JSON. A body that ends early, continues after
its end or has another shape never counts as complete.

The fast way to find the end of an element (600 MB/s) takes the next `},{` and decodes everything
before it: no prefix of an object is an object, so success proves the cut. The slow way (110 MB/s)
counts brackets with one pattern that never backtracks. It is for the last element so far, and for
elements with arrays of objects inside.
"""

import re
from collections.abc import Callable
from typing import Final

import msgspec

from sunk_sync.slurm.api.answers import UNREADABLE

MEBIBYTE: Final = 1 << 20

_DEPTH_MAX: Final = 32
_WHITE: Final = rb"[ \t\r\n]*+"
_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_OTHER: Final = rb'[^"{}\[\]]*+'
_SCALAR: Final = rb'[^ \t\r\n,:"\[\]{}]++'


def _bracketed(depth: int) -> bytes:
    """Return a pattern of balanced brackets of at most `depth` levels, without those in strings."""
    inner = _STRING
    for _ in range(depth):
        pattern = rb"[{\[]" + _OTHER + rb"(?:(?:" + inner + rb")" + _OTHER + rb")*+[}\]]"
        inner = _STRING + rb"|" + pattern
    return pattern


_VALUE: Final = rb"(" + _bracketed(_DEPTH_MAX) + rb"|" + _STRING + rb"|" + _SCALAR + rb")"

_object = re.compile(_WHITE + rb"\{").match
_key = re.compile(_WHITE + rb"(" + _STRING + rb")" + _WHITE + rb":" + _WHITE, re.DOTALL).match
_value = re.compile(_WHITE + _VALUE + _WHITE + rb"([,}])", re.DOTALL).match
_element = re.compile(_WHITE + _VALUE + _WHITE + rb"([,\]])", re.DOTALL).match
_seam = re.compile(rb"\}" + _WHITE + rb"," + _WHITE + rb"\{").search
_white = re.compile(_WHITE).match
_is_json = msgspec.json.Decoder(msgspec.Raw).decode


class CutError(Exception):
    """The body has another shape. The text names the reason."""


class TooLargeError(CutError):
    """A record, the envelope or the whole body is larger than allowed."""


class Cutter:
    """Cuts one body that arrives in pieces of any size.

    `key` names the array. An element may have `record_max` bytes, and so may the envelope. Do not
    use the cutter after a CutError.
    """

    def __init__(
        self, key: str, *, body_max: int = 512 * MEBIBYTE, record_max: int = 4 * MEBIBYTE
    ) -> None:
        self.found = False
        """The array was found; a body without it proves nothing about its elements."""
        self._name = b'"' + key.encode() + b'"'
        self._body_max = body_max
        self._record_max = record_max
        self._received = 0
        self._buffer = b""
        self._wait_for = 0
        self._members: list[bytes] = []
        self._records: list[bytes] = []
        self._step: Step = Cutter._start
        """Unbound: only the GC frees an object that refers to its own method."""

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the elements that this piece completes. Raise CutError."""
        self._received += len(piece)
        if self._received > self._body_max:
            raise TooLargeError(f"the body is larger than {self._body_max} bytes")
        self._buffer += piece
        if len(self._buffer) >= self._wait_for:
            self._cut()
        records, self._records = self._records, []
        return records

    def finish(self) -> tuple[list[bytes], bytes]:
        """Return the last elements and the envelope, which is the object without the array.

        Raise CutError if the body is incomplete.
        """
        self._cut()
        if self._step is not Cutter._ended or self._buffer.strip(b" \t\r\n"):
            start = self._buffer[:40].decode(errors="replace")
            raise CutError(f"the body is incomplete or not a JSON object, at {start!r}")
        return self._records, b"{" + b",".join(self._members) + b"}"

    def _cut(self) -> None:
        position = 0
        while (end := self._step(self, position)) is not None:
            position = end
        self._buffer = self._buffer[position:]
        if len(self._buffer) > self._record_max:
            raise TooLargeError(f"one part of the body is larger than {self._record_max} bytes")
        self._wait_for = 2 * len(self._buffer) if len(self._buffer) > MEBIBYTE // 4 else 0

    def _start(self, position: int) -> int | None:
        if (match := _object(self._buffer, position)) is None:
            return None
        self._step = Cutter._first_member
        return match.end()

    def _first_member(self, position: int) -> int | None:
        return self._unless_closed(position, b"}", otherwise=Cutter._member)

    def _first_element(self, position: int) -> int | None:
        return self._unless_closed(position, b"]", otherwise=Cutter._next_element)

    def _unless_closed(self, position: int, close: bytes, *, otherwise: "Step") -> int | None:
        """Skip white space, and skip `close` if the object or array is empty."""
        position = self._skip_white(position)
        if position == len(self._buffer):
            return None
        if self._buffer[position : position + 1] != close:
            self._step = otherwise
            return position
        self._step = Cutter._ended if close == b"}" else Cutter._after_array
        return position + 1

    def _member(self, position: int) -> int | None:
        match = _key(self._buffer, position)
        if match is None or match.end() == len(self._buffer):
            return None
        if match.group(1) == self._name and self._buffer[match.end()] == ord("["):
            return self._enter_array(match.end())
        value = _value(self._buffer, match.end())
        if value is None:
            return None
        self._keep(self._buffer[match.start(1) : value.end(1)])
        self._step = Cutter._ended if value.group(2) == b"}" else Cutter._member
        return value.end()

    def _enter_array(self, position: int) -> int:
        if self.found:
            raise CutError(f"the body has two arrays {self._name.decode()}")
        self.found = True
        self._step = Cutter._first_element
        return position + 1

    def _keep(self, member: bytes) -> None:
        self._members.append(member)
        if sum(map(len, self._members)) > self._record_max:
            raise TooLargeError(f"the envelope is larger than {self._record_max} bytes")

    def _next_element(self, position: int) -> int | None:
        return self._cut_at_seam(self._skip_white(position)) or self._cut_by_brackets(position)

    def _cut_at_seam(self, position: int) -> int | None:
        seam = _seam(self._buffer, position)
        if seam is None or self._buffer[position] != ord("{"):
            return None
        record = self._buffer[position : seam.start() + 1]
        try:
            _is_json(record)
        except UNREADABLE:
            return None
        self._records.append(record)
        return seam.end() - 1

    def _cut_by_brackets(self, position: int) -> int | None:
        match = _element(self._buffer, position)
        if match is None:
            return None
        self._records.append(match.group(1))
        self._step = Cutter._after_array if match.group(2) == b"]" else Cutter._next_element
        return match.end()

    def _after_array(self, position: int) -> int | None:
        position = self._skip_white(position)
        follower = self._buffer[position : position + 1]
        if follower == b",":
            self._step = Cutter._member
        elif follower == b"}":
            self._step = Cutter._ended
        return position + 1 if follower in (b",", b"}") and follower else None

    def _ended(self, position: int) -> int | None:
        del position
        return None

    def _skip_white(self, position: int) -> int:
        match = _white(self._buffer, position)
        return match.end() if match else position


Step = Callable[[Cutter, int], int | None]
"""Reads the buffer from a position; returns where the next step starts, or None: need more."""
