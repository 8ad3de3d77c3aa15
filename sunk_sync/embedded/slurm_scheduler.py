"""The life of jobs: queued, started at a tick, ended, COMPLETING, forgotten."""

from collections.abc import Callable
from math import floor

from msgspec.structs import replace

from sunk_sync.embedded.slurm_agenda import Agenda
from sunk_sync.embedded.slurm_job import (
    Job,
    JobRequest,
    Start,
    needed_cpus,
    needed_memory_mb,
    plan_starts,
)
from sunk_sync.embedded.slurm_memory import Memory, pending
from sunk_sync.embedded.slurm_node import Node, without_reason
from sunk_sync.embedded.slurm_release import (
    INVALID_JOB,
    INVALID_NAME,
    INVALID_PARTITION,
    JOB_DONE,
    SlurmError,
)


class Scheduler:
    """Starts and ends jobs; the only one who writes to the table of jobs."""

    def __init__(self, memory: Memory, agenda: Agenda) -> None:
        self._memory = memory
        self._agenda = agenda
        self._tick_noted = False

    def submit(self, request: JobRequest) -> int | SlurmError:
        """A new job in the queue; its id."""
        job = pending(request, self._memory)
        if job.partition not in self._memory.partitions:
            return INVALID_PARTITION
        if not set(request.required_nodes) <= self._memory.nodes.keys():
            return INVALID_NAME
        self._memory.put_job(job)
        self.look()
        return job.job_id

    def cancel(self, job_id: int) -> SlurmError | None:
        """End it; a job that has ended is an error."""
        job = self._memory.jobs.get(job_id)
        if job is None:
            return INVALID_JOB
        if job.state not in ("PENDING", "RUNNING"):
            return JOB_DONE
        self._finish(job, "CANCELLED")
        return None

    def fail_node(self, name: str, *, reason: str = "NodeDown") -> None:
        """Its node is lost: every job there ends or waits again, on all its nodes at once."""
        for job in list(self._memory.jobs.values()):
            if name not in job.nodes:
                continue
            if job.state == "RUNNING":
                self._finish(job, "NODE_FAIL", reason=reason, at_once=True)
            elif job.ending:
                self._end(job.job_id, job.started_s)(self._memory.now_s)

    def look(self) -> None:
        """Something changed that may let a job start: look at the next tick."""
        if self._tick_noted or not any(job.state == "PENDING" for job in self._queue()):
            return
        self._tick_noted = True
        every_s = self._memory.knobs.schedule_every_s
        self._agenda.note((floor(self._memory.now_s / every_s) + 1) * every_s, self._tick)

    def resume(self) -> None:
        """After a start of slurmctld: what it knew of ends is to be noted anew."""
        self._tick_noted = False
        for job in self._memory.jobs.values():
            if job.state == "RUNNING":
                self._note_end(job)
            elif job.ending:
                self._agenda.note(self._memory.now_s, self._end(job.job_id, job.started_s))
        self.look()

    def _queue(self) -> list[Job]:
        return [job for job in self._memory.jobs.values() if job.state == "PENDING"]

    def _tick(self, now_s: float) -> None:
        del now_s
        self._tick_noted = False
        queue = self._queue()
        members = self._memory.members(job.partition for job in queue)
        starts, waiting = plan_starts(queue, members)
        for start in starts:
            self._start(start)
        for job in waiting:
            if job.state_reason != "Resources":
                self._memory.put_job(replace(job, state_reason="Resources"))

    def _start(self, start: Start) -> None:
        names = tuple(node.name for node in start.nodes)
        job = replace(
            start.job,
            state="RUNNING",
            state_reason="None",
            nodes=names,
            started_s=self._memory.now_s,
        )
        self._memory.put_job(job)
        for name in names:
            self._memory.put(without_reason(self._charged(self._memory.nodes[name], job, 1)))
        self._note_end(job)

    def _note_end(self, job: Job) -> None:
        if job.request.duration_s is None or job.started_s is None:
            return
        began_s = job.started_s

        def end(now_s: float) -> None:
            del now_s
            known = self._memory.jobs.get(job.job_id)
            if known is not None and known.state == "RUNNING" and known.started_s == began_s:
                self._finish(known, "COMPLETED")

        self._agenda.note(began_s + job.request.duration_s, end)

    def _finish(self, job: Job, state: str, *, reason: str = "None", at_once: bool = False) -> None:
        """It runs no more. `at_once`: nothing of it is left on its nodes."""
        ran = job.state == "RUNNING"
        again = state == "NODE_FAIL" and job.request.requeue
        self._memory.put_job(
            replace(
                job,
                state="PENDING" if again else state,
                state_reason="None" if again else reason,
                ending=ran and not at_once,
                nodes=() if again else job.nodes,
                restarts=job.restarts + again,
                ended_s=self._memory.now_s,
            )
        )
        for name in job.nodes if ran else ():
            self._release(name, job, ending=0 if at_once else 1)
        if ran and not at_once:
            due_s = self._memory.now_s + self._ending_s(job)
            self._agenda.note(due_s, self._end(job.job_id, job.started_s))
        self._note_forgetting(job.job_id)
        self.look()

    def _ending_s(self, job: Job) -> float:
        asked_s = job.request.ending_s
        longest_s = self._memory.knobs.kill_wait_s
        return min(self._memory.knobs.ending_s if asked_s is None else asked_s, longest_s)

    def _end(self, job_id: int, began_s: float | None) -> Callable[[float], None]:
        """Nothing of it is left on its nodes any more."""

        def end(now_s: float) -> None:
            del now_s
            job = self._memory.jobs.get(job_id)
            if job is None or not job.ending or job.started_s != began_s:
                return
            self._memory.put_job(replace(job, ending=False))
            for name in job.nodes:
                node = self._memory.nodes.get(name)
                if node is not None:
                    self._memory.put(replace(node, ending=max(node.ending - 1, 0)))
            self.look()

        return end

    def _release(self, name: str, job: Job, *, ending: int) -> None:
        node = self._memory.nodes.get(name)
        if node is not None:
            freed = self._charged(node, job, -1)
            self._memory.put(
                replace(freed, ending=freed.ending + ending, last_busy_s=self._memory.epoch_s)
            )

    def _charged(self, node: Node, job: Job, sign: int) -> Node:
        return replace(
            node,
            running=node.running + sign,
            cpus_used=node.cpus_used + sign * needed_cpus(job.request, node),
            memory_used_mb=node.memory_used_mb + sign * needed_memory_mb(job.request, node),
            last_busy_s=self._memory.epoch_s,
        )

    def _note_forgetting(self, job_id: int) -> None:
        def forget(now_s: float) -> None:
            job = self._memory.jobs.get(job_id)
            if job is None or job.ended_s is None or job.state in ("PENDING", "RUNNING"):
                return
            if now_s - job.ended_s >= self._memory.knobs.min_job_age_s:
                self._memory.drop_job(job_id)

        self._agenda.note(self._memory.now_s + self._memory.knobs.min_job_age_s, forget)
