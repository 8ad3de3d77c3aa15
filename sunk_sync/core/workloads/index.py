"""Which Pods and which jobs are one workload: indexes over both tables, kept by `Graph`.

A workload's key is its id (of one Pod, or of a job whose Pods are all gone), or the place of a
gang.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from sunk_sync.core.model.facts import (
    Attempt,
    BindRefused,
    BindTried,
    GangSize,
    GetResult,
    Job,
    JobNotice,
    Pod,
    SubmitRefused,
)
from sunk_sync.core.model.keys import own_key, uids_of, workload_key_of
from sunk_sync.core.translate.job_states import has_passed_prolog, is_live, is_placed
from sunk_sync.core.views.parts import Tried
from sunk_sync.core.workloads.submissions import SubmissionLog

Index = defaultdict[str, set[str]]
NO_JOBS: frozenset[str] = frozenset()
KEPT_S = 600.0
"""For what Slurm said of a submission: a no is asked again after five minutes (P10)."""


class WorkloadIndex:
    """Indexes and what is remembered of workloads beside the rows."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Pod]] = {}  # workload key → UID → Pod
        self.key_of_uid: dict[str, str] = {}
        self.jobs_of_uid: dict[str, tuple[str, ...]] = {}  # ids of jobs that name the Pod, sorted
        self.orphans: Index = defaultdict(set)
        """Workload key → jobs submitted under it of which no Pod is in the picture."""
        self.workload_of_job: dict[str, str] = {}
        self.uids_of_job: dict[str, tuple[str, ...]] = {}
        self.pods_on_node: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
        """Node name → UID → Pod bound there."""
        self.arrivals: Index = defaultdict(set)
        """Slurm node → live jobs that hold it, of which some Pod is not bound."""
        self.placements: dict[str, tuple[str, ...]] = {}  # such a job → Slurm nodes that it holds
        self.attempts: dict[str, tuple[Attempt, float]] = {}
        """Workload id → the last attempt without an answer, and when we learnt of it."""
        self.refusals: dict[str, tuple[SubmitRefused, float]] = {}
        """Workload id → Slurm's last no, and when."""
        self.bind_refusals: dict[str, BindRefused] = {}
        self.binds_tried: dict[str, Tried] = {}  # by UID, until the Pod was read; see settle_binds
        self.sizes: dict[str, GangSize] = {}
        self.gang_ids: dict[str, tuple[str, ...]] = {}
        """Key of a gang → ids that were submitted without an answer."""
        self.gone: dict[str, None] = {}
        """UIDs that a watch told are gone, while a job names them."""
        self.get_results: dict[str, GetResult] = {}
        """By UID that some job names."""
        self.notices: dict[str, JobNotice] = {}  # job id → the last notice, until it is read
        self.first_notices: dict[str, float] = {}  # first words of scripts → last read before them
        self.waits_s: dict[str, float] = {}  # UID → since when the Pod is seen, not bound
        self.bound_s: dict[str, float] = {}  # UID → since when the Pod is seen bound
        self.ahead: dict[str, int] = {}  # job id → about how many wait longer
        self.placed_s: dict[str, float] = {}  # UID → when this process saw the Pod become bound
        self.started: dict[str, None] = {}  # jobs whose script called
        self.ran_s: dict[str, float] = {}  # job id → since when no prolog holds its script
        self.ended_s: dict[str, float] = {}
        """Job id → since when it is known to have ended."""
        self.ends: dict[str, Job] = {}  # by UID; see ends_of
        self.left: dict[str, tuple[str, ...]] = {}  # job id → hosts it held; it lives, elsewhere
        self.submissions = SubmissionLog()
        self.missing_s: dict[str, float] = {}  # key → first listing without its job (P30)

    # Pods

    def add_pod(self, pod: Pod, *, now: float) -> None:
        """Index a Pod that was just put into the table."""
        key = workload_key_of(pod)
        self.pods.setdefault(key, {})[pod.uid] = pod
        self.key_of_uid[pod.uid] = key
        self.gone.pop(pod.uid, None)
        if pod.node_name:
            self.pods_on_node[pod.node_name][pod.uid] = pod
            self.bound_s.setdefault(pod.uid, now)
        else:
            self.waits_s.setdefault(pod.uid, now)
        self._sort_each(pod.uid)

    def put_pod(self, pod: Pod) -> None:
        """Take in news of a Pod that stays where it is, in its workload and on its Node."""
        self.pods[self.key_of_uid[pod.uid]][pod.uid] = pod
        if pod.node_name:
            self.pods_on_node[pod.node_name][pod.uid] = pod

    def drop_pod(self, pod: Pod, *, deleted: bool, moves: bool) -> None:
        """Take a Pod, as it was, out; `deleted`: a watch reported its deletion.

        `moves`: it is not about to come back on the same Node.
        """
        key = self.key_of_uid.pop(pod.uid, "")
        members = self.pods.get(key, {})
        members.pop(pod.uid, None)
        if not members:
            self.pods.pop(key, None)
        if pod.node_name:
            self._leave_node(pod)
        if moves:
            self.placed_s.pop(pod.uid, None)
            self.waits_s.pop(pod.uid, None)
            self.bound_s.pop(pod.uid, None)
            self.bind_refusals.pop(pod.uid, None)
            self.binds_tried.pop(pod.uid, None)
            self.ends.pop(pod.uid, None)
        if deleted and pod.uid in self.jobs_of_uid:
            self.gone[pod.uid] = None
        self._sort_each(pod.uid)

    def _sort_each(self, uid: str) -> None:
        for job_id in self.jobs_of_uid.get(uid, ()):
            self._sort(job_id)

    def forget(self, key: str) -> None:
        """What is remembered of a key without Pods goes with the last of them."""
        if key not in self.pods:
            self.submissions.forget(key)
            self.missing_s.pop(key, None)
            self.sizes.pop(key, None)
            self.gang_ids.pop(key, None)

    def _leave_node(self, pod: Pod) -> None:
        there = self.pods_on_node.get(pod.node_name, {})
        there.pop(pod.uid, None)
        if not there:
            self.pods_on_node.pop(pod.node_name, None)

    def note_attempt(self, attempt: Attempt, *, now: float) -> list[str]:
        """A submission got no answer. Workloads of which older word is forgotten for it."""
        return _note(self.attempts, attempt.workload, (attempt, now), now=now)

    def note_refusal(self, refusal: SubmitRefused, *, now: float) -> list[str]:
        """Slurm said no to a submission; no attempt is open any more. Workloads as with an
        attempt.
        """
        forgotten = _note(self.refusals, refusal.workload, (refusal, now), now=now)
        if refusal.kind != "update":
            self.attempts.pop(refusal.workload, None)
        return forgotten

    # Jobs

    def add_job(self, job: Job, *, now: float) -> None:
        """Index a job that was just put into the table."""
        self.workload_of_job[job.job_id] = own_key(job)
        uids = tuple(map(self._known, uids_of(job.identity)))
        self.uids_of_job[job.job_id] = uids
        for uid in uids:
            others = self.jobs_of_uid.get(uid, ())
            self.jobs_of_uid[uid] = tuple(sorted({*others, job.job_id}))
        self._sort(job.job_id)
        self._note_state(job, now=now)

    def _known(self, uid: str) -> str:
        """The string that its Pod has: the same in every index is found sooner, and kept once."""
        pod = self.pod_of(uid)
        return uid if pod is None else pod.uid

    def move_job(self, before: Job, after: Job, *, now: float) -> None:
        """Take in that a job is in another state or place; it stands for the same Pods."""
        went = before.slurm_nodes and {*before.slurm_nodes}.isdisjoint(after.slurm_nodes)
        if went and is_live(after):
            self.left[after.job_id] = before.slurm_nodes
        self._note_state(after, now=now)

    def _note_state(self, job: Job, *, now: float) -> None:
        self.note_arrivals(job)
        if not is_live(job):
            if job.job_id not in self.ended_s and job.identity.replaced:
                self._note_given_up(job, now=now)
            self.ended_s.setdefault(job.job_id, now)
        elif has_passed_prolog(job):
            self.ran_s.setdefault(job.job_id, now)

    def _note_given_up(self, job: Job, *, now: float) -> None:
        for key in filter(self.pods.__contains__, self.keys_of_job(job.job_id)):
            self.submissions.note_given_up(key, job.slurm_nodes, now=now)

    def note_arrivals(self, job: Job) -> None:
        """The job is in another state or place, or a Pod of it is bound by now, or no more."""
        holds = job.slurm_nodes if is_live(job) else ()
        uids = self.uids_of_job[job.job_id] if holds else ()
        arrives = [uid for uid in uids if uid not in self.bound_s]
        self._move_in(job.job_id, holds if arrives else ())

    def _move_in(self, job_id: str, slurm_nodes: tuple[str, ...]) -> None:
        before = self.placements.get(job_id, ())
        if slurm_nodes == before:
            return
        for name in before:
            _discard(self.arrivals, name, job_id)
        for name in slurm_nodes:
            self.arrivals[name].add(job_id)
        if slurm_nodes:
            self.placements[job_id] = slurm_nodes
        else:
            del self.placements[job_id]

    def drop_job(self, job: Job) -> None:
        """Take a job, as it was, out of the indexes."""
        _discard(self.orphans, self.workload_of_job.pop(job.job_id, ""), job.job_id)
        self.uids_of_job.pop(job.job_id, None)
        for uid in uids_of(job.identity):
            others = [one for one in self.jobs_of_uid.pop(uid, ()) if one != job.job_id]
            if others:
                self.jobs_of_uid[uid] = tuple(others)
        self._move_in(job.job_id, ())

    def note_notice(self, word: JobNotice, job: Job, *, read_s: float) -> None:
        """Slurm or a placeholder spoke of this job: it is to be read.

        A script's first word says all that was missing where it was read where its job runs, be
        it before or after.
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
        """The script said that it started, or there is none (P11)."""
        return job.started or not job.script or job.job_id in self.started

    def notified_at_s(self, job: Job) -> float:
        """When it was spoken of; 0: nothing that a newer read would tell."""
        if job.job_id in self.first_notices and is_placed(job):
            return 0.0
        word = self.notices.get(job.job_id)
        return 0.0 if word is None else word.notified_at_s

    def is_end_notified(self, job: Job) -> bool:
        """Slurm said so; nobody has read it yet."""
        word = self.notices.get(job.job_id)
        return word is not None and word.what == "ended"

    def ends_of(self, pods: Iterable[Pod]) -> list[Job]:
        """Jobs that bound these Pods, were read as ended, and forgotten by Slurm since; each once.

        What is owed for such an end stays owed (P16).
        """
        if not self.ends:
            return []
        ends = filter(None, map(self.end_of, pods))
        return list({end.job_id: end for end in ends}.values())

    def end_of(self, pod: Pod) -> Job | None:
        """The one of them that bound this Pod."""
        end = self.ends.get(pod.uid)
        named = end is not None and pod.node_name and pod.job_id == end.job_id
        return end if named else None

    def note_try(self, tried: BindTried) -> None:
        """A binding got no answer: it may have happened, as may those before it."""
        before = self.binds_tried.get(tried.uid)
        others = before.job_ids if before is not None else ()
        job_ids = tuple(dict.fromkeys((*others, tried.job_id)))
        self.binds_tried[tried.uid] = Tried(tried.uid, job_ids, tried.given_up_s)

    def settle_bind(self, tried: Tried, get_result: GetResult) -> None:
        """The Pod was read by name: not bound, or not there, after all; else it is asked again."""
        if get_result.found != "unknown" and get_result.asked_s > tried.given_up_s:
            del self.binds_tried[tried.uid]
        else:
            self.binds_tried[tried.uid] = replace(tried, asked_s=get_result.asked_s)

    def settle_binds(self, *, listed_s: float) -> list[str]:
        """Keys of workloads of which it is known by now whether a binding without an answer was
        taken.

        Only what was asked of all Pods after it was given up tells: a watch may stand still.
        """
        uids = [uid for uid, one in self.binds_tried.items() if one.given_up_s < listed_s]
        for uid in uids:
            del self.binds_tried[uid]
        return [self.key_of_uid[uid] for uid in uids if uid in self.key_of_uid]

    def forget_ends(self) -> None:
        """All Pods are listed: who is not there needs none."""
        for uid in [one for one in self.ends if one not in self.key_of_uid]:
            del self.ends[uid]

    def pod_of(self, uid: str) -> Pod | None:
        """The Pod of this UID, where it is known."""
        return self.pods.get(self.key_of_uid.get(uid, ""), {}).get(uid)

    def node_of(self, uid: str) -> str:
        """Name of the Node that the Pod is bound to; empty: none, or the Pod is not known."""
        pod = self.pod_of(uid)
        return "" if pod is None else pod.node_name

    def bound_since_s(self, key: str) -> float | None:
        """Since when every Pod of a workload that is bound is seen so; None: none is."""
        seconds = [self.bound_s[uid] for uid in self.pods.get(key, ()) if uid in self.bound_s]
        return max(seconds, default=None)

    def forget_unnamed(self, job: Job) -> None:
        """What is known of Pods that are gone goes with the last job that names them."""
        for uid in uids_of(job.identity):
            if uid not in self.jobs_of_uid:
                self.gone.pop(uid, None)
                self.get_results.pop(uid, None)

    def attempts_of(self, key: str) -> list[Attempt]:
        """Submissions of a workload that got no answer (F2)."""
        ids = (key, *self.gang_ids.get(key, ()))
        return [self.attempts[one][0] for one in ids if one in self.attempts]

    # Keys

    def keys(self) -> list[str]:
        """Every workload that a Pod or a job concerns, in the order in which they came to be
        known.
        """
        return [*self.pods, *[key for key in self.orphans if key not in self.pods]]

    def knows(self, key: str) -> bool:
        """Whether some Pod, or a job without any Pod, concerns the key."""
        return key in self.pods or key in self.orphans

    def _sort(self, job_id: str) -> None:
        """While no Pod of it is in the picture, a job is a workload by itself."""
        key = self.workload_of_job[job_id]
        if self.key_of_uid.keys().isdisjoint(self.uids_of_job[job_id]):
            self.orphans[key].add(job_id)
        else:
            _discard(self.orphans, key, job_id)

    def keys_of_job(self, job_id: str) -> set[str]:
        """Workloads whose Pods a job names, or the one that it is itself; none: nobody knows it."""
        uids = self.uids_of_job.get(job_id)
        if uids is None:
            return set()
        return self._keys_of_uids(uids) or {self.workload_of_job[job_id]}

    def keys_named_by(self, job: Job) -> set[str]:
        """The same by a job's row, whether it is known or not."""
        return self._keys_of_uids(uids_of(job.identity)) or {own_key(job)}

    def _keys_of_uids(self, uids: Sequence[str]) -> set[str]:
        keys = self.key_of_uid
        return {keys[uid] for uid in uids if uid in keys}

    def moving_in(self, slurm_node: str) -> set[str]:
        """Workloads of which a Pod is about to be bound to the Node of this Slurm node."""
        jobs = self.arrivals.get(slurm_node, NO_JOBS)
        uids = [uid for one in jobs for uid in self.uids_of_job[one]]
        return {self.key_of_uid[uid] for uid in uids if uid in self.key_of_uid}

    def job_ids(self, key: str) -> Sequence[str]:
        """Jobs of a workload: those that name one of its Pods, and orphans submitted under its id.

        In the order of their names.
        """
        naming = [self.jobs_of_uid.get(uid, ()) for uid in self.pods.get(key, ())]
        orphans = self.orphans.get(key)
        if len(naming) == 1 and not orphans:
            return naming[0]
        return sorted({*itertools.chain.from_iterable(naming), *(orphans or ())})


Noted = TypeVar("Noted", tuple[Attempt, float], tuple[SubmitRefused, float])


def _note(memory: dict[str, Noted], workload: str, one: Noted, *, now: float) -> list[str]:
    """Keep the newest last; what is older than anybody asks for goes."""
    memory.pop(workload, None)
    memory[workload] = one
    forgotten = []
    while (oldest := next(iter(memory.values())))[1] < now - KEPT_S:
        forgotten.append(oldest[0].workload)
        del memory[oldest[0].workload]
    return forgotten


def _discard(index: Index, name: str, one: str) -> None:
    members = index.get(name)
    if members is not None:
        members.discard(one)
        if not members:
            del index[name]
