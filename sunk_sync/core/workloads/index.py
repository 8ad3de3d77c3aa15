"""Indexes that map Pods and jobs to workloads. They follow from the rows alone.

The key of a workload is its id, or the namespace and name of a gang. The id is that of one Pod, or
of a job whose Pods are all gone.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from sunk_sync.core.model.facts import Job, Pod
from sunk_sync.core.model.keys import own_key, uids_of, workload_key_of
from sunk_sync.core.translate.job_states import is_live

Index = defaultdict[str, set[str]]
NO_JOBS: frozenset[str] = frozenset()


class WorkloadIndex:
    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Pod]] = {}  # workload key → UID → Pod
        self.key_of_uid: dict[str, str] = {}
        self.jobs_of_uid: dict[str, tuple[str, ...]] = {}  # ids of jobs that name the Pod, sorted
        self.orphans: Index = defaultdict(set)
        """Workload key → jobs with this key whose Pods are all unknown."""
        self.workload_of_job: dict[str, str] = {}
        self.uids_of_job: dict[str, tuple[str, ...]] = {}
        self.pods_on_node: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
        """Node name → UID → Pod bound there."""
        self.arrivals: Index = defaultdict(set)
        """Slurm node → live jobs that hold it and have an unbound Pod."""
        self.placements: dict[str, tuple[str, ...]] = {}  # such a job → Slurm nodes that it holds
        self.arrived: dict[str, int] = {}
        """Such a job → its number among all arrivals. A binding for an earlier one may be on its
        way to the API server."""
        self._numbers = itertools.count(1)

    def add_pod(self, pod: Pod) -> None:
        key = workload_key_of(pod)
        self.pods.setdefault(key, {})[pod.uid] = pod
        self.key_of_uid[pod.uid] = key
        if pod.node_name:
            self.pods_on_node[pod.node_name][pod.uid] = pod
        self._sort_each(pod.uid)

    def put_pod(self, pod: Pod) -> None:
        """Update a Pod that keeps its workload and its Node."""
        self.pods[self.key_of_uid[pod.uid]][pod.uid] = pod
        if pod.node_name:
            self.pods_on_node[pod.node_name][pod.uid] = pod

    def drop_pod(self, pod: Pod) -> None:
        """Remove a Pod; `pod` is the old row."""
        key = self.key_of_uid.pop(pod.uid, "")
        members = self.pods.get(key, {})
        members.pop(pod.uid, None)
        if not members:
            self.pods.pop(key, None)
        if pod.node_name:
            self._leave_node(pod)
        self._sort_each(pod.uid)

    def _sort_each(self, uid: str) -> None:
        for job_id in self.jobs_of_uid.get(uid, ()):
            self._sort(job_id)

    def _leave_node(self, pod: Pod) -> None:
        there = self.pods_on_node.get(pod.node_name, {})
        there.pop(pod.uid, None)
        if not there:
            self.pods_on_node.pop(pod.node_name, None)

    def pod_of(self, uid: str) -> Pod | None:
        return self.pods.get(self.key_of_uid.get(uid, ""), {}).get(uid)

    def node_of(self, uid: str) -> str:
        """Return the Node that the Pod is bound to; empty: none, or the Pod is unknown."""
        pod = self.pod_of(uid)
        return "" if pod is None else pod.node_name

    def put_job(self, before: Job | None, job: Job) -> None:
        """Add a job, or give it another identity: where it arrived before, it keeps its turn."""
        if before is not None:
            self._unname(before)
        self.workload_of_job[job.job_id] = own_key(job)
        uids = tuple(map(self._known, uids_of(job.identity)))
        self.uids_of_job[job.job_id] = uids
        for uid in uids:
            others = self.jobs_of_uid.get(uid, ())
            self.jobs_of_uid[uid] = tuple(sorted({*others, job.job_id}))
        self._sort(job.job_id)
        self.note_arrivals(job)

    def _known(self, uid: str) -> str:
        """Return the UID as its Pod's own string: one copy in memory, and faster comparisons."""
        pod = self.pod_of(uid)
        return uid if pod is None else pod.uid

    def note_arrivals(self, job: Job) -> None:
        """The job changed its state or hosts, or the binding of one of its Pods changed."""
        holds = job.slurm_nodes if is_live(job) else ()
        uids = self.uids_of_job[job.job_id] if holds else ()
        arrives = [uid for uid in uids if not self.node_of(uid)]
        self._move_in(job.job_id, holds if arrives else ())

    def _move_in(self, job_id: str, slurm_nodes: tuple[str, ...]) -> None:
        before = self.placements.get(job_id, ())
        if slurm_nodes == before:
            return
        for name in before:
            discard(self.arrivals, name, one=job_id)
        for name in slurm_nodes:
            self.arrivals[name].add(job_id)
        if slurm_nodes:
            self.placements[job_id] = slurm_nodes
            self.arrived[job_id] = next(self._numbers)
        else:
            del self.placements[job_id], self.arrived[job_id]

    def ahead_of(self, job_id: str, slurm_node: str) -> list[str]:
        """Return jobs that arrived at this host before the job, and still arrive."""
        jobs = self.arrivals.get(slurm_node, NO_JOBS)
        if jobs <= {job_id}:
            return []
        number = self.arrived.get(job_id, math.inf)
        return sorted(one for one in jobs if self.arrived[one] < number)

    def behind(self, job: Job) -> set[str]:
        """Return jobs that arrived at a host of this job after it, all of them if it left."""
        number = self.arrived.get(job.job_id, 0)
        there = [self.arrivals.get(name, NO_JOBS) for name in job.slurm_nodes]
        return {one for jobs in there for one in jobs if self.arrived[one] > number}

    def drop_job(self, job: Job) -> None:
        """Remove a job; `job` is the old row."""
        self._unname(job)
        self._move_in(job.job_id, ())

    def _unname(self, job: Job) -> None:
        discard(self.orphans, self.workload_of_job.pop(job.job_id, ""), one=job.job_id)
        self.uids_of_job.pop(job.job_id, None)
        for uid in uids_of(job.identity):
            others = [one for one in self.jobs_of_uid.pop(uid, ()) if one != job.job_id]
            if others:
                self.jobs_of_uid[uid] = tuple(others)

    def keys(self) -> list[str]:
        """Return every workload of a Pod or a job, oldest first."""
        return [*self.pods, *[key for key in self.orphans if key not in self.pods]]

    def workloads_of_pod(self, uid: str, own: str) -> set[str]:
        """Return its workload, and those of other Pods of its jobs: a gang label may be removed."""
        found = {own}
        for one in self.jobs_of_uid.get(uid, ()):
            found.update((self.workload_of_job[one],), self.keys_of_job(one))
        return found

    def knows(self, key: str) -> bool:
        return key in self.pods or key in self.orphans

    def _sort(self, job_id: str) -> None:
        """A job without any known Pod is a workload by itself."""
        key = self.workload_of_job[job_id]
        if self.key_of_uid.keys().isdisjoint(self.uids_of_job[job_id]):
            self.orphans[key].add(job_id)
        else:
            discard(self.orphans, key, one=job_id)

    def keys_of_job(self, job_id: str) -> set[str]:
        """Return the workloads of a job's Pods, or its own; empty for an unknown job."""
        uids = self.uids_of_job.get(job_id)
        if uids is None:
            return set()
        return self._keys_of_uids(uids) or {self.workload_of_job[job_id]}

    def keys_named_by(self, job: Job) -> set[str]:
        """Return the same for a job's row, even if the job is unknown."""
        return self._keys_of_uids(uids_of(job.identity)) or {own_key(job)}

    def _keys_of_uids(self, uids: Sequence[str]) -> set[str]:
        keys = self.key_of_uid
        return {keys[uid] for uid in uids if uid in keys}

    def lacks_pods(self, jobs: Iterable[Job]) -> bool:
        """Return whether the identity of one of these jobs names an unknown Pod."""
        uids = [uid for row in jobs for uid in self.uids_of_job[row.job_id]]
        return bool([uid for uid in uids if uid not in self.key_of_uid])

    def moving_in(self, slurm_node: str) -> set[str]:
        """Return workloads with a Pod that is about to be bound to this host."""
        jobs = self.arrivals.get(slurm_node, NO_JOBS)
        uids = [uid for one in jobs for uid in self.uids_of_job[one]]
        return {self.key_of_uid[uid] for uid in uids if uid in self.key_of_uid}

    def unbound_of(self, job_id: str) -> list[Pod]:
        """Return the Pods of the job that may still be bound."""
        pods = filter(None, map(self.pod_of, self.uids_of_job[job_id]))
        return [pod for pod in pods if not (pod.node_name or pod.terminating or pod.ended)]

    def job_ids(self, key: str) -> Sequence[str]:
        """Return jobs with a Pod of the workload, and orphans submitted under its id; sorted."""
        naming = [self.jobs_of_uid.get(uid, ()) for uid in self.pods.get(key, ())]
        orphans = self.orphans.get(key)
        if len(naming) == 1 and not orphans:
            return naming[0]
        return sorted({*itertools.chain.from_iterable(naming), *(orphans or ())})


def discard(index: Index, name: str, *, one: str) -> None:
    members = index.get(name)
    if members is not None:
        members.discard(one)
        if not members:
            del index[name]
