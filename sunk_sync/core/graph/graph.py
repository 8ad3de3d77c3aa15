"""The picture of both worlds: tables, indexes, dirty keys. The only mutable state of the core.

Facts come in by `observe`, which alone marks keys dirty; rules read by `host` and `cluster`.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from msgspec.structs import replace

from sunk_sync.core.graph.host_snapshot import HostSnapshot
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import (
    NEEDED,
    CallEnded,
    Confirmed,
    Contradicted,
    Deleted,
    GateCall,
    GetResult,
    Holding,
    Job,
    ListingEnded,
    ListingStarted,
    Lost,
    News,
    Node,
    Observed,
    Placed,
    Pod,
    Row,
    SlurmdPod,
    SlurmNode,
    Source,
    StopCall,
    WriteEcho,
)
from sunk_sync.core.model.keys import CLUSTER, Key, host_key, workload_key
from sunk_sync.core.tables.claims import pod_key, same_claim, same_own_claim, yields
from sunk_sync.core.tables.entries import UNCLAIMED, Entry
from sunk_sync.core.tables.last_seen import Place, node_place
from sunk_sync.core.tables.open_calls import CallWord
from sunk_sync.core.tables.table import Table
from sunk_sync.core.translate.node_states import same_kind


class RowKind(NamedTuple):
    """Where the rows of one class are kept."""

    source: Source
    table: Table[Any]
    key: Callable[[Any], str]
    changed: Callable[..., None]
    """Marks every key that reads the row. Takes the row before and after, the time, and of a row
    taken out whether the source itself told that the object is gone."""


class Graph(HostSnapshot):
    """Every row, once; who claims what; which keys must be decided again."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self._kinds: dict[type[Row], RowKind] = {
            Job: RowKind("jobs", self.jobs, attrgetter("job_id"), self._job_changed),
            Pod: RowKind("pods", self.pods, _key_of_pod, self._pod_changed),
            SlurmdPod: RowKind(
                "slurmd_pods", self.slurmd_pods, _key_of_pod, self._slurmd_pod_changed
            ),
            Node: RowKind("nodes", self.nodes, attrgetter("name"), self._node_changed),
            SlurmNode: RowKind(
                "slurm_nodes", self.slurm_nodes, attrgetter("name"), self._slurm_node_changed
            ),
        }
        """By the very class of a row: isinstance takes five times as long to say no of a Struct."""

    # Taking in

    def observe(self, news: Sequence[News], *, now: float) -> None:
        """Take in what the world showed and mark every key that reads what changed."""
        for one in news:
            match one:
                case Observed():
                    self._observe_row(one.row, order=one.order, now=now)
                case WriteEcho() | Placed():
                    self._observe_answer(one, now=now)
                case Deleted():
                    self._remove(one, now=now, deleted=True)
                case GetResult():
                    self._observe_get_result(one, now=now)
                case Contradicted(of, asked_s):
                    place = (of.kind, of.namespace, of.name)
                    self._contradict(place, asked_s=asked_s, wrong=lambda uid: uid == of.uid)
                case Holding():
                    self._observe_holding(one)
                case ListingStarted() | ListingEnded() | Confirmed() | Lost():
                    self._observe_source(one, now=now)
                case GateCall() | StopCall() | CallEnded():
                    self._observe_call(one)
                case _:
                    self._mark_each(self.workloads.hear(one, now=now))

    def _observe_row(self, row: Row, *, order: float, now: float, named: bool = True) -> None:
        """Take a row in; `named`: its source speaks of it, so a listing under way does too."""
        kind = self._kinds[type(row)]
        before, changed = kind.table.put(kind.key(row), row, order=order, now=now, named=named)
        if changed:
            kind.changed(before, row, now)
        elif type(row) is Job:
            self._mark_each(self.workloads.job_read(row, order=order))

    def _observe_answer(self, answer: WriteEcho | Placed, *, now: float) -> None:
        """An answer to a write of ours adds no row."""
        if isinstance(answer, Placed):
            self._observe_placed(answer, now=now)
            return
        kind = self._kinds[type(answer.row)]
        entry = kind.table.entries.get(kind.key(answer.row))
        if entry is None:
            return
        if type(answer.row) is not SlurmNode and self._is_of_another_history(answer, entry, kind):
            return
        self._observe_row(answer.row, order=answer.order, now=now, named=False)

    def _is_of_another_history(self, answer: WriteEcho, entry: Entry[Any], kind: RowKind) -> bool:
        """Whether an answer of Kubernetes proves nothing: etcd may have lost what it shows.

        One asked for before the latest listing began says nothing. What it shows is in the listing,
        or the watch will tell. An older version than ours that was asked for later shows that ours
        is of such a history.
        """
        if answer.asked_s < kind.table.begun_s:
            return True
        if answer.order < entry.order and answer.asked_s > entry.learnt_s:
            self._doubt(kind.source, kind.key(answer.row), asked_s=answer.asked_s)
            return True
        return False

    def _contradict(self, place: Place, *, asked_s: float, wrong: Callable[[str], bool]) -> None:
        """An answer showed that there is no object of this `wrong` UID."""
        kind, namespace, name = place
        key = name if kind == "Node" else pod_key(namespace, name)
        sources: tuple[Source, ...] = ("nodes",) if kind == "Node" else ("slurmd_pods", "pods")
        for source in sources:
            table = self.tables[source]
            row = table.get(key)
            if row is not None and wrong(getattr(row, "uid", "")) and asked_s >= table.begun_s:
                self._doubt(source, key, asked_s=asked_s)

    def _doubt(self, source: Source, key: str, *, asked_s: float) -> None:
        """What the picture has of this row is old."""
        self.doubts.note(source, key, asked_s=asked_s)
        self._mark(CLUSTER)

    def _observe_placed(self, placed: Placed, *, now: float) -> None:
        """Newer than the row that was bound, older than whatever is told of the Pod since."""
        entry = self.pods.entries.get(pod_key(placed.namespace, placed.name))
        if entry is None or entry.row.uid != placed.uid or entry.row.node_name:
            return
        if placed.asked_s < self.pods.begun_s:
            return  # as in _observe_object
        row = replace(entry.row, node_name=placed.node_name, job_id=placed.job_id)
        self._observe_row(row, order=entry.order + 0.5, now=now, named=False)

    def _observe_source(
        self, one: ListingStarted | ListingEnded | Confirmed | Lost, *, now: float
    ) -> None:
        table = self.tables[one.source]
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
        self.unlisted = tuple(name for name in NEEDED if not self.tables[name].listed)
        self.workloads_unlisted = tuple(
            name for name in self.workloads_need if not self.tables[name].listed
        )
        self.stale = tuple(name for name in NEEDED if not self.tables[name].live)
        self.readiness = (self.unlisted, self.workloads_unlisted, self.stale, self.jobs.live)
        after = (table.listed, table.live, table.blind)
        if before[::2] != after[::2]:
            self._mark_all()
        elif one.source == "nodes" and table.live != before[1]:
            self._mark_each(self.workloads.nodes_turned())
        if isinstance(one, ListingEnded | Confirmed):
            self._listed(one.source)
        if self.doubts.listed(one.source, begun_s=table.listed_s):
            self._mark(CLUSTER)

    def _listed(self, source: Source) -> None:
        """A question that covers a whole source was answered: absences from it are known."""
        if source == "jobs":
            self._mark_each(self.workloads.jobs_listed())
        elif source == "pods":
            self._mark_each(self.workloads.pods_listed())

    def _remove(self, gone: Deleted, *, now: float, deleted: bool) -> None:
        """Take a row out; `deleted`: a watch reported the deletion, no listing."""
        key = pod_key(gone.namespace, gone.name) if gone.namespace else gone.name
        table = self.tables[gone.source]
        row = table.remove(key, uid=gone.uid, order=gone.order, now=now)
        if row is None:
            return
        if self.doubts.settle(gone.source, key):
            self._mark(CLUSTER)
        self._kinds[type(row)].changed(row, None, now, deleted)

    def _observe_get_result(self, get_result: GetResult, *, now: float) -> None:
        """An answer asked for before the latest news of the object proves nothing."""
        kind, namespace, name = get_result.kind, get_result.namespace, get_result.name
        node = kind == "Node"
        place = pod_key(namespace, name)
        if not node:
            self._observe_bound(get_result, now=now)
        heard_s = (
            self.nodes.heard_s(name)
            if node
            else max(self.slurmd_pods.heard_s(place), self.pods.heard_s(place))
        )
        if get_result.asked_s < heard_s:
            get_result = GetResult(kind, namespace, name, "unknown", "", get_result.asked_s)
        if get_result.found != "unknown":
            place_, uid = (kind, namespace, name), get_result.uid
            self._contradict(place_, asked_s=get_result.asked_s, wrong=lambda one: one != uid)
        was_read = self.workloads.node_was_read if node else self.workloads.pod_was_read
        self._mark_each(was_read(get_result))
        hosts = self._last_seen.note(get_result)
        if hosts:
            self._mark_hosts(hosts)
            self._mark(CLUSTER)

    def _observe_bound(self, get_result: GetResult, *, now: float) -> None:
        """A binding without an answer was taken, or it was not (P14, P29)."""
        entry = self.pods.entries.get(pod_key(get_result.namespace, get_result.name))
        tried = (
            self.workloads.workloads.binds_tried.get(entry.row.uid) if entry is not None else None
        )
        if entry is None or tried is None:
            return
        of = entry.row
        if get_result.node_name and get_result.uid == of.uid:
            row = replace(of, node_name=get_result.node_name, job_id=tried.job_ids[-1])
            self._observe_row(row, order=get_result.order, now=now, named=False)
        else:
            self.workloads.workloads.settle_bind(tried, get_result)
            self._mark(workload_key(self.workloads.workloads.key_of_uid[of.uid]))

    def _observe_holding(self, holding: Holding) -> None:
        standing = holding if holding.count or holding.ends else None
        if standing != self.holding:
            self.holding = standing
            self._mark(CLUSTER)

    def _observe_call(self, one: CallWord) -> None:
        """A call at the hooks server concerns its hosts, or the workload of its job."""
        stop = self.calls.stops.get(one.call) or one
        for name in sorted(self.calls.hear(one)):
            self._mark(host_key(name))
        if isinstance(one, GateCall) and one.job_id in self.jobs.entries:
            self._see_gate()
        if isinstance(stop, StopCall):
            self._mark_each(self.workloads.stops(stop))

    def _see_gate(self) -> None:
        """From the first call for a job of ours on every key may count on the gate."""
        if not self.workloads.gate_seen:
            self.workloads.gate_seen = True
            self._mark_all()

    # Dirty edges: each kind of fact, before and after -> the keys that read it

    def _job_changed(self, before: Job | None, after: Job | None, now: float, *_: object) -> None:
        self._mark_each(self.workloads.job_changed(before, after, now=now))

    def _pod_changed(
        self, before: Pod | None, after: Pod | None, now: float, deleted: bool = False
    ) -> None:
        if self.configuration.scheduler:
            self._mark_each(self.workloads.pod_changed(before, after, now=now, deleted=deleted))

    def _slurm_node_changed(
        self, before: SlurmNode | None, after: SlurmNode | None, *_: object
    ) -> None:
        name = (after or before).name  # type: ignore[union-attr]
        if (before.comment if before else "") != (after.comment if after else ""):
            comment = after.comment if after else ""
            self._last_seen.remark(name, comment, cluster=self.configuration.cluster_uid)
            self._mark(CLUSTER)
        if before is None or after is None:
            self._mark_pods_at(name)
        if after is None:
            self._forget_place(name)
        self._mark(host_key(name))
        same = before is not None and after is not None and same_kind(before, after)
        self._mark_each(self.workloads.room_changed() if same else self.workloads.hosts_changed())

    def _slurmd_pod_changed(
        self, before: SlurmdPod | None, after: SlurmdPod | None, *_: object
    ) -> None:
        if before is not None and after is not None and same_claim(before, after):
            if before.requests != after.requests:
                self._mark_each(self.workloads.hosts_changed())
            self._mark_hosts((after.slurm_node,))
            self._forget_get_result(("Pod", after.namespace, after.name))
            return
        if before is not None:
            self.claims.drop_pod(before)
            self._pod_touched(before)
        if after is not None:
            self.claims.add_pod(after)
            self._forget_get_result(("Pod", after.namespace, after.name))
            if after.slurm_node and self._last_seen.remember_pod(after):
                self._mark(CLUSTER)
            self._pod_touched(after)
        if before is not None and yields(before, after):
            self._remember_standing(before.slurm_node, *self.claims.hosts_on_node(before.node_name))

    def _remember_standing(self, *slurm_nodes: str) -> None:
        """A claim was given up: another of the same name or on the same Node may stand alone."""
        for slurm_node in slurm_nodes:
            pod = self.claims.claim_of(slurm_node).pod
            if pod is not None:
                self._last_seen.remember_pod(pod.row, alone=True)

    def _pod_touched(self, pod: SlurmdPod) -> None:
        """A Pod came, went or changed: its host, its neighbours, and the Node's own claim."""
        self._mark_each(self.workloads.hosts_changed())
        self._mark_each(self.workloads.keys_of_pods_on(pod.node_name))
        node = self.nodes.get(pod.node_name)
        if node is not None:
            self._remember_node(node)
        self._mark(host_key(pod.slurm_node))
        self._mark_hosts(self.claims.hosts_on_node(pod.node_name))
        place = ("Pod", pod.namespace, pod.name)
        self._mark_hosts(self._last_seen.hosts_last_at(place))
        if self._last_seen.get_result(place):
            self._mark(CLUSTER)
        self._forget_place(pod.slurm_node)

    def _node_stands(self, before: Node, after: Node) -> None:
        """It claims what it did: only hosts whose claim it is part of read its row."""
        if before.offer != after.offer:
            self._mark_each(self.workloads.hosts_changed())
        if before.ready != after.ready:
            self._mark_each(self.workloads.node_turned(after.name))
        self._mark_hosts(self.claims.hosts_on_node(after.name))

    def _node_changed(self, before: Node | None, after: Node | None, *_: object) -> None:
        if before is not None and after is not None and same_own_claim(before, after):
            self._node_stands(before, after)
            return
        row = after or before
        assert row is not None
        self._mark_each(self.workloads.hosts_changed())
        self.workloads.node_turned(row.name)  # whom it names is among those on the Node
        self._mark_each(self.workloads.keys_of_pods_on(row.name))
        if before is not None:
            self._mark_hosts((*self.claims.hosts_on_node(before.name), before.slurm_node))
            self.claims.drop_node(before)
            self._forget_place(before.slurm_node or before.name)
            self._remember_standing(before.slurm_node)
        if after is not None:
            self.claims.add_node(after)
            self._forget_get_result(node_place(after.name))
            self._remember_node(after)
            self._mark_hosts(self.claims.hosts_on_node(after.name))
        self._mark_hosts(self._last_seen.hosts_last_at(node_place(row.name)))

    def _mark_pods_at(self, slurm_node: str) -> None:
        """Slurm began or ceased to know it: whether Pods on its Node stand well (P18)."""
        for name in sorted(self.claims.nodes_near(slurm_node)):
            self._mark_each(self.workloads.keys_of_pods_on(name))

    def _mark(self, key: Key) -> None:
        self.dirty[key] = None

    def _mark_each(self, keys: Iterable[Key]) -> None:
        """Sorted, for they come as sets: one history replays the same in every process."""
        for key in sorted(keys):
            if key[0] == "workload" or self._knows_host(key[1]):
                self.dirty[key] = None

    def _mark_hosts(self, names: Iterable[str]) -> None:
        """Mark those that any row concerns; a Node's own name usually is no host at all.

        Sorted, for they come as sets: one history replays the same in every process.
        """
        for name in sorted(names):
            if self._knows_host(name):
                self.dirty[("host", name)] = None
            if name in self.workloads.workloads.arrivals:
                self._mark_each(self.workloads.keys_at(name))

    def _mark_all(self) -> None:
        self.dirty.update(dict.fromkeys(self.keys()))

    def _forget_place(self, name: str) -> None:
        """Neither side speaks of this host any more: nothing is left to remember."""
        if name not in self._last_seen.seen or name in self.slurm_nodes.entries:
            return
        if self.claims.claim_of(name) is UNCLAIMED:
            self._last_seen.forget(name)
            self._mark(host_key(name))
            self._mark(CLUSTER)

    def _remember_node(self, node: Node) -> None:
        """A Node claims a Slurm node by itself only while no slurmd Pod lives on it."""
        own = node.slurm_node or node.name
        if self.claims.host_of_node(node.name) == own:
            self._last_seen.remember_node(own, node)
        else:
            self._forget_place(own)

    def _forget_get_result(self, place: Place) -> None:
        """The object is in our listings: what a read by name said of it no longer counts."""
        if self._last_seen.withdraw(place):
            self._mark_hosts(self._last_seen.hosts_last_at(place))
            self._mark(CLUSTER)


def _key_of_pod(row: Pod | SlurmdPod) -> str:
    return pod_key(row.namespace, row.name)


def _named(key: str) -> tuple[str, str]:
    """Namespace and name in the key of a table."""
    namespace, _, name = key.rpartition("/")
    return namespace, name
