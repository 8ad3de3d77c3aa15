"""The model for histories with workload Pods, their placeholder jobs and the hooks server."""

import random
from collections.abc import Iterable

from msgspec.structs import replace

from sunk_sync.core.model.actions import (
    Action,
    AnswerGate,
    AnswerStop,
    Bind,
    CancelJob,
    EndPod,
    GetGang,
    GetJob,
    GetObject,
    SetMetadata,
    SetScheduled,
    SubmitJob,
    UpdateJob,
)
from sunk_sync.core.model.calls import CallEnded, GateCall, StopCall
from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.facts import (
    SOURCES,
    Attempt,
    Deleted,
    News,
    Node,
    Observed,
    Pod,
    Row,
    SlurmdPod,
    Source,
    Taken,
)
from sunk_sync.core.model.gang_size import GangSize
from sunk_sync.core.model.names import CANCELLED, DISRUPTION_CONDITION, JOB_ID, SCHEDULED_CONDITION
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.core.model.user_policy import Namespace
from tests.core.slurm_jobs import SlurmJobs
from tests.core.world import World

NAMESPACE = "ns"
ATTEMPTS = 0.25
"""Share of submissions without an answer while faults last."""
LATE_S = 11.0
"""How long a submission may wait inside slurmrestd: less than `settle_s` (F2)."""


class WorkloadWorld(World):
    """Workload Pods are in namespace `ns`, slurmd Pods are not."""

    sources: tuple[Source, ...] = SOURCES

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.workload: dict[str, Pod] = {}
        self.namespaces: dict[str, Namespace] = {}
        self.jobs = SlurmJobs(rng, self.slurm_nodes)
        self.calls: dict[int, GateCall | StopCall] = {}
        self.faulty = True
        self.gang_sizes: dict[str, int] = {}
        """Sizes in PodGroups by name."""
        self.others: dict[str, Taken] = {}
        """Pods of other schedulers by Node."""

    def tick(self, seconds: float = 0.01) -> None:
        super().tick(seconds)
        if self.jobs.late:
            self.jobs.late = [one for one in self.jobs.late if one[1] > self.now]

    # Objects change

    def put_workload(self, row: Pod) -> None:
        self.workload[row.name] = row
        self._changed("pods", row)

    def put_namespace(self, row: Namespace) -> None:
        self.namespaces[row.name] = row
        self._changed("namespaces", row)

    def drop_workload(self, name: str) -> None:
        self._changed("pods", self.workload.pop(name), gone=True)

    def end_call(self, number: int) -> list[News]:
        """The caller is gone, or has its answer."""
        return [CallEnded(number)] if self.calls.pop(number, None) else []

    def kubelets(self) -> None:
        """The kubelets end all terminating Pods."""
        for row in list(self.workload.values()):
            if row.terminating:
                self.drop_workload(row.name)

    def rows(self, source: Source) -> Iterable[Row]:
        if source == "pods":
            return self.workload.values()
        if source == "namespaces":
            return self.namespaces.values()
        if source == "jobs":
            return self.jobs.rows.values()
        return super().rows(source)

    # Writes

    def perform(self, action: Action) -> Outcome:
        match action:
            case SubmitJob() | CancelJob() | UpdateJob() | GetJob():
                self.tick()
                return self._write_job(action)
            case Bind() | EndPod() | SetScheduled():
                self.tick()
                return self._write_workload(action)
            case SetMetadata() if action.reference.namespace == NAMESPACE:
                self.tick()
                return self._write_workload(action)
            case GetGang():
                self.tick()
                size = self.gang_sizes.get(action.name, 0)
                why = "" if size else "not found"
                read = GangSize(action.kind, action.namespace, action.name, size, why, self.now)
                return Done(action, (read,))
            case AnswerGate() | AnswerStop():
                known = action.call in self.calls
                return Done(action) if known else Refused(action, "the caller is gone")
            case _:
                return super().perform(action)

    def _object(self, look: GetObject) -> Node | SlurmdPod | Pod | None:
        if look.kind == "Pod" and look.namespace == NAMESPACE:
            return self.workload.get(look.name)
        return super()._object(look)

    def _write_job(self, action: SubmitJob | CancelJob | UpdateJob | GetJob) -> Outcome:
        match action:
            case SubmitJob():
                return self._submit(action)
            case CancelJob():
                job = self.jobs.cancel(action)
            case UpdateJob():
                return self._update(action)
            case _:
                job = self.jobs.rows.get(action.job_id)
        if job is None:
            return Refused(action, "no such job lives", self._job_seen(action.job_id))
        return Done(action, self._job_seen(action.job_id))

    def _job_seen(self, job_id: str) -> tuple[News, ...]:
        job = self.jobs.rows.get(job_id)
        if job is None:
            return (Deleted("jobs", "", job_id, "", self.now),)
        return (Observed(job, self.now),)

    def _update(self, action: UpdateJob) -> Outcome:
        updated = None
        if self.rng.random() < (0.6 if action.change == "edit" else 0.9):
            updated = self.jobs.update(action)
        if updated is not None:
            return Done(action, (Observed(updated, self.now),))
        return Refused(action, "not now", self._job_seen(action.job_id), 2021)

    def _submit(self, action: SubmitJob) -> Outcome:
        luck = self.rng.random() if self.faulty else 1.0
        if luck < ATTEMPTS:
            if self.rng.random() < 0.6:
                self.jobs.late.append((action, self.now + LATE_S))
            if self.rng.random() < 0.5 and self.jobs.late:
                self.jobs.submit(self.jobs.late.pop()[0])
            attempt = Attempt(action.identity.workload, self.now)
            return Unsure(action, "504", seen=(attempt,))
        if luck < ATTEMPTS + 0.1:
            return Refused(action, "invalid account", number=2045)
        job = self.jobs.submit(action)
        if "FAILED" in job.state:
            return Refused(action, "busy", (Observed(job, self.now),), 2016)
        return Done(action, (Observed(job, self.now),))

    def _write_workload(self, action: Bind | EndPod | SetScheduled | SetMetadata) -> Outcome:
        row = self.workload.get(action.reference.name)
        if row is None or row.uid != action.reference.uid:
            return Refused(action, "not found, or another UID", missing=True)
        if isinstance(action, Bind) and self._refuses(action, row):
            return Refused(action, "Pod is bound, or the Node is not there")
        after = _written(action, row)
        if after != row:
            self.put_workload(after)
        if isinstance(action, EndPod) and not after.node_name:
            self.drop_workload(after.name)
            return Done(action)
        return Done(action, (Observed(after, self.orders["pods", after.name]),))

    def _refuses(self, action: Bind, row: Pod) -> bool:
        if row.node_name or row.terminating or action.node_name not in self.nodes:
            return True
        return self.faulty and self.rng.random() < 0.1


def _written(action: Bind | EndPod | SetScheduled | SetMetadata, row: Pod) -> Pod:
    match action:
        case Bind():
            number = action.job_id
            return replace(row, node_name=action.node_name, job_id=number, bound_for=number)
        case EndPod():
            ends = Condition(DISRUPTION_CONDITION, "True", action.reason, action.message)
            return replace(row, terminating=True, conditions=_with(row, ends))
        case SetScheduled():
            waits = Condition(SCHEDULED_CONDITION, "False", action.reason, action.message)
            return replace(row, conditions=_with(row, waits))
        case _:
            given = dict(action.annotations)
            job_id, cancelled = given.get(JOB_ID, ""), given.get(CANCELLED, "")
            return replace(row, job_id=job_id or row.job_id, cancelled=cancelled)


def _with(row: Pod, new: Condition) -> tuple[Condition, ...]:
    others = [one for one in row.conditions if one.type != new.type]
    return tuple(sorted([*others, new], key=lambda one: one.type))
