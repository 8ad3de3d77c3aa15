"""Where a Pod stands, or how far it is, for rules about other Pods (P8)."""

from typing import Literal

from msgspec import Struct

from sunk_sync.core.model.facts import Job, Pod
from sunk_sync.core.tables.table import Table
from sunk_sync.core.translate.job_states import is_busy_refusal, is_live, number_of
from sunk_sync.core.translate.pod_rules import NOTHING_READ, Kind, only
from sunk_sync.core.workloads.members import could_have_job
from sunk_sync.core.workloads.memory import WorkloadMemory
from sunk_sync.core.workloads.namespaces import Namespaces
from sunk_sync.core.workloads.volume_choice import VolumeChoice

Rank = tuple[int, int]
BOUND: Rank = (0, 0)
LAST: Rank = (2, 0)

Phase = Literal["stands", "arrives", "pending", "waiting", "aside"]


class Place(Struct, frozen=True, gc=False):
    """Where one Pod stands, or how far it is.

    `stands` is bound, `arrives` has a job that holds hosts, `pending` has a job without hosts. The
    others have no job: `waiting` in the order of creation, or `aside`, because it may not get a job
    for a while: Slurm refused one, one ended by itself, a user cancelled one, sunk-sync gave two
    up, or one for want of room, its gang is not complete, or it is `alone`.
    """

    uid: str
    kind: Kind
    phase: Phase
    node_name: str = ""
    """Where it is bound."""
    slurm_nodes: tuple[str, ...] = ()
    """Hosts of its job, while it is not bound."""
    rank: Rank = LAST
    """Of two Pods on one host, the lower rank stays."""
    order: tuple[int, int] = (0, 0)
    """When it was created, and its number among all Pods seen: its turn."""
    alone: bool = False
    """Its volumes say where it goes, or that it goes nowhere yet: it takes no turn with others."""


class Places:
    """Derives the place of each Pod from its jobs."""

    def __init__(
        self,
        *,
        memory: WorkloadMemory,
        jobs: Table[Job],
        volumes: VolumeChoice,
        namespaces: Namespaces,
        settle_s: float,
    ) -> None:
        self._memory = memory
        self._index = memory.index
        self._jobs = jobs
        self._volumes = volumes
        self._namespaces = namespaces
        self._settle_s = settle_s
        self.read = NOTHING_READ
        self._numbers: dict[str, int] = {}
        """UID → number among all Pods seen. A Pod that came later never passes one whose submission
        is on its way, even if both were created in one second."""
        self._numbered = 0

    def of(self, key: str) -> tuple[Place, ...]:
        """Return the places of the Pods of a workload."""
        pods = self._index.pods.get(key, {}).values()
        places = (self._place(key, pod) for pod in pods if not pod.ended)
        return tuple(place for place in places if place is not None)

    def forget(self, uid: str) -> None:
        """The Pod is gone."""
        self._numbers.pop(uid, None)

    def forget_all(self) -> None:
        self._numbers.clear()
        self.read = NOTHING_READ

    def _place(self, key: str, pod: Pod) -> Place | None:
        """Return how far the Pod is, by the jobs that name it; None: it may get no job."""
        kind = self._kind(pod)
        if pod.node_name:
            return Place(pod.uid, kind, "stands", pod.node_name, rank=BOUND)
        rows = [self._jobs.entries[one].row for one in self._index.jobs_of_uid.get(pod.uid, ())]
        live = [row for row in rows if is_live(row)]
        holding = [row for row in live if row.slurm_nodes]
        if holding:
            job = min(holding, key=number_of)
            # Of two Pods on one host the first one may be on its way to the API server already.
            rank = (1, self._index.arrived[job.job_id])
            return Place(pod.uid, kind, "arrives", "", job.slurm_nodes, rank)
        alone = self._volumes.decide_place(pod)
        if live or self._may_get_job(key):
            return Place(pod.uid, kind, "pending", alone=alone)
        if not could_have_job(pod):
            return None
        set_aside = any(map(_ended_by_itself, rows)) or self._is_aside(key, pod)
        order = (pod.created_s, self._number(pod.uid))
        phase: Phase = "aside" if set_aside or alone else "waiting"
        return Place(pod.uid, kind, phase, order=order, alone=alone)

    def _may_get_job(self, key: str) -> bool:
        """Whether a submission without an answer may still become a job (F2)."""
        if any(is_live(self._jobs.entries[one].row) for one in self._index.job_ids(key)):
            return False
        attempts = self._memory.unanswered.attempts_of(key)
        return any(self._jobs.agreed_s < one.sent_s + self._settle_s for one in attempts)

    def _number(self, uid: str) -> int:
        number = self._numbers.get(uid)
        if number is None:
            self._numbered += 1
            number = self._numbers[uid] = self._numbered
        return number

    def _is_aside(self, key: str, pod: Pod) -> bool:
        history = self._memory.submissions.of.get(key)
        given_up = history is not None and (
            history.given_up > 1 or any(one.full for one in history.hosts)
        )
        refused = self._memory.unanswered.is_refused(key) or bool(pod.cancelled)
        return given_up or refused or pod.gang is not None

    def _kind(self, pod: Pod) -> Kind:
        return Kind(
            pod.namespace,
            only(pod.labels, self.read.of_pods),
            self._namespaces.labels(pod.namespace, read=self.read.of_namespaces),
            pod.spec,
            pod.settings,
            leaving=pod.terminating,
            volumes=() if pod.node_name else self._volumes.fences(pod),
        )


def _ended_by_itself(job: Job) -> bool:
    return not (is_live(job) or job.identity.replaced or is_busy_refusal(job))
