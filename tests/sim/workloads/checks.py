"""Invariants of the writes to Pods and jobs, checked from outside at each change and each call."""

from collections import defaultdict
from collections.abc import Set
from typing import Final

import msgspec

from sunk_sync.embedded.kubernetes.store.store import Change
from sunk_sync.embedded.slurm.model.job import Job
from sunk_sync.embedded.slurm.model.node import Node
from tests.sim import words
from tests.sim.history import History
from tests.sim.wire import Exchange, Process
from tests.sim.words import Object
from tests.sim.workloads.evidence import Evidence, Sight
from tests.sim.workloads.truth import (
    Uids,
    clash,
    identity_in,
    is_alive,
    is_live,
    is_ours,
    is_replaced,
    place_of,
    slurm_node_of,
    uid_of,
    workload,
    workloads_of,
)
from tests.sim.worlds import US, Worlds

AT_ONCE_S: Final = 0.1
"""Answers within this time can arrive while a write leaves the service."""
SEEN_S: Final = 5.0
"""P29."""
PATIENCE_S: Final = 90.0
"""Time in which the service may not know of a change, whatever the network does."""
A_MINUTE_S: Final = 60.0
A_MINUTE_MAX: Final = 5
"""P32."""
NO_REASON: Final = b'"error_number":-1'
REFUSED_LATELY_S: Final = 90.0
REFUSALS_MAX: Final = 4
"""P10: after 10, 20 and 40 s."""
OURS: Final = frozenset({words.JOB_ID, words.BOUND_FOR, words.CANCELLED})
CONDITIONS: Final = frozenset({"PodScheduled", "DisruptionTarget"})
UNMOVED: Final = frozenset({"managedFields", "resourceVersion", "generation", "annotations"})
COPIED: Final = frozenset({"topology.kubernetes.io/zone", "topology.kubernetes.io/region"})
"""Labels that the API server copies from the Node to a Pod that is bound."""
DELETION: Final = frozenset({"deletionTimestamp", "deletionGracePeriodSeconds"})


class WorkloadChecks:
    def __init__(self, worlds: Worlds, history: History) -> None:
        self._worlds = worlds
        self._history = history
        self._present: Exchange | None = None
        self._evidence: dict[int, Evidence] = {}
        self._leader: Process | None = None
        """The life that writes."""
        self._ran_since: dict[str, float] = {}
        """UID of a Pod → since when its job has run where the Pod is bound."""
        self.uids: dict[str, Object] = {}
        """Current workload Pods by UID."""
        self._wanted: dict[str, Uids] = {}
        """UID → the workload of its job."""
        self._twins: dict[Uids, list[Job]] | None = None
        """Workloads with two live jobs. None: jobs have changed since the last computation."""
        self._twice_s: dict[Uids, float] = {}
        """Workload with two live jobs → since when the current process has read both."""
        self._sent_s: defaultdict[str, list[float]] = defaultdict(list)
        """UID → when the current process sent the submissions that became jobs."""
        self._refused_s: defaultdict[object, list[float]] = defaultdict(list)
        """Request for jobs of one life → when slurmctld refused it without a reason."""
        self._finished: set[str] = set()
        """UIDs of Pods that ended before anybody deleted them."""
        self.calm = False
        """All faults have ended: check also the rules with deadlines."""
        self.refused_writes = 0
        """P10: such writes are repeated every five minutes."""
        worlds.onlookers.append(self)
        for pod in worlds.kube.pods():
            if words.is_workload(pod):
                self.uids[uid_of(pod)] = pod

    def begin(self, process: Process) -> None:
        """Start a new life, which has read nothing yet."""
        self._evidence[process.number] = Evidence(self._worlds)
        self.lead(process)

    def lead(self, process: Process | None) -> None:
        """From now on this life writes; None: none does."""
        self._leader = process
        self._twice_s.clear()
        self._sent_s.clear()

    def ends_read(self, process: Process) -> Set[tuple[str, str]]:
        """Return Pods and jobs whose end the process has read (P16)."""
        return self._evidence[process.number].ends

    def _break(self, check: str, why: object) -> None:
        self._history.break_promise(check, f"{why} [{self._present}]")

    def sent(self, exchange: Exchange) -> None:
        self._evidence[exchange.process.number].sent(exchange)
        path = exchange.question.path
        if exchange.side == "kube" and exchange.writes and path.endswith("/binding"):
            self._check_binding(exchange)

    def serving(self, exchange: Exchange) -> None:
        self._present = exchange

    def served(self, exchange: Exchange) -> None:
        """Stop counting changes as those of sunk-sync."""
        self._present = None
        if exchange.served_s is not None:
            self._evidence[exchange.process.number].served(exchange)

    def taken(self, exchange: Exchange) -> None:
        self._evidence[exchange.process.number].taken(exchange)
        if exchange.process is self._leader:
            self._look_for_twins(exchange)
        if exchange.writes and b'"errors":[{' in getattr(exchange.answer, "body", b""):
            self.refused_writes += "/job/" in exchange.question.path
            self._check_refusal(exchange)

    def half_taken(self, exchange: Exchange, body: bytes) -> None:
        self._evidence[exchange.process.number].half_taken(exchange, body)

    def over(self, exchange: Exchange) -> None:
        self._evidence[exchange.process.number].over(exchange)

    def _check_refusal(self, exchange: Exchange) -> None:
        """P10: a request that slurmctld refused without a reason is repeated ever more rarely."""
        path, body = exchange.question.path, getattr(exchange.answer, "body", b"")
        if not path.endswith(("/job/submit", "/job/allocate")) or NO_REASON not in body:
            return
        asked = identity_in(msgspec.json.decode(exchange.question.body)["job"]["admin_comment"])
        pods, now_s = asked.get("pods") or asked.get("uids"), self._worlds.now_s
        request = (exchange.process.number, path, str(pods), asked.get("digest"))
        lately = [one for one in self._refused_s[request] if one > now_s - REFUSED_LATELY_S]
        self._refused_s[request] = [*lately, now_s]
        self._history.count("refusals without a reason")
        if len(lately) >= REFUSALS_MAX:
            self._break("refused too often", f"{len(lately) + 1} times in 90 s: {pods}")

    def _check_binding(self, exchange: Exchange) -> None:
        """P11: a read showed a job of the Pod RUNNING there, and there is no second one."""
        body = msgspec.json.decode(exchange.question.body)
        uid, node_name = body["metadata"]["uid"], body["target"]["name"]
        evidence = self._evidence[exchange.process.number]
        running, surely = [], []
        for number, sights in evidence.jobs.items():
            known = [one for one in sights if one.taken_s <= exchange.sent_s]
            against = [
                one
                for one in known
                if one.taken_s < exchange.sent_s - AT_ONCE_S
                and evidence.speaks_against(one, sent_s=exchange.sent_s, late_s=PATIENCE_S)
            ]
            if self._reads_as_running(uid, slurm_node_of(node_name), known, against):
                running.append(number)
            if self._reads_as_running(uid, slurm_node_of(node_name), known, known):
                surely.append(number)
        self._check_beside(uid, node_name)
        if not running:
            self._break("bound blindly", f"{uid} to {node_name}: no job of it was read running")
        elif len(surely) > 1:
            self._break("bound twice", f"{uid} to {node_name} although jobs {surely} run")

    def _check_beside(self, uid: str, node_name: str) -> None:
        """P8: no rule forbids this Pod beside another one on the Node."""
        pods = [pod for pod in workload(self._worlds) if is_alive(pod)]
        mine = [pod for pod in pods if uid_of(pod) == uid]
        for pod in pods:
            beside = place_of(pod) == node_name and uid_of(pod) != uid
            if beside and any(clash(one, pod) for one in mine):
                name = pod["metadata"]["name"]
                self._break("forbidden beside", f"{uid} to {node_name}, where Pod {name} is")

    def _reads_as_running(
        self, uid: str, slurm_node: str, known: list[Sight], against: list[Sight]
    ) -> bool:
        """Whether a read showed the job RUNNING there, and no later read contradicts it."""
        last: Sight | None = None
        for one in known:
            job = one.job
            if job is not None and slurm_node in job.nodes and self._runs(uid, job):
                last = one if last is None or one.served_s > last.served_s else last
        if last is None:
            return False
        return not any(
            one.asked_s > last.served_s and self._says_otherwise(uid, one) for one in against
        )

    def _says_otherwise(self, uid: str, sight: Sight) -> bool:
        """Whether a read contradicts. The id can belong to another job now."""
        if sight.job is None or sight.job.state != "RUNNING":
            return True
        return sight.what == "job" and not self._runs(uid, sight.job)

    def _runs(self, uid: str, job: Job) -> bool:
        if job.state != "RUNNING" or not self._is_ours(job):
            return False
        return any(uid in uids for uids in workloads_of(job))

    def _is_ours(self, job: Job) -> bool:
        return is_ours(job, self._worlds.cluster_uid)

    def job_changed(self, before: Job | None, after: Job | None, author: str) -> None:
        self._twins = None
        self._note_author(author)
        if author == US:
            self._check_job(before, after)
        if after is not None and self._is_ours(after):
            for uids in workloads_of(after):
                for uid in uids:
                    self._wanted[uid] = uids
        self._note_running()

    def _check_job(self, before: Job | None, after: Job | None) -> None:
        if before is None:
            if after is not None:
                self._check_new(after)
            return
        if not self._is_ours(before):
            pushed_out = after is not None and after.preempted_s is not None
            if not pushed_out:
                self._break("foreign job", f"{before} -> {after}")
            return
        ended = after is not None and is_live(before) and not is_live(after)
        if ended and after is not None and after.preempted_s is None:
            self._check_cancel(before)

    def _check_new(self, job: Job) -> None:
        """F2: no second job if the process could know the first."""
        if not self._is_ours(job):
            self._break("foreign job", f"a submitted job without our identity: {job}")
            return
        exchange = self._present
        assert exchange is not None
        self._check_brake(job, sent_s=exchange.sent_s)
        evidence = self._evidence[exchange.process.number]
        for other in self._worlds.slurm.jobs.values():
            if other.job_id == job.job_id or not is_live(other) or not is_live(job):
                continue
            if other.array_id and other.array_id == job.array_id:
                continue
            if not self._is_ours(other) or set(workloads_of(other)).isdisjoint(workloads_of(job)):
                continue
            shown = [
                one
                for one in evidence.jobs.get(other.job_id, ())
                if one.taken_s <= exchange.sent_s - AT_ONCE_S and one.asked_s >= other.submitted_s
                if evidence.speaks_against(one, sent_s=exchange.sent_s, late_s=PATIENCE_S)
            ]
            last = shown[-1].job if shown else None
            if (
                last is not None
                and is_live(last)
                and not evidence.heard_of_end(
                    other.job_id, after=shown[-1], since_s=exchange.sent_s - AT_ONCE_S
                )
            ):
                self._break(
                    "second job",
                    f"job {job.job_id} beside job {other.job_id}, which the process had read",
                )
            self._history.count("late duplicates")

    def _check_brake(self, job: Job, *, sent_s: float) -> None:
        """P32: at most five submissions a minute of one process for one workload."""
        for uid in sorted({uid for uids in workloads_of(job) for uid in uids}):
            lately = [one for one in self._sent_s[uid] if one > sent_s - A_MINUTE_S]
            self._sent_s[uid] = [*lately, sent_s]
            if len(lately) >= A_MINUTE_MAX:
                self._break("no brake", f"{len(lately) + 1} jobs within a minute for {uid}")

    def _check_cancel(self, job: Job) -> None:
        """P14: the job of a bound Pod ends after the Pod."""
        for uids in workloads_of(job):
            pods = [self.uids[uid] for uid in uids if uid in self.uids]
            standing = [pod for pod in pods if is_alive(pod) and self._has_container(pod)]
            here = [pod for pod in standing if slurm_node_of(place_of(pod)) in job.nodes]
            if here and job.state == "RUNNING" and not self._has_other(job, uids):
                names = [pod["metadata"]["name"] for pod in here]
                self._break(
                    "ended early", f"job {job.job_id} ended although {names} live on its hosts"
                )

    def _has_container(self, pod: Object) -> bool:
        """P25b: a Pod that is ending on a Node that is gone has none any more."""
        node = self._worlds.kube.node(place_of(pod))
        return bool(place_of(pod)) and not (node is None and words.is_terminating(pod))

    def _has_other(self, job: Job, uids: Uids) -> bool:
        """P29: another job of the workload stays."""
        return any(
            other.job_id != job.job_id and is_live(other) and uids in workloads_of(other)
            for other in self._worlds.slurm.jobs.values()
            if self._is_ours(other)
        )

    def _look_for_twins(self, exchange: Exchange) -> None:
        """P29: the second job ends within five seconds after it was read."""
        if self._twins is None:
            self._twins = self._live_twins()
        twins = self._twins
        evidence = self._evidence[exchange.process.number]
        now_s = self._worlds.now_s
        for uids in list(self._twice_s):
            if uids not in twins or not self.calm:
                del self._twice_s[uids]
        for uids, jobs in twins.items():
            if all(evidence.jobs.get(job.job_id) for job in jobs):
                since_s = self._twice_s.setdefault(uids, now_s)
                if now_s - since_s > SEEN_S and not any(is_replaced(job) for job in jobs):
                    numbers = [job.job_id for job in jobs]
                    self._break(
                        "twins", f"jobs {numbers} of one workload for {now_s - since_s:.1f} s"
                    )

    def _live_twins(self) -> dict[Uids, list[Job]]:
        live: defaultdict[Uids, list[Job]] = defaultdict(list)
        for job in self._worlds.slurm.jobs.values():
            if is_live(job) and self._is_ours(job):
                for uids in workloads_of(job):
                    live[uids].append(job)
        return {uids: jobs for uids, jobs in live.items() if len(jobs) > 1}

    def kube_changed(self, change: Change, author: str) -> None:
        if change.kind.name != "Pod":
            return
        self._note_author(author)
        now, before = change.now.an_object, change.before.an_object if change.before else None
        if not words.is_workload(now):
            if author == US and not words.is_slurmd(now):
                self._break("foreign pod", f"Pod {now['metadata']['name']} was changed")
            return
        gone = change.type == "DELETED"
        if author == US:
            self._check_pod(before, now, gone=gone)
        if before is not None and _is_turned_away(now) and not _is_turned_away(before):
            why = f"{place_of(now)}: {now['status']['message']}"
            self._break("turned away", f"Pod {now['metadata']['name']} by the kubelet of {why}")
        self._note_finished(before, now)
        if gone:
            self.uids.pop(uid_of(now), None)
        else:
            self.uids[uid_of(now)] = now
        self._note_running()

    def _check_pod(self, before: Object | None, now: Object, *, gone: bool) -> None:
        name = now["metadata"]["name"]
        if before is None:
            self._break("foreign pod", f"Pod {name} was created")
            return
        ends = gone or ("deletionTimestamp" in now["metadata"]) != words.is_terminating(before)
        if ends:
            self._check_end(before)
        if gone:
            return
        if _rest(before) != _rest(now):
            self._break("foreign pod", f"{name}: fields of others changed")
        if place_of(before) and place_of(before) != place_of(now):
            self._break("moved", f"{name} from {place_of(before)} to {place_of(now)}")
        was, is_now = words.annotations_of(before), words.annotations_of(now)
        changed = {key for key in was.keys() | is_now.keys() if was.get(key) != is_now.get(key)}
        if changed - OURS:
            self._break("foreign pod", f"{name}: annotations {sorted(changed)} changed")

    def _check_end(self, pod: Object) -> None:
        """P16: no Pod ends while its job runs and its gang is complete."""
        name, uid = pod["metadata"]["name"], uid_of(pod)
        if not place_of(pod):
            self._break("ended unbound", f"Pod {name} was deleted before it was bound")
        since_s = self._ran_since.get(uid)
        members = self._wanted.get(uid, frozenset())
        whole = all(map(self._is_member_still, members)) and not self._is_replaced(pod, members)
        if since_s is not None and whole and self._worlds.now_s - since_s > PATIENCE_S:
            self._break("ended well", f"Pod {name}, whose job has run since second {since_s:.1f}")

    def _is_member_still(self, uid: str) -> bool:
        """Whether it is bound and was not deleted before it ended (G3, G8).

        Of one that is gone, the process may not know that it had ended before.
        """
        pod = self.uids.get(uid)
        if pod is None or not place_of(pod):
            return False
        return uid in self._finished or not words.is_terminating(pod)

    def _is_replaced(self, pod: Object, members: Uids) -> bool:
        """Whether another Pod takes the place of a member that failed (G8)."""
        gang = words.annotations_of(pod).get(words.GANG)
        of_gang = [
            one for one in self.uids.values() if words.annotations_of(one).get(words.GANG) == gang
        ]
        waiting = [one for one in of_gang if is_alive(one) and not place_of(one)]
        ended = [self.uids[one] for one in members if one in self.uids]
        failed = [one for one in ended if one["status"].get("phase") == "Failed"]
        return gang is not None and bool(waiting and failed)

    def _note_finished(self, before: Object | None, now: Object) -> None:
        deleted = before is not None and words.is_terminating(before)
        if words.is_finished(now) and not deleted:
            self._finished.add(uid_of(now))

    def _note_running(self) -> None:
        running: set[str] = set()
        for job in self._worlds.slurm.jobs.values():
            if job.state == "RUNNING" and self._is_ours(job):
                for uids in workloads_of(job):
                    for uid in uids:
                        pod = self.uids.get(uid)
                        if pod is not None and slurm_node_of(place_of(pod)) in job.nodes:
                            running.add(uid)
        for uid in list(self._ran_since):
            if uid not in running:
                del self._ran_since[uid]
        for uid in running:
            self._ran_since.setdefault(uid, self._worlds.now_s)

    def slurm_changed(self, before: Node | None, after: Node | None, author: str) -> None:  # noqa: ARG002
        """Ignore hosts: Checks checks them."""
        self._note_author(author)

    def _note_author(self, author: str) -> None:
        if author != US:
            self._history.count("changes by others")

    def kube_restored(self) -> None:
        """Ignore restores, which runs of Pods do not have."""


def _rest(pod: Object) -> Object:
    """Return the Pod without the parts that sunk-sync writes or that change at each write."""
    metadata = {
        key: value
        for key, value in pod["metadata"].items()
        if key not in UNMOVED and key not in DELETION
    }
    metadata["labels"] = {
        key: value for key, value in words.labels_of(pod).items() if key not in COPIED
    }
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    status = dict(pod.get("status", {}))
    status["conditions"] = [
        one for one in status.get("conditions") or () if one["type"] not in CONDITIONS
    ]
    return {**pod, "metadata": metadata, "spec": spec, "status": status}


def _is_turned_away(pod: Object) -> bool:
    """P28: whether the kubelet refused the Pod because too little was left."""
    return str(pod["status"].get("reason", "")).startswith("OutOf")
