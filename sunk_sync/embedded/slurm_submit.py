"""What is read of a submitted job: enough for the jobs that a syncer sees."""

import re
from math import inf
from typing import Any

import msgspec

from sunk_sync.embedded.slurm_job import JobRequest

_sleep = re.compile(r"sleep\s+([0-9.]+)").search


def read_job(content: bytes, *, user: str) -> JobRequest | None:
    """`{"script": …, "job": {…}}` as a request; None: no such JSON.

    Read are name, partition, nodes, cpus_per_task times tasks, memory_per_node, shared,
    required_nodes, constraints, requeue, priority, comment and extra. How long it runs is told by
    the first `sleep N` of the script; without one, until it is cancelled. A script with
    `trap '' TERM` holds its node until KillWait is over.
    """
    try:
        given = msgspec.json.decode(content)
        job = given["job"]
        return _request(job, str(given.get("script") or job.get("script") or ""), user)
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError):
        return None


def _request(job: dict[str, Any], script: str, user: str) -> JobRequest:
    stubborn = "trap '' TERM" in script
    slept = None if stubborn else _sleep(script)
    return JobRequest(
        name=str(job.get("name", "")),
        user=user,
        partition=str(job.get("partition", "")),
        nodes=int(str(job.get("nodes", 1)).partition("-")[0]),
        cpus=_number(job.get("cpus_per_task"), 1) * _number(job.get("tasks"), 1),
        memory_mb=_number(job.get("memory_per_node"), 0),
        exclusive=job.get("shared") == ["none"],
        required_nodes=tuple(job.get("required_nodes", ())),
        features=tuple(filter(None, str(job.get("constraints", "")).split("&"))),
        ending_s=inf if stubborn else None,
        duration_s=float(slept.group(1)) if slept else None,
        requeue=bool(job.get("requeue", True)),
        priority=_number(job.get("priority"), 1),
        comment=str(job.get("comment", "")),
        extra=str(job.get("extra", "")),
    )


def _number(given: Any, default: int) -> int:
    if isinstance(given, dict):
        given = given.get("number") if given.get("set") else None
    return default if given is None else int(given)
