"""A record of a listing of jobs, as far as the metrics need it."""

import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec
from msgspec import Struct

from sunk_sync.slurm.api.answers import Number, decoded, printable

TEXT_MAX = 256
_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?").fullmatch


class JobRecord(Struct, frozen=True):
    job_id: int = 0
    job_state: list[str] | str | None = None
    state_reason: str | None = None
    partition: str | None = None
    features: str | None = None
    account: str | None = None
    user_name: str | None = None
    user_id: int = 0
    name: str | None = None
    node_count: Number = None
    cpus: Number = None
    start_time: Number = None
    """Of a pending job: when Slurm expects the start."""
    priority: Number = None
    array_job_id: Number = None
    array_task_string: str | None = None
    tres_alloc_str: str | None = None
    tres_per_job: str | None = None
    tres_per_node: str | None = None
    tres_per_socket: str | None = None
    tres_per_task: str | None = None
    tasks: Number = None


_record = msgspec.json.Decoder(JobRecord).decode


def read_record(record: bytes) -> JobRecord:
    """Decode an element of a listing of jobs. Raise UNREADABLE."""
    return decoded(_record, record)


@lru_cache(maxsize=4096)
def label(text: str) -> str:
    """Return a text of users as the value of a label: printable, and bounded."""
    return printable(text)[:TEXT_MAX]


def tasks_in(text: str) -> int:
    """Return the number of waiting tasks in `0-9:3,12%2`; 1 for a job without tasks.

    Slurm cuts long lists short, with `...`; what follows is not counted.
    """
    if not text:
        return 1
    parts: Sequence[str] = text.partition("%")[0].split(",")
    return max(1, sum(_tasks_in_range(part) for part in parts))


def _tasks_in_range(text: str) -> int:
    match = _RANGE(text)
    if match is None:
        return 0
    first, last, step = (int(one) if one else None for one in match.groups())
    if first is None or last is None:
        return 1
    return max(0, last - first) // max(1, step or 1) + 1
