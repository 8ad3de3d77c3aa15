"""All requests to slurmrestd, and the stream of the elements of a listing."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from sunk_sync.slurm.api.answers import SlurmError, read_envelope
from sunk_sync.slurm.api.json_stream import Cutter

CALL_S: Final = 15.0
"""slurmrestd reports that slurmctld is down after 9-10 s; a shorter deadline would hide it."""
LISTING_S: Final = 20.0
"""Ten times what 10,000 nodes take, yet short enough to notice a server that hangs."""


def _always() -> bool:
    return True


class SlurmCall(Struct, frozen=True, kw_only=True):
    method: str = "GET"
    path: str
    kind: str
    """The path with placeholders for names, for metrics: `node/{name}`."""
    query: Mapping[str, str] = {}
    body: bytes = b""
    bulk: bool = False
    """One of many calls, which leave connections free for urgent calls."""
    deadline_s: float = CALL_S
    wanted: Callable[[], bool] = _always
    """Called before each attempt: the request may have become obsolete while it waited."""
    answered_since_s: float | None = None
    """Send only if slurmctld has answered since this second: else its effect would be unknown for
    seconds (decision 26). None: always send."""

    @property
    def repeatable(self) -> bool:
        """Whether sending it twice has the same effect as sending it once."""
        return self.method == "GET"


PING: Final = SlurmCall(path="ping/", kind="ping/")
PROBE: Final = SlurmCall(path="jobs/state/", kind="jobs/state/", query={"job_id": "1"})
"""slurmctld must answer this, in 1 ms, even if there is no such job. A ping would also wait for a
backup controller that is off."""
DIAG: Final = SlurmCall(path="diag/", kind="diag/", bulk=True)
"""Statistics of the scheduler and of the calls to slurmctld."""


def get_node(name: str, *, bulk: bool = False) -> SlurmCall:
    return SlurmCall(path=f"node/{quote(name, safe='')}", kind="node/{name}", bulk=bulk)


def post_node(
    name: str, body: bytes, *, bulk: bool = False, wanted: Callable[[], bool] = _always
) -> SlurmCall:
    path = f"node/{quote(name, safe='')}"
    return SlurmCall(
        method="POST", path=path, kind="node/{name}", body=body, bulk=bulk, wanted=wanted
    )


def post_nodes(body: bytes, *, wanted: Callable[[], bool] = _always) -> SlurmCall:
    """Change the Slurm nodes that the body names."""
    return SlurmCall(method="POST", path="nodes/", kind="nodes/", body=body, wanted=wanted)


def delete_node(name: str) -> SlurmCall:
    """Delete the record of a dynamic node."""
    path = f"node/{quote(name, safe='')}"
    return SlurmCall(method="DELETE", path=path, kind="node/{name}")


def list_nodes(*, changed_since_s: int | None = None) -> SlurmCall:
    """List all Slurm nodes; none if nothing changed since that second of slurmctld."""
    query = {} if changed_since_s is None else {"update_time": str(changed_since_s)}
    return SlurmCall(path="nodes/", kind="nodes/", query=query, bulk=True, deadline_s=LISTING_S)


_BRIEF: Final = {"flags": "ALL"}
"""Omits the map of cores, the largest part of a record. `nodes` is still present."""


def get_job(job_id: str, *, bulk: bool = False) -> SlurmCall:
    """Read one job. The id of an array gives its waiting tasks, and tasks that have a record."""
    path = f"job/{quote(job_id, safe='')}"
    return SlurmCall(path=path, kind="job/{id}", query=_BRIEF, bulk=bulk, deadline_s=LISTING_S)


def list_job_states(*, of: str = "") -> SlurmCall:
    """List id and state of all jobs, 80 bytes each, or of one job or array."""
    query = {"job_id": of} if of else {}
    return SlurmCall(
        path="jobs/state/", kind="jobs/state/", query=query, bulk=not of, deadline_s=LISTING_S
    )


def list_jobs(*, changed_since_s: int | None = None) -> SlurmCall:
    """List all jobs in full, 8 kB each; none if nothing changed since that second of slurmctld."""
    query = dict(_BRIEF)
    if changed_since_s is not None:
        query["update_time"] = str(changed_since_s)
    return SlurmCall(path="jobs/", kind="jobs/", query=query, bulk=True, deadline_s=2 * LISTING_S)


def list_partitions() -> SlurmCall:
    """List all partitions, less than a kilobyte each."""
    return SlurmCall(path="partitions/", kind="partitions/", bulk=True)


def submit_job(body: bytes, *, since_s: float, wanted: Callable[[], bool] = _always) -> SlurmCall:
    """Submit a job to the queue; `since_s`: when it was first desired."""
    return _make_job("job/submit", body, since_s=since_s, wanted=wanted)


def allocate_job(body: bytes, *, since_s: float, wanted: Callable[[], bool] = _always) -> SlurmCall:
    """Allocate a job that runs at once or not at all; `since_s`: when it was first desired."""
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
    """Update a job, or the waiting tasks of an array."""
    path = f"job/{quote(job_id, safe='')}"
    return SlurmCall(method="POST", path=path, kind="job/{id}", body=body, wanted=wanted)


def cancel_jobs(body: bytes) -> SlurmCall:
    """Cancel the jobs that match all filters of the body."""
    return SlurmCall(method="DELETE", path="jobs/", kind="jobs/", body=body)


def requeue_jobs(body: bytes) -> SlurmCall:
    """Requeue running jobs: they end and wait again."""
    return SlurmCall(method="POST", path="jobs/requeue", kind="jobs/requeue", body=body)


def set_reservation(body: bytes) -> SlurmCall:
    """Make the reservation that the body names, or change it."""
    return SlurmCall(method="POST", path="reservation", kind="reservation", body=body)


def end_reservation(name: str) -> SlurmCall:
    path = f"reservation/{quote(name, safe='')}"
    return SlurmCall(method="DELETE", path=path, kind="reservation/{name}")


Take = Callable[[Sequence[bytes], float], Awaitable[SlurmError | None]]
"""Takes records of a listing and the second of its request; an error stops the listing."""


class RecordStream:
    """Passes the elements of the array `key` of an answer to `take`."""

    def __init__(self, key: str, take: Take) -> None:
        self.begun = False
        """Elements were passed on: a repeated call would pass them on twice."""
        self._key = key
        self._take = take
        self._cutter = Cutter(key)

    def restart(self) -> None:
        self._cutter = Cutter(self._key)

    async def feed(self, piece: bytes, asked_s: float) -> SlurmError | None:
        """Read the next piece of the body. Raise CutError."""
        return await self._pass_on(self._cutter.feed(piece), asked_s)

    async def finish(self, asked_s: float) -> bytes | SlurmError:
        """End the body and return the envelope. Raise CutError."""
        records, envelope = self._cutter.finish()
        failure = await self._pass_on(records, asked_s)
        if failure is None and not self._cutter.found:
            failure = self._why_missing(envelope)
        return failure or envelope

    async def _pass_on(self, records: Sequence[bytes], asked_s: float) -> SlurmError | None:
        if not records:
            return None
        self.begun = True
        failure = await self._take(records, asked_s)
        await asyncio.sleep(0)
        return failure

    def _why_missing(self, envelope: bytes) -> SlurmError:
        """Return the error for an absent array, which must not count as an empty listing."""
        read = read_envelope(envelope)
        if isinstance(read, SlurmError):
            return read
        return SlurmError("garbage", f"the answer has no {self._key}")
