"""Decode jobs to facts, for every supported API version.

A job array of sunk-sync has one task for each Pod. Slurm keeps one record with the array's id for
all waiting tasks, and one with an id of its own for each task that has started. The last task to
start takes over the array's record. Here a task is always called `<array id>_<task>`: this id never
changes, and Slurm accepts it in a cancel. /jobs/state calls it so only while it waits, and `<own
id>_<task>` later (v0.0.40: always as here).

The identity of a task is that of its Pod: `workload` as if the Pod had its own job, `uids` with one
element, no `pods`. The job keeps the array's name. In the array's list of UIDs a `-` before a UID
marks its task as replaced (P17), because waiting tasks have no text of their own.
"""

import re
import sys
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sunk_sync.core.model.facts import Job
from sunk_sync.core.model.job_identity import Identity, read_identity, workload_id
from sunk_sync.core.translate.hostlist import HostlistError, expand
from sunk_sync.slurm.api.answers import (
    UNREADABLE,
    Number,
    SlurmError,
    decoded,
    number_of,
    printable,
)
from sunk_sync.slurm.decode.nodes import state_of

States = frozenset[str]

NO_SUCH_JOB: Final = 2017
ALREADY_ENDED: Final = (2021, 2084)
STARTED: Final = ": started"
"""The script appends this to `extra` (P24)."""
_PROLOG_FAILED: Final = 4022 & 0x7F
"""slurmctld takes the error number ESLURMD_PROLOG_FAILED for a status of wait(2)."""
_WITHDRAWN: Final = frozenset({"CANCELLED"})
_REPLACED: Final = "-"
_REASON_KEPT: Final = 256
_number = re.compile(r"([0-9]{1,19})(?:[_+].*)?", re.DOTALL).fullmatch


class _WireSignal(Struct, frozen=True):
    id: Number = None


class _WireExit(Struct, frozen=True):
    status: list[str] | str | None = None
    signal: _WireSignal | None = None


class _WireJob(Struct, frozen=True):
    job_id: int
    name: str | None = None
    admin_comment: str | None = None
    command: str | None = None
    user_id: int = 0
    user_name: str | None = None
    job_state: list[str] | str | None = None
    state_reason: str | None = None
    nodes: str | None = None
    submit_time: Number = None
    preempt_time: Number = None
    array_job_id: Number = None
    array_task_id: Number = None
    batch_flag: bool | None = None
    restart_cnt: int | None = None
    extra: str | None = None
    exit_code: _WireExit | None = None
    cpus: Number = None
    memory_per_node: Number = None


class _WireState(Struct, frozen=True):
    job_id: str | int
    state: list[str] | str | None = None


class _WireReason(Struct, frozen=True):
    job_id: int
    job_state: list[str] | str | None = None
    state_reason: str | None = None
    array_job_id: Number = None
    array_task_id: Number = None


class Reason(Struct, frozen=True, gc=False):
    text: str
    array: int
    """Id of the array, or 0."""
    listed_ids: tuple[str, ...]
    """Ids of the record in /jobs/state; empty: it stands for all waiting tasks of the array."""


class JobRecord(Struct, frozen=True, kw_only=True, gc=False):
    """One record of Slurm: a job, a task of an array, or the waiting tasks of an array."""

    number: int
    """The job id of the record."""
    array: int = 0
    """Id of the array, or 0."""
    task: int | None = None
    """Number in the array; None for the waiting tasks, and without an array."""
    identity: Identity | None = None
    """As in its admin_comment; for an array the whole identity. `JobOwners.owned` completes it."""
    given: Identity | None = None
    """As in its command line, since the submission."""
    user_id: int = 0
    user_name: str = ""
    signalled: bool = False
    prolog_failed: bool = False
    overwritten: bool = False
    """As in Job."""
    name: str = ""
    state: States
    slurm_nodes: tuple[str, ...] = ()
    reason: str = ""
    submitted_at: int = 0
    script: bool = False
    started: bool = False
    preempted_at: int = 0
    requeued: bool = False
    cpus: int = 0
    memory_mb: int = 0


class JobState(Struct, frozen=True, gc=False):
    """One line of /jobs/state."""

    listed_id: str
    """`12`, `12_3`, `12_*` (an array without tasks left) or `12+1` (heterogeneous, of other users).
    """
    state: States


_job = msgspec.json.Decoder(_WireJob).decode
_state = msgspec.json.Decoder(_WireState).decode
_reason = msgspec.json.Decoder(_WireReason).decode


def read_job(record: bytes) -> JobRecord | SlurmError:
    """Decode an element of the array `jobs` of GET /job/{id} or /jobs/."""
    try:
        return _record(decoded(_job, record))
    except (*UNREADABLE, HostlistError) as error:
        return SlurmError("garbage", printable(f"a job is unreadable: {error}"))


def read_state(record: bytes) -> JobState | SlurmError:
    """Decode an element of /jobs/state."""
    try:
        wire = decoded(_state, record)
    except UNREADABLE as error:
        return SlurmError("garbage", printable(f"the state of a job is unreadable: {error}"))
    listed_id = str(wire.job_id)
    if not number_in(listed_id):
        return SlurmError("garbage", printable(f"the state of a job has no id: {listed_id!r}"))
    return JobState(listed_id, state_of(wire.state))


def read_reason(record: bytes) -> Reason | None:
    """Decode why a job waits; None if it does not wait or is unreadable."""
    try:
        wire = decoded(_reason, record)
    except UNREADABLE:
        return None
    if "PENDING" not in state_of(wire.job_state):
        return None
    text = _reason_of(wire.state_reason)
    array = int(number_of(wire.array_job_id) or 0)
    task = number_of(wire.array_task_id)
    if not array:
        return Reason(text, 0, (str(wire.job_id),))
    if task is None:
        return Reason(text, array, ())
    return Reason(text, array, (f"{wire.job_id}_{int(task)}", f"{array}_{int(task)}"))


def number_in(job_id: str) -> str:
    """Return the record number in a job id: `12` in `12_3`, or empty."""
    match = _number(job_id)
    return match.group(1) if match else ""


def job_of(record: JobRecord, task: int | None = None) -> Job | None:
    """Return the job of a record, or one task of it; None: not a job of sunk-sync.

    The caller checks cluster and scheduler of the identity.
    """
    task = record.task if record.task is not None else task
    identity = record.identity
    if record.array and identity is not None:
        identity = None if task is None else task_identity(identity, task)
    if identity is None:
        return None
    return Job(
        job_id=str(record.number) if not record.array else f"{record.array}_{task}",
        name=record.name,
        identity=identity,
        state=record.state,
        slurm_nodes=record.slurm_nodes,
        reason=record.reason,
        submitted_at=record.submitted_at,
        script=record.script,
        started=record.started,
        preempted_at=record.preempted_at,
        requeued=record.requeued,
        cpus=record.cpus,
        memory_mb=record.memory_mb,
        signalled=record.signalled,
        prolog_failed=record.prolog_failed,
        overwritten=record.overwritten,
    )


def is_same_work(one: Identity, other: Identity) -> bool:
    """Whether two identities name the same Pods of the same installation."""
    return _work_of(one) == _work_of(other)


def _work_of(identity: Identity) -> tuple[object, ...]:
    uids = tuple(uid.removeprefix(_REPLACED) for uid in identity.uids)
    return identity.cluster, identity.scheduler, identity.workload, identity.pods, uids


def task_identity(array: Identity, task: int) -> Identity | None:
    """Return the identity of one task; None if the array has no such task."""
    if not 0 <= task < len(array.uids):
        return None
    text = array.uids[task]
    uid = text.removeprefix(_REPLACED)
    return replace(
        array,
        workload=workload_id([uid]),
        uids=(uid,),
        replaced=array.replaced or text != uid,
    )


def withdrawn(record: JobRecord, task: int) -> Job | None:
    """Return a task that was cancelled while it waited. Slurm keeps no record of it."""
    shared = replace(
        record,
        task=None,
        state=_WITHDRAWN,
        slurm_nodes=(),
        reason="",
        started=False,
        preempted_at=0,
    )
    return job_of(shared, task)


def with_replaced(array: Identity, tasks: frozenset[int]) -> Identity:
    """Return the identity of the array, with these tasks marked as replaced."""
    marked = (
        _REPLACED + uid.removeprefix(_REPLACED) if task in tasks else uid
        for task, uid in enumerate(array.uids)
    )
    return replace(array, uids=tuple(marked))


def _record(wire: _WireJob) -> JobRecord:
    array = int(number_of(wire.array_job_id) or 0)
    task = number_of(wire.array_task_id) if array else None
    nodes = expand(wire.nodes or "")
    signal = _signal_in(wire.exit_code)
    return JobRecord(
        number=wire.job_id,
        array=array,
        task=None if task is None else int(task),
        identity=read_identity(wire.admin_comment or ""),
        given=read_identity(wire.command or ""),
        user_id=wire.user_id,
        user_name=wire.user_name or "",
        name=wire.name or "",
        state=state_of(wire.job_state),
        slurm_nodes=tuple(map(sys.intern, nodes)),
        reason=_reason_of(wire.state_reason),
        submitted_at=int(number_of(wire.submit_time) or 0),
        script=bool(wire.batch_flag),
        started=STARTED in (wire.extra or ""),
        preempted_at=int(number_of(wire.preempt_time) or 0),
        requeued=bool(wire.restart_cnt),
        signalled=signal not in (None, _PROLOG_FAILED),
        prolog_failed=signal == _PROLOG_FAILED,
        cpus=int(number_of(wire.cpus) or 0) // max(1, len(nodes)),
        memory_mb=int(number_of(wire.memory_per_node) or 0),
    )


def _signal_in(code: _WireExit | None) -> int | None:
    """Return the number of the signal in an exit status, 0 if it is not known."""
    if code is None or "SIGNALED" not in state_of(code.status):
        return None
    return int(number_of(code.signal.id) or 0) if code.signal is not None else 0


def _reason_of(text: str | None) -> str:
    return "" if text in (None, "None") else sys.intern(printable(text or "")[:_REASON_KEPT])
