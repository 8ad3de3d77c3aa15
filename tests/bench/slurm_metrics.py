"""A pass of the metrics of Slurm over 10,000 jobs and 1,000 nodes, without the network."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, generate_latest

from sunk_sync.service import gc_pauses
from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse
from sunk_sync.slurm.api.requests import RecordStream, SlurmCall, Take
from sunk_sync.slurm.read.metrics import MetricsPoll, Rows, Show
from sunk_sync.slurm.read.pacing import Time
from sunk_sync.telemetry.slurm_metrics import SlurmGauges
from tests.bench.figures import Figure
from tests.slurm.recorded import recorded

JOBS, NODES = 10_000, 1_000
PIECE = 64 * 1024
"""Bytes that arrive at once."""
STEP_MAX_MS = 20.0
USERS = 150
EVERY_STATE = ("RUNNING", "PENDING", "COMPLETED", "FAILED")


def slurm_metrics() -> Iterator[Figure]:
    """CPU of a pass over 10,000 jobs and 1,000 nodes, of its longest step, and of a scrape."""
    slurm = RecordedSlurm()
    yield Figure("bytes of the jobs", len(slurm.bodies["jobs"]) / 1e6, "MB")
    yield from _measured(slurm, ())
    for figure in _measured(slurm, ("jobs", "nodes")):
        yield Figure(f"with series of single objects: {figure.what}", figure.value, figure.unit)


def _measured(slurm: "RecordedSlurm", rows: tuple[Rows, ...]) -> Iterator[Figure]:
    gauges = SlurmGauges()
    show = Show(
        jobs=gauges.show_jobs,
        nodes=gauges.show_nodes,
        scheduler=gauges.show_scheduler,
        took=lambda _: None,
    )
    clock = Time(clock=time.monotonic, sleep=asyncio.sleep, random=lambda: 0.0)
    poll = MetricsPoll(slurm, show, interval_s=30.0, rows=rows, time=clock)
    begun_s = time.process_time()
    with gc_pauses.in_pieces():
        longest_s = asyncio.run(_longest_step_s(poll))
    yield Figure("CPU of a pass", time.process_time() - begun_s, "s")
    yield Figure("CPU of the longest step of the loop", 1000 * longest_s, "ms", STEP_MAX_MS)
    registry = CollectorRegistry()
    registry.register(gauges)
    begun_s = time.process_time()
    text = generate_latest(registry)
    yield Figure("a scrape, in the loop", 1000 * (time.process_time() - begun_s), "ms", STEP_MAX_MS)
    begun_s = time.process_time()
    if (more := gauges.labelled()) is not None:
        text += generate_latest(more)
        yield Figure("a scrape, in a thread", time.process_time() - begun_s, "s")
    series = sum(not line.startswith(b"#") for line in text.splitlines())
    yield Figure("series", series, "")


async def _longest_step_s(poll: MetricsPoll) -> float:
    """Run one pass; return the longest CPU time between two steps of others."""
    task = asyncio.ensure_future(poll.poll())
    clock = time.thread_time
    longest_s, last_s = 0.0, clock()
    while not task.done():
        await asyncio.sleep(0)
        now_s = clock()
        longest_s, last_s = max(longest_s, now_s - last_s), now_s
    assert task.result() > 0
    return longest_s


class RecordedSlurm:
    """Answers with records of a real server, repeated."""

    def __init__(self) -> None:
        (job,) = msgspec.json.decode(recorded("26.05", "job-allocated"))["jobs"]
        (node, *_) = msgspec.json.decode(recorded("26.05", "nodes-3-idle"))["nodes"]
        jobs = [job | _varied(number) for number in range(JOBS)]
        nodes = [node | {"name": f"n{number}"} for number in range(NODES)]
        envelope: dict[str, Any] = {"meta": {}, "errors": []}
        self.bodies = {
            "jobs": msgspec.json.encode({"jobs": jobs, **envelope}),
            "nodes": msgspec.json.encode({"nodes": nodes, **envelope}),
        }

    async def call(self, call: SlurmCall) -> SlurmResponse | SlurmError:
        return _response(recorded("26.05", call.path.removesuffix("/")))

    async def read_records(
        self, call: SlurmCall, key: str, take: Take
    ) -> SlurmResponse | SlurmError:
        stream, body = RecordStream(key, take), self.bodies[key]
        for start in range(0, len(body), PIECE):
            failure = await stream.feed(body[start : start + PIECE], 0.0)
            assert failure is None, call
        envelope = await stream.finish(0.0)
        return envelope if isinstance(envelope, SlurmError) else _response(envelope)


def _varied(number: int) -> Mapping[str, Any]:
    user = number % USERS
    return {
        "job_id": number + 1,
        "job_state": [EVERY_STATE[number % len(EVERY_STATE)]],
        "user_name": f"user{user}",
        "account": f"account{user % 20}",
        "name": f"train-{number}",
    }


def _response(body: bytes) -> SlurmResponse:
    return SlurmResponse(body=body, version="v0.0.45", asked_s=0.0, answered_s=0.0)
