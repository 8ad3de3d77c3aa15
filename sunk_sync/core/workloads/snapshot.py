"""One workload, put together for a decision: its Pods, its jobs, the hosts that they hold or
want.
"""

import math
from collections.abc import Mapping, Sequence

from sunk_sync.core.model.facts import GetResult, Job, Pod
from sunk_sync.core.model.job_description import JobDescription
from sunk_sync.core.model.job_identity import workload_id
from sunk_sync.core.model.pod_spec import PodSpec
from sunk_sync.core.tables.entries import Entry
from sunk_sync.core.translate.job_spec import digested
from sunk_sync.core.translate.job_states import (
    AGAIN,
    is_busy_refusal,
    is_edited,
    is_live,
    is_running,
    is_waiting,
    newest,
    number_of,
)
from sunk_sync.core.views.parts import NO_SUBMISSIONS, Members, Placement, Reach, Stuck
from sunk_sync.core.views.workload import Workload
from sunk_sync.core.workloads.members import kinds_of, members_of
from sunk_sync.core.workloads.pod_locations import PodLocations, locate_pods, stuck_pods
from sunk_sync.core.workloads.workloads import Workloads

NO_PODS: dict[str, Pod] = {}


class WorkloadSnapshots:
    """Puts together what rules read of one workload."""

    def __init__(self, workloads: Workloads) -> None:
        self._all = workloads
        self._index = workloads.index
        self._memory = workloads.memory
        self._lists = workloads.lists
        self._residents = workloads.residents
        self._feasible_hosts = workloads.feasible_hosts
        self._jobs = workloads.jobs
        self._pods = workloads.pods
        self._hosts = workloads.hosts
        self._calls = workloads.calls

    def workload(self, key: str) -> Workload:
        """All that rules may read of one workload."""
        known = self._index.pods.get(key, NO_PODS)
        ids = self._index.job_ids(key)
        entries = [self._jobs.entries[one] for one in ids]
        live = [entry for entry in entries if is_live(entry.row)]
        ended = [] if len(live) == len(entries) else _ended(entries)
        ended += self._memory.ends_of(known.values())
        chosen = self._choose(live, known)
        job = chosen.row if chosen is not None else None
        named = self._index.uids_of_job[job.job_id] if job is not None else None
        members = members_of(known, named, size_fact=self._memory.sizes.get(key))
        last = _last(ended, members.bound) if ended else None
        whole = named is not None and len(members.pods) == len(named)
        workload = Workload()
        workload.key = key
        workload.id = _id_of(members, job)
        _add_members(workload, members)
        workload.gate = self._all.gate()
        workload.lost = self._residents.is_lost(key)
        workload.stops = self._calls.stops_of(ids)
        if key in self._lists.unsettled:
            workload.jobs_listed_s = self._jobs.agreed_s
        if len(live) > 1:
            workload.others = tuple([entry.row for entry in live if entry is not chosen])
        if chosen is not None:
            self._add_job(workload, chosen)
        if ended:
            self._add_ended(workload, ended, last)
        if not whole:
            self._add_absent(workload, chosen, _absent(job or last, known))
        if workload.unbound:
            self._add_unbound(workload)
        if workload.bound:
            self._add_bound(workload)
        self._add_submission(workload)
        self._add_hosts(workload)
        return workload

    def _add_job(self, workload: Workload, chosen: Entry[Job]) -> None:
        job, memory = chosen.row, self._memory
        job_id = job.job_id
        workload.job = job
        workload.job_read_s = chosen.order
        workload.job_since_s = chosen.since_s
        workload.ahead = memory.ahead.get(job_id, 0)
        workload.notified_at_s = memory.notified_at_s(job)
        workload.end_notified = memory.is_end_notified(job)
        workload.placed_after_s = memory.first_notices.get(job_id, math.inf)
        workload.started = memory.has_started(job)
        workload.ran_s = memory.ran_s.get(job_id)
        workload.killed_s = self._calls.until_s.get(job_id)
        if workload.unbound:
            workload.placements = self._placements(workload.key, job, workload.unbound)
        if workload.bound:
            stands = self._pod_locations(job, workload.bound)
            workload.stands_elsewhere = stands.elsewhere
            workload.moved = stands.moved
            workload.here = stands.here

    def _add_ended(self, workload: Workload, ended: Sequence[Job], last: Job | None) -> None:
        by_itself = [job for job in ended if not is_busy_refusal(job)]
        workload.last = last
        workload.tried = len(by_itself) < len(ended)
        workload.ends = sum([1 for job in by_itself if AGAIN.isdisjoint(job.state)])
        if last is not None:
            workload.left = self._memory.left.get(last.job_id, ())
            workload.last_s = self._memory.ended_s.get(last.job_id, 0.0)

    def _add_absent(
        self, workload: Workload, chosen: Entry[Job] | None, absent: tuple[str, ...]
    ) -> None:
        if not absent:
            return
        workload.absent = absent
        workload.gone = frozenset([uid for uid in map(uid_in, absent) if uid in self._memory.gone])
        workload.get_results = self._get_results(absent, after_s=chosen.since_s if chosen else 0.0)
        workload.pods_listed_s = self._pods_listed_s(chosen.row if chosen else None, absent)

    def _add_unbound(self, workload: Workload) -> None:
        refusals, tried = self._memory.bind_refusals, self._memory.binds_tried
        uids = [pod.uid for pod in workload.unbound]
        workload.waits_since_s = max([self._memory.waits_s[uid] for uid in uids])
        if tried:
            workload.binds_tried = tuple([tried[uid] for uid in uids if uid in tried])
        if refusals:
            workload.bind_refused = tuple([refusals[uid] for uid in uids if uid in refusals])

    def _add_bound(self, workload: Workload) -> None:
        bound = workload.bound
        placed, host_of = self._memory.placed_s, self._hosts.claims.host_of_node
        ending = [pod for pod in bound if pod.terminating and not pod.ended]
        seconds = [placed[pod.uid] for pod in bound if pod.uid in placed]
        workload.placed_s = max(seconds, default=None)
        if workload.job is None:
            workload.standing = tuple([host_of(pod.node_name) for pod in bound])
        if ending:
            workload.stuck = self._stuck(ending)

    def _stuck(self, ending: Sequence[Pod]) -> tuple[Stuck, ...]:
        return stuck_pods(ending, nodes=self._hosts.nodes, asked=self._residents.nodes_asked)

    def _add_submission(self, workload: Workload) -> None:
        attempt = self._memory.attempts.get(workload.id)
        refused = self._memory.refusals.get(workload.id)
        if attempt is not None:
            workload.attempt = attempt[0]
        if refused is not None:
            workload.refused, workload.refused_s = refused

    def _add_hosts(self, workload: Workload) -> None:
        """What its Pods ask for, and which hosts could give it."""
        job = workload.job
        self._add_asked(workload)
        if job is not None and is_edited(job, workload.digest):
            self._lists.edited[workload.key] = None
            if not workload.bound:
                _add_exclusions(workload, self._reach(workload.pods))
        elif job is not None:
            wanted = self._all.exclusion_updates.wanted.get(job.job_id)
            if wanted is not None and is_waiting(job) and not workload.bound:
                _add_exclusions(workload, wanted)
        elif workload.pods and not workload.bound:
            reach = self._reach(workload.pods)
            _add_exclusions(workload, reach)
            workload.unfit = reach.unfit
            workload.not_ready = self._feasible_hosts.waits_for(reach)
            workload.sent_s = self._memory.submissions.of.get(workload.key, NO_SUBMISSIONS).sent_s
            self._add_given_up(workload)
            workload.room = not self._lists.is_crowded() and self._feasible_hosts.is_free(reach)
            workload.external = reach.external

    def _add_given_up(self, workload: Workload) -> None:
        """Hosts where its jobs were given up, until they are ready again (P32)."""
        known = self._memory.submissions.of.get(workload.key, NO_SUBMISSIONS)
        stands = tuple([one for one in known.hosts if not self._is_ready_again(*one)])
        if len(stands) == len(known.hosts):
            workload.given_up, workload.given_up_s = known.given_up, known.given_up_s
        workload.given_up_on = stands

    def _is_ready_again(self, slurm_node: str, given_up_s: float) -> bool:
        entry = self._hosts.claims.claim_of(slurm_node).node
        return entry is not None and entry.row.ready == "True" and entry.since_s > given_up_s

    def _pods_listed_s(self, job: Job | None, absent: Sequence[str]) -> float:
        """An array's identity names its Pods by UID alone (P21).

        Where their namespace is watched, a complete listing tells whether they are there.
        """
        if job is None or not job.identity.uids or not absent:
            return float("-inf")
        return self._pods.listed_s if self._all.watches(job) else float("-inf")

    def _add_asked(self, workload: Workload) -> None:
        """What the Pods ask of their job."""
        if workload.missing or not workload.pods:
            return
        described, its_digest = digested(workload.pods, self._all.configuration)
        if isinstance(described, JobDescription):
            workload.description, workload.digest = described, its_digest
        else:
            workload.invalid = described.message

    def _choose(self, live: Sequence[Entry[Job]], known: Mapping[str, Pod]) -> Entry[Job] | None:
        """The live job that counts: where the Pod is bound, else running, else the first (P29)."""
        if len(live) < 2:
            return live[0] if live else None
        bound = {
            self._hosts.claims.host_of_node(pod.node_name)
            for pod in known.values()
            if pod.node_name
        }

        def rank(entry: Entry[Job]) -> tuple[bool, bool, tuple[int, int]]:
            job = entry.row
            return (bound.isdisjoint(job.slurm_nodes), not is_running(job), number_of(job))

        return min(live, key=rank)

    def _get_results(self, absent: Sequence[str], *, after_s: float) -> tuple[GetResult, ...]:
        found = (self._memory.get_results.get(uid_in(pod)) for pod in absent)
        return tuple(one for one in found if one is not None and one.asked_s > after_s)

    def _placements(self, key: str, job: Job, unbound: Sequence[Pod]) -> tuple[Placement, ...]:
        """The hosts of a job whose Pods are about to move in."""
        if is_waiting(job):
            return ()
        specs = kinds_of(unbound)
        lives = [pod for pod in self._index.pods[key].values() if pod.node_name]
        but = key if lives else ""
        return tuple([self._placement(name, specs, but=but) for name in sorted(job.slurm_nodes)])

    def _placement(self, slurm_node: str, specs: Sequence[PodSpec], *, but: str) -> Placement:
        """`but`: a workload that does not stand in the way."""
        claim = self._hosts.claims.claim_of(slurm_node)
        node = claim.node.row if claim.node is not None else None
        if node is None or claim.rivals or not self._hosts.claims.owns_node(slurm_node, claim):
            why = "Kubernetes knows no one Node for it"
            return Placement(slurm_node, None, why, not self._hosts.nodes.live)
        residents = self._residents.on(node.name, slurm_node=slurm_node, but=but)
        unfit = [self._feasible_hosts.unfit(spec, claim, others=residents.taken) for spec in specs]
        why = next(filter(None, unfit), "")
        return Placement(slurm_node, node, why, False, residents.unconfirmed)  # noqa: FBT003

    def _pod_locations(self, job: Job, bound: Sequence[Pod]) -> PodLocations:
        """Where nobody knows the Node's host, nothing is said."""
        placed = [(pod, self._hosts.claims.host_of_node(pod.node_name)) for pod in bound]
        known = [(pod, host) for pod, host in placed if self._all.is_host(host)]
        return locate_pods(job, known, left=self._memory.left.get(job.job_id, ()))

    def _reach(self, pods: Sequence[Pod]) -> Reach:
        return self._feasible_hosts.reach_of_all([pod.spec for pod in pods])


def _add_members(workload: Workload, members: Members) -> None:
    workload.pods, workload.bound, workload.unbound = members.pods, members.bound, members.unbound
    workload.surplus, workload.missing = members.surplus, members.missing
    workload.ask_size, workload.size_asked_s = members.ask_size, members.size_asked_s


def _add_exclusions(workload: Workload, reach: Reach) -> None:
    workload.excluded, workload.hosts = reach.excluded, reach.hosts


def _absent(job: Job | None, known: Mapping[str, Pod]) -> tuple[str, ...]:
    """Pods of the job that are not in the picture: `namespace/name/uid`."""
    if job is None:
        return ()
    named = job.identity.pods or tuple(f"//{uid}" for uid in job.identity.uids)
    return tuple(pod for pod in named if uid_in(pod) not in known)


def _ended(entries: Sequence[Entry[Job]]) -> list[Job]:
    return [entry.row for entry in entries if not is_live(entry.row)]


def uid_in(named: str) -> str:
    """UID of `namespace/name/uid`."""
    return named.rpartition("/")[2]


def _last(ended: Sequence[Job], bound: Sequence[Pod]) -> Job | None:
    """The job that bound one of the Pods, though another came after it; else the newest."""
    by_itself = [job for job in ended if not is_busy_refusal(job)]
    named = {pod.job_id for pod in bound}
    return newest([job for job in by_itself if job.job_id in named] or by_itself)


def _id_of(members: Members, job: Job | None) -> str:
    if job is not None:
        return job.identity.workload
    if members.missing or not members.pods:
        return ""
    return workload_id([pod.uid for pod in members.pods])
