"""Lifecycle of a job, from its start until slurmctld forgets it."""

from collections.abc import Callable, Iterable, Sequence
from math import ceil
from typing import Final

from msgspec.structs import replace

from sunk_sync.embedded.slurm.fit import charged, gres_on, run_on, without
from sunk_sync.embedded.slurm.memory import Memory
from sunk_sync.embedded.slurm.model.job import ALIVE, ON_NODES, Job, JobRequest, has_script
from sunk_sync.embedded.slurm.model.node import Node, without_reason
from sunk_sync.embedded.slurm.model.timers import SlurmTimers

REQUEUE_WAIT_S: Final = 120.0
"""A requeued job is not eligible before this time."""


class Lifecycle:
    """Starts and ends jobs.

    It calls `look` when nodes may be free, and `look_late` if only the backfill notices that, as at
    the end of an EXTERNAL_JOB.
    """

    def __init__(
        self,
        memory: Memory,
        timers: SlurmTimers,
        *,
        look: Callable[[], None],
        look_late: Callable[[], None],
    ) -> None:
        self._memory = memory
        self._timers = timers
        self._look = look
        self._look_late = look_late
        self._began_s = memory.now_s

    def start(self, job: Job, nodes: tuple[Node, ...]) -> None:
        """Allocate the nodes; the job begins after the gate has released it."""
        memory = self._memory
        job = replace(
            job,
            state="RUNNING",
            state_reason="None",
            state_description="",
            configuring=memory.knobs.prolog_slurmctld,
            nodes=tuple(node.name for node in nodes),
            gres=tuple(gres_on(job.request, node, used=node.gres_used) or () for node in nodes),
            started_s=memory.now_s,
            ended_s=None,
            preempted_s=None,
            ends_by_s=None,
        )
        memory.put_job(job)
        for node in nodes:
            busy = replace(charged(node, job, sign=1), last_busy_s=memory.epoch_s)
            memory.put(without_reason(busy))
        self.note_limit(job)
        if job.configuring:
            memory.calls.add("gate", job)
        else:
            self._begin(job)

    def release_gate(self, job: Job, *, passes: bool) -> None:
        """End PrologSlurmctld; a failure requeues a batch job and kills others."""
        if not job.configuring:
            return
        if passes:
            job = replace(job, configuring=False)
            self._memory.put_job(job)
            self._begin(job)
        elif job.request.kind == "batch" and job.request.requeue:
            self.requeue(job)
        else:
            self.finish(job, "CANCELLED")

    def note_limit(self, job: Job) -> None:
        """Plan the check of the time limit; slurmctld checks limits periodically."""
        limit_min = job.request.time_limit_min
        if limit_min is not None and job.started_s is not None:
            self._note(self._check_s(job.started_s + 60.0 * limit_min), job, self._time_out)

    def _begin(self, job: Job) -> None:
        if job.request.acted:
            self._memory.calls.add("started", job)
        if job.request.duration_s is not None:
            self._note(self._memory.now_s + job.request.duration_s, job, self._complete)

    def _complete(self, job: Job) -> None:
        if job.state == "RUNNING":
            self._exited(job, job.request.exit_code)

    def _time_out(self, job: Job) -> None:
        limit_min, began_s = job.request.time_limit_min, job.started_s or 0.0
        if job.state not in ON_NODES or limit_min is None:
            return
        if self._memory.now_s >= began_s + 60.0 * limit_min:
            self.finish(job, "TIMEOUT", reason="TimeLimit")

    def preempt(self, job: Job, *, mode: str, grace_s: float) -> None:
        """End the job now, or at the first check after its grace time."""
        now_s = self._memory.now_s
        job = replace(job, preempted_s=now_s, ends_by_s=now_s + grace_s)
        self._memory.put_job(job)
        if grace_s:
            self._note(
                self._check_s(now_s + grace_s),
                job,
                lambda known: self._apply_preemption(known, mode),
            )
        else:
            self._apply_preemption(job, mode)

    def _apply_preemption(self, job: Job, mode: str) -> None:
        if job.state not in ON_NODES:
            return
        job = replace(job, preempted_s=self._memory.now_s)
        if mode == "REQUEUE" and job.request.kind == "batch" and job.request.requeue:
            self.requeue(job)
        else:
            self.finish(job, "PREEMPTED")

    def suspend(self, job: Job) -> None:
        """Suspend the job: it keeps memory and GPUs and frees its CPUs."""
        for node in self._nodes_of(job):
            self._memory.put(run_on(node, job, sign=-1))
        self._memory.put_job(replace(job, state="SUSPENDED", request=_at(job, 0)))
        self._look()

    def resume_job(self, job: Job) -> None:
        """Resume the job, even if other jobs use its CPUs now."""
        for node in self._nodes_of(job):
            self._memory.put(run_on(node, job, sign=1))
        self._memory.put_job(replace(job, state="RUNNING", request=_at(job, 1)))

    def _nodes_of(self, job: Job) -> Sequence[Node]:
        return [self._memory.nodes[name] for name in job.nodes if name in self._memory.nodes]

    def finish(
        self,
        job: Job,
        state: str,
        *,
        reason: str = "None",
        at_once: bool = False,
        exit_code: int = 0,
    ) -> None:
        """End the job. `at_once`: it leaves its nodes without COMPLETING.

        A requeued job that is still ending stops waiting and continues to end.
        """
        ran = job.state in ON_NODES
        ended = replace(
            job,
            state=state,
            state_reason=reason,
            ending=(ran and not at_once) or job.ending,
            lingers=(ran and not at_once and has_script(job)) or job.lingers,
            configuring=False,
            ended_s=self._memory.now_s,
            exit_code=exit_code,
            signalled=state == "CANCELLED" and _dies_of_sigterm(job),
        )
        self._end(job, ended, ran=ran)
        self._note_forgetting(job.job_id)

    def requeue(self, job: Job, *, at_once: bool = False) -> None:
        """End this run of the job; the job waits again, held if it was suspended."""
        held = replace(job.request, priority=0)
        ended = replace(
            job,
            request=held if job.state == "SUSPENDED" else job.request,
            state="PENDING",
            state_reason="None",
            ending=not at_once,
            lingers=not at_once and has_script(job),
            configuring=False,
            submitted_s=self._memory.now_s,
            restarts=job.restarts + 1,
            eligible_s=self._memory.now_s + REQUEUE_WAIT_S,
            ended_s=self._memory.now_s,
        )
        self._end(job, ended, ran=True)

    def _exited(self, job: Job, code: int) -> None:
        reason = "NonZeroExitCode" if code else "None"
        state = "FAILED" if code else "COMPLETED"
        self.finish(job, state, reason=reason, exit_code=code)

    def exit_script(self, job: Job, code: int) -> None:
        if job.state == "RUNNING" and not job.configuring:
            self._exited(job, code)
        known = self._memory.jobs.get(job.job_id)
        if known is not None and known.ending:
            self._leave(known)

    def kill_orphans(self, scripts: Iterable[Job]) -> None:
        """End scripts unknown to slurmctld; their slurmd does this at registration."""
        for job in scripts:
            known = self._memory.jobs.get(job.job_id)
            same = known is not None and known.started_s == job.started_s and has_script(known)
            if job.request.acted and not same:
                self._memory.calls.add("killed", job)

    def fail_node(self, name: str, *, reason: str = "NodeDown") -> None:
        """End or requeue every job of a failed node, on all its nodes at once."""
        for job in list(self._memory.jobs.values()):
            if name not in job.nodes:
                continue
            if job.state in ON_NODES:
                self._fail(job, reason)
            elif job.ending:
                self._leave(job)

    def resume(self) -> None:
        """Plan all ends again after a start of slurmctld.

        Jobs at the gate pass it: slurmctld does not run the prolog again.
        """
        for job in list(self._memory.jobs.values()):
            if job.configuring:
                job = replace(job, configuring=False)
                self._memory.put_job(job)
                self._begin(job)
            elif job.state in ON_NODES:
                self._resume(job)
            elif job.ending:
                due_s = (job.ended_s or 0.0) + self._ending_s(job)
                self._note(max(due_s, self._memory.now_s), job, self._kill)
            elif job.state == "PENDING" and job.eligible_s > self._memory.now_s:
                self._timers.note(job.eligible_s, lambda _: self._look())
            if job.state not in ALIVE:
                self._note_forgetting(job.job_id)

    def _resume(self, job: Job) -> None:
        if job.request.duration_s is not None and job.started_s is not None:
            self._note(job.started_s + job.request.duration_s, job, self._complete)
        self.note_limit(job)
        if job.ends_by_s is not None:
            mode = self._memory.partitions[job.partition].preempt_mode
            due_s = self._check_s(job.ends_by_s)
            self._note(due_s, job, lambda known: self._apply_preemption(known, mode))

    def _fail(self, job: Job, reason: str) -> None:
        if job.request.kind == "batch" and job.request.requeue:
            self.requeue(job, at_once=True)
        else:
            self.finish(job, "NODE_FAIL", reason=reason, at_once=True)

    def _end(self, before: Job, after: Job, *, ran: bool) -> None:
        memory = self._memory
        memory.put_job(after)
        for name in before.nodes if ran else ():
            self._free(name, before, ending=after.lingers)
        if before.request.acted and ran and not before.configuring:
            memory.calls.add("term" if after.ending else "killed", after)
        if ran and memory.knobs.epilog_slurmctld:
            memory.calls.add("ended", after)
        if ran and after.ending:
            self._note(memory.now_s + self._ending_s(after), after, self._kill)
        elif ran:
            self._left(after)
        self._look_after(after)

    def _look_after(self, job: Job) -> None:
        (self._look_late if job.request.kind == "external" else self._look)()

    def _free(self, name: str, job: Job, *, ending: bool) -> None:
        node = self._memory.nodes.get(name)
        if node is None:
            return
        freed = without(node, job)
        self._memory.put(
            replace(freed, ending=freed.ending + ending, last_busy_s=self._memory.epoch_s)
        )

    def _ending_s(self, job: Job) -> float:
        knobs = self._memory.knobs
        if not job.lingers:
            return min(knobs.ending_s, knobs.kill_wait_s)
        asked_s = knobs.kill_wait_s if job.request.acted else job.request.ending_s
        return min(knobs.ending_s if asked_s is None else asked_s, knobs.kill_wait_s)

    def _kill(self, job: Job) -> None:
        if job.request.acted and job.lingers:
            self._memory.calls.add("killed", job)
        if job.lingers and job.state == "CANCELLED":
            job = replace(job, signalled=True)
        self._leave(job)

    def _leave(self, job: Job) -> None:
        if not job.ending:
            return
        for node in self._nodes_of(job) if job.lingers else ():
            self._memory.put(replace(node, ending=max(node.ending - 1, 0)))
        self._left(job)
        self._look_after(job)

    def _left(self, job: Job) -> None:
        reason = "None" if job.ending and not job.lingers else "BeginTime"
        reason = "JobHeldAdmin" if job.held else reason
        job = replace(job, ending=False, lingers=False)
        if job.state == "PENDING":
            job = replace(job, nodes=(), gres=(), state_reason=reason, preempted_s=None)
            self._timers.note(job.eligible_s, lambda _: self._look())
        self._memory.put_job(job)

    def _check_s(self, due_s: float) -> float:
        """Return when slurmctld next checks time limits and grace times."""
        every_s = self._memory.knobs.limits_every_s
        return self._began_s + ceil((due_s - self._began_s) / every_s) * every_s

    def _note(self, due_s: float, job: Job, act: Callable[[Job], None]) -> None:
        """Plan an action for this run of the job: a requeue or restart can reuse its id."""

        def due(now_s: float) -> None:
            del now_s
            known = self._memory.jobs.get(job.job_id)
            same = known is not None and known.started_s == job.started_s
            if known is not None and same and known.submitted_s == job.submitted_s:
                act(known)

        self._timers.note(due_s, due)

    def _note_forgetting(self, job_id: int) -> None:
        def forget(now_s: float) -> None:
            job = self._memory.jobs.get(job_id)
            if job is None or job.ended_s is None or job.state in ALIVE:
                return
            if now_s >= job.ended_s + self._memory.knobs.min_job_age_s:
                self._memory.drop_job(job_id)

        self._timers.note(self._memory.now_s + self._memory.knobs.min_job_age_s, forget)


def _dies_of_sigterm(job: Job) -> bool:
    """Whether a cancel ends the script at once. One that is suspended gets no SIGTERM."""
    caught = job.request.acted or job.request.ending_s is not None or job.state == "SUSPENDED"
    return has_script(job) and not caught


def _at(job: Job, priority: int) -> JobRequest:
    return replace(job.request, priority=priority)
