"""The cluster of scenarios about Pods and jobs: hosts n1-n3, with gates and scripts."""

import random
from typing import Any

from sunk_sync.embedded.kubernetes.store.kinds import VOLUME_CLAIMS
from sunk_sync.embedded.slurm.model.job import Job
from tests.sim import words
from tests.sim.life import Life
from tests.sim.stage import Stage
from tests.sim.wire import Exchange, Moment
from tests.sim.workloads.callers import Callers, Habits
from tests.sim.workloads.checks import WorkloadChecks
from tests.sim.workloads.group_checks import CALM_S, GIVEN_UP_MAX, GroupChecks
from tests.sim.workloads.groups import GROUP
from tests.sim.workloads.overlap import Overlap
from tests.sim.workloads.people import NAMESPACE
from tests.sim.workloads.rest import Asked, workload_unrest
from tests.sim.workloads.truth import is_live, is_ours, live_jobs, place_of, uid_of, workloads_of
from tests.sim.workloads.volume_checks import VolumeChecks

SINGLE = ("/pods/", "/job/", "/persistentvolumeclaims/", "/persistentvolumes/")
"""Parts of the paths of single objects and jobs."""


class WorkloadStage(Stage):
    callers: Callers | None = None
    workloads: WorkloadChecks

    def _live(self) -> None:
        if self.callers is None:
            self.callers = Callers(random.Random(self._seed), self.worlds, Habits())
            self.workloads = WorkloadChecks(self.worlds, self.history)
            self.overlap = Overlap(
                self.worlds,
                self.history,
                self.callers,
                gated=self.worlds.slurm.setup.knobs.prolog_slurmctld,
            )
            self.wire.witnesses.append(self.workloads)
            VolumeChecks(self.worlds, self.history, seen_s=CALM_S)
            crashes = bool(self._crashes or self._branch)
            GroupChecks(
                self.worlds,
                self.history,
                calm=True,
                given_up_max=GIVEN_UP_MAX if crashes else 0,
            )
            self.worlds.onlookers.append(Twins(self))
            for namespace in (NAMESPACE,):
                self.kube.add_namespace(namespace)
        super()._live()
        self.workloads.begin(self.life.process)
        self.callers.life = self.life

    def _at(self, moment: Moment, exchange: Exchange) -> None:
        super()._at(moment, exchange)
        if not self.life.process.alive and self.callers is not None:
            self.callers.life = None

    async def _restart(self, life: Life) -> None:
        if self.callers is not None:
            self.callers.life = None
        await super()._restart(life)

    async def play(self) -> dict[str, Any]:
        try:
            return await super().play()
        finally:
            if self.callers is not None:
                self.callers.close()

    def _counts(self, moment: Moment, exchange: Exchange) -> bool:
        """Whether a moment is a crash point: writes, and reads of one object or one job."""
        path = exchange.question.path
        single = any(part in path for part in SINGLE)
        return moment != "piece" and (exchange.writes or single)

    def _unrest(self) -> list[str]:
        if any(job.ending for job in self.slurm.jobs.values()):
            return ["jobs are still ending"]
        asked = Asked(ends_read=self.workloads.ends_read(self.life.process))
        return workload_unrest(self.worlds, asked) or super()._unrest()

    def _picture(self) -> dict[str, Any]:
        """Return the final state, without the host and the id of each job: these can differ."""
        shown: dict[str, Any] = {}
        for pod in self.kube.pods(NAMESPACE):
            cancelled = words.annotations_of(pod).get(words.CANCELLED, "")
            seen = (
                bool(place_of(pod)),
                pod["status"].get("phase"),
                len(live_jobs(self.worlds, uid_of(pod))),
                bool(cancelled),
            )
            name = pod["metadata"]["name"]
            if group := words.labels_of(pod).get(GROUP):  # which of them is where can differ
                shown[f"group {group}"] = sorted([*shown.get(f"group {group}", ()), seen])
            else:
                shown[name] = seen
        for _, stored in self.kube.store.scan(VOLUME_CLAIMS, namespace=NAMESPACE):
            claim = stored.an_object
            marks = words.annotations_of(claim)
            bound = claim["status"]["phase"] == "Bound"
            selected = not bound and words.SELECTED_NODE in marks
            shown[f"claim {claim['metadata']['name']}"] = (
                bound,
                selected,
                words.VOLUME_FOR in marks,
            )
        for name, node in self.slurm.nodes.items():
            shown[f"slurm {name}"] = (sorted(node.flags), node.reason)
        live = [job for job in self.slurm.jobs.values() if is_live(job)]
        shown["jobs"] = sorted((job.state, is_ours(job, self.worlds.cluster_uid)) for job in live)
        return shown


class Twins:
    """Checks that no workload ever has two live jobs: no answer is late here."""

    def __init__(self, stage: WorkloadStage) -> None:
        self._stage = stage

    def job_changed(self, before: Job | None, after: Job | None, author: str) -> None:  # noqa: ARG002
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
        """Ignore objects."""

    def slurm_changed(self, before: object, after: object, author: str) -> None:
        """Ignore nodes."""

    def kube_restored(self) -> None:
        """Ignore restores."""
