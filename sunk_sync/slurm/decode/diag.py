"""The scheduler's statistics, from GET /diag/: what sdiag shows."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from sunk_sync.core.model.slurm_metrics import Calls, SchedulerNumbers
from sunk_sync.slurm.api.answers import (
    UNREADABLE,
    Number,
    SlurmError,
    decoded,
    number_of,
    printable,
)
from sunk_sync.slurm.decode.job_record import label

TYPES_MAX: Final = 300
"""Slurm has about two hundred types of messages."""
_MICROSECOND: Final = 1e-6


class _WireCalls(Struct, frozen=True):
    message_type: str = ""
    count: int = 0
    average_time: Number = None
    """Microseconds."""


class _WireStatistics(Struct, frozen=True):
    server_thread_count: int | None = None
    agent_queue_size: int | None = None
    dbd_agent_queue_size: int | None = None
    schedule_cycle_last: int | None = None
    """Microseconds, as all durations here."""
    schedule_cycle_mean: int | None = None
    schedule_cycle_mean_depth: int | None = None
    schedule_cycle_per_minute: int | None = None
    bf_cycle_last: int | None = None
    bf_cycle_mean: int | None = None
    bf_depth_mean: int | None = None
    bf_backfilled_jobs: int | None = None
    bf_last_backfilled_jobs: int | None = None
    jobs_submitted: int | None = None
    jobs_started: int | None = None
    jobs_completed: int | None = None
    jobs_canceled: int | None = None
    jobs_failed: int | None = None
    jobs_pending: int | None = None
    jobs_running: int | None = None
    rpcs_by_message_type: list[_WireCalls] = []


class _WireDiag(Struct, frozen=True):
    statistics: _WireStatistics


_FIELDS: Final[Mapping[str, tuple[str, float]]] = {
    "queue": ("agent_queue_size", 1),
    "threads": ("server_thread_count", 1),
    "dbd_queue": ("dbd_agent_queue_size", 1),
    "cycle_last_seconds": ("schedule_cycle_last", _MICROSECOND),
    "cycle_mean_seconds": ("schedule_cycle_mean", _MICROSECOND),
    "cycle_mean_depth": ("schedule_cycle_mean_depth", 1),
    "cycles_per_minute": ("schedule_cycle_per_minute", 1),
    "backfill_cycle_last_seconds": ("bf_cycle_last", _MICROSECOND),
    "backfill_cycle_mean_seconds": ("bf_cycle_mean", _MICROSECOND),
    "backfill_depth_mean": ("bf_depth_mean", 1),
    "backfilled_jobs_total": ("bf_backfilled_jobs", 1),
    "backfilled_jobs_cycle_total": ("bf_last_backfilled_jobs", 1),
    "jobs_submitted": ("jobs_submitted", 1),
    "jobs_started": ("jobs_started", 1),
    "jobs_completed": ("jobs_completed", 1),
    "jobs_cancelled": ("jobs_canceled", 1),
    "jobs_failed": ("jobs_failed", 1),
    "jobs_pending": ("jobs_pending", 1),
    "jobs_running": ("jobs_running", 1),
}
"""Name of the metric after `slurm_scheduler_` → field and its unit."""
_diag = msgspec.json.Decoder(_WireDiag).decode


def read_diag(body: bytes) -> SchedulerNumbers | SlurmError:
    """Return what slurmctld tells; a field that it does not have is absent."""
    try:
        statistics = decoded(_diag, body).statistics
    except UNREADABLE as error:
        return SlurmError("garbage", printable(f"the statistics are unreadable: {error}"))
    values = {name: (getattr(statistics, field), unit) for name, (field, unit) in _FIELDS.items()}
    return SchedulerNumbers(
        values={name: value * unit for name, (value, unit) in values.items() if value is not None},
        calls={
            label(one.message_type): _calls(one)
            for one in statistics.rpcs_by_message_type[:TYPES_MAX]
        },
    )


def _calls(wire: _WireCalls) -> Calls:
    mean = number_of(wire.average_time)
    return Calls(wire.count, None if mean is None else mean * _MICROSECOND)
