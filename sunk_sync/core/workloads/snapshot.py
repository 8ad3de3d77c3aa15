"""Build the view of one workload: its Pods, its jobs, its hosts."""

import math
from collections.abc import Mapping, Sequence, Set

from msgspec.structs import replace

from sunk_sync.core.model.facts import GetResult, Job, Pod
from sunk_sync.core.model.job_description import JobDescription
from sunk_sync.core.model.job_identity import job_name, workload_id
from sunk_sync.core.model.keys import uid_in
from sunk_sync.core.model.pod_spec import PodSpec
from sunk_sync.core.model.user_policy import NO_DEFAULTS
from sunk_sync.core.tables.entries import Entry
from sunk_sync.core.translate.fences import Fences, why_stopped
from sunk_sync.core.translate.job_spec import digested
from sunk_sync.core.translate.job_states import (
    AGAIN,
    is_busy_refusal,
    is_edited,
    is_live,
    is_running,
    is_waiting,
    never_began,
    newest,
    number_of,
)
from sunk_sync.core.translate.node_fit import Amounts, summed
from sunk_sync.core.views.conclusions import free_placements
from sunk_sync.core.views.parts import (
    NO_HISTORY,
    GivenUp,
    Placement,
    Residents,
    Stuck,
    SubmissionHistory,
)
from sunk_sync.core.views.workload import (
    FOLLOWED,
    NO_ABSENT_PODS,
    NO_BINDING,
    NO_CALLS,
    NO_CANDIDATES,
    NO_ENDED_JOBS,
    NO_LOCATIONS,
    NO_REQUEST,
    NO_VOLUMES,
    AbsentPods,
    Binding,
    Calls,
    CandidateHosts,
    EndedJobs,
    JobRequest,
    LiveJob,
    Members,
    PodLocations,
    Submission,
    VolumeNeeds,
    Workload,
)
from sunk_sync.core.workloads.gang_hosts import NOT_TOGETHER, assign
from sunk_sync.core.workloads.members import absent_of, kinds_of, members_of, members_of_job
from sunk_sync.core.workloads.pod_locations import locate_pods, stuck_pods
from sunk_sync.core.workloads.workloads import Workloads

NO_PODS: dict[str, Pod] = {}


class WorkloadSnapshots:
    def __init__(self, workloads: Workloads) -> None:
        self._all = workloads
        self._index = workloads.index
        self._memory = workloads.memory
        self._lists = workloads.lists
        self._residents = workloads.residents
        self._feasible_hosts = workloads.feasible_hosts
        self._neighbours = workloads.neighbours
        self._volumes, self._volume_choice = workloads.volumes, workloads.volume_choice
        self._jobs = workloads.jobs
        self._pods = workloads.pods
        self._hosts = workloads.hosts
        self._calls = workloads.calls

    def workload(self, key: str) -> Workload:
        known = self._index.pods.get(key, NO_PODS)
        ids = self._index.job_ids(key)
        entries = [self._jobs.entries[one] for one in ids]
        live = [entry for entry in entries if is_live(entry.row)]
        chosen = self._choose(live, known)
        job = chosen.row if chosen is not None else None
        named = self._index.uids_of_job[job.job_id] if job is not None else None
        members = self._members(key, job)
        ended = [] if len(live) == len(entries) else self._ended(entries, members)
        ended += self._memory.ends_of(members.pods)
        ended_jobs = self._ended_jobs(ended, members.bound) if ended else NO_ENDED_JOBS
        is_complete = named is not None and len(members.pods) == len(named)
        namer = chosen or self._entry_of(ended_jobs.last)
        absent = () if is_complete else self._absent(key, members, of=job or ended_jobs.last)
        workload = _id_of(members, job)
        request = self._request(members)
        unplaced = not members.bound and (job is None or is_waiting(job))
        live_job = self._live_job(key, chosen, live, members) if chosen is not None else None
        return Workload(
            key=key,
            id=workload,
            members=members,
            request=request,
            live=live_job,
            ended=ended_jobs,
            absent=self._absent_pods(absent, namer) if absent else NO_ABSENT_PODS,
            binding=self._binding(members),
            locations=self._locations(job, members.bound) if members.bound else NO_LOCATIONS,
            hosts=self._hosts_for(key, job, members, request),
            submission=self._submission(key, workload),
            history=self._history(key, members.unbound) if unplaced else NO_HISTORY,
            calls=self._calls_of(ids, job),
            volumes=self._volume_needs(members, live_job, chosen),
            stuck=self._stuck(members.bound),
            lost=self._residents.is_lost(key),
            gate=self._all.gate(),
            claims=self._claims(members, workload) if job is None else (),
        )

    def _members(self, key: str, job: Job | None) -> Members:
        known, gang = self._index.pods.get(key, NO_PODS), self._memory.gang_facts(key)
        if job is None:
            return members_of(known, gang)
        named = self._index.uids_of_job[job.job_id]
        return members_of_job(known, named, gang=gang, waits=is_waiting(job))

    def _absent(self, key: str, members: Members, *, of: Job | None) -> tuple[str, ...]:
        known = self._index.pods.get(key, NO_PODS)
        return absent_of(of, {*known, *self._memory.finished, *members.cleaned_up})

    def _ended(self, entries: Sequence[Entry[Job]], members: Members) -> list[Job]:
        """Return ended jobs of the members: those of Pods that ended before are history (G8)."""
        rows = [entry.row for entry in entries if not is_live(entry.row)]
        if not members.pods:
            return rows
        ours = {one for pod in members.pods for one in self._index.jobs_of_uid.get(pod.uid, ())}
        return [row for row in rows if row.job_id in ours]

    def _claims(self, members: Members, workload: str) -> tuple[str, ...]:
        if not (self._memory.claims and members.pods):
            return ()
        first = members.pods[0]
        name = job_name(first.namespace, first.name, workload=workload)
        return self._memory.claims_on([name, *[pod.uid for pod in members.pods]])

    def _live_job(
        self, key: str, chosen: Entry[Job], live: Sequence[Entry[Job]], members: Members
    ) -> LiveJob:
        job, memory = chosen.row, self._memory
        job_id, unbound = job.job_id, members.unbound
        return LiveJob(
            job=job,
            read_s=chosen.order,
            since_s=chosen.since_s,
            others=tuple([one.row for one in live if one is not chosen]) if len(live) > 1 else (),
            ahead=memory.ahead.get(job_id, 0),
            notified_at_s=memory.notified_at_s(job),
            end_notified=memory.is_end_notified(job),
            placed_after_s=memory.first_notices.get(job_id, math.inf),
            started=memory.has_started(job),
            ran_s=memory.ran_s.get(job_id),
            placements=self._placements(key, job, unbound) if unbound else (),
        )

    def _ended_jobs(self, ended: Sequence[Job], bound: Sequence[Pod]) -> EndedJobs:
        own = [job for job in ended if not is_busy_refusal(job)]
        last = _last(own, bound)
        return EndedJobs(
            last=last,
            since_s=self._memory.ended_s.get(last.job_id, 0.0) if last is not None else 0.0,
            left=self._memory.left.get(last.job_id, ()) if last is not None else (),
            by_itself=sum([1 for job in own if AGAIN.isdisjoint(job.state)]),
            allocation_refused=len(own) < len(ended),
            node_reason=self._node_reason(last) if last is not None and never_began(last) else "",
        )

    def _node_reason(self, job: Job) -> str:
        """Return why slurmctld drained a host of the job: `Prolog error`."""
        failed = self._memory.prolog_failed
        return next((failed[name] for name in job.slurm_nodes if name in failed), "")

    def _entry_of(self, ended: Job | None) -> Entry[Job] | None:
        return self._jobs.entries.get(ended.job_id) if ended is not None else None

    def _absent_pods(self, absent: tuple[str, ...], namer: Entry[Job] | None) -> AbsentPods:
        """`namer`: the job whose identity names them."""
        return AbsentPods(
            pods=absent,
            gone=frozenset([uid for uid in map(uid_in, absent) if uid in self._memory.gone]),
            get_results=self._get_results(absent, after_s=namer.since_s if namer else 0.0),
            listed=namer is not None and self._is_listed(namer),
        )

    def _is_listed(self, namer: Entry[Job]) -> bool:
        """Whether a complete listing of Pods, later than the job, covers all Pods of the job.

        The identity of an array names Pods by UID alone (P21): sunk-sync must watch their
        namespace.
        """
        job = namer.row
        if not job.identity.uids or not self._all.watches(job):
            return False
        return self._pods.listed_s >= namer.since_s

    def _binding(self, members: Members) -> Binding:
        memory = self._memory
        uids = [pod.uid for pod in members.unbound]
        placed = [memory.placed_s[pod.uid] for pod in members.bound if pod.uid in memory.placed_s]
        if not uids and not placed:
            return NO_BINDING
        refused, tried = memory.bind_refusals, memory.binds_tried
        return Binding(
            waits_since_s=max([memory.waits_s[uid] for uid in uids], default=0.0),
            refused=tuple([refused[uid] for uid in uids if uid in refused]) if refused else (),
            tried=tuple([tried[uid] for uid in uids if uid in tried]) if tried else (),
            placed_s=max(placed, default=None),
        )

    def _locations(self, job: Job | None, bound: Sequence[Pod]) -> PodLocations:
        host_of = self._hosts.claims.host_of_node
        slurm_nodes = [host_of(pod.node_name) for pod in bound]
        if job is None:
            return PodLocations(slurm_nodes=tuple(slurm_nodes))
        placed = zip(bound, slurm_nodes, strict=True)
        known = [(pod, name) for pod, name in placed if self._all.is_host(name)]
        return locate_pods(job, known, left=self._memory.left.get(job.job_id, ()))

    def _stuck(self, bound: Sequence[Pod]) -> tuple[Stuck, ...]:
        ending = [pod for pod in bound if pod.terminating and not pod.ended]
        if not ending:
            return ()
        return stuck_pods(ending, nodes=self._hosts.nodes, asked=self._residents.nodes_asked)

    def _submission(self, key: str, workload: str) -> Submission:
        unanswered = self._memory.unanswered
        listed_s = self._jobs.agreed_s if key in self._lists.unsettled else 0.0
        hosts = self._feasible_hosts.version
        return unanswered.submission(workload, jobs_listed_s=listed_s, hosts=hosts)

    def _calls_of(self, job_ids: Sequence[str], job: Job | None) -> Calls:
        stops = self._calls.stops_of(job_ids)
        killed_s = self._calls.until_s.get(job.job_id) if job is not None else None
        return NO_CALLS if not stops and killed_s is None else Calls(stops, killed_s)

    def _volume_needs(
        self, members: Members, live: LiveJob | None, chosen: Entry[Job] | None
    ) -> VolumeNeeds:
        if not self._volumes.is_user(members.unbound):
            return NO_VOLUMES
        if live is None:
            return self._volume_choice.needs(members.unbound, live=None, places=())
        places = [one.node for one in free_placements(live, members) if one.node is not None]
        return self._volume_choice.needs(members.unbound, live=chosen, places=places)

    def _request(self, members: Members) -> JobRequest:
        if members.missing or not members.pods:
            return NO_REQUEST
        namespace = members.pods[0].namespace
        own = self._all.namespace_defaults(namespace)
        described, digest = digested(members.pods, self._all.configuration, own=own or NO_DEFAULTS)
        if own is None:
            return JobRequest(digest=digest, unread=f"Namespace {namespace} has not been read yet")
        if isinstance(described, JobDescription):
            return JobRequest(described, digest)
        return JobRequest(digest=digest, invalid=described.message)

    def _hosts_for(
        self, key: str, job: Job | None, members: Members, request: JobRequest
    ) -> CandidateHosts:
        """Return the hosts for a job that must be submitted, or must exclude other hosts."""
        if members.bound or not members.pods or not (job is None or is_waiting(job)):
            return NO_CANDIDATES
        ruled = self._neighbours.is_ruled(key) or self._volumes.is_user(members.pods)
        if job is None:  # if it is ruled, its job may come after the last rule
            return self._candidates(key, members.pods, follows=ruled)
        edited = is_edited(job, request.digest)
        wanted = self._all.exclusion_updates.wanted.get(job.job_id)
        given_up = bool(self._memory.submissions.of.get(key, NO_HISTORY).hosts)
        # Also after the last rule: its exclusions must go.
        follows = edited or given_up or ruled or key in self._lists.following
        if follows:
            reach = self._all.reach_of_waiting(job, key=key, pods=members.pods)
            wanted = reach if edited or not reach.unfit else None
        if wanted is None:
            return FOLLOWED if follows else NO_CANDIDATES
        return CandidateHosts(
            follows=follows,
            excluded=wanted.excluded,
            digest=wanted.hosts,
            fit=wanted.fit if given_up else (),
            required=wanted.required,
            may_require=len(members.pods) > 1 and self._volumes.is_user(members.pods),
        )

    def _candidates(self, key: str, pods: Sequence[Pod], *, follows: bool) -> CandidateHosts:
        in_turn = self._neighbours.is_its_turn(key)
        feasible_hosts = self._feasible_hosts
        if in_turn:
            reach = self._all.reach(key, pods)
        else:  # where the others stand changes with each of them
            reach = feasible_hosts.reach_of_all([pod.spec for pod in pods])
        given_up = self._memory.submissions.of.get(key, NO_HISTORY).hosts
        return CandidateHosts(
            excluded=reach.excluded,
            digest=reach.hosts,
            unfit=reach.unfit,
            not_ready=feasible_hosts.waits_for(reach),
            free=not self._is_crowded(key) and feasible_hosts.is_free(reach),
            external=reach.external,
            fit=reach.fit if given_up else (),
            in_turn=in_turn,
            ruled=self._neighbours.is_ruled(key),
            required=reach.required,
            follows=follows,
        )

    def _is_crowded(self, key: str) -> bool:
        """Whether so many wait that an immediate allocation is not tried (P11a).

        Of Pods that take turns only one is placed at a time, however many wait.
        """
        return self._lists.is_crowded() and not self._neighbours.takes_turns(key)

    def _history(self, key: str, unbound: Sequence[Pod]) -> SubmissionHistory:
        """Return earlier submissions (P32).

        A host that is ready again ends the back-off. One that has room again is not avoided.
        """
        known = self._memory.submissions.of.get(key, NO_HISTORY)
        if not known.hosts:
            return known
        unready = [one for one in known.hosts if not self._is_ready_again(one)]
        avoided = tuple([one for one in unready if not self._has_room(key, one, unbound)])
        if len(unready) < len(known.hosts):
            return SubmissionHistory(sent_s=known.sent_s, hosts=avoided)
        return known if len(avoided) == len(unready) else replace(known, hosts=avoided)

    def _is_ready_again(self, given_up: GivenUp) -> bool:
        entry = self._hosts.claims.claim_of(given_up.slurm_node).node
        return entry is not None and entry.row.ready == "True" and entry.since_s > given_up.since_s

    def _has_room(self, key: str, given_up: GivenUp, unbound: Sequence[Pod]) -> bool:
        """Whether these Pods fit again beside those that stand there, or are about to (P28)."""
        name = given_up.slurm_node
        claim = self._hosts.claims.claim_of(name)
        if not given_up.full or claim.node is None:
            return False
        _, others = self._beside(claim.node.row.name, name, own=(key, ""))
        specs = kinds_of(unbound)
        return not any(self._feasible_hosts.unfit(spec, claim, others=others) for spec in specs)

    def _beside(
        self, node_name: str, slurm_node: str, *, own: tuple[str, str]
    ) -> tuple[Residents, Amounts]:
        """Return who else stands there, and what they and those ahead of this job take (P28)."""
        residents = self._residents.on(node_name, slurm_node=slurm_node, but=own[0])
        coming = self._residents.coming(node_name, slurm_node, own=own)
        taken = residents.taken
        return residents, summed((taken, coming)) if coming else taken

    def _choose(self, live: Sequence[Entry[Job]], known: Mapping[str, Pod]) -> Entry[Job] | None:
        """Return the live job that counts: of the bound Pod, else running, else the first (P29)."""
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
        """Return the hosts of a running job: first one for each unbound Pod, in their order."""
        if is_waiting(job):
            return ()
        specs = kinds_of(unbound)
        fences = self._all.fences(key, unbound, job=job)
        placements = [
            self._placement(name, specs, own=(key, job.job_id), fences=fences.common)
            for name in sorted(job.slurm_nodes)
        ]
        taken = {pod.node_name for pod in self._index.pods[key].values() if pod.node_name}
        return tuple(self._assigned(placements, fences.own, taken) if fences.own else placements)

    def _assigned(
        self, placements: Sequence[Placement], own: Sequence[Fences], taken: Set[str]
    ) -> Sequence[Placement]:
        """Give each unbound member of a gang a host that its volumes reach."""
        free = {
            one.slurm_node: one
            for one in placements
            if one.node is not None and one.node.name not in taken
        }
        rest = [one for one in placements if one.slurm_node not in free]
        if any(one.node is None for one in rest) or len(free) < len(own):
            return placements
        chosen = assign(self._feasible_hosts.open_to_each(own, among=free.keys()))
        if chosen is None:
            return [replace(one, unfit=one.unfit or NOT_TOGETHER) for one in placements]
        used = {name: free[name] for name in chosen}
        spare = [one for name, one in free.items() if name not in used]
        return [*used.values(), *spare, *rest]

    def _placement(
        self, slurm_node: str, specs: Sequence[PodSpec], *, own: tuple[str, str], fences: Fences
    ) -> Placement:
        """`own`: the workload, whose Pods may stay there, and its job."""
        claim = self._hosts.claims.claim_of(slurm_node)
        node = claim.node.row if claim.node is not None else None
        if self._hosts.nodes.blind:
            return Placement(slurm_node, None, "its Node cannot be read now", True)  # noqa: FBT003
        if node is None or claim.rivals or not self._hosts.claims.owns_node(slurm_node, claim):
            why = "Kubernetes knows no one Node for it"
            return Placement(slurm_node, None, why, not self._hosts.nodes.live)
        hosts = self._feasible_hosts
        residents, others = self._beside(node.name, slurm_node, own=own)
        unfit = [hosts.unfit(spec, claim, others=others) for spec in specs]
        return Placement(
            slurm_node=slurm_node,
            node=node,
            unfit=next(filter(None, unfit), "") or why_stopped(fences, node),
            unknown=False,
            occupants=residents.unconfirmed,
            full=any(unfit) and all(hosts.could_take_alone(spec, claim) for spec in specs),
        )


def _last(ended: Sequence[Job], bound: Sequence[Pod]) -> Job | None:
    """Return the job that bound one of the Pods, even if a later one exists; else the newest."""
    named = {pod.job_id for pod in bound}
    return newest([job for job in ended if job.job_id in named] or ended)


def _id_of(members: Members, job: Job | None) -> str:
    if job is not None:
        return job.identity.workload
    if members.missing or not members.pods:
        return ""
    return workload_id([pod.uid for pod in members.pods])
