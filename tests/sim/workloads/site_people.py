"""What a site does to placeholder jobs, by a random stream of its own.

Its people and scripts write notes into jobs and rename them. Its prolog fails: slurmctld ends the
job before it begins, and mostly drains the node. Its job_submit.lua refuses all jobs for a while.
"""

import random
from collections.abc import Callable
from typing import Final

from sunk_sync.embedded.slurm.model.job import ALIVE, Job
from sunk_sync.embedded.slurm.model.release import UNSPECIFIED
from sunk_sync.embedded.slurm.node_update import Update
from tests.sim.workloads.truth import is_ours
from tests.sim.worlds import Worlds

NOTES: Final = ("seen by the site", "", '{"sunk-sync": ', '{"job": "of the site"}')
PROLOG_ERROR: Final = "Prolog error"


class SitePeople:
    def __init__(self, rng: random.Random, worlds: Worlds) -> None:
        self._rng = rng
        self._worlds = worlds
        self._slurm = worlds.slurm
        self.writes, self.fails = rng.random() < 0.35, rng.random() < 0.25
        self.refuses = rng.random() < 0.15

    @property
    def active(self) -> bool:
        return self.writes or self.fails or self.refuses

    def calm(self) -> None:
        self._slurm.plugin_refusal = None

    def act(self) -> object:
        acts: list[Callable[[], object]] = []
        acts += [self.note, self.rename, self.note_all] if self.writes else []
        acts += [self.fail_prolog] if self.fails else []
        acts += [self.refuse, self.accept] if self.refuses else []
        return self._rng.choice(acts)()

    def _ours(self) -> list[Job]:
        cluster = self._worlds.cluster_uid
        jobs = self._slurm.jobs.values()
        return [job for job in jobs if job.state in ALIVE and is_ours(job, cluster)]

    def _update(self, job: Job, **fields: str) -> str:
        self._slurm.update_job(job.job_id, fields, now_s=self._worlds.now_s)
        return f"job {job.job_id}: {fields}"

    def note(self) -> object:
        return self._update(self._rng.choice(self._ours()), admin_comment=self._rng.choice(NOTES))

    def note_all(self) -> object:
        """The prolog of a site notes something in each job that runs."""
        running = [job for job in self._ours() if job.state == "RUNNING"]
        return [self._update(job, admin_comment=NOTES[0]) for job in running]

    def rename(self) -> object:
        return self._update(self._rng.choice(self._ours()), name="other")

    def refuse(self) -> object:
        self._slurm.plugin_refusal = UNSPECIFIED
        return "job_submit.lua refuses all"

    def accept(self) -> object:
        self._slurm.plugin_refusal = None
        return "job_submit.lua accepts all"

    def fail_prolog(self) -> object:
        """The prolog of slurmctld fails, or that of a node, which slurmctld then drains."""
        job = self._rng.choice([job for job in self._ours() if job.configuring])
        now_s = self._worlds.now_s
        self._slurm.release_gate(job.job_id, now_s=now_s, passes=False)
        if self._rng.random() < 0.7:
            drain = Update(state="DRAIN", reason=PROLOG_ERROR)
            self._slurm.update(self._rng.choice(job.nodes), drain, now_s=now_s)
        return f"job {job.job_id} on {job.nodes}"
