"""The picture of both worlds: tables, indexes, dirty keys. The only mutable state of the core.

Facts come in by `observe`, which alone marks keys dirty; rules read by `host` and `cluster`.
"""

from collections.abc import Iterable, Sequence

from sunk_sync.claims import UNCLAIMED, Claim, Claims, pod_key, same_claim, same_own_claim, yields
from sunk_sync.facts import (
    NEEDED,
    SOURCES,
    Answered,
    Configuration,
    Confirmed,
    Deleted,
    Holding,
    ListingEnded,
    ListingStarted,
    Lost,
    News,
    Node,
    Observed,
    Pod,
    Reference,
    Row,
    Sighting,
    SlurmdPod,
    SlurmNode,
    Source,
    reference_of,
)
from sunk_sync.mark import Mark
from sunk_sync.places import Place, Places, node_place, pod_place
from sunk_sync.table import Table
from sunk_sync.views import Cluster, Host

Key = tuple[str, str]
CLUSTER: Key = ("cluster", "")


def host_key(slurm_node: str) -> Key:
    """Key of the host that this Slurm node names."""
    return ("host", slurm_node)


class Graph:
    """Every row, once; who claims what; which keys must be decided again."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.nodes: Table[Node] = Table()
        self.slurmd_pods: Table[SlurmdPod] = Table()
        self.pods: Table[Pod] = Table()
        self.slurm_nodes: Table[SlurmNode] = Table()
        self.tables: dict[Source, Table[Node] | Table[SlurmdPod] | Table[Pod] | Table[SlurmNode]]
        self.tables = dict(
            zip(SOURCES, (self.nodes, self.slurmd_pods, self.pods, self.slurm_nodes), strict=True)
        )
        self.claims = Claims(nodes=self.nodes, pods=self.slurmd_pods)
        self.holding: Holding | None = None
        self.unlisted = NEEDED
        """Sources that were never listed completely."""
        self.stale = NEEDED
        """Sources that cannot be read now without a gap."""
        self.dirty: dict[Key, None] = {}
        """Keys to decide again, oldest first."""
        self._places = Places()

    # Reading

    def host(self, name: str) -> Host:
        """All that rules may read of one host."""
        claim = self.claims.claim_of(name)
        if claim.pod is None or claim.node is None:
            return self._part_of_host(name, claim)
        pod, node = claim.pod, claim.node
        return Host(
            name=name,
            slurm_node=self.slurm_nodes.get(name),
            slurm_listed=self.slurm_nodes.listed,
            kube_listed=self.nodes.listed and self.slurmd_pods.listed,
            blind=self.slurm_nodes.blind,
            pod=pod.row,
            pod_since_s=pod.since_s,
            node=node.row,
            node_since_s=node.since_s,
            owns_node=claim.alone or self.claims.host_of_node(node.row.name) == name,
            mark=self._places.marks.get(name),
            stray=self.claims.stray_of(name) if node.row.name != name else None,
        )

    def _part_of_host(self, name: str, claim: Claim) -> Host:
        """A host of which Kubernetes shows no Pod or no Node, or too many."""
        pod, node, finished = claim.pod, claim.node, claim.finished
        last = self._places.last(name)
        timed = pod or finished
        node_name = last.node if last else ""
        node_absent = node is None and bool(node_name) and node_name not in self.nodes.entries
        elsewhere = node is not None and node.row.name != name
        crowded = pod is not None or elsewhere or bool(claim.rivals)
        return Host(
            name=name,
            slurm_node=self.slurm_nodes.get(name),
            slurm_listed=self.slurm_nodes.listed,
            kube_listed=self.nodes.listed and self.slurmd_pods.listed,
            blind=self.slurm_nodes.blind,
            pod=pod.row if pod else None,
            pod_since_s=timed.since_s if timed else 0.0,
            node=node.row if node else None,
            node_since_s=node.since_s if node else 0.0,
            owns_node=node is not None and self.claims.host_of_node(node.row.name) == name,
            mark=self._places.marks.get(name),
            finished=finished.row if finished else None,
            last=last,
            last_moved=last is not None and pod is None and self._moved(name, last),
            node_absent=node_absent,
            pod_sighting=self._places.sighting(pod_place(last)) if last and not pod else None,
            node_sighting=self._places.sighting(node_place(node_name)) if node_absent else None,
            rivals=claim.rivals,
            rival_pods=self._rival_pods(name, claim.rivals) if claim.rivals else (),
            stray=self.claims.stray_of(name) if crowded else None,
        )

    def _moved(self, name: str, last: Mark) -> bool:
        pod = self.slurmd_pods.get(pod_key(last.namespace, last.pod))
        return pod is not None and pod.uid == last.uid and pod.slurm_node != name

    def _rival_pods(self, name: str, rivals: tuple[Reference, ...]) -> tuple[SlurmdPod, ...]:
        keys = [pod_key(one.namespace, one.name) for one in rivals if one.kind == "Pod"]
        pods = [self.slurmd_pods.entries[key].row for key in keys]
        return tuple(pod for pod in pods if pod.slurm_node == name)

    def cluster(self) -> Cluster:
        """All that rules may read of the cluster as a whole."""
        unselected = sum(
            pod_key(sighting.namespace, sighting.name) not in self.slurmd_pods.entries
            for sighting in self._places.sightings().values()
            if sighting.kind == "Pod" and sighting.found == "yes"
        )
        marks = self._places.marks.values() if unselected else ()
        marked = sum(bool(mark.pod) for mark in marks)
        return Cluster(holding=self.holding, marked=marked, unselected=unselected)

    def keys(self) -> list[Key]:
        """Every key that any row concerns: what a full pass decides."""
        hosts = self.slurm_nodes.entries | self._places.seen
        return [CLUSTER, *map(host_key, hosts)]

    def knows(self, key: Key) -> bool:
        """Whether any row concerns the key."""
        name = key[1]
        return key == CLUSTER or name in self.slurm_nodes.entries or name in self._places.seen

    def host_count(self) -> int:
        """About how many Slurm nodes Kubernetes knows: the breaker's share is taken of it."""
        return min(
            len(self.slurm_nodes.entries), max(len(self._places.seen), len(self._places.marks))
        )

    def reference(self, key: Key) -> Reference:
        """The object that an Event about this key belongs to."""
        host = self.host(key[1]) if key != CLUSTER else None
        row = host and (host.pod or host.node)
        if row:
            return reference_of(row)
        return Reference("Namespace", "", self.configuration.namespace, "")

    # Taking in

    def observe(self, news: Sequence[News], *, now: float) -> None:
        """Take in what the world showed and mark every key that reads what changed."""
        for one in news:
            match one:
                case Observed():
                    self._observe_row(one.row, order=one.order, now=now)
                case Answered():
                    if self._holds(one.row):
                        self._observe_row(one.row, order=one.order, now=now, named=False)
                case Deleted():
                    self._remove(
                        one.source,
                        pod_key(one.namespace, one.name) if one.namespace else one.name,
                        uid=one.uid,
                        order=one.order,
                        now=now,
                    )
                case Sighting():
                    self._observe_sighting(one)
                case Holding():
                    self._observe_holding(one)
                case _:
                    self._observe_source(one, now=now)

    def _holds(self, row: Row) -> bool:
        """Whether the picture has a row of this name."""
        match row:
            case SlurmNode():
                return row.name in self.slurm_nodes.entries
            case Node():
                return row.name in self.nodes.entries
            case SlurmdPod():
                return pod_key(row.namespace, row.name) in self.slurmd_pods.entries
            case _:
                return pod_key(row.namespace, row.name) in self.pods.entries

    def _observe_row(self, row: Row, *, order: float, now: float, named: bool = True) -> None:
        """Take a row in; `named`: its source speaks of it, so a listing under way does too."""
        match row:
            case SlurmNode():
                before, changed = self.slurm_nodes.put(
                    row.name, row, order=order, now=now, named=named
                )
                if changed:
                    self._slurm_node_changed(before, row)
            case SlurmdPod():
                key = pod_key(row.namespace, row.name)
                pod_before, changed = self.slurmd_pods.put(
                    key, row, order=order, now=now, named=named
                )
                if changed:
                    self._slurmd_pod_changed(pod_before, row)
            case Node():
                node_before, changed = self.nodes.put(
                    row.name, row, order=order, now=now, named=named
                )
                if changed:
                    self._node_changed(node_before, row)
            case _:
                self.pods.put(
                    pod_key(row.namespace, row.name), row, order=order, now=now, named=named
                )

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
                    self._remove(one.source, key, uid=uid, order=order, now=now)
            case Confirmed():
                table.confirm(one.begun_s)
            case _:
                table.lose(one.why, blind=one.blind)
        self.unlisted = tuple(name for name in NEEDED if not self.tables[name].listed)
        self.stale = tuple(name for name in NEEDED if not self.tables[name].live)
        after = (table.listed, table.live, table.blind)
        if before[::2] != after[::2]:
            self._mark_all()

    def _remove(self, source: Source, key: str, *, uid: str, order: float, now: float) -> None:
        row = self.tables[source].remove(key, uid=uid, order=order, now=now)
        match row:
            case SlurmNode():
                self._slurm_node_changed(row, None)
            case SlurmdPod():
                self._slurmd_pod_changed(row, None)
            case Node():
                self._node_changed(row, None)

    def _observe_sighting(self, sighting: Sighting) -> None:
        """An answer asked for before the latest news of the object proves nothing."""
        kind, namespace, name = sighting.kind, sighting.namespace, sighting.name
        node = kind == "Node"
        heard_s = (
            self.nodes.heard_s(name) if node else self.slurmd_pods.heard_s(pod_key(namespace, name))
        )
        if sighting.asked_s < heard_s:
            sighting = Sighting(kind, namespace, name, "unknown", "", sighting.asked_s)
        hosts = self._places.note(sighting)
        if hosts:
            self._mark_hosts(hosts)
            self._mark(CLUSTER)

    def _observe_holding(self, holding: Holding) -> None:
        standing = holding if holding.count else None
        if standing != self.holding:
            self.holding = standing
            self._mark(CLUSTER)

    # Dirty edges: each kind of fact, before and after -> the keys that read it

    def _slurm_node_changed(self, before: SlurmNode | None, after: SlurmNode | None) -> None:
        name = (after or before).name  # type: ignore[union-attr]
        if (before.comment if before else "") != (after.comment if after else ""):
            comment = after.comment if after else ""
            self._places.remark(name, comment, cluster=self.configuration.cluster_uid)
            self._mark(CLUSTER)
        if after is None:
            self._forget_place(name)
        self._mark(host_key(name))

    def _slurmd_pod_changed(self, before: SlurmdPod | None, after: SlurmdPod | None) -> None:
        if before is not None and after is not None and same_claim(before, after):
            self._forget_sighting(("Pod", after.namespace, after.name))
            self._mark(host_key(after.slurm_node))
            self._mark_hosts(self.claims.hosts_on_node(after.node_name))
            self._mark_hosts(self._places.hosts_last_at(("Pod", after.namespace, after.name)))
            return
        if before is not None:
            self.claims.drop_pod(before)
            self._pod_touched(before)
        if after is not None:
            self.claims.add_pod(after)
            self._forget_sighting(("Pod", after.namespace, after.name))
            if after.slurm_node and self._places.remember_pod(after):
                self._mark(CLUSTER)
            self._pod_touched(after)
        if before is not None and yields(before, after):
            self._remember_standing(before.slurm_node, *self.claims.hosts_on_node(before.node_name))

    def _remember_standing(self, *slurm_nodes: str) -> None:
        """A claim was given up: another of the same name or on the same Node may stand alone."""
        for slurm_node in slurm_nodes:
            pod = self.claims.claim_of(slurm_node).pod
            if pod is not None:
                self._places.remember_pod(pod.row, alone=True)

    def _pod_touched(self, pod: SlurmdPod) -> None:
        """A Pod came, went or changed: its host, its neighbours, and the Node's own claim."""
        node = self.nodes.get(pod.node_name)
        if node is not None:
            self._remember_node(node)
        self._mark(host_key(pod.slurm_node))
        self._mark_hosts(self.claims.hosts_on_node(pod.node_name))
        place = ("Pod", pod.namespace, pod.name)
        self._mark_hosts(self._places.hosts_last_at(place))
        if self._places.sighting(place):
            self._mark(CLUSTER)
        self._forget_place(pod.slurm_node)

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        row = after or before
        assert row is not None
        if before is not None and after is not None and same_own_claim(before, after):
            last_here = self._places.hosts_last_at(node_place(row.name))
            self._mark_hosts(self.claims.hosts_on_node(row.name) | last_here)
            return
        if before is not None:
            self._mark_hosts(self.claims.hosts_on_node(before.name) | {before.slurm_node} - {""})
            self.claims.drop_node(before)
            self._forget_place(before.slurm_node or before.name)
            self._remember_standing(before.slurm_node)
        if after is not None:
            self.claims.add_node(after)
            self._forget_sighting(node_place(after.name))
            self._remember_node(after)
            self._mark_hosts(self.claims.hosts_on_node(after.name))
        self._mark_hosts(self._places.hosts_last_at(node_place(row.name)))

    def _mark(self, key: Key) -> None:
        self.dirty[key] = None

    def _mark_hosts(self, names: Iterable[str]) -> None:
        """Mark those that any row concerns; a Node's own name usually is no host at all.

        Sorted, for they come as sets: one history replays the same in every process.
        """
        for name in sorted(names):
            if name in self.slurm_nodes.entries or name in self._places.seen:
                self.dirty[("host", name)] = None

    def _mark_all(self) -> None:
        self.dirty.update(dict.fromkeys(self.keys()))

    def _forget_place(self, name: str) -> None:
        """Neither side speaks of this host any more: nothing is left to remember."""
        if name not in self._places.seen or name in self.slurm_nodes.entries:
            return
        if self.claims.claim_of(name) is UNCLAIMED:
            self._places.forget(name)
            self._mark(host_key(name))
            self._mark(CLUSTER)

    def _remember_node(self, node: Node) -> None:
        """A Node claims a Slurm node by itself only while no slurmd Pod lives on it."""
        own = node.slurm_node or node.name
        if self.claims.host_of_node(node.name) == own:
            self._places.remember_node(own, node)
        else:
            self._forget_place(own)

    def _forget_sighting(self, place: Place) -> None:
        if self._places.withdraw(place):
            self._mark(CLUSTER)
