"""Who lives on a Node: workload Pods of ours, and what is known of their jobs.

Worked out once and kept until a Pod there, or a job of one, changes: `WorkGraph` says so.
"""

from collections.abc import Iterable

from sunk_sync.core.model.facts import Job, Pod, Sighting
from sunk_sync.core.tables.entries import Entry
from sunk_sync.core.tables.open_calls import Calls
from sunk_sync.core.tables.table import Table
from sunk_sync.core.translate.job_states import is_busy_refusal, is_live, is_running
from sunk_sync.core.translate.node_fit import ONE_POD, summed
from sunk_sync.core.views.parts import NOBODY, Tenancy, Tenant
from sunk_sync.core.workloads.index import Works
from sunk_sync.core.workloads.pod_locations import is_stranded

LOST_AFTER_S = 60.0
"""Between the first listing without a job and one that proves it lost (P30): two listings, and
more than slurmctld's first minute."""
READOPT_S = 10.0
"""So long its host is not drained, for another job to begin there: a drain would refuse it."""


def tenancy_of(tenants: Iterable[Tenant]) -> Tenancy:
    """Of these, all on one machine."""
    found = sorted(tenants, key=_pod_of)
    if not found:
        return NOBODY
    taken = summed([one.takes for one in found if one.confirmed])
    unconfirmed = tuple([one.pod for one in found if not one.confirmed])
    return Tenancy(tuple(found), tuple(filter(_may_outlive, found)), taken, unconfirmed)


class Tenants:
    """Tenancies by Node."""

    def __init__(self, *, works: Works, jobs: Table[Job], calls: Calls, readopts: bool) -> None:
        self._works = works
        self._jobs = jobs
        self._calls = calls
        self.nodes_asked: dict[str, Sighting] = {}
        """Node with bound Pods that is not in the picture → answer to a read by its name (P25b)."""
        self._readopts = readopts
        self._kept: dict[str, dict[str, Tenancy]] = {}
        """Node name → Slurm node → who lives there."""

    def forget(self, node_name: str) -> None:
        """Somebody there changed."""
        self._kept.pop(node_name, None)

    def forget_asked(self, nodes: Iterable[str]) -> None:
        """A Node that no Pod is bound to any more need not be known."""
        for name in nodes:
            if name in self.nodes_asked and name not in self._works.pods_on_node:
                del self.nodes_asked[name]

    def forget_all(self) -> None:
        """What an audit must not trust."""
        self._kept.clear()

    def on(self, node_name: str, *, slurm_node: str, but: str = "") -> Tenancy:
        """Who lives on this Node, which stands for this Slurm node; `but`: not of this Work."""
        there = self._works.pods_on_node.get(node_name)
        if not there:
            return NOBODY
        if self._calls.waits_at(slurm_node):  # how old a read is counts for a call (L7)
            tenancy = self._work_out(there, slurm_node)
        else:
            tenancy = self._kept_of(node_name, slurm_node)
        if not but:
            return tenancy
        others = [one for one in tenancy.all if one.work != but]
        return tenancy if len(others) == len(tenancy.all) else tenancy_of(others)

    def _kept_of(self, node_name: str, slurm_node: str) -> Tenancy:
        kept = self._kept.setdefault(node_name, {})
        tenancy = kept.get(slurm_node)
        if tenancy is None:
            there = self._works.pods_on_node[node_name]
            tenancy = kept[slurm_node] = self._work_out(there, slurm_node)
        return tenancy

    def is_lost(self, work: str, *, patience_s: float = 0.0) -> bool:
        """Complete listings, a minute apart, held no job of this Work (P30)."""
        missing_s = self._works.missing_s.get(work)
        after_s = LOST_AFTER_S + patience_s
        return missing_s is not None and self._jobs.agreed_s >= missing_s + after_s

    def _work_out(self, there: dict[str, Pod], slurm_node: str) -> Tenancy:
        asked = self.nodes_asked
        living = [one for one in there.values() if not (one.ended or is_stranded(one, asked))]
        return tenancy_of([self._tenant(pod, slurm_node) for pod in living])

    def _tenant(self, pod: Pod, slurm_node: str) -> Tenant:
        key = self._works.key_of_uid[pod.uid]
        entries = [self._jobs.entries[one] for one in self._works.jobs_of_uid.get(pod.uid, ())]
        live = [entry for entry in entries if is_live(entry.row)]
        counted = [entry for entry in entries if not is_busy_refusal(entry.row)]
        was_read = bool(counted) or self._works.end_of(pod) is not None
        patience_s = READOPT_S if self._readopts and counted == entries else 0.0
        here = [entry for entry in live if slurm_node in entry.row.slurm_nodes]
        held = next((entry for entry in here if is_running(entry.row)), None)
        shown = held or next(iter(here or live), None)
        return Tenant(
            pod=f"{pod.namespace}/{pod.name}",
            uid=pod.uid,
            work=key,
            takes=(*pod.spec.requests, *ONE_POD),
            job_id=shown.row.job_id if shown else "",
            confirmed=held is not None,
            read_s=shown.order if shown else 0.0,
            held=any(_holds(entry.row, slurm_node) for entry in entries),
            ended=was_read and not live,
            away=bool(live) and not here and all(map(_is_known_where, live)),
            lost=not was_read and self.is_lost(key, patience_s=patience_s),
            stop_until_s=self._calls.stop_until_s([entry.row.job_id for entry in entries]),
        )


def _pod_of(tenant: Tenant) -> str:
    return tenant.pod


def _may_outlive(tenant: Tenant) -> bool:
    return tenant.ended or tenant.away or tenant.lost or tenant.stop_until_s is not None


def _is_known_where(entry: Entry[Job]) -> bool:
    """Of one that runs the record may be yet to be read."""
    return bool(entry.row.slurm_nodes) or not is_running(entry.row)


def _holds(job: Job, slurm_node: str) -> bool:
    """A batch script that has not ended keeps the host from others."""
    alive = is_running(job) or "COMPLETING" in job.state
    return job.script and alive and slurm_node in job.slurm_nodes
