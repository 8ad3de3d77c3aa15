"""One Work, put together for a decision: its Pods, its jobs, the hosts that they hold or want."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import fields

from sunk_sync.actions import JobDescription
from sunk_sync.calls import Calls
from sunk_sync.claims import Claims
from sunk_sync.configuration import Configuration
from sunk_sync.description import digested
from sunk_sync.entries import Entry
from sunk_sync.facts import Job, Node, Pod, Sighting, SlurmNode
from sunk_sync.fleet import Fleet
from sunk_sync.identity import work_id
from sunk_sync.job_state import (
    AGAIN,
    is_busy_refusal,
    is_edited,
    is_live,
    is_running,
    is_waiting,
    newest,
    number_of,
)
from sunk_sync.members import members_of
from sunk_sync.places import Places
from sunk_sync.renewal import Renewal
from sunk_sync.stuck import stuck_pods
from sunk_sync.table import Table
from sunk_sync.tenants import Tenants
from sunk_sync.views import Berth, Members, Reach, Stuck, Work
from sunk_sync.waiting import Queue
from sunk_sync.whereabouts import Whereabouts, whereabouts
from sunk_sync.workload import PodSpec
from sunk_sync.works import Works

FEW = 4
"""So many Works without a job may try an immediate allocation; more are a burst (P11a)."""


Found = dict[str, Any]
"""Every field of a Work, in the order in which it takes them: by their names they cost more."""
NOTHING_KNOWN: Found = {
    field.name: None if field.required else field.default for field in fields(Work)
}
NO_PODS: Mapping[str, Pod] = {}


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
        found = NOTHING_KNOWN.copy()
        found["key"] = key
        found["id"] = identity = _id_of(members, job)
        found["pods"] = members.pods
        found["bound"] = members.bound
        found["unbound"] = members.unbound
        found["gate"] = self.gate()
        found["lost"] = self.tenants.is_lost(key)
        found["stops"] = self.calls.stops_of(ids)
        if key in self._unsettled:
            found["jobs_listed_s"] = self._jobs.agreed_s
        if len(live) > 1:
            found["others"] = tuple([entry.row for entry in live if entry is not chosen])
        if chosen is not None:
            self._add_job(found, key, chosen, members)
        if ended:
            self._add_ended(found, ended, last)
        if not whole:
            self._add_absent(found, chosen, _absent(job or last, known))
        if members.unbound:
            self._add_unbound(found, members.unbound)
        if members.bound:
            self._add_bound(found, members.bound, job)
        self._add_submission(found, identity)
        self._add_hosts(found, key, job, members)
        _add_gang(found, members)
        return Work(*found.values())

    def _add_job(self, found: Found, key: str, chosen: Entry[Job], members: Members) -> None:
        job, works = chosen.row, self.works
        found["job"] = job
        found["job_read_s"] = chosen.order
        found["job_since_s"] = chosen.since_s
        found["ahead"] = works.ahead.get(job.job_id, 0)
        found["told_s"] = works.told_s(job)
        found["told_ended"] = works.is_told_ended(job)
        found["placed_after_s"] = works.first_told.get(job.job_id, math.inf)
        found["started"] = works.has_started(job)
        found["ran_s"] = works.ran_s.get(job.job_id)
        found["killed_s"] = self.calls.until_s.get(job.job_id)
        if members.unbound:
            found["berths"] = self._berths(key, job, members.unbound)
        if members.bound:
            stands = self._whereabouts(job, members.bound)
            found["stands_elsewhere"] = stands.elsewhere
            found["moved"] = stands.moved
            found["here"] = stands.here

    def _add_ended(self, found: Found, ended: Sequence[Job], last: Job | None) -> None:
        by_itself = [job for job in ended if not is_busy_refusal(job)]
        found["last"] = last
        found["tried"] = len(by_itself) < len(ended)
        found["ends"] = sum([1 for job in by_itself if AGAIN.isdisjoint(job.state)])
        if last is not None:
            found["left"] = self.works.left.get(last.job_id, ())
            found["last_s"] = self.works.ended_s.get(last.job_id, 0.0)

    def _add_absent(self, found: Found, chosen: Entry[Job] | None, absent: tuple[str, ...]) -> None:
        if not absent:
            return
        found["absent"] = absent
        found["gone"] = frozenset([uid for uid in map(uid_in, absent) if uid in self.works.gone])
        found["sightings"] = self._sightings(absent, after_s=chosen.since_s if chosen else 0.0)
        found["pods_listed_s"] = self._pods_listed_s(chosen.row if chosen else None, absent)

    def _add_unbound(self, found: Found, unbound: Sequence[Pod]) -> None:
        refusals, tried = self.works.bind_refusals, self.works.binds_tried
        uids = [pod.uid for pod in unbound]
        found["waits_since_s"] = max([self.works.waits_s[uid] for uid in uids])
        found["binds_tried"] = tuple([tried[uid] for uid in uids if uid in tried])
        found["bind_refused"] = tuple([refusals[uid] for uid in uids if uid in refusals])

    def _add_bound(self, found: Found, bound: Sequence[Pod], job: Job | None) -> None:
        placed, host_of = self.works.placed_s, self._hosts.claims.host_of_node
        ending = [pod for pod in bound if pod.terminating and not pod.ended]
        seconds = [placed[pod.uid] for pod in bound if pod.uid in placed]
        found["placed_s"] = max(seconds, default=None)
        if job is None:
            found["standing"] = tuple([host_of(pod.node_name) for pod in bound])
        if ending:
            found["stuck"] = self._stuck(ending)

    def _stuck(self, ending: Sequence[Pod]) -> tuple[Stuck, ...]:
        return stuck_pods(ending, nodes=self._hosts.nodes, asked=self.tenants.nodes_asked)

    def _add_submission(self, found: Found, identity: str) -> None:
        attempt = self.works.attempts.get(identity)
        refused = self.works.refusals.get(identity)
        if attempt is not None:
            found["attempt"] = attempt[0]
        if refused is not None:
            found["refused"], found["refused_s"] = refused

    def _add_hosts(self, found: Found, key: str, job: Job | None, members: Members) -> None:
        """What its Pods ask for, and which hosts could give it."""
        self._add_asked(found, members)
        if job is not None and is_edited(job, found["digest"]):
            self._edited[key] = None
            if not members.bound:
                _add_exclusions(found, self._reach(members.pods))
        elif job is not None:
            wanted = self.renewal.wanted.get(job.job_id)
            if wanted is not None and is_waiting(job) and not members.bound:
                _add_exclusions(found, wanted)
        elif members.pods and not members.bound:
            reach = self._reach(members.pods)
            _add_exclusions(found, reach)
            found["unfit"] = reach.unfit
            found["room"] = not self._crowded() and self.fleet.is_free(reach)
            found["external"] = reach.external

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

    def _add_asked(self, found: Found, members: Members) -> None:
        """What the Pods ask of their job."""
        if members.missing or not members.pods:
            return
        described, its_digest = digested(members.pods, self.configuration)
        if isinstance(described, JobDescription):
            found["description"], found["digest"] = described, its_digest
        else:
            found["invalid"] = described.message

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
        specs = list(dict.fromkeys([pod.spec for pod in unbound]))
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


def _add_exclusions(found: Found, reach: Reach) -> None:
    found["excluded"], found["hosts"] = reach.excluded, reach.hosts


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


def _add_gang(found: Found, members: Members) -> None:
    found["surplus"] = members.surplus
    found["missing"] = members.missing
    found["ask_size"] = members.ask_size
    found["size_asked_s"] = members.size_asked_s


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
