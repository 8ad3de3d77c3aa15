"""Slurm's jobs in the model of histories: placeholders are submitted, run, end and are forgotten.

As the real one, this Slurm knows nothing of Kubernetes, and ids may be used again.
"""

import random

from msgspec.structs import replace

from sunk_sync.core.model.actions import CancelJob, SubmitJob, UpdateJob
from sunk_sync.core.model.facts import Job, SlurmNode
from sunk_sync.core.translate.job_states import is_live, is_running, is_waiting

ENDS = ("PREEMPTED", "CANCELLED", "NODE_FAIL", "TIMEOUT", "COMPLETED", "FAILED", "BOOT_FAIL")
NODE_CPUS = 16
CLOSED = frozenset(
    {"DRAIN", "DOWN", "UNKNOWN", "NOT_RESPONDING", "INVALID_REG", "POWERED_DOWN", "POWERING_UP"}
)


class SlurmJobs:
    """All placeholders that Slurm knows, by id."""

    def __init__(self, rng: random.Random, slurm_nodes: dict[str, SlurmNode]) -> None:
        self.rng = rng
        self.rows: dict[str, Job] = {}
        self.excluded: dict[str, frozenset[str]] = {}
        self.wanted: dict[str, int] = {}
        """How many nodes each job requests."""
        self.cpus: dict[str, int] = {}
        """CPUs of each job on one node."""
        self.late: list[tuple[SubmitJob, float]] = []
        """Submissions inside slurmrestd that may become jobs until then (F2)."""
        self.clock = 0
        self._slurm_nodes = slurm_nodes
        self._last_id = 0

    def live(self) -> list[Job]:
        """Return the jobs that have not ended, oldest first."""
        return [job for job in self.rows.values() if is_live(job)]

    def live_for(self, uid: str) -> list[Job]:
        """Return the live jobs of this Pod."""
        return [
            job for job in self.live() if any(pod.endswith(f"/{uid}") for pod in job.identity.pods)
        ]

    def submit(self, action: SubmitJob) -> Job:
        """Submit a job; an immediate allocation without free nodes leaves a failed record."""
        self.clock += 1
        self._last_id += 1
        job = Job(
            job_id=str(self._last_id),
            name=action.name,
            identity=action.identity,
            state=frozenset({"PENDING"}),
            submitted_at=self.clock,
            script=action.kind == "script",
        )
        self.excluded[job.job_id] = frozenset(action.excluded)
        self.wanted[job.job_id] = action.description.slurm_nodes
        self.cpus[job.job_id] = -(-action.description.cpus // action.description.slurm_nodes)
        self.rows[job.job_id] = job
        if action.kind == "allocation":
            return self._at_once(job, action.description.required_nodes)
        return job

    def _at_once(self, job: Job, required: str) -> Job:
        names = required.split(",") if required else self._free(job)
        wanted = self.wanted[job.job_id]
        if len(names) < wanted or not set(names) <= set(self._slurm_nodes):
            return self._put(job, state=frozenset({"FAILED"}))
        return self._put(job, state=frozenset({"RUNNING"}), slurm_nodes=tuple(names[:wanted]))

    def cancel(self, action: CancelJob) -> Job | None:
        """Cancel a job by id and name (P23); None: no such job lives."""
        job = self.rows.get(action.job_id)
        if job is None or job.name != action.name or not is_live(job):
            return None
        identity = replace(job.identity, replaced=job.identity.replaced or action.replaced)
        return self._end(replace(job, identity=identity), "CANCELLED")

    def update(self, action: UpdateJob) -> Job | None:
        """Update a waiting job; None: no such job waits."""
        job = self.rows.get(action.job_id)
        if job is None or job.name != action.name or not is_waiting(job):
            return None
        self.excluded[job.job_id] = frozenset(action.excluded)
        return self._put(job, identity=action.identity)

    def _put(self, job: Job, **fields: object) -> Job:
        job = replace(job, **fields)
        self.rows[job.job_id] = job
        return job

    def _end(self, job: Job, state: str) -> Job:
        held = is_running(job) and job.script
        flags = {"COMPLETING"} if held and self.rng.random() < 0.7 else set()
        return self._put(job, state=frozenset({state} | flags))

    # Events in Slurm, and actions of its users

    def happen(self) -> str:
        """Change a job at random; return what happened."""
        if self.late and self.rng.random() < 0.5:
            return f"late {self.submit(self.late.pop(0)[0])}"
        if not self.rows:
            return "no jobs"
        job = self.rng.choice(list(self.rows.values()))
        match self.rng.randrange(10):
            case 0 if not is_live(job):
                return self._forget(job)
            case 1 if is_live(job):
                return f"ends {self._end(job, self.rng.choice(ENDS))}"
            case 2 if is_running(job):
                return self._disturb(job)
            case 3 if self.rng.random() < 0.15:
                return self._lose_all()
            case _:
                return f"goes on {self.go_on(job)}"

    def _disturb(self, job: Job) -> str:
        match self.rng.randrange(3):
            case 0:
                return f"suspended {self._put(job, state=frozenset({'SUSPENDED'}))}"
            case 1:
                state = frozenset({"PENDING", "COMPLETING"})
                return f"requeued {self._put(job, state=state, started=False, requeued=True)}"
            case _:
                return f"preempts {self._put(job, preempted_at=self.clock)}"

    def _forget(self, job: Job) -> str:
        del self.rows[job.job_id]
        return f"forgot {job}"

    def _lose_all(self) -> str:
        """slurmctld loses its state; its ids may start again."""
        self.rows.clear()
        if self.rng.random() < 0.3:
            self._last_id = 0
        return "slurmctld lost every job"

    def duplicate(self) -> str:
        """A submission that was given up becomes a job after all (P29)."""
        live = self.live()
        if not live:
            return "no job to double"
        job = self.rng.choice(live)
        self._last_id += 1
        self.clock += 1
        twin = replace(
            job,
            job_id=str(self._last_id),
            submitted_at=self.clock,
            state=frozenset({"PENDING"}),
            slurm_nodes=(),
            started=False,
        )
        self.excluded[twin.job_id] = self.excluded.get(job.job_id, frozenset())
        self.wanted[twin.job_id] = self.wanted.get(job.job_id, 1)
        self.cpus[twin.job_id] = self.cpus.get(job.job_id, 1)
        return f"doubled {self._put(twin)}"

    def go_on(self, job: Job, *, careful: bool = False) -> Job:
        """Let the job be allocated, start or complete. `careful`: as Slurm without faults."""
        if "COMPLETING" in job.state:
            waiting = "PENDING" in job.state
            state = job.state - {"COMPLETING"}
            return self._put(job, state=state, slurm_nodes=() if waiting else job.slurm_nodes)
        if is_waiting(job):
            return self._allocate(job, careful=careful)
        if "SUSPENDED" in job.state and not careful:
            return self._put(job, state=frozenset({"RUNNING"}))
        if is_running(job) and job.script and not job.started:
            return self._put(job, started=True)
        return job

    def _allocate(self, job: Job, *, careful: bool) -> Job:
        free = self._free(job)
        if careful:
            names = [name for name in free if self._has_room(name, job)]
        else:
            names = free if self.rng.random() < 0.8 else list(self._slurm_nodes)
        wanted = self.wanted.get(job.job_id, 1)
        if len(names) < wanted:
            return self._put(job, reason="Resources")
        taken = tuple(sorted(self.rng.sample(sorted(names), wanted)))
        return self._put(job, state=frozenset({"RUNNING"}), slurm_nodes=taken, reason="")

    def _free(self, job: Job) -> list[str]:
        """Return open nodes that the job does not exclude; only free ones, if these are enough."""
        excluded = self.excluded.get(job.job_id, frozenset())
        names = [
            row.name
            for row in self._slurm_nodes.values()
            if row.name not in excluded and CLOSED.isdisjoint(row.state)
        ]
        held = {name for one in self.live() if is_running(one) for name in one.slurm_nodes}
        free = [name for name in names if name not in held]
        return free if len(free) >= self.wanted.get(job.job_id, 1) else names

    def _has_room(self, name: str, job: Job) -> bool:
        """Return whether the job fits beside the jobs that run there."""
        running = [one for one in self.live() if is_running(one) and name in one.slurm_nodes]
        return sum(self.cpus.get(one.job_id, 1) for one in (*running, job)) <= NODE_CPUS

    def calm(self) -> None:
        """Let each job make one step, without faults."""
        for job in list(self.rows.values()):
            self.go_on(job, careful=True)
