"""A small Slurm: slurmctld, its nodes and their slurmd, and its jobs.

Time comes in as `now_s`, in seconds of the cluster. `advance` performs all that is due by then, and
every method with `now_s` advances first. `api.rest` is its REST API.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from sunk_sync.embedded.slurm.calls import Call
from sunk_sync.embedded.slurm.daemons import Daemons
from sunk_sync.embedded.slurm.job_update import JobUpdate, updated_job
from sunk_sync.embedded.slurm.memory import Loss, Memory, Setup, Slurmd
from sunk_sync.embedded.slurm.model.array import Target, targets
from sunk_sync.embedded.slurm.model.job import Job, JobRequest, has_script
from sunk_sync.embedded.slurm.model.names import NamesError, named
from sunk_sync.embedded.slurm.model.node import (
    DEAF,
    DYNAMIC,
    Node,
    NodeSpec,
    counted,
    is_forgotten,
    new_node,
)
from sunk_sync.embedded.slurm.model.release import (
    BUSY_NODES,
    DUPLICATE_NODE,
    INVALID_JOB,
    INVALID_NAME,
    NO_REASON,
    NO_REQUEUE,
    NOT_DYNAMIC,
    SlurmError,
)
from sunk_sync.embedded.slurm.model.timers import SlurmTimers
from sunk_sync.embedded.slurm.node_update import Rules, Update, updated
from sunk_sync.embedded.slurm.scheduler import Scheduler


def _nothing() -> None:
    """Ignore the notification."""


class SlurmWorld:
    """One cluster. `wake` is called after each change; it must not call back."""

    def __init__(
        self, setup: Setup, *, now_s: float = 0.0, wake: Callable[[], None] = _nothing
    ) -> None:
        self.setup = setup
        self.controller_up = True
        self.plugin_refusal: SlurmError | None = None
        """What job_submit.lua answers to each submission and update; None: it lets them pass."""
        self.changes = 0
        self._tell = wake
        self._memory = Memory(setup, now_s=now_s, wake=self._woken)
        self._timers = SlurmTimers()
        self._scheduler = Scheduler(self._memory, self._timers)
        self._daemons = Daemons(self._memory, self._timers, self._scheduler)
        self._rules = Rules(
            release=setup.release,
            power_saving=setup.knobs.power_saving,
            topologies=setup.knobs.topologies,
        )
        for spec in setup.nodes:
            self._add(spec, dynamic=False)

    @property
    def now_s(self) -> float:
        return self._memory.now_s

    @property
    def epoch_s(self) -> int:
        return self._memory.epoch_s

    @property
    def nodes(self) -> dict[str, Node]:
        """Nodes by name, in the order of slurm.conf."""
        return self._memory.nodes

    @property
    def jobs(self) -> dict[int, Job]:
        return self._memory.jobs

    @property
    def memory(self) -> Memory:
        return self._memory

    def count_all(self) -> None:
        """List all nodes: slurmctld counts used CPUs only then."""
        for node in list(self._memory.nodes.values()):
            if (node.listed_cpus, node.listed_memory_mb) != (node.cpus_used, node.memory_used_mb):
                self._memory.nodes[node.name] = counted(node)

    def advance(self, now_s: float) -> None:
        """Perform all that is due by now; nothing while slurmctld is down."""
        if not self.controller_up:
            self._memory.now_s = max(now_s, self._memory.now_s)
            return
        while (due_s := self._timers.next_s()) is not None and due_s <= now_s:
            self._memory.now_s = max(due_s, self._memory.now_s)
            self._timers.run(due_s)
        self._memory.now_s = max(now_s, self._memory.now_s)

    def next_s(self) -> float | None:
        return self._timers.next_s() if self.controller_up else None

    def update(
        self, names: str | Sequence[str], update: Update, *, now_s: float, user: str = "root"
    ) -> SlurmError | None:
        """Update nodes in the order of names, up to the first unknown one, as slurmctld does."""
        self.advance(now_s)
        found: SlurmError | None = None
        for name in _named(names, self._memory.nodes):
            node = self._memory.nodes.get(name)
            if node is None:
                return INVALID_NAME
            changed, error = updated(
                node, update, rules=self._rules, user=user, epoch_s=self._memory.epoch_s
            )
            self._memory.put(changed)
            self._daemons.settle(changed)
            found = error or found
        if update.state in ("UNDRAIN", "RESUME", DEAF):
            self._daemons.ping_soon(self._memory.knobs.ping_after_s)
        return found

    def drain(self, names: str, *, reason: str, now_s: float) -> SlurmError | None:
        return self._set_state(names, "DRAIN", reason=reason, now_s=now_s)

    def down(self, names: str, *, reason: str, now_s: float) -> SlurmError | None:
        return self._set_state(names, "DOWN", reason=reason, now_s=now_s)

    def fail(self, names: str, *, reason: str, now_s: float) -> SlurmError | None:
        return self._set_state(names, "FAIL", reason=reason, now_s=now_s)

    def undrain(self, names: str, *, now_s: float) -> SlurmError | None:
        return self.update(names, Update(state="UNDRAIN"), now_s=now_s)

    def resume(self, names: str, *, now_s: float) -> SlurmError | None:
        return self.update(names, Update(state="RESUME"), now_s=now_s)

    def reboot(
        self, names: str, *, now_s: float, asap: bool = False, reason: str = ""
    ) -> SlurmError | None:
        """Do `scontrol reboot [ASAP] NAMES`: it begins without jobs and takes Knobs.boot_s."""
        self.advance(now_s)
        if not self._memory.knobs.reboot_program:
            return SlurmError(-1, "RebootProgram isn't defined")
        for name in _named(names, self._memory.nodes):
            node = self._memory.nodes.get(name)
            if node is None:
                return INVALID_NAME
            flags = node.flags | {"REBOOT_REQUESTED"} | ({"DRAIN"} if asap else set())
            said = reason or node.reason or ("Reboot ASAP" if asap else "reboot requested")
            node = replace(
                node,
                flags=flags,
                undrains=asap and "DRAIN" not in node.flags,
                reason=said,
                reason_s=self._memory.epoch_s,
                reason_user="root",
            )
            self._memory.put(node)
            self._daemons.settle(node)
        return None

    def add_node(self, spec: NodeSpec, *, now_s: float) -> SlurmError | None:
        """Add a dynamic node, registered at once (`slurmd -Z`)."""
        self.advance(now_s)
        if spec.name in self._memory.nodes:
            return DUPLICATE_NODE
        self._add(spec, dynamic=True)
        return None

    def register(self, spec: NodeSpec, *, now_s: float) -> bool:
        """Start `slurmd -Z`; return whether it reached slurmctld.

        Only the first registration of a name makes the record. A later slurmd of this name is
        taken in, and the record keeps what it has. A slurmd registers once: if its record is lost,
        it lives on without one.
        """
        self.advance(now_s)
        if not self.controller_up:
            return False
        if spec.name in self._memory.nodes:
            self._daemons.start(spec.name)
        else:
            self._add(spec, dynamic=True)
        return True

    def remove_node(self, name: str, *, now_s: float) -> SlurmError | None:
        """Do `scontrol delete nodename=NAME`: only a dynamic node without jobs."""
        self.advance(now_s)
        node = self._memory.nodes.get(name)
        if node is None:
            return INVALID_NAME
        if DYNAMIC not in node.flags:
            return NOT_DYNAMIC
        if node.running or node.ending:
            return BUSY_NODES
        self._memory.drop(name)
        return None

    def submit(self, request: JobRequest, *, now_s: float) -> int | SlurmError:
        self.advance(now_s)
        return self._scheduler.submit(request)

    def allocate(self, request: JobRequest, *, now_s: float) -> int | SlurmError:
        """Return the id of the job. A refusal can leave a FAILED job."""
        self.advance(now_s)
        return self._scheduler.allocate(request)

    def cancel(self, job_id: int, *, now_s: float) -> SlurmError | None:
        """Cancel a job; of an array cancel all tasks."""
        self.advance(now_s)
        found = targets(self._memory.jobs, str(job_id))
        refused = [self._scheduler.cancel(target) for target in found]
        return next(filter(None, refused), None) if found else INVALID_JOB

    def cancel_target(self, target: Target) -> SlurmError | None:
        """Cancel one job or one waiting task, at the current second."""
        return self._scheduler.cancel(target)

    def update_job(
        self, job_id: int, update: JobUpdate, *, now_s: float, user: str = "root"
    ) -> SlurmError | None:
        """Update one job; of an array only the record with that id."""
        self.advance(now_s)
        job = self._memory.jobs.get(job_id)
        if job is None:
            return INVALID_JOB
        changed = updated_job(job, update, memory=self._memory, user=user)
        if isinstance(changed, SlurmError):
            return changed
        self._memory.put_job(changed)
        if changed.request.time_limit_min != job.request.time_limit_min:
            self._scheduler.lifecycle.note_limit(changed)
        self._scheduler.look()
        return None

    def suspend_job(self, job_id: int, *, now_s: float) -> None:
        job = self._running(job_id, now_s, state="RUNNING")
        if job is not None:
            self._scheduler.lifecycle.suspend(job)

    def resume_job(self, job_id: int, *, now_s: float) -> None:
        job = self._running(job_id, now_s, state="SUSPENDED")
        if job is not None:
            self._scheduler.lifecycle.resume_job(job)

    def requeue_job(self, job_id: int, *, now_s: float) -> SlurmError | None:
        """Requeue a job: only a batch job that allows it."""
        job = self._running(job_id, now_s, state="RUNNING")
        if job is None or job.request.kind != "batch" or not job.request.requeue:
            return NO_REQUEUE
        self._scheduler.lifecycle.requeue(job)
        return None

    def take_calls(self) -> Sequence[Call]:
        """Return the calls since the last time, oldest first."""
        return self._memory.calls.take()

    def release_gate(self, job_id: int, *, now_s: float, passes: bool = True) -> None:
        """End PrologSlurmctld, without `passes` with a failure. No effect without a gate."""
        self.advance(now_s)
        job = self._memory.jobs.get(job_id)
        if job is not None:
            self._scheduler.lifecycle.release_gate(job, passes=passes)

    def exit_script(self, job_id: int, *, now_s: float, code: int = 0) -> None:
        self.advance(now_s)
        job = self._memory.jobs.get(job_id)
        if job is not None:
            self._scheduler.lifecycle.exit_script(job, code)

    def kill_slurmd(self, name: str, *, now_s: float) -> None:
        """Kill a slurmd; slurmctld notices at its next ping."""
        self.advance(now_s)
        self._daemons.stop(name)

    def start_slurmd(self, name: str, *, now_s: float, rebooted: bool = False) -> None:
        """Start a slurmd, which registers; `rebooted`: the machine has booted."""
        self.advance(now_s)
        self._daemons.start(name, rebooted=rebooted)

    def set_gres_found(self, name: str, gres: str | None, *, now_s: float) -> None:
        """Set the GRES that the slurmd finds from its next start; None: those configured."""
        self.advance(now_s)
        self._memory.slurmds[name] = replace(self._memory.slurmds[name], gres=gres)

    def reconfigure(self, *, now_s: float) -> None:
        """Do `scontrol reconfigure`: fields set by REST fall back to slurm.conf.

        Drains, reasons, comment and extra stay; weight, features and GRES do not. A dynamic node
        keeps its features too. Nodes that are not DOWN are UNKNOWN until their slurmd registers.
        """
        self.advance(now_s)
        for node in list(self._memory.nodes.values()):
            self._memory.put(replace(self._configured(node), weight=node.spec.weight))
        self._daemons.meet_again(self._memory.knobs.settle_after_s)

    def stop_controller(self, *, now_s: float) -> None:
        """Stop slurmctld: it notices nothing and starts nothing."""
        self.advance(now_s)
        self.controller_up = False
        self._tell()

    def start_controller(self, *, now_s: float, lose_state: Loss = "nothing") -> None:
        """Start slurmctld; nodes that were not DOWN are UNKNOWN until their slurmd registers."""
        self.advance(now_s)
        self.controller_up = True
        self._memory.started_s = self._memory.epoch_s
        scripts = [job for job in self._memory.jobs.values() if has_script(job)]
        self._memory.lose(lose_state)
        for node in list(self._memory.nodes.values()):
            self._memory.put(self._configured(node))
        self._timers = SlurmTimers()
        self._scheduler = Scheduler(self._memory, self._timers)
        self._daemons = Daemons(self._memory, self._timers, self._scheduler)
        self._scheduler.resume()
        self._scheduler.lifecycle.kill_orphans(scripts)
        self._daemons.meet_again(self._memory.knobs.register_after_s)

    def restart(self, *, now_s: float, lose_state: Loss = "nothing") -> None:
        self.stop_controller(now_s=now_s)
        self.start_controller(now_s=now_s, lose_state=lose_state)

    def _running(self, job_id: int, now_s: float, *, state: str) -> Job | None:
        self.advance(now_s)
        job = self._memory.jobs.get(job_id)
        return job if job is not None and job.state == state else None

    def _set_state(self, names: str, state: str, *, reason: str, now_s: float) -> SlurmError | None:
        if not reason:
            return NO_REASON
        return self.update(names, Update(state=state, reason=reason), now_s=now_s)

    def _add(self, spec: NodeSpec, *, dynamic: bool) -> None:
        self._memory.put(new_node(spec, dynamic=dynamic))
        known = self._memory.slurmds.get(spec.name)
        if known is None or dynamic:
            self._memory.slurmds[spec.name] = Slurmd()
        self._daemons.start(spec.name)

    def _configured(self, node: Node) -> Node:
        forgets = self._memory.knobs.reconfigure_forgets_comments
        unknown = replace(
            node,
            base="UNKNOWN" if is_forgotten(node) else node.base,
            flags=node.flags - {DEAF},
            comment="" if forgets else node.comment,
            extra="" if forgets else node.extra,
        )
        if DYNAMIC in node.flags:
            return unknown
        return replace(
            unknown,
            weight=node.spec.weight,
            features=node.spec.features,
            active_features=node.spec.features,
            gres=node.spec.gres,
        )

    def _woken(self) -> None:
        self.changes += 1
        self._tell()


def _named(names: str | Sequence[str], known: Sequence[str] | dict[str, Node]) -> Sequence[str]:
    """Return the names in slurmctld's order; none for a malformed hostlist."""
    try:
        return named([names] if isinstance(names, str) else names, known)
    except NamesError:
        return [""]
