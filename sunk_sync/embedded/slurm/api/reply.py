"""Response bodies of slurmrestd: payload, meta, errors, warnings; and their HTTP status."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from sunk_sync.embedded.slurm.api.body import Complaint, refusal
from sunk_sync.embedded.slurm.api.shapes import meta_shape, number
from sunk_sync.embedded.slurm.memory import Memory
from sunk_sync.embedded.slurm.model.release import NO_CONTROLLER, SlurmError
from sunk_sync.embedded.wire import Answer, Question

_STATUS: Final[Mapping[int, int]] = {0: 200, -1: 500, 1: 500, 1007: 511, 1800: 502, 2017: 404}
_PARSER: Final = range(9000, 9300)
"""Numbers of slurmrestd itself, sent with status 500."""
_FAILURES: Final = frozenset({11, 2187, 2189})
"""Numbers for which 26.05 has no status of its own, sent with status 500."""


class SlurmAnswer(Answer, frozen=True, kw_only=True):
    """A response, and how long slurmrestd takes for it.

    If `after_s` is above 0, slurmctld is down: ask again if it starts during that time.
    """

    after_s: float = 0.0


class RestCall(Struct, frozen=True):
    question: Question
    version: str
    name: str
    user: str
    unavailable: SlurmError | None


class Replies:
    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._release = memory.release
        self._metas: dict[tuple[str, str], msgspec.Raw] = {}
        self.modern = memory.setup.generation == "26.05"

    def text(self, status: int, words: str) -> SlurmAnswer:
        return SlurmAnswer(status=status, body=words.encode(), content_type="text/plain")

    def listed(
        self,
        asked: RestCall,
        key: str,
        *,
        records: Sequence[bytes],
        warnings: Sequence[Complaint] = (),
    ) -> SlurmAnswer:
        updated = b'"last_update":' + msgspec.json.encode(number(self._memory.epoch_s))
        if key == "jobs":
            updated = b'"last_backfill":' + msgspec.json.encode(number(0)) + b"," + updated
        parts = [b'{"', key.encode(), b'":[', b",".join(records), b"],", updated]
        told = msgspec.json.encode(warnings)
        tail = [b',"meta":', bytes(self._meta(asked)), b',"errors":[],"warnings":', told, b"}"]
        return SlurmAnswer(body=b"".join([*parts, *tail]))

    def with_payload(
        self,
        asked: RestCall,
        payload: Mapping[str, Any],
        *,
        errors: Sequence[Complaint] = (),
        warnings: Sequence[Complaint] = (),
        status: int = 0,
    ) -> SlurmAnswer:
        """Return a payload with or without errors; `status` 0: derive it from the errors."""
        shape = {**payload, "meta": self._meta(asked), "errors": errors, "warnings": warnings}
        return self._sent(asked, shape, status or self._status(errors))

    def without_payload(
        self,
        asked: RestCall,
        *,
        errors: Sequence[Complaint] = (),
        warnings: Sequence[Complaint] = (),
        status: int = 0,
    ) -> SlurmAnswer:
        """Return a response without payload; `status` 0: derive it from the errors."""
        shape = {"errors": errors, "warnings": warnings, "meta": self._meta(asked)}
        return self._sent(asked, shape, status or self._status(errors))

    def failed(self, asked: RestCall, error: SlurmError, *, text: str, source: str) -> SlurmAnswer:
        return self.without_payload(asked, errors=[refusal(error, text, source=source)])

    def unserved(self) -> SlurmAnswer:
        """The path, method or version is unknown."""
        if self.modern:
            return self.text(
                404,
                "Unable to find requested URL endpoint. Please query the '/openapi/v3' endpoint "
                "or visit 'https://slurm.schedmd.com/rest_api.html' for the OpenAPI "
                "specification which includes a list of all possible slurmrestd endpoints.",
            )
        missing = "Unable find requested URL. Please view /openapi/v3 for API reference."
        return self.text(404, missing)

    def unreadable_path(self) -> SlurmAnswer:
        """The path contains an invalid name."""
        if self.modern:
            return self.text(404, "Invalid or unknown URL path")
        return self.text(400, "Unable to parse URL path.")

    def unreadable_body(self) -> SlurmAnswer:
        """The body is no JSON."""
        return self.text(400, "Failure during parsing" if self.modern else "Unable to parse query.")

    def unreadable_type(self, kind: str) -> SlurmAnswer:
        """The body does not have content type JSON."""
        if not self.modern:
            return self.unreadable_body()
        if not kind:
            return self.text(500, "Unspecified error")
        return self.text(415, "MIME type is unknown to any loaded plugins")

    def _sent(self, asked: RestCall, shape: Mapping[str, Any], status: int) -> SlurmAnswer:
        late = asked.unavailable == NO_CONTROLLER and status >= 500
        after_s = self._release.gives_up_after_s if late else 0.0
        return SlurmAnswer(status=status, body=msgspec.json.encode(shape), after_s=after_s)

    def _status(self, errors: Sequence[Complaint]) -> int:
        if not errors:
            return 200
        first = errors[0]["error_number"]
        if first in _PARSER or first in _FAILURES:
            return 500
        return _STATUS.get(first, self._release.refused_status)

    def _meta(self, asked: RestCall) -> msgspec.Raw:
        key = (asked.version, asked.user)
        if key not in self._metas:
            shape = meta_shape(asked.version, memory=self._memory, user=asked.user)
            self._metas[key] = msgspec.Raw(msgspec.json.encode(shape))
        return self._metas[key]
