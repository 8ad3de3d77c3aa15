"""The state of Kubernetes and Slurm as last read: tables, indexes and dirty keys.

This is the only mutable state of the core. `observe` takes facts in and marks keys dirty; `decided`
takes decisions in. Rules read `host`, `workload` and `cluster`: views, which write nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from sunk_sync.core.graph.host_edges import HostEdges
from sunk_sync.core.graph.host_snapshot import HostSnapshots
from sunk_sync.core.graph.keys import Keys
from sunk_sync.core.graph.row_kinds import (
    RowKind,
    key_with_namespace,
    key_without_namespace,
    kinds_of_volumes,
)
from sunk_sync.core.graph.volume_edges import VolumeEdges
from sunk_sync.core.model.calls import CallEnded, GateCall, LockCall, StopCall
from sunk_sync.core.model.claims import Claims
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import (
    NAMESPACES,
    VOLUME_SOURCES,
    BindTried,
    Confirmed,
    Contradicted,
    Deleted,
    GetResult,
    Job,
    ListingEnded,
    ListingStarted,
    Lost,
    News,
    Node,
    Observed,
    Placed,
    Pod,
    Reference,
    Row,
    SlurmdPod,
    SlurmNode,
    Source,
    WriteEcho,
    reference_of,
)
from sunk_sync.core.model.keys import CLUSTER, Key, host_key
from sunk_sync.core.model.node_lock import NodePods
from sunk_sync.core.model.node_set import NodeSet
from sunk_sync.core.model.node_set_answers import NodeSetAnswer
from sunk_sync.core.model.restraint import Holding, Paused
from sunk_sync.core.model.topology_file import TopologyReport
from sunk_sync.core.model.user_policy import Namespace
from sunk_sync.core.model.verdict import Verdict
from sunk_sync.core.node_sets.index import NodeSetIndex
from sunk_sync.core.node_sets.snapshot import NodeSetSnapshots
from sunk_sync.core.tables.claims import pod_key
from sunk_sync.core.tables.doubts import Doubts
from sunk_sync.core.tables.entries import Entry
from sunk_sync.core.tables.host_identity import HostIdentity
from sunk_sync.core.tables.last_seen import Place
from sunk_sync.core.tables.open_calls import CallFact, OpenCalls
from sunk_sync.core.tables.sources import Sources
from sunk_sync.core.tables.table import Table
from sunk_sync.core.views.host import Host
from sunk_sync.core.views.node_set import NodeSetView
from sunk_sync.core.views.parts import Cluster
from sunk_sync.core.views.workload import Workload
from sunk_sync.core.workloads.decisions import Decisions
from sunk_sync.core.workloads.edges import MemoryFact, WorkloadEdges
from sunk_sync.core.workloads.snapshot import WorkloadSnapshots
from sunk_sync.core.workloads.vouching import claims_changed
from sunk_sync.core.workloads.workloads import Workloads


class Graph:
    paused = ""
    """Why an operator lets nothing be written, or empty."""

    def __init__(self, configuration: Configuration) -> None:
        self.sources = Sources(configuration)
        tables = self.sources.tables
        self.nodes: Table[Node] = tables["nodes"]
        self.slurmd_pods: Table[SlurmdPod] = tables["slurmd_pods"]
        self.pods: Table[Pod] = tables["pods"]
        self.slurm_nodes: Table[SlurmNode] = tables["slurm_nodes"]
        self.jobs: Table[Job] = tables["jobs"]
        hosts = HostIdentity(tables, cluster_uid=configuration.cluster_uid)
        self.claims, self.last_seen = hosts.claims, hosts.last_seen
        self.calls = OpenCalls()
        self.doubts = Doubts()
        self.holding: Holding | None = None
        self.workloads = Workloads(
            configuration=configuration, tables=tables, hosts=hosts, calls=self.calls
        )
        self.node_sets = NodeSetIndex(tables, configuration)
        self.node_set_snapshots = NodeSetSnapshots(self.node_sets, self.claims)
        self.host_snapshots = HostSnapshots(self.workloads, self.node_set_snapshots)
        self.workload_snapshots = WorkloadSnapshots(self.workloads)
        self._workload_edges = WorkloadEdges(self.workloads, self.workload_snapshots)
        self._decisions = Decisions(self.workloads, self.workload_snapshots)
        self.keys = Keys(self.workloads, self._workload_edges, self.node_sets.node_sets)
        edges = HostEdges(self.workloads, self._workload_edges, self.keys, self.node_sets)
        self._host_edges = edges
        self._volume_edges = VolumeEdges(self.workloads, self.keys)
        self._kinds = self._kinds_of_rows(tables)
        """By exact class: isinstance takes five times as long to reject a Struct."""

    def _kinds_of_rows(self, tables: Mapping[Source, Table[Any]]) -> dict[type[Row], RowKind]:
        edges = self._host_edges
        return {
            Job: RowKind("jobs", self.jobs, attrgetter("job_id"), self._job_changed),
            Pod: RowKind("pods", self.pods, key_with_namespace, self._pod_changed),
            SlurmdPod: RowKind(
                "slurmd_pods", self.slurmd_pods, key_with_namespace, edges.slurmd_pod_changed
            ),
            Node: RowKind("nodes", self.nodes, key_without_namespace, edges.node_changed),
            SlurmNode: RowKind(
                "slurm_nodes", self.slurm_nodes, key_without_namespace, edges.slurm_node_changed
            ),
            NodeSet: RowKind(
                "node_sets", tables["node_sets"], key_with_namespace, edges.node_set_changed
            ),
            Namespace: RowKind(
                "namespaces", tables["namespaces"], key_without_namespace, self._namespace_changed
            ),
            **kinds_of_volumes(tables, self._volume_edges),
        }

    @property
    def configuration(self) -> Configuration:
        return self.workloads.configuration

    def host(self, name: str) -> Host:
        return self.host_snapshots.host(name)

    def workload(self, key: str) -> Workload:
        return self.workload_snapshots.workload(key)

    def node_set(self, key: str) -> NodeSetView | None:
        return self.node_set_snapshots.view(key)

    def node_set_size(self, key: str) -> int:
        """Return how many Pods the NodeSet has."""
        return self.node_set_snapshots.size(key)

    def cluster(self) -> Cluster:
        unselected = sum(
            pod_key(get_result.namespace, get_result.name) not in self.slurmd_pods.entries
            for get_result in self.last_seen.get_results().values()
            if get_result.kind == "Pod" and get_result.found == "yes"
        )
        marks = self.last_seen.marks.values() if unselected else ()
        marked = sum(bool(mark.pod) for mark in marks)
        return Cluster(
            holding=self.holding,
            marked=marked,
            unselected=unselected,
            doubts=self.doubts.current(),
            topology=self.node_set_snapshots.topology.state,
            topology_calls=tuple(self.calls.topologies.values()),
            paused=self.paused,
            selections=self.workloads.volumes.stale_selections(),
        )

    def decided(self, key: Key, verdict: Verdict) -> None:
        """Take in a decision: it says what later facts concern."""
        if key[0] == "workload":
            self._decisions.note(key[1], verdict)

    def forget_cached(self, key: Key) -> None:
        """Drop cached values that this key reads, because an audit must compute them again."""
        rows = self.workloads.rows_of(key[1]) if key[0] == "workload" else ()
        names = [name for row in rows for name in row.slurm_nodes]
        for name in names if key[0] == "workload" else (key[1],):
            self.claims.forget(name)
            for node_name in self.claims.nodes_near(name):
                self.claims.forget_node(node_name)
                self.workloads.residents.forget(node_name)

    def reference(self, key: Key) -> Reference:
        """Return the object that gets the Events about this key."""
        if key[0] == "workload":
            pods = self.workloads.index.pods.get(key[1], {})
            return next((reference_of(pod) for pod in pods.values()), self._ourselves())
        if key[0] == "nodeset":
            spec = self.node_sets.node_sets.get(key[1])
            return reference_of(spec) if spec is not None else self._ourselves()
        host = self.host(key[1]) if key != CLUSTER else None
        row = host and (host.pod or host.node)
        if row:
            return reference_of(row)
        return self._ourselves()

    def _ourselves(self) -> Reference:
        return Reference("Namespace", "", self.configuration.namespace, "")

    def observe(self, news: Sequence[News], *, now: float) -> None:
        """Take facts in and mark every key that reads a change."""
        for one in news:
            match one:
                case Observed():
                    self._observe_row(one.row, order=one.order, now=now)
                case WriteEcho() | Placed() | NodePods() | NodeSetAnswer():
                    self._observe_answer(one, now=now)
                case Deleted():
                    self._remove(one, now=now, deleted=True)
                case GetResult():
                    self._observe_get_result(one, now=now)
                case Contradicted(of, asked_s):
                    place = (of.kind, of.namespace, of.name)
                    self._contradict(place, asked_s=asked_s, wrong=lambda uid: uid == of.uid)
                case Holding() | Paused():
                    self._observe_restraint(one)
                case ListingStarted() | ListingEnded() | Confirmed() | Lost():
                    self._observe_source(one, now=now)
                case GateCall() | LockCall() | StopCall() | TopologyReport() | CallEnded():
                    self._observe_call(one)
                case _:
                    self.keys.mark_each(self._observe_of_workloads(one, now=now))

    def _observe_of_workloads(self, one: MemoryFact | Claims, *, now: float) -> set[Key]:
        if isinstance(one, Claims):
            return claims_changed(self.workloads, one, now=now)
        return self._workload_edges.observe(one, now=now)

    def _observe_row(self, row: Row, *, order: float, now: float, named: bool = True) -> None:
        """Put a row into its table; `named`: its source reported it, so a listing contains it."""
        kind = self._kinds[type(row)]
        before, changed = kind.table.put(kind.key(row), row, order=order, now=now, named=named)
        if changed:
            kind.changed(before, row, now)
        elif type(row) is Job:
            self.keys.mark_each(self._workload_edges.job_read(row, order=order))

    def _observe_answer(
        self, answer: WriteEcho | Placed | NodePods | NodeSetAnswer, *, now: float
    ) -> None:
        """Take in an answer to sunk-sync. It adds a row only for an object that was just made.

        Until the watch shows that object, sunk-sync would make it again.
        """
        if isinstance(answer, NodePods):
            self._host_edges.pods_were_listed(answer)
            return
        if isinstance(answer, NodeSetAnswer):
            self.keys.mark_each(self.node_sets.answered(answer, now=now))
            return
        if isinstance(answer, Placed):
            self._observe_placed(answer, now=now)
            return
        kind = self._kinds[type(answer.row)]
        entry = kind.table.entries.get(kind.key(answer.row))
        if entry is None:
            if not answer.made or answer.asked_s < kind.table.begun_s:
                return
        elif type(answer.row) is not SlurmNode and self._is_of_another_history(answer, entry, kind):
            return
        self._observe_row(answer.row, order=answer.order, now=now, named=False)

    def _is_of_another_history(self, answer: WriteEcho, entry: Entry[Any], kind: RowKind) -> bool:
        """Whether an answer proves nothing, because a restore of etcd may have undone it.

        The listing or the watch shows everything older than the latest listing. If a later request
        shows an older version than the row, the row itself is from before a restore.
        """
        if answer.asked_s < kind.table.begun_s:
            return True
        if answer.order < entry.order and answer.asked_s > entry.learnt_s:
            self._doubt(kind.source, kind.key(answer.row), asked_s=answer.asked_s)
            return True
        return False

    def _contradict(self, place: Place, *, asked_s: float, wrong: Callable[[str], bool]) -> None:
        """An answer showed that no object of this place has this `wrong` UID."""
        kind, namespace, name = place
        key = name if kind == "Node" else pod_key(namespace, name)
        sources: tuple[Source, ...] = ("nodes",) if kind == "Node" else ("slurmd_pods", "pods")
        for source in sources:
            table = self.sources.tables[source]
            row = table.get(key)
            if row is not None and wrong(getattr(row, "uid", "")) and asked_s >= table.begun_s:
                self._doubt(source, key, asked_s=asked_s)

    def _doubt(self, source: Source, key: str, *, asked_s: float) -> None:
        self.doubts.note(source, key, asked_s=asked_s)
        self.keys.mark(CLUSTER)

    def _observe_placed(self, placed: Placed, *, now: float) -> None:
        """Note a binding: newer than the row that was bound, older than later news."""
        of = placed.reference
        entry = self.pods.entries.get(pod_key(of.namespace, of.name))
        if entry is None or entry.row.uid != of.uid or entry.row.node_name:
            return
        if placed.asked_s < self.pods.begun_s:
            # As in _is_of_another_history. It may stand, and the listing may not show it yet.
            tried = BindTried(of.uid, placed.job_id, now, placed.slurm_node)
            self.observe((tried,), now=now)
            return
        row = replace(entry.row, node_name=placed.node_name, job_id=placed.job_id)
        self._observe_row(row, order=entry.order + 0.5, now=now, named=False)

    def _observe_source(
        self, one: ListingStarted | ListingEnded | Confirmed | Lost, *, now: float
    ) -> None:
        table = self.sources.tables[one.source]
        before = (table.listed, table.live, table.blind)
        match one:
            case ListingStarted():
                table.start_listing(begun_s=one.begun_s, order=one.order)
            case ListingEnded():
                for key, order in table.end_listing():
                    row = table.entries[key].row
                    uid = getattr(row, "uid", "")
                    gone = Deleted(one.source, *_named(key), uid, order)
                    self._remove(gone, now=now, deleted=False)
            case Confirmed():
                table.confirm(one.begun_s)
            case _:
                table.lose(one.why, blind=one.blind)
        self.sources.refresh()
        after = (table.listed, table.live, table.blind)
        if before[::2] != after[::2]:
            self._listing_known(one.source)
            self.keys.mark_all()
        elif one.source == "nodes" and table.live != before[1]:
            self.keys.mark_each(self._workload_edges.nodes_liveness_changed())
        if isinstance(one, ListingEnded | Confirmed):
            self._listed(one.source)
        if self.doubts.listed(one.source, begun_s=table.listed_s):
            self.keys.mark(CLUSTER)

    def _listing_known(self, source: Source) -> None:
        """A source is listed for the first time, or cannot be read any more."""
        if source in VOLUME_SOURCES:
            self._volume_edges.listed()
        elif source == NAMESPACES:
            self._workload_edges.namespaces.listed()

    def _listed(self, source: Source) -> None:
        """The absences of a source are known after a complete listing."""
        if source in ("jobs", "pods") and self.workloads.volumes.any_selected:
            self.keys.mark(CLUSTER)
        if source == "jobs":
            self.keys.mark_each(self._workload_edges.jobs_listed())
        elif source == "pods":
            self.keys.mark_each(self._workload_edges.pods_listed())
        elif source == "slurm_nodes":
            self.keys.mark_each(self.node_sets.slurm_was_read())
            self._host_edges.slurm_was_read()

    def _remove(self, gone: Deleted, *, now: float, deleted: bool) -> None:
        """Take a row out; `deleted`: a watch reported the deletion, no listing."""
        key = pod_key(gone.namespace, gone.name) if gone.namespace else gone.name
        table = self.sources.tables[gone.source]
        row = table.remove(key, uid=gone.uid, order=gone.order, now=now)
        if row is None:
            return
        if self.doubts.settle(gone.source, key):
            self.keys.mark(CLUSTER)
        self._kinds[type(row)].changed(row, None, now, deleted)

    def _observe_get_result(self, get_result: GetResult, *, now: float) -> None:
        """Take in a read by name; it proves nothing if news of the object came later."""
        kind, namespace, name = get_result.kind, get_result.namespace, get_result.name
        node = kind == "Node"
        place = pod_key(namespace, name)
        if not node:
            self._observe_bound(get_result, now=now)
        last_news_s = (
            self.nodes.last_news_s(name)
            if node
            else max(self.slurmd_pods.last_news_s(place), self.pods.last_news_s(place))
        )
        if get_result.asked_s < last_news_s:
            get_result = GetResult(kind, namespace, name, "unknown", "", get_result.asked_s)
        if get_result.found != "unknown":
            place_, uid = (kind, namespace, name), get_result.uid
            self._contradict(place_, asked_s=get_result.asked_s, wrong=lambda one: one != uid)
        was_read = self._workload_edges.node_was_read if node else self._workload_edges.pod_was_read
        self.keys.mark_each(was_read(get_result))
        hosts = self.last_seen.note(get_result)
        if hosts:
            self.keys.mark_hosts(hosts)
            self.keys.mark(CLUSTER)

    def _observe_bound(self, get_result: GetResult, *, now: float) -> None:
        """The read shows whether a binding without an answer succeeded (P14, P29)."""
        entry = self.pods.entries.get(pod_key(get_result.namespace, get_result.name))
        tried = self.workloads.memory.binds_tried.get(entry.row.uid) if entry is not None else None
        if entry is None or tried is None:
            return
        of = entry.row
        if get_result.node_name and get_result.uid == of.uid:
            row = replace(of, node_name=get_result.node_name, job_id=tried.job_ids[-1])
            self._observe_row(row, order=get_result.order, now=now, named=False)
        else:
            self.workloads.memory.settle_bind(tried, get_result)
            self.keys.mark_each(self._workload_edges.bind_tried(tried))

    def _observe_restraint(self, one: Holding | Paused) -> None:
        """Note why policy holds writes back."""
        before = (self.holding, self.paused)
        if isinstance(one, Paused):
            self.paused = one.why
        else:
            self.holding = one if one.count or one.ends else None
            self.keys.mark_each(self.node_sets.deletions_held(one.pods))
        if before != (self.holding, self.paused):
            self.keys.mark(CLUSTER)

    def _observe_call(self, one: CallFact) -> None:
        """A call at the hooks server concerns its hosts, or the workload of its job."""
        if isinstance(one, LockCall):
            one = self._observe_lock(one)
        if isinstance(one, TopologyReport):
            self.keys.mark_each(self.node_set_snapshots.topology.hear(one))
        elif one.call in self.calls.topologies:
            self.keys.mark(CLUSTER)
        stop = self.calls.stops.get(one.call) or one
        for name in sorted(self.calls.observe(one)):
            self.keys.mark(host_key(name))
        if isinstance(one, GateCall) and one.job_id in self.jobs.entries:
            self._see_gate()
        if isinstance(stop, StopCall):
            self.keys.mark_each(self._workload_edges.stops(stop))

    def _observe_lock(self, call: LockCall) -> LockCall:
        """Decide once whether the lock is a strict one: for placeholders, if nobody chose."""
        self._host_edges.lock_was_asked(call)
        strict = call.job_id in self.jobs.entries if call.strict is None else call.strict
        return replace(call, strict=strict)

    def _see_gate(self) -> None:
        """After the first call for a job of sunk-sync every key may rely on the gate."""
        if not self.workloads.gate_seen:
            self.workloads.gate_seen = True
            self.keys.mark_all()

    def _namespace_changed(
        self, before: Namespace | None, after: Namespace | None, *_: object
    ) -> None:
        if self.sources.tables["namespaces"].listed:
            self.keys.mark_each(self._workload_edges.namespaces.changed(before, after))

    def _job_changed(self, before: Job | None, after: Job | None, now: float, *_: object) -> None:
        self.keys.mark_each(self._workload_edges.job_changed(before, after, now=now))
        if self.workloads.volumes.any_selected:
            self.keys.mark(CLUSTER)

    def _pod_changed(
        self, before: Pod | None, after: Pod | None, now: float, deleted: bool = False
    ) -> None:
        if self.configuration.scheduler:
            self.keys.mark_each(
                self._workload_edges.pod_changed(before, after, now=now, deleted=deleted)
            )


def _named(key: str) -> tuple[str, str]:
    namespace, _, name = key.rpartition("/")
    return namespace, name
