"""Scheduling of jobs: the queue, main and backfill cycles, preemption."""

from collections.abc import Container, Mapping, Sequence
from math import floor
from typing import Final

from msgspec.structs import replace

from sunk_sync.embedded.slurm.check import (
    impossible,
    invalid,
    is_ahead,
    is_kept_out,
    no_room,
    refused_now,
    wants_whole_partition,
)
from sunk_sync.embedded.slurm.fit import fitting, victims_of
from sunk_sync.embedded.slurm.lifecycle import Lifecycle
from sunk_sync.embedded.slurm.memory import Memory, pending
from sunk_sync.embedded.slurm.model.array import Target
from sunk_sync.embedded.slurm.model.job import ALIVE, Job, JobRequest
from sunk_sync.embedded.slurm.model.names import ranged
from sunk_sync.embedded.slurm.model.node import Node
from sunk_sync.embedded.slurm.model.release import (
    JOB_DONE,
    NO_CONFIGURATION,
    NOT_AVAILABLE,
    SlurmError,
)
from sunk_sync.embedded.slurm.model.timers import SlurmTimers

WEIGHTS: Final = 2**24
"""slurmctld compares weights modulo this (measured)."""
STARTS_MAX: Final = 100
"""Jobs that one cycle tries (default_queue_depth)."""
OUT_TEXT: Final = (
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
)


class Scheduler:
    def __init__(self, memory: Memory, timers: SlurmTimers) -> None:
        self._memory = memory
        self._timers = timers
        self.lifecycle = Lifecycle(memory, timers, look=self.look, look_late=self._look_late)
        self._tick_noted = self._backfill_noted = False
        self._blocked, self._reserved = set[str](), set[str]()
        """Partitions and nodes reserved for waiting jobs in this cycle."""

    def submit(self, request: JobRequest) -> int | SlurmError:
        error = invalid(request, self._memory, user=request.user)
        if error is not None:
            return error
        job = pending(request, self._memory)
        if not job.held and impossible(job, self._memory) is not None:
            return NO_CONFIGURATION
        self._memory.put_job(replace(job, state_reason=self._first_reason(job)))
        self.look()
        return job.job_id

    def allocate(self, request: JobRequest) -> int | SlurmError:
        """Start a job at once; a refused one leaves a FAILED record and still preempts others."""
        memory = self._memory
        error = invalid(request, memory, user=request.user)
        if error is not None:
            return error
        job = pending(request, memory)
        error = refused_now(job, memory, queue=self._queue())
        nodes = None if error is not None else fitting(request, self._nodes(job))
        if nodes is not None:
            self.lifecycle.start(job, nodes)
            return job.job_id
        if error is None:
            self._preempt_for(job)
        failed = replace(job, started_s=memory.now_s)
        self.lifecycle.finish(failed, "FAILED", reason="BadConstraints")
        return error or no_room(job, memory)

    def cancel(self, target: Target) -> SlurmError | None:
        job = target.job
        if job.state not in ALIVE:
            return JOB_DONE
        left = tuple(task for task in job.waiting_tasks if task != target.task)
        if target.task is None:
            reason = job.state_reason if job.state == "PENDING" else "None"
            self.lifecycle.finish(job, "CANCELLED", reason=reason)
        elif left:
            self._memory.put_job(replace(job, waiting_tasks=left))
        else:
            self.lifecycle.finish(replace(job, waiting_tasks=()), "CANCELLED")
        return None

    def look(self) -> None:
        """Plan the next cycle, because a job may be able to start."""
        if self._tick_noted or not any(job.state == "PENDING" for job in self._queue()):
            return
        self._tick_noted = True
        self._timers.note(self._next(self._memory.knobs.schedule_every_s), self._tick)

    def _look_late(self) -> None:
        if any(job.state == "PENDING" for job in self._memory.jobs.values()):
            self._note_backfill()

    def resume(self) -> None:
        self.lifecycle.resume()
        self.look()

    def _first_reason(self, job: Job) -> str:
        """Return the first pending reason of a new job, even if it starts in the next cycle."""
        if job.held:
            return "JobHeldUser"
        if any(is_ahead(each, job, memory=self._memory) for each in self._queue()):
            return "Priority"
        return "None" if fitting(job.request, self._nodes(job)) else "Resources"

    def _queue(self) -> list[Job]:
        return [job for job in self._memory.jobs.values() if job.state == "PENDING"]

    def _next(self, every_s: float) -> float:
        return (floor(self._memory.now_s / every_s) + 1) * every_s

    def _tick(self, now_s: float) -> None:
        del now_s
        self._tick_noted = False
        self._run(backfills=False)

    def _backfill(self, now_s: float) -> None:
        del now_s
        self._backfill_noted = False
        self._run(backfills=True)

    def _run(self, *, backfills: bool) -> None:
        """Try jobs by tier, priority and age; a waiting job reserves its nodes.

        The backfill starts every job that fits: the jobs before it wait for jobs without a time
        limit.
        """
        self._blocked, self._reserved = set[str](), set[str]()
        looked = 0
        for job in self._ready():
            rest: Job | None = job
            while rest is not None and looked < STARTS_MAX:
                looked += 1
                nodes = self._fitting(rest)
                if nodes is None:
                    self._wait(rest, keeps=not backfills)
                    break
                rest = self._started(rest, nodes)
        if looked >= STARTS_MAX:
            self.look()
        if self._blocked or self._reserved:
            self._note_backfill()

    def _fitting(self, job: Job) -> tuple[Node, ...] | None:
        if job.partition in self._blocked:
            return None
        nodes = self._nodes(job)
        if self._reserved:
            nodes = [node for node in nodes if node.name not in self._reserved]
        return fitting(job.request, nodes)

    def _started(self, job: Job, nodes: tuple[Node, ...]) -> Job | None:
        """Start a job; return the record of the remaining tasks. The last one keeps its id."""
        if not job.waiting_tasks:
            self.lifecycle.start(job, nodes)
            return None
        task, *more = job.waiting_tasks
        if not more:
            self.lifecycle.start(replace(job, task=task, waiting_tasks=()), nodes)
            return None
        number = self._memory.take_id()
        rest = replace(job, waiting_tasks=tuple(more))
        self._memory.put_job(rest)
        self.lifecycle.start(replace(job, job_id=number, task=task, waiting_tasks=()), nodes)
        return rest

    def _wait(self, job: Job, *, keeps: bool) -> None:
        """Set the pending reason, and reserve the nodes that the job waits for."""
        out = is_kept_out(job, self._memory)
        if out:
            down = [name for name in out if self._memory.nodes[name].base == "DOWN"]
            text = f"UnavailableNodes:{ranged(down)}" if down else "May be reserved for other job"
            return self._set_reason(job, "ReqNodeNotAvail", f"ReqNodeNotAvail, {text}")
        if job.partition in self._blocked:
            return self._set_reason(job, "Priority")
        if no_room(job, self._memory) == NOT_AVAILABLE:
            return self._set_reason(job, "Resources", OUT_TEXT)
        self._set_reason(job, "Resources")
        self._preempt_for(job)
        if keeps and wants_whole_partition(job):
            self._blocked.add(job.partition)
            self._reserved |= {node.name for node in self._nodes(job)}
        elif keeps:
            self._reserved |= set(job.request.required_nodes)
        return None

    def _set_reason(self, job: Job, reason: str, text: str = "") -> None:
        known = self._memory.jobs.get(job.job_id, job)
        if (known.state_reason, known.state_description) != (reason, text):
            changed = replace(known, state_reason=reason, state_description=text)
            self._memory.put_job(changed)

    def _preempt_for(self, job: Job) -> None:
        partitions = self._memory.partitions
        tier = partitions[job.partition].tier
        weak = {
            name
            for name, each in partitions.items()
            if each.tier < tier and each.preempt_mode != "OFF"
        }
        if not weak:
            return
        found = victims_of(job, self._nodes(job), running=self._running(weak))
        for victim in found or ():
            partition = partitions[victim.partition]
            if victim.preempted_s is None:
                mode, grace_s = partition.preempt_mode, partition.grace_s
                self.lifecycle.preempt(victim, mode=mode, grace_s=grace_s)

    def _running(self, partitions: Container[str]) -> Mapping[str, Sequence[Job]]:
        every = self._memory.jobs.values()
        jobs = [job for job in every if job.state == "RUNNING" and job.partition in partitions]
        jobs.sort(key=lambda job: (job.preempted_s is None, job.request.priority, job.job_id))
        found: dict[str, list[Job]] = {}
        for job in jobs:
            for name in job.nodes:
                found.setdefault(name, []).append(job)
        return found

    def _nodes(self, job: Job) -> Sequence[Node]:
        members = self._memory.members([job.partition])[job.partition]
        return sorted(members, key=_order)

    def _ready(self) -> Sequence[Job]:
        now_s, partitions = self._memory.now_s, self._memory.partitions
        ready = [
            job
            for job in self._queue()
            if not job.ending and job.request.priority and job.eligible_s <= now_s
        ]
        return sorted(
            ready,
            key=lambda job: (-partitions[job.partition].tier, -job.request.priority, job.job_id),
        )

    def _note_backfill(self) -> None:
        if not self._backfill_noted:
            self._backfill_noted = True
            self._timers.note(self._next(self._memory.knobs.backfill_every_s), self._backfill)


def _order(node: Node) -> int:
    return node.weight % WEIGHTS
