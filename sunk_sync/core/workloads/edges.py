"""Dirty edges of workloads: each change of a Pod, job or host → the keys that read it."""

from collections.abc import Iterable, Sequence

from sunk_sync.core.model.calls import JobNotice, StopCall
from sunk_sync.core.model.facts import (
    Attempt,
    BindRefused,
    BindTried,
    GetResult,
    Job,
    Pod,
    SubmitRefused,
    Taken,
)
from sunk_sync.core.model.gang_size import GangSize
from sunk_sync.core.model.keys import (
    CLUSTER,
    GANG_PREFIX,
    Key,
    host_key,
    uid_in,
    uids_of,
    workload_key,
    workload_key_of,
)
from sunk_sync.core.model.user_policy import PolicyRead
from sunk_sync.core.model.volumes import ProvisionerSaid
from sunk_sync.core.tables.last_seen import node_place
from sunk_sync.core.translate.job_states import has_passed_prolog, is_live, is_waiting
from sunk_sync.core.views.parts import Tried
from sunk_sync.core.workloads.changes import (
    is_another,
    lives_on,
    moved,
    same_for_hosts,
    same_for_others,
    stays,
)
from sunk_sync.core.workloads.listed_jobs import ListedJobs
from sunk_sync.core.workloads.members import could_have_job
from sunk_sync.core.workloads.namespace_edges import NamespaceEdges
from sunk_sync.core.workloads.snapshot import NO_PODS, WorkloadSnapshots
from sunk_sync.core.workloads.watchlists import keep
from sunk_sync.core.workloads.workloads import Workloads

MemoryFact = (
    Attempt | SubmitRefused | BindRefused | BindTried | GangSize | JobNotice | Taken | PolicyRead
    | ProvisionerSaid
)  # fmt: skip


class WorkloadEdges:
    def __init__(self, workloads: Workloads, snapshots: WorkloadSnapshots) -> None:
        self._all = workloads
        self._index = workloads.index
        self._memory = workloads.memory
        self._lists = workloads.lists
        self._residents = workloads.residents
        self._feasible_hosts = workloads.feasible_hosts
        self._exclusion_updates = workloads.exclusion_updates
        self._jobs = workloads.jobs
        self._pods = workloads.pods
        self._hosts = workloads.hosts
        self._calls = workloads.calls
        self._snapshots = snapshots
        self._neighbours, self._volumes = workloads.neighbours, workloads.volumes
        self._listed_jobs = ListedJobs(workloads)
        self.namespaces = NamespaceEdges(workloads)

    def pod_changed(
        self, before: Pod | None, after: Pod | None, *, now: float, deleted: bool = False
    ) -> set[Key]:
        """Return the keys that read this Pod; `deleted`: a watch reported its deletion."""
        self._memory.note_members(before, after, now=now)
        if before is not None and after is not None and stays(before, after):
            return self._pod_stays(before, after)
        tried = self._memory.binds_tried.get(before.uid) if before is not None else None
        rows = [row for row in (before, after) if row is not None]
        of_pod = self._index.workloads_of_pod
        workloads = {key for row in rows for key in of_pod(row.uid, workload_key_of(row))}
        if before is not None:
            moves = after is None or moved(before, after)
            self._index.drop_pod(before)
            self._memory.note_pod_gone(before, deleted=deleted, moves=moves)
        if after is not None:
            self._index.add_pod(after)
            self._memory.note_pod(after, now=now)
            if before is not None and before.uid == after.uid and moved(before, after):
                self._memory.placed_s[after.uid] = now
        for row in rows:
            self._memory.forget(workload_key_of(row))
            for job in self._jobs_of(row):
                self._index.note_arrivals(job)
        nodes = {row.node_name for row in rows if row.node_name}
        self._residents.forget_asked(nodes)
        keys = self._review(workloads) | self._beside(before, after, keys=workloads)
        keys |= {*map(workload_key, workloads), *(self.bind_tried(tried) if tried else ())}
        for row in rows:
            jobs = self._jobs_of(row)
            keys = keys.union(*map(self._awaited, jobs), *map(self._behind, jobs))
        return keys.union(*map(self._touch_node, nodes))

    def _pod_stays(self, before: Pod, after: Pod) -> set[Key]:
        """Handle a Pod that keeps its workload and its Node, so no index changes."""
        self._index.put_pod(after)
        own = self._index.key_of_uid[after.uid]
        beside = self._beside(before, after, keys=(own,))
        same = same_for_others(before, after)
        if same and before.terminating == after.terminating and before.gated == after.gated:
            return beside | {workload_key(own)}
        workloads = self._index.workloads_of_pod(after.uid, own)
        keys = beside | set(map(workload_key, workloads)) | self._review(workloads)
        if not after.node_name:
            return keys.union(*map(self._behind, self._jobs_of(after)))
        if same and after.node_name not in self._residents.nodes_asked:
            return keys
        return keys | self._touch_node(after.node_name)

    def _jobs_of(self, pod: Pod) -> list[Job]:
        return [self._jobs.entries[one].row for one in self._index.jobs_of_uid.get(pod.uid, ())]

    def _beside(self, before: Pod | None, after: Pod | None, *, keys: Iterable[str]) -> set[Key]:
        """Return workloads that mind where the Pod stands, or share a claim with it."""
        sharing = self._volumes.pod_changed(before, after)
        mind = self._neighbours.pod_changed(before, after, keys={*keys, *sharing})
        cluster = {CLUSTER} if self._volumes.any_selected else set()
        return cluster.union(map(workload_key, mind | sharing))

    def job_changed(self, before: Job | None, after: Job | None, *, now: float) -> set[Key]:
        """Return the keys that read this job: its workload, and those at its hosts."""
        rows = [row for row in (before, after) if row is not None]
        sharing = self._volumes.jobs_changed(rows)
        keys = self._job_changed(before, after, now=now) | self._placed_again(sharing)
        keys |= self._all.avoiding(name for row in rows for name in row.slurm_nodes)
        return keys.union(map(workload_key, sharing), *map(self._awaited, rows))

    def _job_changed(self, before: Job | None, after: Job | None, *, now: float) -> set[Key]:
        if before is not None and after is not None and same_for_hosts(before, after):
            return self._keys_named(after.job_id)
        behind = self._behind(before) if before is not None else set()
        if before is not None and after is not None and lives_on(before, after):
            return self._job_moved(before, after, now=now) | behind
        return self._job_replaced(before, after, now=now) | behind

    def _job_replaced(self, before: Job | None, after: Job | None, *, now: float) -> set[Key]:
        """Handle a job that came, ended, went, or has another identity."""
        crowded = self._lists.is_crowded()
        named = self._reindex(before, after, now=now)
        if before is not None:
            self._forget_unread(before, after)
        workloads = {key for row in named for key in self._index.keys_named_by(row)}
        keys = {workload_key(key) for key in workloads} | self._review(workloads)
        keys = keys.union(*[self._touch_beside(uids_of(row.identity)) for row in named])
        return keys | self._placed_again(workloads) | self._since_crowded(crowded)

    def _job_moved(self, before: Job, after: Job, *, now: float) -> set[Key]:
        """Handle a job that was live and is live: the sets that `_review` updates do not change."""
        crowded = self._lists.is_crowded()
        self._note_turn(before, after)
        self._move_job(before, after, now=now)
        keys = self._touch_beside(self._index.uids_of_job[after.job_id])
        keys |= self._placed_again(self._index.keys_of_job(after.job_id))
        return keys | self._keys_named(after.job_id) | self._since_crowded(crowded)

    def _reindex(self, before: Job | None, after: Job | None, *, now: float) -> list[Job]:
        """Update the indexes; return rows that together name every Pod of the job, old or new."""
        same = before is not None and after is not None and before.identity == after.identity
        if before is not None and (after is None or is_another(before, after)):
            if not same:
                self._memory.keep_end(before, pods_listed=self._pods.listed)
            self._forget_job(before.job_id)
        elif before is not None and after is not None and is_live(after):
            # a listing of states shows no identity: Slurm may have given the id to another job
            self._memory.keep_end(before, pods_listed=self._pods.listed)
        self._note_turn(before, after)
        if before is not None and after is not None and same:
            self._move_job(before, after, now=now)
            self._note_sent(before, after, now=now)
            return [after]
        known = before if before and after and not is_another(before, after) else None
        if before is not None and known is None:
            self._index.drop_job(before)
        if after is not None:
            self._exclusion_updates.wanted.pop(after.job_id, None)
            self._index.put_job(known, after)
            self._memory.note_state(known, after, now=now)
            self._note_sent(before, after, now=now)
        return [row for row in (before, after) if row is not None]

    def _note_sent(self, before: Job | None, after: Job, *, now: float) -> None:
        """A slurmctld that lost its jobs gives the same ids again, to any workload (P32)."""
        if before is None or is_another(before, after):
            self._memory.note_sent(self._index.keys_of_job(after.job_id), now=now)

    def _note_turn(self, before: Job | None, after: Job | None) -> None:
        self._lists.note_job(before, after)
        if after is not None and not is_waiting(after):
            self._exclusion_updates.wanted.pop(after.job_id, None)

    def _move_job(self, before: Job, after: Job, *, now: float) -> None:
        self._memory.note_move(before, after)
        self._index.note_arrivals(after)
        self._memory.note_state(before, after, now=now)

    def _forget_unread(self, before: Job, after: Job | None) -> None:
        """Forget what nothing reads after this job was replaced or ended."""
        self._memory.forget_unnamed(before)
        if after is None or not is_live(after):
            self._memory.forget_bind_refusals(before)

    def _forget_job(self, job_id: str) -> None:
        """Forget facts about a job: Slurm may give its id to another job (P23)."""
        self._memory.forget_job(job_id)
        self._calls.until_s.pop(job_id, None)
        self._exclusion_updates.wanted.pop(job_id, None)

    def job_read(self, job: Job, *, order: float) -> set[Key]:
        """A newer read shows no change: return the keys that wait for such a read (L7, L8)."""
        keys = self._awaited(job)
        word = self._memory.notices.get(job.job_id)
        if answers := word is not None and order >= word.notified_at_s:
            del self._memory.notices[job.job_id]
            self._memory.first_notices.pop(job.job_id, None)
        if answers or (has_passed_prolog(job) and not self._memory.has_started(job)):
            keys |= set(map(workload_key, self._index.keys_of_job(job.job_id)))
        return keys

    def _awaited(self, job: Job) -> set[Key]:
        """Return hosts of the job where a prolog waits for a newer read of it (L7)."""
        if not self._calls.gates:
            return set()
        return {host_key(name) for name in job.slurm_nodes if self._calls.waits_at(name)}

    def observe(self, word: MemoryFact, *, now: float) -> set[Key]:
        """Take in a fact that no row shows; return the keys that it concerns."""
        memory, index = self._memory, self._index
        match word:
            case Attempt():
                forgotten = memory.unanswered.note_attempt(word, now=now)
                return self._sent_without_job(word.workload, now=now) | self._forgotten(forgotten)
            case SubmitRefused():
                version = self._feasible_hosts.version
                forgotten = memory.unanswered.note_refusal(word, hosts=version, now=now)
                if word.kind == "update":
                    return self._keys_of_id(word.workload) | self._forgotten(forgotten)
                return self._sent_without_job(word.workload, now=now) | self._forgotten(forgotten)
            case BindRefused() | BindTried() if word.uid in index.key_of_uid:
                return self.bind_tried(memory.note_binding(word))
            case GangSize():
                key = memory.note_size(word)
                return {workload_key(key)} | self._placed_again((key,))
            case JobNotice() if word.job_id in self._jobs.entries:
                known = self._jobs.entries[word.job_id]
                memory.note_notice(word, known.row, read_s=known.order)
                return set(map(workload_key, index.keys_of_job(word.job_id)))
            case Taken():
                return self._taken_changed(word)
            case ProvisionerSaid():
                return set(map(workload_key, self._volumes.provisioner_said(word)))
            case PolicyRead() if word.policy != self._all.configuration.namespace_rules:
                return self.namespaces.policy_changed(word.policy)
            case _:
                return set()

    def _taken_changed(self, word: Taken) -> set[Key]:
        """Pods of other schedulers changed on a Node; their amounts matter only on a host."""
        beside = set(map(workload_key, self._neighbours.others_changed(word)))
        hosts = [*filter(self._all.is_host, self._hosts.claims.hosts_on_node(word.node_name))]
        if not self._feasible_hosts.take(word) or not hosts:
            return beside
        return beside.union(self._feasible_hosts_changed(), *map(self.keys_at, hosts))

    def _keys_of_id(self, workload: str) -> set[Key]:
        """Return the workload of this id: its key, or the gang that has the id."""
        keys = [] if workload in self._index.pods else self._gangs_called(workload)
        keys += [workload] if self._index.knows(workload) else []
        self._memory.unanswered.note_gangs(keys, workload)
        return set(map(workload_key, keys)) | self._review(keys) | self._placed_again(keys)

    def _sent_without_job(self, workload: str, *, now: float) -> set[Key]:
        keys = self._keys_of_id(workload)
        self._memory.note_sent([name for kind, name in keys if kind == "workload"], now=now)
        return keys

    def _forgotten(self, ids: Sequence[str]) -> set[Key]:
        """Return workloads with these ids, of which older facts were forgotten."""
        keys = [*filter(self._index.knows, ids), *self._memory.unanswered.gangs_of(ids)]
        return set(map(workload_key, keys)) | self._review(keys) | self._placed_again(keys)

    def _gangs_called(self, workload: str) -> list[str]:
        gangs = [key for key in self._index.pods if key.startswith(GANG_PREFIX)]
        return [key for key in gangs if self._snapshots.workload(key).id == workload]

    def pod_was_read(self, get_result: GetResult) -> set[Key]:
        """A Pod was read by name: the read may show jobs of the Pod that it is gone."""
        prefix = f"{get_result.namespace}/{get_result.name}/"
        entries, ids_of = self._jobs.entries, self._index.job_ids
        rows = [entries[one].row for key in self._lists.orphaned for one in ids_of(key)]
        named = [pod for row in rows for pod in row.identity.pods if pod.startswith(prefix)]
        uids = set(map(uid_in, named))
        self._memory.get_results.update(dict.fromkeys(uids, get_result))
        ids = self._index.jobs_of_uid
        return {key for uid in uids for one in ids.get(uid, ()) for key in self._keys_named(one)}

    def node_was_read(self, get_result: GetResult) -> set[Key]:
        """A Node was read by name: Pods that must end there may count as gone (P25b)."""
        if get_result.name not in self._index.pods_on_node:
            return set()
        self._residents.nodes_asked[get_result.name] = get_result
        return self._touch_node(get_result.name) | self._keys_of_terminating_on(get_result.name)

    def node_readiness_changed(self, node_name: str) -> set[Key]:
        """Return workloads with a terminating Pod on the Node, and those that wait for it."""
        self._residents.nodes_asked.pop(node_name, None)
        self._residents.forget(node_name)
        return self._keys_of_terminating_on(node_name) | self._keys_waiting_for(node_name)

    def _keys_waiting_for(self, node_name: str) -> set[Key]:
        """Return workloads that wait until a host is ready, or gave up a job on this one."""
        keys = self._all.avoiding(self._hosts.claims.hosts_on_node(node_name))
        waiting = self._lists.unplaced if self._feasible_hosts.readiness_changed() else ()
        return keys.union(map(workload_key, waiting))

    def _keys_of_terminating_on(self, node_name: str) -> set[Key]:
        there = self._index.pods_on_node.get(node_name, {}).items()
        return {workload_key(self._index.key_of_uid[uid]) for uid, pod in there if pod.terminating}

    def hosts_changed(self) -> set[Key]:
        """Nodes changed: return the workloads that follow it at once."""
        self._neighbours.rebuild()
        self._feasible_hosts.version += 1
        arriving = self._neighbours.arriving()  # a label of any Node can move a domain (P8)
        return self._feasible_hosts_changed() | set(map(workload_key, arriving))

    def _feasible_hosts_changed(self) -> set[Key]:
        self._feasible_hosts.forget()
        self._exclusion_updates.hosts_changed()
        following, self._lists.following = self._lists.following, {}
        return set(map(workload_key, {*self._lists.unplaced, *following}))

    def slurm_node_state_changed(self) -> set[Key]:
        """The state of a Slurm node changed: only workloads that may start at once read it."""
        crowded = self._lists.is_crowded()
        return set(map(workload_key, self._neighbours.heads() if crowded else self._lists.unplaced))

    def jobs_listed(self) -> set[Key]:
        """A listing of jobs was complete: return workloads whose job is missing (F2, P30)."""
        listed_s = self._jobs.agreed_s
        moved = self._all.queue.move(self._lists.waiting, listed_s=listed_s)
        keys = {key for one in moved for key in self._keys_named(one)}
        keys.update(map(workload_key, self._listed_jobs.outdated(listed_s)))
        due = [key for key, due_s in self._lists.unsettled.items() if listed_s >= due_s]
        nodes = {name for key in due for name in self._listed_jobs.settle(key, listed_s)}
        keys |= set(map(workload_key, due)) | self._placed_again(due)
        return keys.union(*map(self._touch_node, nodes))

    def _keys_named(self, job_id: str) -> set[Key]:
        return set(map(workload_key, self._index.keys_of_job(job_id)))

    def stops(self, call: StopCall) -> set[Key]:
        """A script began or ceased to wait for its Pods: return its workload and their hosts."""
        if call.job_id not in self._jobs.entries:
            return set()
        self._calls.until_s[call.job_id] = call.until_s
        keys = self._index.keys_of_job(call.job_id)
        beside = self._touch_beside(self._index.uids_of_job[call.job_id]) | self._review(keys)
        return set(map(workload_key, keys)) | beside

    def keys_of_pods_on(self, node_name: str) -> set[Key]:
        there = self._index.pods_on_node.get(node_name, {})
        return {workload_key(self._index.key_of_uid[uid]) for uid in there}

    def _behind(self, job: Job) -> set[Key]:
        """The job, or a Pod of it, changed: return workloads whose room depends on it (P28)."""
        behind = {key for one in self._index.behind(job) for key in self._keys_named(one)}
        return behind | self._all.avoiding(job.slurm_nodes)

    def _touch_beside(self, uids: Iterable[str]) -> set[Key]:
        """Return hosts where these Pods run, and workloads that are about to start there (P18)."""
        nodes = {self._index.node_of(uid) for uid in uids if uid in self._memory.bound_s}
        return {key for name in nodes for key in self._touch_node(name)}

    def nodes_liveness_changed(self) -> set[Key]:
        """Nodes became readable or unreadable, which decides whether a missing Node is known."""
        return {key for name in self._index.arrivals for key in self.keys_at(name)}

    def pods_listed(self) -> set[Key]:
        """A listing of Pods was complete: Pods that it does not contain are gone."""
        self._memory.forget_ends()
        settled = self._memory.settle_binds(listed_s=self._pods.agreed_s)
        return set(map(workload_key, self._lists.orphaned)).union(*map(self.bind_tried, settled))

    def bind_tried(self, tried: Tried) -> set[Key]:
        """Return the keys that read whether the Pod is bound: its own, and hosts with callers."""
        own = self._index.key_of_uid.get(tried.uid)
        hosts = [host_key(name) for name in tried.slurm_nodes if self._calls.waits_at(name)]
        return {*hosts, workload_key(own)} if own is not None else set(hosts)

    def keys_at(self, slurm_node: str) -> set[Key]:
        """Return workloads that read its residents: about to start there, or had no room there."""
        moving_in = set(map(workload_key, self._index.moving_in(slurm_node)))
        return moving_in | self._all.avoiding((slurm_node,))

    def _placed_again(self, workloads: Iterable[str]) -> set[Key]:
        """Pods took or left a place: return the workloads that may not stand beside them (P8)."""
        return set(map(workload_key, self._neighbours.refresh_each(workloads)))

    def _touch_node(self, node_name: str) -> set[Key]:
        """The residents of a Node changed: drop cached values; return the keys that read them."""
        if not node_name:
            return set()
        self._residents.forget(node_name)
        last_here = self._hosts.last_seen.hosts_last_at(node_place(node_name))
        hosts = {*self._hosts.claims.hosts_on_node(node_name), *last_here}
        return {host_key(name) for name in hosts} | {
            key for name in hosts for key in self.keys_at(name)
        }

    def _review(self, workloads: Iterable[str]) -> set[Key]:
        """Update the watchlists; return the keys that this concerns."""
        crowded = self._lists.is_crowded()
        for key in workloads:
            pods = self._index.pods.get(key, NO_PODS).values()
            live = [row for row in self._all.rows_of(key) if is_live(row)]
            keep(self._lists.unplaced, key, wanted=not live and any(map(could_have_job, pods)))
            bound = bool([pod for pod in pods if pod.node_name and not pod.ended])
            self._lists.unsettled.pop(key, None)
            if bound or not pods:
                self._lists.following.pop(key, None)
            if not live and (bound or (pods and self._memory.unanswered.attempts_of(key))):
                self._lists.unsettled[key] = float("-inf")
            if live or not bound:
                self._memory.missing_s.pop(key, None)
            held = live or self._all.rows_that_ask(key)
            keep(self._lists.orphaned, key, wanted=self._index.lacks_pods(held))
        return self._since_crowded(crowded)

    def _since_crowded(self, crowded: bool) -> set[Key]:
        """The crowd began or ended: return workloads without a job, which may try P11a."""
        same = crowded == self._lists.is_crowded()
        return set() if same else set(map(workload_key, self._lists.unplaced))
