"""The model of Kubernetes and Slurm with NodeSets, the Pods that they own, and dynamic records.

A record is made once: a slurmd that comes back with other options does not change it. slurmctld can
lose a record, and slurmd does not notice.
"""

from typing import Any

from msgspec.structs import replace

from sunk_sync.core.model.actions import Action, SetMetadata
from sunk_sync.core.model.facts import Deleted, Observed, SlurmdPod, Source
from sunk_sync.core.model.names import MANAGER_BUSY
from sunk_sync.core.model.node_set import NodeSet, Stamp
from sunk_sync.core.model.node_set_actions import (
    ClearPod,
    Condemn,
    CreatePod,
    DeleteNode,
    DeletePod,
    GetJobEnds,
    PodEnd,
    RemakePod,
    SetFinalizer,
    SetStatus,
)
from sunk_sync.core.model.node_set_answers import ControllerAge, CreateRefused, JobEnds
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.core.translate.node_states import is_busy, is_drained
from sunk_sync.core.translate.slurmd_options import digest
from tests.core.checks import HistoryError
from tests.core.world import World
from tests.kit.build import CLUSTER_UID, slurm_node

SOURCES: tuple[Source, ...] = ("nodes", "slurmd_pods", "slurm_nodes", "node_sets")
DYNAMIC = "DYNAMIC_NORM"


class NodeSetWorld(World):
    """A world in which sunk-sync makes slurmd Pods."""

    sources = SOURCES

    def __init__(self, rng: Any) -> None:
        super().__init__(rng)
        self.node_sets: dict[str, NodeSet] = {}
        self.made = 0
        self.topology = rng.choice((None, "", ""))
        """Of a new record; None: this Slurm has none in its records."""
        self.controller_s = self.now - rng.choice((0.0, 1000.0))
        """When slurmctld started."""
        self.lost_jobs: list[str] = []
        self.pins: dict[str, str] = {}
        """Pod → the only Node where it may run."""

    def rows(self, source: Source) -> Any:
        return self.node_sets.values() if source == "node_sets" else super().rows(source)

    def put_node_set(self, row: NodeSet) -> None:
        """Store it; a deleted one without a finalizer is gone at once."""
        if row.deleting and not row.held:
            if row.name in self.node_sets:
                self.drop_node_set(row.name)
                self._collect(row)
            return
        self.node_sets[row.name] = row
        self._changed("node_sets", row)

    def drop_node_set(self, name: str) -> None:
        self._changed("node_sets", self.node_sets.pop(name), gone=True)

    def _changed(self, source: Source, row: Any, *, gone: bool = False) -> None:
        super()._changed(source, row, gone=gone)

    def start_listing(self, source: Source, *, whole: bool = True) -> None:
        super().start_listing(source, whole=whole)
        if source == "slurm_nodes" and whole:
            ended = self.streams[source].pop()
            self.streams[source].extend([self._age(), ended])

    def confirm(self, source: Source) -> None:
        if source == "slurm_nodes" and source in self.following:
            self.streams[source].append(self._age())
        super().confirm(source)

    def _age(self) -> ControllerAge:
        return ControllerAge(self.now, self.now - self.controller_s)

    # What the machines do

    def place(self, name: str) -> None:
        """The scheduler binds a Pod."""
        self.put_pod(replace(self.pods[name], node_name=self.pins.get(name, f"k{name}")))

    def start_slurmd(self, name: str) -> None:
        """slurmd starts, registers, and its Pod becomes ready."""
        pod = self.pods[name]
        record = self.slurm_nodes.get(name)
        if record is None:
            stamp = Stamp(digest(CLUSTER_UID, pod.namespace, pod.nodeset), pod.shape)
            features = (pod.nodeset, stamp.feature)
            fields = {"stamp": stamp, "features": features, "active_features": features}
            row = slurm_node(name, f"IDLE+{DYNAMIC}", **fields, weight=1, topology=self.topology)
            self.put_slurm_node(row)
        elif "DOWN" in record.state:
            self.put_slurm_node(replace(record, state=record.state - {"DOWN"} | {"IDLE"}))
        self.put_pod(replace(pod, ready=True))

    def collect(self, name: str) -> None:
        """The garbage collector of Pods ends one whose Node is gone."""
        self.put_pod(replace(self.pods[name], terminating=True))

    def remove_pod(self, name: str) -> None:
        """The kubelet has ended the containers: jobs that ran there are lost."""
        record = self.slurm_nodes.get(name)
        pod = self.pods[name]
        if record is not None and is_busy(record.state) and pod.ready:
            self.lost_jobs.append(name)
        self.drop_pod(name)

    def start_job(self, name: str) -> None:
        """Slurm starts a job on an idle node that is not drained, if a slurmd answers there."""
        record, pod = self.slurm_nodes.get(name), self.pods.get(name)
        startable = record is not None and "IDLE" in record.state and not is_drained(record.state)
        if startable and pod is not None and pod.ready and record is not None:
            self.put_slurm_node(replace(record, state=record.state - {"IDLE"} | {"ALLOCATED"}))

    def end_job(self, name: str) -> None:
        record = self.slurm_nodes.get(name)
        if record is not None and is_busy(record.state):
            state = record.state - {"ALLOCATED", "MIXED", "COMPLETING"} | {"IDLE"}
            self.put_slurm_node(replace(record, state=state))

    # Writes

    def perform(self, action: Action) -> Outcome:
        self.tick()
        match action:
            case CreatePod():
                return self._create(action)
            case Condemn():
                return self._on_pod(action, pending_deletion=action.why or None)
            case DeletePod() | ClearPod() | RemakePod():
                return self._end_pod(action)
            case DeleteNode():
                return self._delete_node(action)
            case GetJobEnds():
                return self._job_ends(action)
            case SetStatus():
                return self._set_status(action)
            case SetFinalizer():
                return self._set_finalizer(action)
            case SetMetadata() if action.manager == MANAGER_BUSY:
                return self._on_pod(action, busy=bool(action.labels))
            case _:
                return super().perform(action)

    def _create(self, action: CreatePod) -> Outcome:
        spec = self.node_sets.get(action.spec.name)
        if spec is None or spec.uid != action.spec.uid:
            of = action.reference
            gone = CreateRefused(of.namespace, of.name, action.name, "its owner is gone")
            return Refused(action, "its owner is gone", (gone,))
        if self.rng.random() < self.unreadable:
            why = "exceeded quota"
            of = action.reference
            refused = CreateRefused(of.namespace, of.name, action.name, why)
            return Refused(action, why, (refused,))
        if action.name in self.pods:
            return Unsure(action, "409: it exists already")
        self.made += 1
        pod = SlurmdPod(
            namespace="slurm",
            name=action.name,
            uid=f"made-{self.made}",
            slurm_node=action.name,
            nodeset=spec.name,
            owner=spec.uid,
            revision=action.plan.revision,
            shape=action.plan.stamp.shape,
        )
        self.pins.pop(pod.name, None)
        if action.node_name:
            self.pins[pod.name] = action.node_name
        self.put_pod(pod)
        return Done(action, (self._seen(pod),))

    def _seen(self, pod: SlurmdPod) -> Observed:
        return Observed(pod, self.orders["slurmd_pods", pod.name])

    def _pod(self, action: Condemn | PodEnd | SetMetadata) -> SlurmdPod | None:
        pod = self.pods.get(action.reference.name)
        return pod if pod is not None and pod.uid == action.reference.uid else None

    def _on_pod(self, action: Condemn | SetMetadata, **fields: Any) -> Outcome:
        pod = self._pod(action)
        if pod is None:
            return Refused(action, "not found, or another UID", missing=True)
        self.put_pod(replace(pod, **fields))
        return Done(action, (self._seen(self.pods[pod.name]),))

    def _end_pod(self, action: PodEnd) -> Outcome:
        """As the push does: read the Pod, and delete exactly what was read."""
        pod = self._pod(action)
        if pod is None:
            return Done(action, missing=True)
        if pod.terminating:
            return Done(action, (self._seen(pod),))
        refused = isinstance(action, ClearPod) and not pod.finished
        if isinstance(action, DeletePod):
            refused = pod.pending_deletion != action.why or (action.drained and not pod.drained)
            self._check_idle(pod, drained=action.drained)
        if refused:
            return Refused(action, "it is not so any more", (self._seen(pod),))
        self.put_pod(replace(pod, terminating=True))
        return Done(action, (self._seen(self.pods[pod.name]),))

    def _check_idle(self, pod: SlurmdPod, *, drained: bool) -> None:
        """N8: no job may be lost by a deletion that rests on the annotation drained."""
        record = self.slurm_nodes.get(pod.slurm_node)
        if not drained or record is None or pod.pending_deletion is None or not pod.drained:
            return
        if is_busy(record.state) and is_drained(record.state):
            raise HistoryError(f"job: {pod.name} is deleted while {record} runs a job")

    def _delete_node(self, action: DeleteNode) -> Outcome:
        record = self.slurm_nodes.get(action.slurm_node)
        if record is None:
            return Done(action, (Deleted("slurm_nodes", "", action.slurm_node, "", self.now),))
        if record.stamp != action.stamp or is_busy(record.state):
            return Refused(action, "another record, or jobs run", (Observed(record, self.now),))
        pod = self.pods.get(action.slurm_node)
        if pod is not None and pod.ready and not pod.terminating:
            raise HistoryError(f"record: {record} is deleted under {pod}")
        del self.slurm_nodes[action.slurm_node]
        self.tick()
        return Done(action, (Deleted("slurm_nodes", "", action.slurm_node, "", self.now),))

    def _job_ends(self, action: GetJobEnds) -> Outcome:
        """Jobs have any time limits; a listing that fails is answered too."""
        if self.rng.random() < self.unreadable:
            return Refused(action, "unreachable", (JobEnds(action.node_set, self.now),))
        names = [one for one in action.slurm_nodes if one in self.slurm_nodes]
        ends = tuple((name, self.rng.randrange(1, 5)) for name in names)
        return Done(action, (JobEnds(action.node_set, self.now, ends),))

    def _node_set(self, action: SetStatus | SetFinalizer) -> NodeSet | None:
        row = self.node_sets.get(action.reference.name)
        return row if row is not None and row.uid == action.reference.uid else None

    def _set_status(self, action: SetStatus) -> Outcome:
        row = self._node_set(action)
        if row is None:
            return Refused(action, "not found", missing=True)
        self.put_node_set(
            replace(
                row,
                counts=action.counts,
                conditions=action.conditions,
                observed_generation=action.spec.generation,
                shown_revision=action.revision,
            )
        )
        return Done(action, (self._shown(row.name),))

    def _set_finalizer(self, action: SetFinalizer) -> Outcome:
        row = self._node_set(action)
        if row is None:
            return Refused(action, "not found", missing=True)
        held = action.held and (row.held or not row.deleting)
        self.put_node_set(replace(row, held=held))
        return Done(action, (self._shown(row.name),) if row.name in self.node_sets else ())

    def _collect(self, gone: NodeSet) -> None:
        """The garbage collector frees the Pods of a deleted NodeSet, or deletes them."""
        for pod in [pod for pod in self.pods.values() if pod.owner == gone.uid]:
            change = {"owner": ""} if gone.orphan else {"terminating": True}
            self.put_pod(replace(pod, **change))

    def _shown(self, name: str) -> Observed:
        return Observed(self.node_sets[name], self.orders["node_sets", name])
