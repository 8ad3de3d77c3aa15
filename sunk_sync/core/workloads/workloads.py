"""The state of workloads: index, memory, watchlists and hosts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import BindTried, Job, Pod, Source
from sunk_sync.core.model.job_identity import given_name
from sunk_sync.core.model.keys import Key, workload_key
from sunk_sync.core.model.user_policy import (
    NO_DEFAULTS,
    NamespaceDefaults,
    UserPolicy,
    takes_defaults,
)
from sunk_sync.core.tables.feasible_hosts import FeasibleHosts
from sunk_sync.core.tables.host_identity import HostIdentity
from sunk_sync.core.tables.open_calls import OpenCalls
from sunk_sync.core.tables.table import Table
from sunk_sync.core.translate.fences import NO_FENCES, GangFences, share_out
from sunk_sync.core.translate.job_states import is_live
from sunk_sync.core.translate.node_fit import Reasons
from sunk_sync.core.views.parts import Reach
from sunk_sync.core.workloads.exclusions import ExclusionUpdates
from sunk_sync.core.workloads.gang_hosts import reach_of_members
from sunk_sync.core.workloads.index import WorkloadIndex
from sunk_sync.core.workloads.memory import WorkloadMemory
from sunk_sync.core.workloads.namespaces import Namespaces
from sunk_sync.core.workloads.neighbours import Neighbours
from sunk_sync.core.workloads.other_kinds import OtherKinds
from sunk_sync.core.workloads.places import Places
from sunk_sync.core.workloads.queue_position import Queue
from sunk_sync.core.workloads.residents import ResidentIndex
from sunk_sync.core.workloads.volume_choice import VolumeChoice
from sunk_sync.core.workloads.volumes import VolumeIndex
from sunk_sync.core.workloads.watchlists import Watchlists


class Workloads:
    """The state of workloads. The edges change it, the snapshots read it."""

    def __init__(
        self,
        *,
        configuration: Configuration,
        tables: Mapping[Source, Table[Any]],
        hosts: HostIdentity,
        calls: OpenCalls,
    ) -> None:
        self.configuration = configuration
        self.pods: Table[Pod] = tables["pods"]
        self.jobs: Table[Job] = tables["jobs"]
        self._namespaces = Namespaces(tables["namespaces"])
        self.hosts = hosts
        self.calls = calls
        self.index = WorkloadIndex()
        self.memory = WorkloadMemory(self.index)
        self.lists = Watchlists()
        self.feasible_hosts = FeasibleHosts(
            slurm_nodes=hosts.slurm_nodes,
            claims=hosts.claims,
            overhead=configuration.node_overhead,
            locks=configuration.lock,
        )
        self.exclusion_updates = ExclusionUpdates()
        self.residents = ResidentIndex(
            index=self.index,
            memory=self.memory,
            jobs=self.jobs,
            calls=calls,
            readopts=configuration.lost_job == "readopt",
        )
        self.volumes = self._new_volumes(tables)
        self.volume_choice = VolumeChoice(self.volumes, index=self.index, jobs=self.jobs)
        self.neighbours = self._new_neighbours()
        self.queue = Queue(self.memory.ahead)
        self.gate_seen = False
        """This process got a gate call for a job of sunk-sync."""

    def _new_volumes(self, tables: Mapping[Source, Table[Any]]) -> VolumeIndex:
        return VolumeIndex(
            tables=tables,
            index=self.index,
            hosts=self.hosts.claims,
            scheduler=self.configuration.scheduler,
        )

    def _new_neighbours(self) -> Neighbours:
        placed = Places(
            memory=self.memory,
            jobs=self.jobs,
            volumes=self.volume_choice,
            namespaces=self._namespaces,
            settle_s=self.configuration.settle_s,
        )
        others = OtherKinds(
            watched=self.configuration.watch_namespaces, namespaces=self._namespaces
        )
        return Neighbours(index=self.index, placed=placed, hosts=self.hosts, others=others)

    def apply_rules(self, policy: UserPolicy) -> None:
        self.configuration = replace(self.configuration, namespace_rules=policy)

    def namespace_defaults(self, namespace: str) -> NamespaceDefaults | None:
        """Return what the Namespace names for its Pods; None: it must be read first (P5, P8)."""
        rules = self.configuration.namespace_rules
        takes = rules is not None and takes_defaults(rules, namespace)
        if not (takes or self.neighbours.reads_namespaces):
            return NO_DEFAULTS
        row = self._namespaces.get(namespace)
        if row is None:
            return None
        return row.defaults if takes else NO_DEFAULTS

    def reach(self, key: str, pods: Sequence[Pod]) -> Reach:
        """Return the hosts for these Pods of a workload, beside the Pods of others (P8)."""
        return self._fenced(pods, self.fences(key, pods))

    def reach_of_waiting(self, job: Job, *, key: str, pods: Sequence[Pod]) -> Reach:
        """Return the hosts for a job that waits.

        Slurm changes the exclusions of an array for all its waiting tasks at once. So they name
        only what keeps every task away: never the Pods of others, which may matter to one task.
        """
        is_task = "_" in job.job_id
        return self._fenced(pods, self._volume_fences(pods) if is_task else self.fences(key, pods))

    def _fenced(self, pods: Sequence[Pod], fences: GangFences) -> Reach:
        specs, feasible_hosts = [pod.spec for pod in pods], self.feasible_hosts
        reach = feasible_hosts.reach_of_all(specs)
        if fences.common:
            reach = feasible_hosts.fenced(reach, fences.common, specs=specs)
        if not fences.own or reach.unfit:
            return reach
        hosts = feasible_hosts.open_to_each(fences.own, among=frozenset(reach.fit))
        return reach_of_members(reach, list(zip(pods, hosts, strict=True)))

    def reasons_of(self, key: str, pods: Sequence[Pod]) -> Mapping[str, Reasons]:
        """Return for each Slurm node why it cannot take these Pods; empty: it can."""
        specs, fences = [pod.spec for pod in pods], self.fences(key, pods)
        reasons = self.feasible_hosts.reasons_of(specs, fences=fences.common)
        if not fences.own:
            return reasons
        fit = self._fenced(pods, fences).fit
        every = tuple([fence for own in fences.own for fence in own])
        closed = self.feasible_hosts.reasons_of(specs, fences=every)
        return {name: why or (() if name in fit else closed[name]) for name, why in reasons.items()}

    def fences(self, key: str, pods: Sequence[Pod], *, job: Job | None = None) -> GangFences:
        """Return what closes hosts to these Pods: the Pods of others, and volumes (P8).

        `job`: theirs, if it has hosts. They keep those where volumes are made for it.
        """
        common, own = self._volume_fences(pods, job)
        beside = self.neighbours.fences(key) if self.neighbours.active else ()
        return GangFences((*beside, *common), own)

    def _volume_fences(self, pods: Sequence[Pod], job: Job | None = None) -> GangFences:
        if not self.volumes.is_user(pods):
            return NO_FENCES
        found = [self.volumes.fences(pod) for pod in pods]
        if job is None or len(job.slurm_nodes) < 2:
            return share_out(found)
        claims = map(self.hosts.claims.claim_of, job.slurm_nodes)
        nodes = {claim.node.row.name for claim in claims if claim.node is not None}
        selected = [self.volumes.selected(pod, job.job_id, nodes=nodes) for pod in pods]
        return share_out([(*one, *more) for one, more in zip(found, selected, strict=True)])

    def watches(self, job: Job) -> bool:
        """Whether sunk-sync watches the namespace of the job's Pods, which is in the job's name."""
        watched, name = self.configuration.watch_namespaces, given_name(job.name, job.identity)
        return "*" in watched or "".join(name.split("/")[1:2]) in watched

    def gate(self) -> bool:
        """Whether the gate is in use."""
        chosen = self.configuration.gate
        return chosen == "on" or (chosen == "auto" and self.gate_seen)

    def awaits_jobs(self) -> bool:
        """Whether sunk-sync has a job in Slurm, or a Pod that may get one."""
        return bool(self.jobs.entries or self.index.pods)

    def bound_count(self) -> int:
        return len(self.memory.bound_s)

    def unconfirmed(self) -> set[str]:
        """Return workloads with bound Pods on a host that their job may not hold any more (P25)."""
        again = {key for one in self.lists.requeued for key in self.index.keys_of_job(one)}
        return again | self.lists.unsettled.keys()

    def bindings_of_others(self, now: float) -> list[BindTried]:
        """Return what the last leader may have bound: the watch of Pods may lag (F6, P14)."""
        return [
            BindTried(uid, job.job_id, now, name)
            for job in self.jobs.rows()
            if is_live(job) and job.slurm_nodes
            for uid in self.index.uids_of_job[job.job_id]
            if uid in self.index.key_of_uid and not self.index.node_of(uid)
            for name in job.slurm_nodes
        ]

    def avoiding(self, slurm_nodes: Iterable[str]) -> set[Key]:
        """Return workloads that may avoid one of these Slurm nodes (P32)."""
        given_up_at = self.memory.submissions.given_up_at
        if not given_up_at:
            return set()
        keys = {key for name in slurm_nodes for key in given_up_at.get(name, ())}
        return set(map(workload_key, self.lists.that_want_host(keys)))

    def orphaned(self) -> Sequence[str]:
        return tuple(self.lists.orphaned)

    def rows_of(self, key: str) -> list[Job]:
        return [self.jobs.entries[one].row for one in self.index.job_ids(key)]

    def rows_that_ask(self, key: str) -> list[Job]:
        """Return jobs whose script waits for its Pods: they may have ended."""
        if not self.calls.stops:
            return []
        return [row for row in self.rows_of(key) if self.calls.stops_of((row.job_id,))]

    def is_host(self, name: str) -> bool:
        """Whether Slurm has it: a Node without its slurmd Pod has its own name for a while."""
        return name in self.hosts.slurm_nodes.entries
