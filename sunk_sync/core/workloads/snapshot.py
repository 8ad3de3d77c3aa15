"""One Work, put together for a decision: its Pods, its jobs, the hosts that they hold or want."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sunk_sync.core.model.actions import JobDescription
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import Job, Node, Pod, Sighting, SlurmNode
from sunk_sync.core.model.job_identity import work_id
from sunk_sync.core.model.pod_spec import PodSpec
from sunk_sync.core.tables.claims import Claims
from sunk_sync.core.tables.entries import Entry
from sunk_sync.core.tables.feasible_hosts import Fleet
from sunk_sync.core.tables.last_seen import Places
from sunk_sync.core.tables.open_calls import Calls
from sunk_sync.core.tables.table import Table
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
from sunk_sync.core.views.parts import NO_SUBMISSIONS, Berth, Members, Reach, Stuck
from sunk_sync.core.views.workload import Work
from sunk_sync.core.workloads.exclusions import Renewal
from sunk_sync.core.workloads.index import Works
from sunk_sync.core.workloads.members import kinds_of, members_of
from sunk_sync.core.workloads.pod_locations import Whereabouts, stuck_pods, whereabouts
from sunk_sync.core.workloads.queue_position import Queue
from sunk_sync.core.workloads.residents import Tenants

FEW = 4
"""So many Works without a job may try an immediate allocation; more are a burst (P11a)."""


NO_PODS: dict[str, Pod] = {}


class Hosts(NamedTuple):
    """The tables that tell of hosts."""

    nodes: Table[Node]
    slurm_nodes: Table[SlurmNode]
    claims: Claims
    places: Places


class WorkPicture:
    """Works over the tables of `Graph`, as rules read them."""

    def __init__(
        self,
        *,
        configuration: Configuration,
        pods: Table[Pod],
        jobs: Table[Job],
        hosts: Hosts,
        calls: Calls,
    ) -> None:
        self.calls = calls
        self.configuration = configuration
        self.works = Works()
        self.gate_seen = False
        """A gate call for a job of ours came to this process."""
        self.fleet = Fleet(
            slurm_nodes=hosts.slurm_nodes,
            claims=hosts.claims,
            overhead=configuration.node_overhead,
        )
        self.renewal = Renewal(self.fleet)
        self.tenants = Tenants(
            works=self.works, jobs=jobs, calls=calls, readopts=configuration.lost_job == "readopt"
        )
        self._pods = pods
        self._jobs = jobs
        self._hosts = hosts
        self._unplaced: dict[str, None] = {}
        """Works without a live job whose Pods could have one: they read the fleet."""
        self._unsettled: dict[str, float] = {}
        """Works that a listing of jobs may decide (F2, P30) → begin of the first that may."""
        self._orphaned: dict[str, None] = {}
        """Works with a live job of which some Pod is not in the picture (P21)."""
        self._edited: dict[str, None] = {}
        """Works whose waiting job is to be updated (P20): they read the fleet too, since the last
        time that it changed."""
        self._queue = Queue(self.works.ahead)
        self._waiting: dict[str, tuple[int, int, str]] = {}
        """Jobs that hold no nodes yet → their numbers, for their order."""
        self._again: set[str] = set()
        """Those among them that ran before."""

    # What rules read

    def work(self, key: str) -> Work:
        """All that rules may read of one Work."""
        known = self.works.pods.get(key, NO_PODS)
        ids = self.works.job_ids(key)
        entries = [self._jobs.entries[one] for one in ids]
        live = [entry for entry in entries if is_live(entry.row)]
        ended = [] if len(live) == len(entries) else _ended(entries)
        ended += self.works.ends_of(known.values())
        chosen = self._choose(live, known)
        job = chosen.row if chosen is not None else None
        named = self.works.uids_of_job[job.job_id] if job is not None else None
        members = members_of(known, named, told=self.works.sizes.get(key))
        last = _last(ended, members.bound) if ended else None
        whole = named is not None and len(members.pods) == len(named)
        work = Work()
        work.key = key
        work.id = _id_of(members, job)
        _add_members(work, members)
        work.gate = self.gate()
        work.lost = self.tenants.is_lost(key)
        work.stops = self.calls.stops_of(ids)
        if key in self._unsettled:
            work.jobs_listed_s = self._jobs.agreed_s
        if len(live) > 1:
            work.others = tuple([entry.row for entry in live if entry is not chosen])
        if chosen is not None:
            self._add_job(work, chosen)
        if ended:
            self._add_ended(work, ended, last)
        if not whole:
            self._add_absent(work, chosen, _absent(job or last, known))
        if work.unbound:
            self._add_unbound(work)
        if work.bound:
            self._add_bound(work)
        self._add_submission(work)
        self._add_hosts(work)
        return work

    def _add_job(self, work: Work, chosen: Entry[Job]) -> None:
        job, works = chosen.row, self.works
        job_id = job.job_id
        work.job = job
        work.job_read_s = chosen.order
        work.job_since_s = chosen.since_s
        work.ahead = works.ahead.get(job_id, 0)
        work.told_s = works.told_s(job)
        work.told_ended = works.is_told_ended(job)
        work.placed_after_s = works.first_told.get(job_id, math.inf)
        work.started = works.has_started(job)
        work.ran_s = works.ran_s.get(job_id)
        work.killed_s = self.calls.until_s.get(job_id)
        if work.unbound:
            work.berths = self._berths(work.key, job, work.unbound)
        if work.bound:
            stands = self._whereabouts(job, work.bound)
            work.stands_elsewhere = stands.elsewhere
            work.moved = stands.moved
            work.here = stands.here

    def _add_ended(self, work: Work, ended: Sequence[Job], last: Job | None) -> None:
        by_itself = [job for job in ended if not is_busy_refusal(job)]
        work.last = last
        work.tried = len(by_itself) < len(ended)
        work.ends = sum([1 for job in by_itself if AGAIN.isdisjoint(job.state)])
        if last is not None:
            work.left = self.works.left.get(last.job_id, ())
            work.last_s = self.works.ended_s.get(last.job_id, 0.0)

    def _add_absent(self, work: Work, chosen: Entry[Job] | None, absent: tuple[str, ...]) -> None:
        if not absent:
            return
        work.absent = absent
        work.gone = frozenset([uid for uid in map(uid_in, absent) if uid in self.works.gone])
        work.sightings = self._sightings(absent, after_s=chosen.since_s if chosen else 0.0)
        work.pods_listed_s = self._pods_listed_s(chosen.row if chosen else None, absent)

    def _add_unbound(self, work: Work) -> None:
        refusals, tried = self.works.bind_refusals, self.works.binds_tried
        uids = [pod.uid for pod in work.unbound]
        work.waits_since_s = max([self.works.waits_s[uid] for uid in uids])
        if tried:
            work.binds_tried = tuple([tried[uid] for uid in uids if uid in tried])
        if refusals:
            work.bind_refused = tuple([refusals[uid] for uid in uids if uid in refusals])

    def _add_bound(self, work: Work) -> None:
        bound = work.bound
        placed, host_of = self.works.placed_s, self._hosts.claims.host_of_node
        ending = [pod for pod in bound if pod.terminating and not pod.ended]
        seconds = [placed[pod.uid] for pod in bound if pod.uid in placed]
        work.placed_s = max(seconds, default=None)
        if work.job is None:
            work.standing = tuple([host_of(pod.node_name) for pod in bound])
        if ending:
            work.stuck = self._stuck(ending)

    def _stuck(self, ending: Sequence[Pod]) -> tuple[Stuck, ...]:
        return stuck_pods(ending, nodes=self._hosts.nodes, asked=self.tenants.nodes_asked)

    def _add_submission(self, work: Work) -> None:
        attempt = self.works.attempts.get(work.id)
        refused = self.works.refusals.get(work.id)
        if attempt is not None:
            work.attempt = attempt[0]
        if refused is not None:
            work.refused, work.refused_s = refused

    def _add_hosts(self, work: Work) -> None:
        """What its Pods ask for, and which hosts could give it."""
        job = work.job
        self._add_asked(work)
        if job is not None and is_edited(job, work.digest):
            self._edited[work.key] = None
            if not work.bound:
                _add_exclusions(work, self._reach(work.pods))
        elif job is not None:
            wanted = self.renewal.wanted.get(job.job_id)
            if wanted is not None and is_waiting(job) and not work.bound:
                _add_exclusions(work, wanted)
        elif work.pods and not work.bound:
            reach = self._reach(work.pods)
            _add_exclusions(work, reach)
            work.unfit = reach.unfit
            work.not_ready = self.fleet.waits_for(reach)
            work.sent_s = self.works.submissions.of.get(work.key, NO_SUBMISSIONS).sent_s
            self._add_given_up(work)
            work.room = not self._crowded() and self.fleet.is_free(reach)
            work.external = reach.external

    def _add_given_up(self, work: Work) -> None:
        """Hosts where its jobs were given up, until they are ready again (P32)."""
        known = self.works.submissions.of.get(work.key, NO_SUBMISSIONS)
        stands = tuple([one for one in known.hosts if not self._is_ready_again(*one)])
        if len(stands) == len(known.hosts):
            work.given_up, work.given_up_s = known.given_up, known.given_up_s
        work.given_up_on = stands

    def _is_ready_again(self, slurm_node: str, given_up_s: float) -> bool:
        entry = self._hosts.claims.claim_of(slurm_node).node
        return entry is not None and entry.row.ready == "True" and entry.since_s > given_up_s

    def _pods_listed_s(self, job: Job | None, absent: Sequence[str]) -> float:
        """An array's identity names its Pods by UID alone (P21).

        Where their namespace is watched, a complete listing tells whether they are there.
        """
        if job is None or not job.identity.uids or not absent:
            return float("-inf")
        return self._pods.listed_s if self.watches(job) else float("-inf")

    def watches(self, job: Job) -> bool:
        """Whether Pods are watched where those of the job are, as its name tells."""
        watched = self.configuration.watch_namespaces
        return "*" in watched or "".join(job.name.split("/")[1:2]) in watched

    def _add_asked(self, work: Work) -> None:
        """What the Pods ask of their job."""
        if work.missing or not work.pods:
            return
        described, its_digest = digested(work.pods, self.configuration)
        if isinstance(described, JobDescription):
            work.description, work.digest = described, its_digest
        else:
            work.invalid = described.message

    def gate(self) -> bool:
        """Whether the gate stands."""
        chosen = self.configuration.gate
        return chosen == "on" or (chosen == "auto" and self.gate_seen)

    def awaits_jobs(self) -> bool:
        """Something of ours lives in Slurm, or is about to."""
        return bool(self._jobs.entries or self.works.pods)

    def bound_count(self) -> int:
        """How many Pods of ours are bound."""
        return len(self.works.bound_s)

    def renew(self, listed_s: float) -> list[str]:
        """Works of which the waiting job is to exclude other hosts than it does (P7)."""
        renewal, rows = self.renewal, self._jobs
        if renewal.begins(listed_s):
            known = [one for one in self._waiting if rows.entries[one].row.identity.hosts]
            renewal.begin(known, now_s=listed_s)
        keys = []
        for row in filter(None, map(rows.get, renewal.turns(listed_s))):
            for key in self.works.keys_of_job(row.job_id) if is_waiting(row) else ():
                specs = [pod.spec for pod in self.works.pods.get(key, NO_PODS).values()]
                if specs and renewal.judge(row, specs):
                    keys.append(key)
        return keys

    def unconfirmed(self) -> set[str]:
        """Works whose bound Pods may stand on a host that no running job of theirs holds (P25)."""
        again = {key for one in self._again for key in self.works.keys_of_job(one)}
        return again | self._unsettled.keys()

    def orphaned(self) -> Sequence[str]:
        """Works with a live job of which some Pod is not in the picture (P21)."""
        return tuple(self._orphaned)

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

    def _sightings(self, absent: Sequence[str], *, after_s: float) -> tuple[Sighting, ...]:
        found = (self.works.sightings.get(uid_in(pod)) for pod in absent)
        return tuple(one for one in found if one is not None and one.asked_s > after_s)

    def _berths(self, key: str, job: Job, unbound: Sequence[Pod]) -> tuple[Berth, ...]:
        """The hosts of a job whose Pods are about to move in."""
        if is_waiting(job):
            return ()
        specs = kinds_of(unbound)
        lives = [pod for pod in self.works.pods[key].values() if pod.node_name]
        but = key if lives else ""
        return tuple([self._berth(name, specs, but=but) for name in sorted(job.slurm_nodes)])

    def _berth(self, slurm_node: str, specs: Sequence[PodSpec], *, but: str) -> Berth:
        """`but`: a Work that does not stand in the way."""
        claim = self._hosts.claims.claim_of(slurm_node)
        node = claim.node.row if claim.node is not None else None
        if node is None or claim.rivals or not self._hosts.claims.owns_node(slurm_node, claim):
            why = "Kubernetes knows no one Node for it"
            return Berth(slurm_node, None, why, not self._hosts.nodes.live)
        tenancy = self.tenants.on(node.name, slurm_node=slurm_node, but=but)
        unfit = [self.fleet.unfit(spec, claim, others=tenancy.taken) for spec in specs]
        why = next(filter(None, unfit), "")
        return Berth(slurm_node, node, why, False, tenancy.unconfirmed)  # noqa: FBT003

    def _whereabouts(self, job: Job, bound: Sequence[Pod]) -> Whereabouts:
        """Where nobody knows the Node's host, nothing is said."""
        placed = [(pod, self._hosts.claims.host_of_node(pod.node_name)) for pod in bound]
        known = [(pod, host) for pod, host in placed if self._is_host(host)]
        return whereabouts(job, known, left=self.works.left.get(job.job_id, ()))

    def _is_host(self, name: str) -> bool:
        """Slurm knows it: a Node without its slurmd Pod goes by its own name for a while."""
        return name in self._hosts.slurm_nodes.entries

    def _reach(self, pods: Sequence[Pod]) -> Reach:
        return self.fleet.reach_of_all([pod.spec for pod in pods])

    def _crowded(self) -> bool:
        return len(self._unplaced) > FEW or bool(self._waiting)


def _add_members(work: Work, members: Members) -> None:
    work.pods, work.bound, work.unbound = members.pods, members.bound, members.unbound
    work.surplus, work.missing = members.surplus, members.missing
    work.ask_size, work.size_asked_s = members.ask_size, members.size_asked_s


def _add_exclusions(work: Work, reach: Reach) -> None:
    work.excluded, work.hosts = reach.excluded, reach.hosts


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
        return job.identity.work
    if members.missing or not members.pods:
        return ""
    return work_id([pod.uid for pod in members.pods])
