"""Pods whose hard rules compare them with other Pods, and where those stand (P8).

It follows from the rows alone. Nothing is kept while no Pod has such a rule.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from sunk_sync.core.model.facts import Job, Node, Pod
from sunk_sync.core.model.pod_spec import NO_RULES
from sunk_sync.core.tables.host_identity import HostIdentity
from sunk_sync.core.tables.table import Table
from sunk_sync.core.translate.fences import Fences
from sunk_sync.core.translate.job_states import is_busy_refusal, is_live, number_of
from sunk_sync.core.translate.node_fit import label_of
from sunk_sync.core.translate.pod_rules import (
    Kind,
    fences_of,
    keys_read,
    mind_each_other,
    waits_for,
)
from sunk_sync.core.workloads.members import could_have_job
from sunk_sync.core.workloads.memory import WorkloadMemory
from sunk_sync.core.workloads.volume_choice import VolumeChoice

Rank = tuple[int, int]
BOUND: Rank = (0, 0)
LAST: Rank = (2, 0)
HEADS = 2
"""Workloads at the head of a line that are decided again when a place was taken or left."""

Phase = Literal["stands", "arrives", "pending", "waiting", "aside"]


class Place(Struct, frozen=True, gc=False):
    """Where one Pod stands, or how far it is.

    `stands` is bound, `arrives` has a job that holds hosts, `pending` has a job without hosts. The
    others have no job: `waiting` in the order of creation, or `aside`, because it may not get a job
    for a while: Slurm refused one, one ended by itself, a user cancelled one, sunk-sync gave two
    up, its gang is not complete, or it is `alone`.
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


class Line(Struct, gc=False, eq=False):
    """The Pods of one kind."""

    rivals: dict[Kind, None]
    """Kinds with a rule that reads this one, or that a rule of this one reads."""
    nodes: Counter[str]
    """Node → number of Pods bound there."""
    arriving: dict[str, tuple[str, Place]]
    """UID → workload, and a Pod whose job has hosts."""
    pending: dict[str, None]
    """Workloads."""
    aside: dict[str, None]
    waiting: list[tuple[int, int, str]]
    """Creation time, number among all Pods seen, and workload."""

    def is_empty(self) -> bool:
        without_job = self.pending or self.aside or self.waiting
        return not (self.nodes or self.arriving or without_job)


class Neighbours:
    def __init__(
        self,
        *,
        memory: WorkloadMemory,
        jobs: Table[Job],
        hosts: HostIdentity,
        volumes: VolumeChoice,
        settle_s: float,
    ) -> None:
        self._settle_s = settle_s
        self._volumes = volumes
        self._index = memory.index
        self._memory = memory
        self._jobs = jobs
        self._nodes = hosts.nodes
        self._slurm_nodes = hosts.slurm_nodes
        self._claims = hosts.claims
        self._read: frozenset[str] = frozenset()
        """Labels that some selector reads."""
        self._ruled: set[str] = set()
        """UIDs of the Pods with rules."""
        self._places: dict[str, tuple[Place, ...]] = {}
        self._lines: dict[Kind, Line] = {}
        self._arrivals: dict[str, tuple[str, int]] = {}
        """UID → job that holds a host for it, and its number among all arrivals."""
        self._arrived = 0
        self._numbers: dict[str, int] = {}
        """UID → number among all Pods seen. A Pod that came later never passes one whose submission
        is on its way, even if both were created in one second."""
        self._numbered = 0

    @property
    def active(self) -> bool:
        """Whether some Pod has a rule."""
        return bool(self._ruled)

    def pod_changed(
        self, before: Pod | None, after: Pod | None, *, keys: Iterable[str]
    ) -> set[str]:
        """Read the workloads `keys` of a changed Pod again; return those that this concerns.

        The first Pod with a rule, and a rule that reads a new label, cost a look at all Pods.
        """
        if after is not None and after.spec.rules != NO_RULES:
            self._ruled.add(after.uid)
        if not self._ruled:
            return set()
        read = self._read if after is None else self._read | keys_read(after.spec.rules)
        if read != self._read or not self._places:
            self._read = read
            self.rebuild()
            places = [place for key in keys for place in self._places.get(key, ())]
            concerned = {one for place in places for one in self._concerned(place.kind)}
            concerned.update(self.heads())  # equal Pods may differ now: turns change
        else:
            concerned = {one for key in keys for one in self.refresh(key)}
        if before is not None and (after is None or after.uid != before.uid):
            self._ruled.discard(before.uid)
            self._arrivals.pop(before.uid, None)
            self._numbers.pop(before.uid, None)
        if not self._ruled:
            self._forget()
        return concerned

    def _forget(self) -> None:
        self._read = frozenset()
        self._places.clear()
        self._lines.clear()
        self._arrivals.clear()
        self._numbers.clear()

    def rebuild(self) -> None:
        """Read every workload again: a label counts that did not before, or a Node changed."""
        if not self._ruled:
            return
        self._places.clear()
        self._lines.clear()
        for key in self._index.pods:
            self.refresh(key)

    def refresh(self, key: str) -> set[str]:
        """Read the places of a workload again; return the workloads that this concerns."""
        if not self._ruled:
            return set()
        before, after = self._places.get(key, ()), tuple(self._compute(key))
        if before == after:
            return set()
        for place in before:
            self._leave(key, place)
        self._places[key] = after
        for place in after:
            self._enter(key, place)
        kinds = {place.kind for place in (*before, *after)}
        concerned = {one for kind in kinds for one in self._concerned(kind)}
        self._tidy(key, kinds)
        return concerned

    def _tidy(self, key: str, kinds: Iterable[Kind]) -> None:
        """Remove what has no Pod any more."""
        if not self._places[key]:
            del self._places[key]
        for kind in kinds:
            if self._lines[kind].is_empty():
                for rival in self._lines[kind].rivals:
                    if rival != kind:
                        del self._lines[rival].rivals[kind]
                del self._lines[kind]

    def _compute(self, key: str) -> Iterator[Place]:
        pods = self._index.pods.get(key, {}).values()
        places = (self._place(key, pod) for pod in pods if not pod.ended)
        return (place for place in places if place is not None)

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
            rank = (1, self._arrival(pod.uid, job.job_id))
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
        attempts = self._memory.attempts_of(key)
        return any(self._jobs.agreed_s < one.sent_s + self._settle_s for one in attempts)

    def _arrival(self, uid: str, job_id: str) -> int:
        """Return when the Pod was first seen with this job, among all arrivals.

        Of two Pods on one host the first one may be on its way to the API server already.
        """
        known = self._arrivals.get(uid)
        if known is None or known[0] != job_id:
            self._arrived += 1
            known = self._arrivals[uid] = (job_id, self._arrived)
        return known[1]

    def _number(self, uid: str) -> int:
        number = self._numbers.get(uid)
        if number is None:
            self._numbered += 1
            number = self._numbers[uid] = self._numbered
        return number

    def _is_aside(self, key: str, pod: Pod) -> bool:
        history = self._memory.submissions.of.get(key)
        given_up = history is not None and history.given_up > 1
        refused = self._memory.is_refused(key) or bool(pod.cancelled)
        return given_up or refused or pod.gang is not None

    def _nodes_of(self, place: Place) -> list[str]:
        claims = map(self._claims.claim_of, place.slurm_nodes)
        return [claim.node.row.name for claim in claims if claim.node is not None]

    def _kind(self, pod: Pod) -> Kind:
        read = self._read
        labels = tuple([pair for pair in pod.labels if pair[0] in read])
        return Kind(pod.namespace, labels, pod.spec, pod.settings, leaving=pod.terminating)

    def _enter(self, key: str, place: Place) -> None:
        line = self._lines.get(place.kind) or self._new_line(place.kind)
        match place.phase:
            case "stands":
                line.nodes[place.node_name] += 1
            case "arrives":
                line.arriving[place.uid] = (key, place)
            case "pending" if not place.alone:
                line.pending[key] = None
            case "aside" | "pending":
                line.aside[key] = None
            case _:
                insort(line.waiting, (*place.order, key))

    def _new_line(self, kind: Kind) -> Line:
        line = self._lines[kind] = Line({}, Counter(), {}, {}, {}, [])
        for other, its in self._lines.items():
            if mind_each_other(kind, other):
                line.rivals[other] = its.rivals[kind] = None
        return line

    def _leave(self, key: str, place: Place) -> None:
        line = self._lines[place.kind]
        if place.phase == "stands":
            line.nodes[place.node_name] -= 1
            if not line.nodes[place.node_name]:
                del line.nodes[place.node_name]
        line.arriving.pop(place.uid, None)
        line.pending.pop(key, None)
        line.aside.pop(key, None)
        at = bisect_left(line.waiting, (*place.order, key))
        if at < len(line.waiting) and line.waiting[at] == (*place.order, key):
            del line.waiting[at]

    def _concerned(self, kind: Kind) -> Iterator[str]:
        """Yield the workloads that read the places of this kind."""
        for other in self._lines[kind].rivals:
            line = self._lines[other]
            yield from (key for key, _ in line.arriving.values())
            yield from line.pending
            yield from line.aside
            every = waits_for(other, kind) or other not in line.rivals
            heads = line.waiting if every else line.waiting[:HEADS]
            yield from (key for _, _, key in heads)

    def heads(self) -> list[str]:
        """Return the workloads without a job whose turn it may be."""
        lines = [line for kind, line in self._lines.items() if kind in line.rivals]
        free = [line for line in lines if not line.pending]
        heads = [key for line in free for _, _, key in line.waiting[:HEADS]]
        return [*heads, *[key for line in lines for key in line.aside]]

    def arriving(self) -> set[str]:
        """Return the workloads whose jobs have hosts that depend on where other Pods stand."""
        lines = [line for line in self._lines.values() if line.rivals]
        return {key for line in lines for key, _ in line.arriving.values()}

    def is_ruled(self, key: str) -> bool:
        """Whether the hosts of this workload depend on where other Pods stand."""
        return any(self._lines[place.kind].rivals for place in self._places.get(key, ()))

    def takes_turns(self, key: str) -> bool:
        """Whether Pods of its kind are placed one after another."""
        kinds = [place.kind for place in self._places.get(key, ())]
        return any(kind in self._lines[kind].rivals for kind in kinds)

    def is_its_turn(self, key: str) -> bool:
        """Whether no other Pod of its kind, with which it may not stand, is placed just now."""
        for place in self._places.get(key, ()):
            line = self._lines[place.kind]
            if place.alone or place.kind not in line.rivals:
                continue
            if any(other != key for other in line.pending):
                return False
            if place.phase == "waiting" and line.waiting[0][2] != key:
                return False
        return True

    def fences(self, key: str) -> Fences:
        """Return where the unbound Pods of a workload may go beside the Pods of others."""
        places = self._places.get(key, ())
        kinds = dict.fromkeys(place.kind for place in places if place.phase != "stands")
        if not kinds:
            return ()
        rank = max(place.rank for place in places)
        found: list[Fences] = []
        for kind in kinds:
            standing = self._standing(kind, but=key, before=rank)
            found.append(
                fences_of(kind, standing, domain=self._domain, hosts=self._hosts_of_spread(kind))
            )
        return tuple(dict.fromkeys(fence for fences in found for fence in fences))

    def _standing(self, kind: Kind, *, but: str, before: Rank) -> dict[Kind, Counter[str]]:
        """Return the Pods that count: those of other workloads that are bound, or came earlier."""
        own = [place for place in self._places.get(but, ()) if place.phase == "stands"]
        found: dict[Kind, Counter[str]] = {}
        for other in self._lines[kind].rivals:
            line = self._lines[other]
            arrived = [
                name
                for key, place in line.arriving.values()
                if place.rank < before and key != but
                for name in self._nodes_of(place)
            ]
            left = [place.node_name for place in own if place.kind == other]
            nodes = line.nodes
            if arrived or left:
                nodes = Counter(nodes)
                nodes.update(arrived)
                nodes -= Counter(left)
            if nodes:
                found[other] = nodes
        return found

    def _domain(self, node_name: str, key: str) -> str | None:
        row = self._nodes.get(node_name)
        return None if row is None else label_of(row.offer.labels, key)

    def _hosts_of_spread(self, kind: Kind) -> Sequence[Node]:
        if not kind.spec.rules.spread:
            return ()
        claims = map(self._claims.claim_of, self._slurm_nodes.entries)
        return [claim.node.row for claim in claims if claim.node is not None]


def _ended_by_itself(job: Job) -> bool:
    return not (is_live(job) or job.identity.replaced or is_busy_refusal(job))
