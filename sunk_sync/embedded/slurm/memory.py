"""State of slurmctld in memory and on disk: nodes, jobs, and their last changes."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from msgspec import Struct

from sunk_sync.embedded.slurm.calls import RequestLog
from sunk_sync.embedded.slurm.model.job import Job, JobRequest
from sunk_sync.embedded.slurm.model.node import DEAF, DYNAMIC, Node, NodeSpec, new_node
from sunk_sync.embedded.slurm.model.release import RELEASES, Release

Loss = Literal["nothing", "recent", "everything"]
"""Loss of a restart: nothing (SIGTERM), the last seconds (SIGKILL), or everything."""


class Partition(Struct, frozen=True, kw_only=True):
    """A partition of slurm.conf. `nodes` empty: all nodes."""

    name: str
    nodes: tuple[str, ...] = ()
    default: bool = False
    tier: int = 1
    """PriorityTier: jobs of a higher tier come first and preempt those of a lower tier."""
    preempt_mode: Literal["OFF", "CANCEL", "REQUEUE"] = "OFF"
    """How its jobs are preempted."""
    grace_s: float = 0.0
    """GraceTime: how long preempted jobs continue to run."""


class Knobs(Struct, frozen=True, kw_only=True):
    """Settings of slurm.conf, and durations."""

    return_to_service: int = 2
    """2: a DOWN node returns when it registers; 1: only if it was silent; 0: never."""
    power_saving: bool = False
    """SuspendProgram and ResumeProgram are configured."""
    reboot_program: bool = True
    reconfigure_forgets_comments: bool = False
    """The real slurmctld keeps comment and extra; True simulates their loss."""
    schedule_every_s: float = 1.0
    backfill_every_s: float = 30.0
    """bf_interval: jobs behind a waiting one are tried only then."""
    limits_every_s: float = 30.0
    """Interval of the checks of time limits and grace times, from the start of slurmctld."""
    ping_every_s: float = 100.0
    """Interval of pings to silent nodes (SlurmdTimeout / 3)."""
    slurmd_timeout_s: float = 300.0
    """A node that is silent for this time is DOWN."""
    ping_after_s: float = 0.5
    """From an UNDRAIN or RESUME to the answered ping."""
    register_after_s: float = 2.5
    """From a start of slurmctld to the registrations."""
    settle_after_s: float = 0.3
    """From a reconfigure to the registrations."""
    save_every_s: float = 5.0
    """From the first change to the save of the state."""
    ending_s: float = 0.2
    """How long a job is COMPLETING."""
    kill_wait_s: float = 30.0
    topologies: tuple[str, ...] = ("tree:root",)
    """Topologies and their top switches in topology.yaml. Switches below are made on the fly."""
    prolog_slurmctld: bool = False
    """Each allocation calls a gate and waits for its answer (see `calls`)."""
    epilog_slurmctld: bool = False
    """Each end of a job is a call."""
    acted_script: str = ""
    """Batch scripts with this text are simulated from outside; empty: none."""
    min_job_age_s: float = 300.0
    """MinJobAge: ended jobs are forgotten after this time."""
    boot_s: float = 60.0
    """From REBOOT_ISSUED or POWERING_UP to the registration."""
    suspend_s: float = 30.0
    """From POWERING_DOWN to POWERED_DOWN."""


class Setup(Struct, frozen=True, kw_only=True):
    nodes: Sequence[NodeSpec] = ()
    partitions: Sequence[Partition] = (Partition(name="main", default=True),)
    generation: Literal["26.05", "24.11"] = "26.05"
    cluster: str = "demo"
    epoch_s: float = 1_800_000_000.0
    """Wall clock at second 0."""
    knobs: Knobs = Knobs()

    @property
    def release(self) -> Release:
        return RELEASES[self.generation]


class Slurmd(Struct, frozen=True, kw_only=True):
    running: bool = True
    gres: str | None = None
    """GRES that it finds; None: as configured."""
    boot_s: int = 0
    start_s: int = 0


class _Saved(Struct, frozen=True):
    nodes: dict[str, Node]
    jobs: dict[int, Job]
    next_job_id: int


class Memory:
    """Tables of frozen records."""

    def __init__(self, setup: Setup, *, now_s: float, wake: Callable[[], None]) -> None:
        self.setup = setup
        self.release = setup.release
        self.knobs = setup.knobs
        self.partitions = {partition.name: partition for partition in setup.partitions}
        self.nodes: dict[str, Node] = {}
        self.jobs: dict[int, Job] = {}
        self.slurmds: dict[str, Slurmd] = {}
        self.calls = RequestLog()
        self.unsettled: set[str] = set()
        """Nodes that a ping or a registration would change."""
        self.next_job_id = 1
        self.now_s = now_s
        self.started_s = self.epoch_s
        self.partitions_changed_s = self.jobs_changed_s = self.nodes_changed_s = self.epoch_s
        self._wake = wake
        self._saved: _Saved | None = None
        self._saved_from_s = now_s

    @property
    def epoch_s(self) -> int:
        return int(self.setup.epoch_s + self.now_s)

    def about_to_change(self) -> None:
        """Keep the state on disk, before the first change after a save."""
        if self._saved is None or self.now_s - self._saved_from_s >= self.knobs.save_every_s:
            self._saved = _Saved(dict(self.nodes), dict(self.jobs), self.next_job_id)
            self._saved_from_s = self.now_s

    def put(self, node: Node) -> None:
        if self.nodes.get(node.name) is node:
            return
        self.about_to_change()
        self.nodes[node.name] = node
        self._mark(node)
        self._nodes_changed()

    def drop(self, name: str) -> None:
        self.about_to_change()
        del self.nodes[name]
        self.unsettled.discard(name)
        self._nodes_changed()

    def take_id(self) -> int:
        self.about_to_change()
        self.next_job_id += 1
        return self.next_job_id - 1

    def put_job(self, job: Job) -> None:
        self.about_to_change()
        self.jobs[job.job_id] = job
        self.jobs_changed_s = self.epoch_s
        self._wake()

    def drop_job(self, job_id: int) -> None:
        self.about_to_change()
        self.jobs.pop(job_id, None)
        self.jobs_changed_s = self.epoch_s

    def lose(self, loss: Loss) -> None:
        """Go back to the state on disk."""
        kept = self._on_disk(loss)
        self.nodes, self.jobs, self.next_job_id = (
            dict(kept.nodes),
            dict(kept.jobs),
            kept.next_job_id,
        )
        self.unsettled = set()
        for node in self.nodes.values():
            self._mark(node)
        self._saved = None
        self.partitions_changed_s = self.jobs_changed_s = self.epoch_s
        self._nodes_changed()

    def members(self, names: Iterable[str]) -> dict[str, Sequence[Node]]:
        return {name: self._members(self.partitions[name]) for name in sorted(set(names))}

    def _members(self, partition: Partition) -> Sequence[Node]:
        if not partition.nodes:
            return list(self.nodes.values())
        return [self.nodes[name] for name in partition.nodes if name in self.nodes]

    def _mark(self, node: Node) -> None:
        if node.base in ("DOWN", "UNKNOWN") or DEAF in node.flags:
            self.unsettled.add(node.name)
        else:
            self.unsettled.discard(node.name)

    def _nodes_changed(self) -> None:
        self.nodes_changed_s = self.epoch_s
        self._wake()

    def _on_disk(self, loss: Loss) -> _Saved:
        now = _Saved(self.nodes, self.jobs, self.next_job_id)
        recent = self.now_s - self._saved_from_s < self.knobs.save_every_s
        if loss == "everything":
            return _Saved(self._with_conf({}), {}, 1)
        if loss == "nothing" or self._saved is None or not recent:
            return now
        saved = self._saved
        return _Saved(self._with_conf(saved.nodes), saved.jobs, saved.next_job_id)

    def _with_conf(self, saved: dict[str, Node]) -> dict[str, Node]:
        """Return the saved nodes and those of slurm.conf; dynamic nodes exist only if saved."""
        nodes = dict[str, Node]()
        for name, node in self.nodes.items():
            if name in saved:
                nodes[name] = saved[name]
            elif DYNAMIC not in node.flags:
                nodes[name] = new_node(node.spec)
        return nodes


def partition_of(request: JobRequest, memory: Memory) -> str:
    """Return the request's partition, or the default one."""
    default = next((each.name for each in memory.partitions.values() if each.default), "")
    return request.partition or default


def pending(request: JobRequest, memory: Memory) -> Job:
    job_id = memory.take_id()
    return Job(
        job_id=job_id,
        request=request,
        partition=partition_of(request, memory),
        submitted_s=memory.now_s,
        eligible_s=memory.now_s,
        array_id=job_id if request.array else 0,
        waiting_tasks=request.array,
        state_reason="None" if request.priority else "JobHeldUser",
    )
