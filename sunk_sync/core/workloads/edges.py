"""What a change touches: Pods, jobs and hosts to the Works, and the hosts, that read them.

`Graph` owns the tables and marks the keys.
"""

from collections.abc import Iterable, Sequence

from sunk_sync.core.model.facts import (
    Attempt,
    BindRefused,
    BindTried,
    GangSize,
    Job,
    JobTold,
    Pod,
    Sighting,
    StopCall,
    SubmitRefused,
    Taken,
)
from sunk_sync.core.model.keys import (
    GANG_PREFIX,
    Key,
    gang_key,
    host_key,
    uids_of,
    work_key,
    work_key_of,
)
from sunk_sync.core.model.pod_spec import Gang
from sunk_sync.core.tables.last_seen import node_place
from sunk_sync.core.translate.job_states import has_passed_prolog, is_live, is_waiting, number_of
from sunk_sync.core.workloads.changes import (
    is_another,
    lives_on,
    moved,
    runs_alike,
    seen_alike,
    stays,
)
from sunk_sync.core.workloads.members import could_have_job
from sunk_sync.core.workloads.residents import LOST_AFTER_S, READOPT_S
from sunk_sync.core.workloads.snapshot import NO_PODS, WorkPicture, uid_in

Word = Attempt | SubmitRefused | BindRefused | BindTried | GangSize | JobTold | Taken


class WorkGraph(WorkPicture):
    """The dirty edges of Works."""

    # What a change touches

    def pod_changed(
        self, before: Pod | None, after: Pod | None, *, now: float, told: bool = False
    ) -> set[Key]:
        """Keys that read this Pod; `told`: the source itself said that it is gone."""
        if before is not None and after is not None and stays(before, after):
            return self._pod_stays(before, after)
        rows = [row for row in (before, after) if row is not None]
        works = {key for row in rows for key in self._works_of_pod(row.uid, work_key_of(row))}
        if before is not None:
            self.works.drop_pod(before, told=told, moves=after is None or moved(before, after))
        if after is not None:
            self.works.add_pod(after, now=now)
            if before is not None and before.uid == after.uid and moved(before, after):
                self.works.placed_s[after.uid] = now
        for row in rows:
            self.works.forget(work_key_of(row))
            for one in self.works.jobs_of_uid.get(row.uid, ()):
                self.works.note_arrivals(self._jobs.entries[one].row)
        nodes = {row.node_name for row in rows if row.node_name}
        self.tenants.forget_asked(nodes)
        keys = set(map(work_key, works)) | self._review(works)
        return keys.union(*map(self._touch_node, nodes))

    def _pod_stays(self, before: Pod, after: Pod) -> set[Key]:
        """It is where it was, in its Work and on its Node: no index is another."""
        self.works.put_pod(after)
        own = self.works.key_of_uid[after.uid]
        alike = seen_alike(before, after)
        if alike and before.terminating == after.terminating and before.gated == after.gated:
            return {work_key(own)}
        works = self._works_of_pod(after.uid, own)
        keys = set(map(work_key, works)) | self._review(works)
        if alike and after.node_name not in self.tenants.nodes_asked:
            return keys
        return keys | self._touch_node(after.node_name)

    def job_changed(self, before: Job | None, after: Job | None, *, now: float) -> set[Key]:
        """Keys that read this job: its Work, and those at the hosts where Pods of it live."""
        if before is not None and after is not None:
            if runs_alike(before, after):
                works = self.works.keys_of_job(after.job_id)
                return self._awaited(after) | set(map(work_key, works))
            if lives_on(before, after):
                return self._job_moved(before, after, now=now)
        crowded = self._crowded()
        named = self._reindex(before, after, now=now)
        if before is not None:
            self._forget_unread(before, after)
        works = {key for row in named for key in self.works.keys_named_by(row)}
        keys = {work_key(key) for key in works} | self._review(works)
        for row in named:
            keys |= self._touch_beside(uids_of(row.identity))
        return keys | self._since_crowded(crowded)

    def _job_moved(self, before: Job, after: Job, *, now: float) -> set[Key]:
        """Nothing that `_review` keeps is another: no Work came to have a live job, or lost it."""
        crowded = self._crowded()
        self._note_turn(before, after)
        self.works.move_job(before, after, now=now)
        keys = {work_key(key) for key in self.works.keys_of_job(after.job_id)}
        keys |= self._touch_beside(self.works.uids_of_job[after.job_id])
        return keys | self._since_crowded(crowded)

    def _reindex(self, before: Job | None, after: Job | None, *, now: float) -> list[Job]:
        """Rows that between them name every Pod that the job stood or stands for."""
        if before is not None and (after is None or is_another(before, after)):
            self._forget_words(before.job_id)
        self._note_turn(before, after)
        if before is not None and after is not None and before.identity == after.identity:
            self.works.move_job(before, after, now=now)
            return [after]
        if before is not None and after is not None:
            self.renewal.wanted.pop(after.job_id, None)
        if before is not None:
            self.works.drop_job(before)
            if after is None:
                self._keep_end(before)
        if after is not None:
            self.works.add_job(after, now=now)
        if after is not None and before is None:
            self._note_sent(self.works.keys_of_job(after.job_id), now=now)
        return [row for row in (before, after) if row is not None]

    def _note_sent(self, keys: Iterable[str], *, now: float) -> None:
        for key in filter(self.works.pods.__contains__, keys):
            self.works.submissions.note_sent(key, now=now)

    def _note_turn(self, before: Job | None, after: Job | None) -> None:
        """Whether it waits."""
        if before is not None:
            self._waiting.pop(before.job_id, None)
            self._again.discard(before.job_id)
        if after is not None:
            self._note_waiting(after)

    def _forget_unread(self, before: Job, after: Job | None) -> None:
        """What nobody asks for any more, now that this job is another or has ended."""
        self.works.forget_unnamed(before)
        if after is None or not is_live(after):
            self._forget_refusals(before)

    def _keep_end(self, job: Job) -> None:
        """Slurm forgets a job whose end was read, while a Pod that it bound lives, or may live."""
        if not job.slurm_nodes or is_live(job):
            return
        for uid in uids_of(job.identity):
            pod = self.works.pod_of(uid)
            unknown = pod is None and not self._pods.listed
            bound = pod is not None and pod.node_name and pod.job_id == job.job_id
            if unknown or bound:
                self.works.ends[uid] = job

    def _forget_words(self, job_id: str) -> None:
        """What was said of a job goes with it: Slurm may give its id to another (P23)."""
        works = self.works
        for memory in (works.ran_s, works.ended_s, self.calls.until_s):
            memory.pop(job_id, None)
        works.told.pop(job_id, None)
        works.started.pop(job_id, None)
        works.first_told.pop(job_id, None)
        works.left.pop(job_id, None)
        self.renewal.wanted.pop(job_id, None)

    def _note_waiting(self, job: Job) -> None:
        if is_waiting(job):
            self._waiting[job.job_id] = (*number_of(job), job.job_id)
            if job.requeued:
                self._again.add(job.job_id)
        else:
            self.renewal.wanted.pop(job.job_id, None)

    def _forget_refusals(self, job: Job) -> None:
        """Bindings were refused for the hosts of this job: the next one may hold others (G4)."""
        for uid in uids_of(job.identity):
            self.works.bind_refusals.pop(uid, None)

    def job_read(self, job: Job, *, order: float) -> set[Key]:
        """It stands as it did, by a newer read: what somebody waits for at its hosts (L7, L8)."""
        keys = self._awaited(job)
        word = self.works.told.get(job.job_id)
        answers = word is not None and order >= word.told_s
        if answers:
            del self.works.told[job.job_id]
            self.works.first_told.pop(job.job_id, None)
        if answers or (has_passed_prolog(job) and not self.works.has_started(job)):
            keys |= set(map(work_key, self.works.keys_of_job(job.job_id)))
        return keys

    def _awaited(self, job: Job) -> set[Key]:
        """Hosts of the job where a prolog waits for a newer read of it (L7)."""
        return {host_key(name) for name in job.slurm_nodes if self.calls.waits_at(name)}

    def hear(self, word: Word, *, now: float) -> set[Key]:
        """What no row shows; the Works that it concerns."""
        works = self.works
        match word:
            case Attempt():
                forgotten = works.note_attempt(word, now=now)
                return self._sent_without_job(word.work, now=now) | self._forgotten(forgotten)
            case SubmitRefused():
                forgotten = works.note_refusal(word, now=now)
                if word.kind == "update":
                    return self._keys_of_id(word.work) | self._forgotten(forgotten)
                return self._sent_without_job(word.work, now=now) | self._forgotten(forgotten)
            case BindRefused() if word.uid in works.key_of_uid:
                works.bind_refusals[word.uid] = word
                return {work_key(works.key_of_uid[word.uid])}
            case BindTried() if word.uid in works.key_of_uid:
                works.note_try(word)
                return {work_key(works.key_of_uid[word.uid])}
            case GangSize():
                key = gang_key(word.namespace, Gang(word.kind, word.name))
                works.sizes[key] = word
                works.forget(key)
                return {work_key(key)}
            case JobTold() if word.job_id in self._jobs.entries:
                known = self._jobs.entries[word.job_id]
                works.note_told(word, known.row, read_s=known.order)
                return set(map(work_key, works.keys_of_job(word.job_id)))
            case Taken():
                return self._taken_changed(word)
            case _:
                return set()

    def _taken_changed(self, word: Taken) -> set[Key]:
        """Pods of others came, went or ended on a Node: only where it is a host that matters."""
        self.fleet.take(word)
        hosts = set(filter(self._is_host, self._hosts.claims.hosts_on_node(word.node_name)))
        if not hosts:
            return set()
        return self.fleet_changed() | {key for name in hosts for key in self.keys_at(name)}

    def _keys_of_id(self, work: str) -> set[Key]:
        """The Work of this id: its key, or the gang that is submitted under it."""
        keys = [] if work in self.works.pods else self._gangs_called(work)
        keys += [work] if self.works.knows(work) else []
        for key in keys:
            if key != work:
                self.works.gang_ids[key] = (work,)
        return set(map(work_key, keys)) | self._review(keys)

    def _sent_without_job(self, work: str, *, now: float) -> set[Key]:
        keys = self._keys_of_id(work)
        self._note_sent([name for kind, name in keys if kind == "work"], now=now)
        return keys

    def _forgotten(self, ids: Sequence[str]) -> set[Key]:
        """Works submitted under these ids, of which older word is forgotten."""
        gangs = [key for key, known in self.works.gang_ids.items() if {*known} & {*ids}]
        keys = [*filter(self.works.knows, ids), *gangs]
        return set(map(work_key, keys)) | self._review(keys)

    def _gangs_called(self, work: str) -> list[str]:
        gangs = [key for key in self.works.pods if key.startswith(GANG_PREFIX)]
        return [key for key in gangs if self.work(key).id == work]

    def sighted(self, sighting: Sighting) -> set[Key]:
        """A Pod was read by name: jobs that name it may learn that it is gone."""
        prefix = f"{sighting.namespace}/{sighting.name}/"
        entries, ids_of = self._jobs.entries, self.works.job_ids
        rows = [entries[one].row for key in self._orphaned for one in ids_of(key)]
        named = [pod for row in rows for pod in row.identity.pods if pod.startswith(prefix)]
        uids = set(map(uid_in, named))
        self.works.sightings.update(dict.fromkeys(uids, sighting))
        ids = self.works.jobs_of_uid
        return {key for uid in uids for one in ids.get(uid, ()) for key in self._keys_named(one)}

    def node_sighted(self, sighting: Sighting) -> set[Key]:
        """A Node was read by name: Pods that are to end there may count as gone (P25b)."""
        if sighting.name not in self.works.pods_on_node:
            return set()
        self.tenants.nodes_asked[sighting.name] = sighting
        return self._touch_node(sighting.name) | self._keys_stuck_on(sighting.name)

    def node_turned(self, node_name: str) -> set[Key]:
        """It turned ready or not, came or went: Works with a Pod that is to end there."""
        self.tenants.nodes_asked.pop(node_name, None)
        self.tenants.forget(node_name)
        return self._keys_stuck_on(node_name) | self._keys_waiting_for(node_name)

    def _keys_waiting_for(self, node_name: str) -> set[Key]:
        """Workloads that wait until a host is ready, or whose job was given up on this one."""
        hosts = self._hosts.claims.hosts_on_node(node_name)
        given_up_at = self.works.submissions.given_up_at
        keys = {key for name in hosts for key in given_up_at.get(name, ())}
        return set(map(work_key, keys | self._unplaced.keys() if self.fleet.turned() else keys))

    def _keys_stuck_on(self, node_name: str) -> set[Key]:
        there = self.works.pods_on_node.get(node_name, {}).items()
        return {work_key(self.works.key_of_uid[uid]) for uid, pod in there if pod.terminating}

    def fleet_changed(self) -> set[Key]:
        """What the hosts offer changed: Works without a job choose anew."""
        self.fleet.forget()
        self.renewal.fleet_changed()
        edited, self._edited = self._edited, {}
        return set(map(work_key, self._unplaced | edited))

    def room_changed(self) -> set[Key]:
        """The state of a Slurm node changed: only few Works ever read it."""
        return set() if self._crowded() else set(map(work_key, self._unplaced))

    def jobs_listed(self) -> set[Key]:
        """A listing of jobs was complete: what it did not hold is missing (F2, P30)."""
        listed_s = self._jobs.agreed_s
        moved = self._queue.move(self._waiting, listed_s=listed_s)
        keys = {key for one in moved for key in self._keys_named(one)}
        keys.update(map(work_key, self.renew(listed_s)))
        due = [key for key, due_s in self._unsettled.items() if listed_s >= due_s]
        nodes = {name for key in due for name in self._settle(key, listed_s)}
        keys.update(map(work_key, due))
        return keys.union(*map(self._touch_node, nodes))

    def _settle(self, key: str, listed_s: float) -> list[str]:
        """Nodes of a Work without a job, of which a listing has said so."""
        bound_s = self.works.bound_since_s(key)
        if bound_s is not None and listed_s > bound_s:
            self.works.missing_s.setdefault(key, listed_s)
        self._unsettled[key] = self._due_s(key, listed_s)
        pods = self.works.pods[key].values() if key in self.works.missing_s else ()
        return [pod.node_name for pod in pods]

    def _due_s(self, key: str, listed_s: float) -> float:
        """Begin of the first listing that will say more than this one."""
        missing_s = self.works.missing_s.get(key)
        if missing_s is None and self.works.bound_since_s(key) is not None:
            return listed_s
        times = [one.sent_s + self.configuration.settle_s for one in self.works.attempts_of(key)]
        if missing_s is not None:
            times += [missing_s + LOST_AFTER_S, missing_s + LOST_AFTER_S + READOPT_S]
        return min([time for time in times if time > listed_s], default=float("inf"))

    def _keys_named(self, job_id: str) -> set[Key]:
        return set(map(work_key, self.works.keys_of_job(job_id)))

    def stops(self, call: StopCall) -> set[Key]:
        """A script waits for its Pods, or no more: the Work of its job, and its Pods' hosts."""
        if call.job_id not in self._jobs.entries:
            return set()
        self.calls.until_s[call.job_id] = call.until_s
        beside = self._touch_beside(self.works.uids_of_job[call.job_id])
        return set(map(work_key, self.works.keys_of_job(call.job_id))) | beside

    def keys_of_pods_on(self, node_name: str) -> set[Key]:
        """Works whose Pods live on this Node: which Slurm node it stands for has changed."""
        there = self.works.pods_on_node.get(node_name, {})
        return {work_key(self.works.key_of_uid[uid]) for uid in there}

    def _touch_beside(self, uids: Iterable[str]) -> set[Key]:
        """Hosts where these Pods of a job live, its own or not (P18), and Works there."""
        nodes = {self.works.node_of(uid) for uid in uids if uid in self.works.bound_s}
        if not nodes:
            return set()
        return {key for name in nodes for key in self._touch_node(name)}

    def nodes_turned(self) -> set[Key]:
        """Kubernetes can be read again, or not: whether a host has no Node is known or is not."""
        return {key for name in self.works.arrivals for key in self.keys_at(name)}

    def pods_listed(self) -> set[Key]:
        """A listing of Pods was complete: what it did not hold is gone."""
        self.works.forget_ends()
        tried = self.works.settle_binds(listed_s=self._pods.agreed_s)
        return set(map(work_key, [*self._orphaned, *tried]))

    def keys_at(self, slurm_node: str) -> set[Key]:
        """Works that are about to move in on this Slurm node: only they read who lives there."""
        return set(map(work_key, self.works.moving_in(slurm_node)))

    def _touch_node(self, node_name: str) -> set[Key]:
        """Who lives there changed: what was worked out of it is forgotten, and who reads it."""
        if not node_name:
            return set()
        self.tenants.forget(node_name)
        last_here = self._hosts.places.hosts_last_at(node_place(node_name))
        hosts = {*self._hosts.claims.hosts_on_node(node_name), *last_here}
        return {host_key(name) for name in hosts} | {
            key for name in hosts for key in self.keys_at(name)
        }

    def _works_of_pod(self, uid: str, own: str) -> set[str]:
        """Its own, and those of other Pods of its jobs: a gang's label may have been taken off."""
        works, found = self.works, {own}
        for one in works.jobs_of_uid.get(uid, ()):
            found.update((works.work_of_job[one],), works.keys_of_job(one))
        return found

    def _review(self, works: Iterable[str]) -> set[Key]:
        """Keep the sets of Works that read more than their own rows; keys that this touches."""
        crowded = self._crowded()
        for key in works:
            pods = self.works.pods.get(key, NO_PODS).values()
            live = [row for row in self.rows_of(key) if is_live(row)]
            _keep(self._unplaced, key, wanted=not live and any(map(could_have_job, pods)))
            bound = bool([pod for pod in pods if pod.node_name and not pod.ended])
            self._unsettled.pop(key, None)
            if not live and (bound or (pods and self.works.attempts_of(key))):
                self._unsettled[key] = float("-inf")
            if live or not bound:
                self.works.missing_s.pop(key, None)
            _keep(self._orphaned, key, wanted=bool(live) and self._lacks_pods(live))
        return self._since_crowded(crowded)

    def rows_of(self, key: str) -> list[Job]:
        """All jobs of a Work, in the order of their ids' names."""
        return [self._jobs.entries[one].row for one in self.works.job_ids(key)]

    def _since_crowded(self, crowded: bool) -> set[Key]:
        """Whether something waits has turned: Works without a job may try another way (P11a)."""
        return set(map(work_key, self._unplaced)) if crowded != self._crowded() else set()

    def _lacks_pods(self, live: Sequence[Job]) -> bool:
        works = self.works
        uids = [uid for row in live for uid in works.uids_of_job[row.job_id]]
        return bool([uid for uid in uids if uid not in works.key_of_uid])


def _keep(keys: dict[str, None], key: str, *, wanted: bool) -> None:
    if wanted:
        keys[key] = None
    else:
        keys.pop(key, None)
