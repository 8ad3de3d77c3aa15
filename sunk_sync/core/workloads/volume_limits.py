"""How many volumes a Node may attach, and how many the Pods there use (P8).

As kube-scheduler counts them: different volumes of one CSI driver, of Pods that are bound or are
about to be. A claim without a volume counts as one of its class's driver.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from sunk_sync.core.model.facts import Job, Pod, Source
from sunk_sync.core.model.volumes import CsiNode, StorageClass, Volume, VolumeClaim
from sunk_sync.core.tables.claims import Claims, pod_key
from sunk_sync.core.tables.entries import Entry
from sunk_sync.core.tables.table import Table
from sunk_sync.core.translate.fences import Fence
from sunk_sync.core.translate.job_states import is_running, number_of
from sunk_sync.core.translate.volume_fit import TOO_MANY
from sunk_sync.core.workloads.index import WorkloadIndex

Attached = dict[str, set[str]]
"""Driver → its volumes."""
NONE_ATTACHED: Final[Attached] = {}
Age = tuple[float, tuple[int, int]]


class VolumeLimits:
    def __init__(
        self, *, tables: Mapping[Source, Table[Any]], index: WorkloadIndex, hosts: Claims
    ) -> None:
        self._claims: Table[VolumeClaim] = tables["volume_claims"]
        self._volumes: Table[Volume] = tables["volumes"]
        self._classes: Table[StorageClass] = tables["storage_classes"]
        self._csi_nodes: Table[CsiNode] = tables["csi_nodes"]
        self._jobs: Table[Job] = tables["jobs"]
        self._index = index
        self._hosts = hosts
        self._users: Counter[str] = Counter()
        """Node → Pods with claims that are bound there."""
        self._most = 0
        """The most claims that a Pod ever had."""
        self._nodes_with: Counter[tuple[str, int]] = Counter()
        """Driver and limit → Nodes."""
        self._lowest: dict[str, int] = {}
        """Driver → its lowest limit on any Node."""
        self._kept: dict[str, Attached] = {}
        """Node → what Pods attach that are bound there, until one of them or a volume changes."""

    # Changes

    def pod_changed(self, before: Pod | None, after: Pod | None) -> set[str]:
        """Return the Nodes where room for volumes may have come or gone."""
        nodes: set[str] = set()
        for pod, count in ((before, -1), (after, 1)):
            if pod is None or not pod.volume_claims:
                continue
            self._most = max(self._most, len(pod.volume_claims))
            nodes |= self.nodes_of_pod(pod)
            if pod.node_name:
                self._users[pod.node_name] += count
        for name in nodes:
            if not self._users[name]:
                del self._users[name]
        self.forget(nodes)
        return nodes

    def forget(self, nodes: Iterable[str]) -> None:
        for name in nodes:
            self._kept.pop(name, None)

    def csi_node_changed(self, before: CsiNode | None, after: CsiNode | None) -> bool:
        """Whether a limit changed."""
        limits = [one.limits if one is not None else () for one in (before, after)]
        if limits[0] == limits[1]:
            return False
        self._nodes_with.subtract(limits[0])
        self._nodes_with.update(limits[1])
        self._lowest = {}
        for driver, count in sorted(+self._nodes_with):
            self._lowest.setdefault(driver, count)
        return True

    def are_short(self, nodes: Iterable[str]) -> bool:
        """Whether room for volumes on one of these Nodes may matter to some Pod."""
        return any(self._is_short(name) for name in nodes) if self._lowest else False

    def _is_short(self, node_name: str) -> bool:
        row = self._csi_nodes.get(node_name)
        if row is None:
            return False
        attached = self._attached_at(node_name)
        may_come = self._most * (2 + self._arriving_at(node_name))
        return any(len(attached.get(driver, ())) + may_come > count for driver, count in row.limits)

    def nodes_of_pod(self, pod: Pod) -> set[str]:
        """Return where it is bound, or where its jobs run."""
        if pod.node_name:
            return {pod.node_name}
        ids = self._index.jobs_of_uid.get(pod.uid, ())
        return self.nodes_of(self._jobs.entries[one].row for one in ids)

    def nodes_of(self, jobs: Iterable[Job]) -> set[str]:
        """Return the Nodes where these jobs run, if there is any limit."""
        names = [name for job in jobs for name in job.slurm_nodes] if self._lowest else []
        return set(filter(None, map(self._node_of, names)))

    # Room

    def fences(self, pod: Pod) -> Iterator[Fence]:
        """Yield the Nodes that cannot attach the volumes of this Pod too."""
        if not self._lowest:
            return
        wanted = self._attached_by((pod,))
        limited = {driver: names for driver, names in wanted.items() if driver in self._lowest}
        if not limited:
            return
        age = self._age_of(pod)
        full = [one for one in self._candidates(limited) if self._is_full(one, limited, age=age)]
        if full:
            yield Fence("", frozenset(full), inside=False, reason=TOO_MANY)

    def _candidates(self, wanted: Attached) -> Collection[str]:
        """Only Nodes that attach something can be full, unless the Pod alone is too much."""
        if any(len(names) > self._lowest[driver] for driver, names in wanted.items()):
            return tuple(self._csi_nodes.entries)
        arriving = filter(None, map(self._node_of, self._index.arrivals))
        return {*self._users, *arriving}

    def _is_full(self, node_name: str, wanted: Attached, *, age: Age | None) -> bool:
        row = self._csi_nodes.get(node_name)
        limits = dict(row.limits) if row is not None else {}
        there = self._attached_at(node_name)
        arriving: Attached | None = None
        for driver, names in wanted.items():
            count = limits.get(driver)
            if count is None:
                continue
            together = names | there.get(driver, set())
            if len(together) + self._most * self._arriving_at(node_name) <= count:
                continue
            if arriving is None:
                arriving = self._attached_by(self._arrive_before(node_name, age))
            if len(together | arriving.get(driver, set())) > count:
                return True
        return False

    def _attached_at(self, node_name: str) -> Attached:
        if node_name not in self._users:
            return NONE_ATTACHED
        kept = self._kept.get(node_name)
        if kept is None:
            there = self._index.pods_on_node.get(node_name, {}).values()
            kept = self._kept[node_name] = self._attached_by(
                [pod for pod in there if not pod.ended]
            )
        return kept

    def _attached_by(self, pods: Iterable[Pod]) -> Attached:
        found: defaultdict[str, set[str]] = defaultdict(set)
        for pod in pods:
            for name in pod.volume_claims:
                driver, volume = self._volume_of(pod_key(pod.namespace, name))
                if driver:
                    found[driver].add(volume)
        return found

    def _volume_of(self, path: str) -> tuple[str, str]:
        """Return driver and name of the claim's volume; empty: no driver attaches it."""
        claim = self._claims.get(path)
        if claim is None:
            return "", ""
        if claim.volume:
            volume = self._volumes.get(claim.volume)
            return (volume.driver, volume.handle) if volume is not None else ("", "")
        storage_class = self._classes.get(claim.storage_class)
        return (storage_class.provisioner, path) if storage_class is not None else ("", "")

    # Pods whose jobs run there, but that are not bound yet

    def _node_of(self, slurm_node: str) -> str:
        node = self._hosts.claim_of(slurm_node).node
        return node.row.name if node is not None else ""

    def _arriving_at(self, node_name: str) -> int:
        hosts = self._hosts.hosts_on_node(node_name)
        return sum([len(self._index.arrivals.get(name, ())) for name in hosts])

    def _arrive_before(self, node_name: str, age: Age | None) -> Iterator[Pod]:
        """Yield the unbound Pods of older jobs there; without an age, of all jobs."""
        for host in self._hosts.hosts_on_node(node_name):
            for job_id in self._index.arrivals.get(host, ()):
                if age is not None and job_age(self._jobs.entries[job_id]) >= age:
                    continue
                for uid in self._index.uids_of_job[job_id]:
                    pod = self._index.pod_of(uid)
                    if pod is not None and not pod.node_name:
                        yield pod

    def _age_of(self, pod: Pod) -> Age | None:
        entries = [self._jobs.entries[one] for one in self._index.jobs_of_uid.get(pod.uid, ())]
        return min([job_age(entry) for entry in entries if is_running(entry.row)], default=None)


def job_age(entry: Entry[Job]) -> Age:
    """Return since when the job is as it is: a binding for the older one may be on its way."""
    return entry.changed_s, number_of(entry.row)
