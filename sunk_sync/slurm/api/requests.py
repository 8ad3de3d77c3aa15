"""What can be asked of slurmrestd: one request, and where a listing's elements go."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from sunk_sync.slurm.api.answers import SlurmError, read_envelope
from sunk_sync.slurm.api.json_stream import Cutter

CALL_S: Final = 15.0
"""That slurmctld is down is told after 9-10 s; a deadline below that would hide it."""
LISTING_S: Final = 20.0
"""Ten times what 10,000 nodes take; a server that hangs must be noticed well within a minute."""


def _always() -> bool:
    return True


class SlurmCall(Struct, frozen=True, kw_only=True):
    """One request below /slurm/{version}/."""

    method: str = "GET"
    path: str
    kind: str
    """The path with names replaced, for metrics: `node/{name}`."""
    query: Mapping[str, str] = {}
    body: bytes = b""
    bulk: bool = False
    """One of many: leaves connections free for what is urgent."""
    deadline_s: float = CALL_S
    wanted: Callable[[], bool] = _always
    """Asked each time before the call is sent: what it rests on may have changed meanwhile."""
    answered_since_s: float | None = None
    """Sent only where slurmctld answered later than in this second: without an answer nobody would
    know for seconds what the request did (decision 26). None: sent in any case."""

    @property
    def repeatable(self) -> bool:
        """Asking twice is asking once."""
        return self.method == "GET"


PING: Final = SlurmCall(path="ping/", kind="ping/")
PROBE: Final = SlurmCall(path="jobs/state/", kind="jobs/state/", query={"job_id": "1"})
"""Needs slurmctld, in 1 ms whether that job exists or not. A ping would also wait for a backup
controller that is switched off."""


def get_node(name: str, *, bulk: bool = False) -> SlurmCall:
    """Read one Slurm node."""
    return SlurmCall(path=f"node/{quote(name, safe='')}", kind="node/{name}", bulk=bulk)


def post_node(
    name: str, body: bytes, *, bulk: bool = False, wanted: Callable[[], bool] = _always
) -> SlurmCall:
    """Change one Slurm node."""
    path = f"node/{quote(name, safe='')}"
    return SlurmCall(
        method="POST", path=path, kind="node/{name}", body=body, bulk=bulk, wanted=wanted
    )


def post_nodes(body: bytes, *, wanted: Callable[[], bool] = _always) -> SlurmCall:
    """Change the Slurm nodes that the body names."""
    return SlurmCall(method="POST", path="nodes/", kind="nodes/", body=body, wanted=wanted)


def list_nodes(*, changed_since_s: int | None = None) -> SlurmCall:
    """List all Slurm nodes, or none if nothing changed since that second of slurmctld's clock."""
    query = {} if changed_since_s is None else {"update_time": str(changed_since_s)}
    return SlurmCall(path="nodes/", kind="nodes/", query=query, bulk=True, deadline_s=LISTING_S)


_BRIEF: Final = {"flags": "ALL"}
"""Without the map of cores, which takes most of a record; `nodes` stands there all the same."""


def get_job(job_id: str, *, bulk: bool = False) -> SlurmCall:
    """Read one job; of an array, by its own id, every task that has a record, and the rest."""
    path = f"job/{quote(job_id, safe='')}"
    return SlurmCall(path=path, kind="job/{id}", query=_BRIEF, bulk=bulk, deadline_s=LISTING_S)


def list_job_states(*, of: str = "") -> SlurmCall:
    """List every job's id and state, nothing else: 80 bytes each; or those of one job or array."""
    query = {"job_id": of} if of else {}
    return SlurmCall(
        path="jobs/state/", kind="jobs/state/", query=query, bulk=not of, deadline_s=LISTING_S
    )


def list_jobs(*, changed_since_s: int | None = None) -> SlurmCall:
    """List all jobs in full, 8 kB each; or none if not one changed since that second of slurmctld's
    clock.
    """
    query = dict(_BRIEF)
    if changed_since_s is not None:
        query["update_time"] = str(changed_since_s)
    return SlurmCall(path="jobs/", kind="jobs/", query=query, bulk=True, deadline_s=2 * LISTING_S)


def submit_job(body: bytes, *, since_s: float, wanted: Callable[[], bool] = _always) -> SlurmCall:
    """Make a job that waits for its turn; wanted since that second."""
    return _make_job("job/submit", body, since_s=since_s, wanted=wanted)


def allocate_job(body: bytes, *, since_s: float, wanted: Callable[[], bool] = _always) -> SlurmCall:
    """Make a job that runs at once or not at all; wanted since that second."""
    return _make_job("job/allocate", body, since_s=since_s, wanted=wanted)


def _make_job(path: str, body: bytes, *, since_s: float, wanted: Callable[[], bool]) -> SlurmCall:
    return SlurmCall(
        method="POST",
        path=path,
        kind=path,
        body=body,
        bulk=True,
        wanted=wanted,
        answered_since_s=since_s,
    )


def update_job(job_id: str, body: bytes, *, wanted: Callable[[], bool] = _always) -> SlurmCall:
    """Change a job; of an array the tasks that wait."""
    path = f"job/{quote(job_id, safe='')}"
    return SlurmCall(method="POST", path=path, kind="job/{id}", body=body, wanted=wanted)


def cancel_jobs(body: bytes) -> SlurmCall:
    """End the jobs that all filters of the body match."""
    return SlurmCall(method="DELETE", path="jobs/", kind="jobs/", body=body)


Take = Callable[[Sequence[bytes], float], Awaitable[SlurmError | None]]
"""Takes records of a listing and the second in which it was asked for; a failure stops it."""


class RecordStream:
    """Where the elements of the array `key` of an answer go."""

    def __init__(self, key: str, take: Take) -> None:
        self.begun = False
        """Something was handed over: asking again would hand it over twice."""
        self._key = key
        self._take = take
        self._cutter = Cutter(key)

    def restart(self) -> None:
        """A new answer begins."""
        self._cutter = Cutter(self._key)

    async def feed(self, piece: bytes, asked_s: float) -> SlurmError | None:
        """The next piece of the body. Raises CutError."""
        return await self._hand_over(self._cutter.feed(piece), asked_s)

    async def finish(self, asked_s: float) -> bytes | SlurmError:
        """The envelope. Raises CutError."""
        records, envelope = self._cutter.finish()
        failure = await self._hand_over(records, asked_s)
        if failure is None and not self._cutter.found:
            failure = self._why_missing(envelope)
        return failure or envelope

    async def _hand_over(self, records: Sequence[bytes], asked_s: float) -> SlurmError | None:
        if not records:
            return None
        self.begun = True
        failure = await self._take(records, asked_s)
        await asyncio.sleep(0)
        return failure

    def _why_missing(self, envelope: bytes) -> SlurmError:
        """An absent array proves nothing about its elements: never an empty listing."""
        read = read_envelope(envelope)
        if isinstance(read, SlurmError):
            return read
        return SlurmError("garbage", f"an answer without {self._key}")
