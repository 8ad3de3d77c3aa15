"""The stage of named stories about Pods and jobs: hosts n1-n3, gates and scripts as callers."""

import random
from typing import Any

from sunk_sync.embedded.slurm.model.job import Job
from tests.sim import words
from tests.sim.life import Life
from tests.sim.stage import Stage
from tests.sim.wire import Exchange, Moment
from tests.sim.workloads.checks import WorkloadChecks
from tests.sim.workloads.door import Door, Habits
from tests.sim.workloads.overlap import Overlap
from tests.sim.workloads.people import NAMESPACE
from tests.sim.workloads.rest import Asked, workload_unrest
from tests.sim.workloads.truth import is_live, is_ours, live_jobs, place_of, uid_of, workloads_of


class WorkloadStage(Stage):
    """A Stage where Pods are scheduled too."""

    door: Door | None = None
    workloads: WorkloadChecks

    def _live(self) -> None:
        if self.door is None:
            self.door = Door(random.Random(self._seed), self.worlds, Habits())
            self.workloads = WorkloadChecks(self.worlds, self.history)
            self.overlap = Overlap(
                self.worlds,
                self.history,
                self.door,
                gated=self.worlds.slurm.setup.knobs.prolog_slurmctld,
            )
            self.wire.witnesses.append(self.workloads)
            self.worlds.onlookers.append(Twins(self))
            for namespace in (NAMESPACE,):
                self.kube.add_namespace(namespace)
        super()._live()
        self.workloads.begin(self.life.process)
        self.door.hooks = self.life.parts.hooks

    def _at(self, moment: Moment, exchange: Exchange) -> None:
        super()._at(moment, exchange)
        if not self.life.process.alive and self.door is not None:
            self.door.hooks = None

    async def _restart(self, life: Life) -> None:
        if self.door is not None:
            self.door.hooks = None
        await super()._restart(life)

    async def play(self) -> dict[str, Any]:
        """As every stage; then the callers go home."""
        try:
            return await super().play()
        finally:
            if self.door is not None:
                self.door.close()

    def _counts(self, moment: Moment, exchange: Exchange) -> bool:
        """Writes, and reads of one Pod or one job."""
        path = exchange.question.path
        return moment != "piece" and (exchange.writes or "/pods/" in path or "/job/" in path)

    def _unrest(self) -> list[str]:
        if any(job.ending for job in self.slurm.jobs.values()):
            return ["jobs are still ending"]
        asked = Asked(ends_read=self.workloads.ends_read(self.life.process))
        return workload_unrest(self.worlds, asked) or super()._unrest()

    def _picture(self) -> dict[str, Any]:
        """Which host and which number a job got may differ; all else may not."""
        shown: dict[str, Any] = {}
        for pod in self.kube.pods(NAMESPACE):
            cancelled = words.annotations_of(pod).get(words.CANCELLED, "")
            shown[pod["metadata"]["name"]] = (
                bool(place_of(pod)),
                pod["status"].get("phase"),
                len(live_jobs(self.worlds, uid_of(pod))),
                bool(cancelled),
            )
        for name, node in self.slurm.nodes.items():
            shown[f"slurm {name}"] = (sorted(node.flags), node.reason)
        live = [job for job in self.slurm.jobs.values() if is_live(job)]
        shown["jobs"] = sorted((job.state, is_ours(job, self.worlds.cluster_uid)) for job in live)
        return shown


class Twins:
    """Sees that no workload ever has two live jobs: where nothing is late, none comes late."""

    def __init__(self, stage: WorkloadStage) -> None:
        self._stage = stage

    def job_changed(self, before: Job | None, after: Job | None, author: str) -> None:  # noqa: ARG002
        """One job changed or came."""
        worlds = self._stage.worlds
        if before is not None or after is None or not is_ours(after, worlds.cluster_uid):
            return
        for uids in workloads_of(after):
            for uid in uids:
                jobs = live_jobs(worlds, uid)
                if len(jobs) > 1:
                    numbers = [job.job_id for job in jobs]
                    self._stage.history.break_promise("twins", f"jobs {numbers} of one workload")

    def kube_changed(self, change: object, author: str) -> None:
        """Only jobs count."""

    def slurm_changed(self, before: object, after: object, author: str) -> None:
        """Only jobs count."""

    def kube_restored(self) -> None:
        """Only jobs count."""
