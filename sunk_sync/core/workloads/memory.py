"""Facts about workloads that no listing shows: attempts, refusals, notices, times.

A restart loses them. Their number is bounded by the Pods and jobs, or by KEPT_S.
"""

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from sunk_sync.core.model.calls import JobNotice
from sunk_sync.core.model.claims import Claim, Claims
from sunk_sync.core.model.facts import (
    BindRefused,
    BindTried,
    GetResult,
    Job,
    Pod,
)
from sunk_sync.core.model.gang_size import GangSize
from sunk_sync.core.model.keys import gang_key, uids_of, workload_key_of
from sunk_sync.core.model.pod_spec import Gang
from sunk_sync.core.model.timing import BINDING_S
from sunk_sync.core.translate.job_states import (
    has_passed_prolog,
    is_live,
    is_placed,
    is_prolog_failed,
    never_began,
)
from sunk_sync.core.views.conclusions import cancelled_id, was_cancelled
from sunk_sync.core.views.parts import Tried
from sunk_sync.core.workloads.index import WorkloadIndex
from sunk_sync.core.workloads.members import GangFacts
from sunk_sync.core.workloads.submissions import SubmissionLog
from sunk_sync.core.workloads.unanswered import Unanswered


class WorkloadMemory:
    def __init__(self, index: WorkloadIndex) -> None:
        self.index = index
        self.unanswered = Unanswered()
        self.bind_refusals: dict[str, BindRefused] = {}  # by UID
        self.binds_tried: dict[str, Tried] = {}  # by UID, until the Pod is read: settle_binds
        self.sizes: dict[str, GangSize] = {}  # by key of the gang
        self.pods_changed_s: dict[str, float] = {}
        """Key of a gang → when a Pod of it last came or went."""
        self.finished: dict[str, Pod] = {}
        """By UID: bound members of gangs that ended by themselves, not by a deletion (G8)."""
        self.gone: dict[str, None] = {}
        """UIDs that a watch reported as deleted, while a job names them."""
        self.get_results: dict[str, GetResult] = {}  # by UID that some job names
        self.notices: dict[str, JobNotice] = {}  # job id → the last notice, until it is read
        self.first_notices: dict[str, float] = {}  # job id → last read before its first notice
        self.waits_s: dict[str, float] = {}  # UID → since when the Pod is seen, not bound
        self.bound_s: dict[str, float] = {}  # UID → since when the Pod is seen bound
        self.placed_s: dict[str, float] = {}  # UID → when this process saw the Pod become bound
        self.ahead: dict[str, int] = {}  # job id → about how many wait longer
        self.started: dict[str, None] = {}  # jobs whose script called
        self.ran_s: dict[str, float] = {}  # job id → since when no prolog delays its script
        self.ended_s: dict[str, float] = {}  # job id → since when it is known to have ended
        self.ends: dict[str, Job] = {}  # by UID: ends_of
        self.left: dict[str, tuple[str, ...]] = {}  # job id → former hosts of a live job
        self.submissions = SubmissionLog()
        self.missing_s: dict[str, float] = {}  # key → first listing without its job (P30)
        self.prolog_failed: dict[str, str] = {}
        """Slurm node → reason of slurmctld's drain after its Prolog failed (P17)."""
        self.claims: dict[str, tuple[str, ...]] = {}
        """UID of a Pod, or name of a job → live jobs that may be this one (P23)."""
        self.unproven: dict[str, tuple[Claim, float]] = {}  # job id → such a job, and since when

    def note_pod(self, pod: Pod, *, now: float) -> None:
        self.gone.pop(pod.uid, None)
        (self.bound_s if pod.node_name else self.waits_s).setdefault(pod.uid, now)

    def note_pod_gone(self, pod: Pod, *, deleted: bool, moves: bool) -> None:
        """Forget a Pod that left its table; `deleted`: a watch reported its deletion.

        `moves`: the Pod is not about to return on the same Node.
        """
        if moves:
            for memory in (self.placed_s, self.waits_s, self.bound_s, self.ends):
                memory.pop(pod.uid, None)
            self.bind_refusals.pop(pod.uid, None)
            self.binds_tried.pop(pod.uid, None)
        if deleted and pod.uid in self.index.jobs_of_uid:
            self.gone[pod.uid] = None
        if moves and pod.uid not in self.index.jobs_of_uid:
            self.finished.pop(pod.uid, None)

    def _note_end(self, before: Pod | None, after: Pod) -> None:
        """Note the end of a bound member of a gang, unless it was about to be deleted then (G8)."""
        if after.gang is None or not (after.ended and after.node_name):
            return
        deleted = before is not None and before.uid == after.uid and before.terminating
        if not deleted or after.uid in self.finished:
            self.finished[after.uid] = after

    def note_members(self, before: Pod | None, after: Pod | None, *, now: float) -> None:
        """A Pod changed: note its end (G8), or when the Pods of its gang became others (G9)."""
        rows = [row for row in (before, after) if row is not None]
        if after is not None:
            self._note_end(before, after)
        if before and after and (before.uid, before.gang) == (after.uid, after.gang):
            return
        gangs = [workload_key_of(row) for row in rows if row.gang is not None]
        self.pods_changed_s.update(dict.fromkeys(gangs, now))

    def note_size(self, word: GangSize) -> str:
        """Note the size of a gang that has Pods; return its key."""
        key = gang_key(word.namespace, Gang(word.kind, word.name, owner=word.owner))
        self.sizes[key] = word
        self.forget(key)
        return key

    def gang_facts(self, key: str) -> GangFacts:
        changed_s = self.pods_changed_s.get(key, 0.0)
        return GangFacts(self.sizes.get(key), changed_s, self.finished, self.gone)

    def forget(self, key: str) -> None:
        """Forget the facts of a key when its last Pod is gone."""
        if key not in self.index.pods:
            self.submissions.forget(key)
            self.missing_s.pop(key, None)
            self.sizes.pop(key, None)
            self.pods_changed_s.pop(key, None)
            self.unanswered.gang_ids.pop(key, None)

    def bound_since_s(self, key: str) -> float | None:
        """Return since when all bound Pods of a workload are seen bound; None: none is bound."""
        seconds = [self.bound_s[uid] for uid in self.index.pods.get(key, ()) if uid in self.bound_s]
        return max(seconds, default=None)

    def job_ended_s(self, uid: str) -> float | None:
        """Return when the end of the Pod's last job became known; None: one may live."""
        ends = [self.ended_s.get(job_id) for job_id in self.index.jobs_of_uid.get(uid, ())]
        known = [end for end in ends if end is not None]
        return max(known) if known and len(known) == len(ends) else None

    def forget_unnamed(self, job: Job) -> None:
        """Forget deleted Pods when no job names them any more."""
        for uid in uids_of(job.identity):
            if uid not in self.index.jobs_of_uid:
                self.gone.pop(uid, None)
                self.get_results.pop(uid, None)
                if uid not in self.index.key_of_uid:
                    self.finished.pop(uid, None)

    def forget_ends(self) -> None:
        """All Pods are listed: forget ends of missing Pods."""
        for uid in [one for one in self.ends if one not in self.index.key_of_uid]:
            del self.ends[uid]

    def note_binding(self, word: BindRefused | BindTried) -> Tried:
        """Note a binding that was refused, or one without an answer; return what may be bound.

        Of the latter, it and earlier ones may have succeeded.
        """
        before = self.binds_tried.get(word.uid) or Tried(word.uid, (), 0.0)
        if isinstance(word, BindRefused):
            self.bind_refusals[word.uid] = word
            return before
        tried = self.binds_tried[word.uid] = Tried(
            uid=word.uid,
            job_ids=tuple(dict.fromkeys((*before.job_ids, word.job_id))),
            given_up_s=word.given_up_s,
            slurm_nodes=tuple(dict.fromkeys((*before.slurm_nodes, word.slurm_node))),
        )
        return tried

    def tried_at(self, slurm_node: str) -> list[Tried]:
        """Return the bindings without an answer to this host."""
        return [one for one in self.binds_tried.values() if slurm_node in one.slurm_nodes]

    def settle_bind(self, tried: Tried, get_result: GetResult) -> None:
        """Settle the bindings of a Pod read as gone, or as unbound when none can arrive any more.

        Otherwise the Pod must be read again.
        """
        later = get_result.found != "unknown" and get_result.asked_s > tried.given_up_s
        gone = get_result.found == "no" or get_result.uid != tried.uid
        if later and (gone or get_result.asked_s >= tried.given_up_s + BINDING_S):
            del self.binds_tried[tried.uid]
        else:
            self.binds_tried[tried.uid] = replace(tried, asked_s=get_result.asked_s)

    def settle_binds(self, *, listed_s: float) -> list[Tried]:
        """Return the bindings without an answer that are settled by now.

        Only a request about all Pods, sent when the binding can no longer arrive, settles it: a
        watch may lag.
        """
        arrived_s = listed_s - BINDING_S
        settled = [one for one in self.binds_tried.values() if one.given_up_s < arrived_s]
        for one in settled:
            del self.binds_tried[one.uid]
        return settled

    def note_move(self, before: Job, after: Job) -> None:
        """A live job left all of its hosts for others."""
        went = before.slurm_nodes and {*before.slurm_nodes}.isdisjoint(after.slurm_nodes)
        if went and is_live(after):
            left = {*self.left.get(after.job_id, ()), *before.slurm_nodes}
            self.left[after.job_id] = tuple(sorted(left))

    def note_state(self, before: Job | None, job: Job, *, now: float) -> None:
        """Note when a job is first seen past its prolog, and when as ended.

        While a job is COMPLETING, Slurm names only the hosts that it still holds.
        """
        if not is_live(job):
            if _is_given_up(job) and _is_news(before):
                held = before.slurm_nodes if before is not None and is_live(before) else ()
                self._note_given_up(job, {*held, *job.slurm_nodes}, now=now)
            self.ended_s.setdefault(job.job_id, now)
        elif has_passed_prolog(job):
            self.ran_s.setdefault(job.job_id, now)

    def _note_given_up(self, job: Job, slurm_nodes: Collection[str], *, now: float) -> None:
        full = self.submissions.full.pop(job.job_id, frozenset())
        for key in filter(self.index.pods.__contains__, self.index.keys_of_job(job.job_id)):
            self.submissions.note_given_up(key, slurm_nodes, full=full, now=now)

    def note_sent(self, keys: Iterable[str], *, now: float) -> None:
        """A submission for these workloads was answered, or may have succeeded (P32)."""
        for key in filter(self.index.pods.__contains__, keys):
            self.submissions.note_sent(key, now=now)
            self._forget_cancels(key)

    def note_notice(self, word: JobNotice, job: Job, *, read_s: float) -> None:
        """Slurm or a placeholder sent a notice of this job: sunk-sync must read it.

        For the first notice of a script, any read that shows where the job runs is good enough.
        """
        started = word.what == "started"
        first = started and not (job.started or word.job_id in self.started)
        if not (first and is_placed(job)):
            alone = first and self.notified_at_s(job) == 0.0
            self.notices[word.job_id] = word
            self.first_notices.pop(word.job_id, None)
            if alone:
                self.first_notices[word.job_id] = read_s
        if started:
            self.started[word.job_id] = None

    def has_started(self, job: Job) -> bool:
        """Whether the script reported its start, or the job has no script (P11)."""
        return job.started or not job.script or job.job_id in self.started

    def notified_at_s(self, job: Job) -> float:
        """Return when a notice of the job came; 0: a newer read would show nothing more."""
        if job.job_id in self.first_notices and is_placed(job):
            return 0.0
        word = self.notices.get(job.job_id)
        return 0.0 if word is None else word.notified_at_s

    def is_end_notified(self, job: Job) -> bool:
        """Whether a notice reported the end, and sunk-sync has not read it yet."""
        word = self.notices.get(job.job_id)
        return word is not None and word.what == "ended"

    def ends_of(self, pods: Iterable[Pod]) -> list[Job]:
        """Return jobs of these Pods that ended and left Slurm's memory; each once (P16, P17)."""
        if not self.ends:
            return []
        ends = filter(None, map(self.end_of, pods))
        return list({end.job_id: end for end in ends}.values())

    def end_of(self, pod: Pod) -> Job | None:
        end = self.ends.get(pod.uid)
        return end if end is not None and _counts(end, pod) else None

    def note_drain(self, slurm_node: str, reason: str) -> bool:
        """Note why a node is drained, or empty; return whether a failed Prolog came or went."""
        now = reason if is_prolog_failed(reason) else ""
        if self.prolog_failed.get(slurm_node, "") == now:
            return False
        self.prolog_failed.pop(slurm_node, None)
        if now:
            self.prolog_failed[slurm_node] = now
        return True

    def note_claims(self, word: Claims, *, now: float) -> set[str]:
        """Return the UIDs and names that claims named before, or name now."""
        since = {job_id: since_s for job_id, (_, since_s) in self.unproven.items()}
        self.unproven = {one.job_id: (one, since.get(one.job_id, now)) for one in word.claims}
        before, after = self.claims, dict[str, tuple[str, ...]]()
        for claim in word.claims:
            named = (claim.name,) if claim.identity is None else uids_of(claim.identity)
            for one in named:
                after[one] = (*after.get(one, ()), claim.job_id)
        self.claims = after
        return before.keys() | after.keys()

    def claims_on(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return live jobs that may be those of these UIDs or names."""
        found = [job_id for name in names for job_id in self.claims.get(name, ())]
        return tuple(dict.fromkeys(found))

    def keep_end(self, job: Job, *, pods_listed: bool) -> None:
        """Keep the end of a job that Slurm forgets, while one of its Pods may need it.

        Its hosts are all that it ever had. Slurm may give the id to another job at once, between
        two listings (P23).
        """
        hosts = tuple(sorted({*job.slurm_nodes, *self.left.get(job.job_id, ())}))
        if is_live(job) or not (hosts or was_cancelled(job)):
            return
        end = replace(job, slurm_nodes=hosts)
        for uid in uids_of(job.identity):
            pod = self.index.pod_of(uid)
            unknown = pod is None and not pods_listed
            if unknown or (pod is not None and _counts(end, pod)):
                self.ends[uid] = end

    def _forget_cancels(self, key: str) -> None:
        """Another job was submitted: a cancel of an earlier one no longer counts (P17)."""
        if not self.ends:
            return
        for pod in self.index.pods[key].values():
            if not pod.node_name:
                self.ends.pop(pod.uid, None)

    def forget_job(self, job_id: str) -> None:
        """Forget facts about an id that Slurm may give to another job (P23)."""
        self.ran_s.pop(job_id, None)
        self.ended_s.pop(job_id, None)
        self.notices.pop(job_id, None)
        self.started.pop(job_id, None)
        self.first_notices.pop(job_id, None)
        self.left.pop(job_id, None)
        self.submissions.full.pop(job_id, None)

    def forget_bind_refusals(self, job: Job) -> None:
        """Forget refusals for the hosts of this job: the next job may hold others (G4)."""
        for uid in uids_of(job.identity):
            self.bind_refusals.pop(uid, None)


def _is_news(before: Job | None) -> bool:
    """Whether the record before did not show that the job was given up."""
    return before is None or is_live(before) or not _is_given_up(before)


def _is_given_up(job: Job) -> bool:
    """Whether its hosts are avoided for a while. Of several, Slurm drains the one that failed."""
    return job.identity.replaced or (never_began(job) and len(job.slurm_nodes) == 1)


def _counts(end: Job, pod: Pod) -> bool:
    """Whether the Pod must end with this job (P16), or its cancel be noted on the Pod (P17)."""
    if pod.node_name:
        return bool(end.slurm_nodes) and pod.job_id == end.job_id
    return was_cancelled(end) and cancelled_id(pod) != end.job_id
