"""Calls and notices of prologs and placeholders. Source: the hooks server."""

from typing import Literal

from msgspec import Struct


class GateCall(Struct, frozen=True, gc=False):
    """A prolog asks whether a job may start on these nodes (L7). Source: hooks."""

    call: int
    """Number of the call in this process."""
    job_id: str
    slurm_nodes: tuple[str, ...]
    asked_s: float
    until_s: float


class LockCall(Struct, frozen=True, gc=False):
    """A prolog asks for the lock of the Nodes of these Slurm nodes (L1). Source: hooks."""

    call: int
    job_id: str
    slurm_nodes: tuple[str, ...]
    asked_s: float
    began_s: float
    """Since when the prolog asks: it asks again after each answer `wait`."""
    until_s: float
    strict: bool | None = None
    """Not even Pods that tolerate the lock may live there; None: if the job is a placeholder."""


class StopCall(Struct, frozen=True, gc=False):
    """A placeholder is ending and waits until its Pods are gone (L6). Source: hooks."""

    call: int
    job_id: str
    asked_s: float
    until_s: float


class CallEnded(Struct, frozen=True, gc=False):
    """A call was answered, or its caller went away. Source: hooks."""

    call: int


class JobNotice(Struct, frozen=True, gc=False):
    """Slurm or a placeholder sent a notice: read the job now (L6-L8). Source: hooks."""

    job_id: str
    what: Literal["starting", "started", "ended"]
    notified_at_s: float
