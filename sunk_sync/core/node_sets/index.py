"""Which Pods and which records in Slurm belong to which NodeSet.

Each method takes in one change of a row and returns the keys that read it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from msgspec.structs import replace

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import Node, SlurmdPod, SlurmNode, Source
from sunk_sync.core.model.keys import Key, host_key, node_set_key
from sunk_sync.core.model.node_set import NO_COUNTS, NodeSet, Plan
from sunk_sync.core.model.node_set_answers import (
    ControllerAge,
    CreateRefused,
    JobEnds,
    NodeLimit,
    NodeSetAnswer,
    RequeueTried,
    ReservationSet,
)
from sunk_sync.core.node_sets.failures import FailureLog
from sunk_sync.core.node_sets.matches import NodeMatches
from sunk_sync.core.node_sets.memory import NodeSetMemory
from sunk_sync.core.node_sets.registrations import Registrations
from sunk_sync.core.tables.table import Table
from sunk_sync.core.translate.node_set import plan_of
from sunk_sync.core.views.node_set import Failures, leaves

NOTHING: Set[str] = frozenset()
NEVER = float("-inf")
NO_RECORD = "Slurm had no node of this name"


class NodeSetIndex:
    held: Set[str] = NOTHING
    """Keys of Pods whose deletion the breaker holds (N5)."""
    controller: ControllerAge | None = None
    """The last answer about the age of slurmctld."""
    nodes_max: int | None = None
    """How many nodes Slurm takes, if it was read."""

    def __init__(self, tables: Mapping[Source, Table[Any]], configuration: Configuration) -> None:
        self._configuration = configuration
        self.tables = tables
        self.node_sets: Table[NodeSet] = tables["node_sets"]
        self.slurmd_pods: Table[SlurmdPod] = tables["slurmd_pods"]
        self.slurm_nodes: Table[SlurmNode] = tables["slurm_nodes"]
        self.memory = NodeSetMemory()
        self.matches = NodeMatches(tables["nodes"])
        self._specs: dict[str, NodeSet] = {}
        """Key of the table → NodeSet without its status, which no host reads."""
        self._free: dict[str, dict[str, None]] = {}
        """Key of the table → names of the missing Pods, in the order in which they are made."""
        self._by_uid: dict[str, str] = {}
        """UID → key of the table."""
        self._by_digest: dict[str, str] = {}
        """Digest in stamps → key of the table."""
        self._by_prefix: defaultdict[str, set[str]] = defaultdict(set)
        """Prefix of the names of Pods → keys of the table."""
        self._pods: defaultdict[str, set[str]] = defaultdict(set)
        """UID of a NodeSet → its Pods, as keys of their table."""
        self._staying: defaultdict[str, set[str]] = defaultdict(set)
        """UID of a NodeSet → those of its Pods that do not leave for good."""
        self._records: defaultdict[str, set[str]] = defaultdict(set)
        """Digest in stamps → Slurm nodes."""
        self.registrations = Registrations()
        """Each read of Slurm concerns those without a record."""
        self._deleting: set[str] = set()
        """NodeSets that are being deleted: each read of Slurm concerns them."""
        self.moves = 0
        """Changes that may give a Slurm node another place in the topology, or let it join."""
        self.made: Counter[str] = Counter()
        """Slurm node of a NodeSet → how often this process saw its record appear."""
        self._emptied_s: dict[str, float] = {}
        """UID of a NodeSet → when its last Pod went."""

    def plan(self, spec: NodeSet) -> Plan:
        return plan_of(spec, self._configuration)

    def complete(self) -> Iterator[NodeSet]:
        """Yield each NodeSet with the registration of its Pods."""
        for spec in self.node_sets.rows():
            yield replace(spec, registration=self.plan(spec).registration)

    def pods_of(self, spec: NodeSet) -> Set[str]:
        return self._pods.get(spec.uid, NOTHING)

    def desired(self, spec: NodeSet) -> int:
        """Return how many Pods should exist."""
        if not spec.per_node:
            return spec.replicas
        used = self._names(spec, self.pods_of(spec))
        names = {
            *self.matches.wanted(spec),
            *[one for one in used if not self.matches.rejects(spec, one)],
        }
        return min(spec.replicas, len(names))

    def _names(self, spec: NodeSet, pods: Iterable[str]) -> set[str]:
        prefix = f"{spec.namespace}/"
        return {key.removeprefix(prefix) for key in pods}

    def free_names(self, spec: NodeSet) -> Iterable[str]:
        """Return the names of the missing Pods: of the lowest free ordinals, or of Nodes."""
        return self._free.get(spec.key, {})

    def is_vacant(self, spec: NodeSet, name: str) -> bool:
        """Whether a Pod of this name is missing."""
        return name in self._free.get(spec.key, {})

    def _find_free(self, key: str) -> set[Key]:
        """Find the missing Pods again; return the hosts and other NodeSets that this concerns."""
        before = self._free.pop(key, {})
        spec = self._specs.get(key)
        if spec is not None:
            self._free[key] = dict.fromkeys(self._missing_names(spec))
        changed = before.keys() ^ self._free.get(key, {}).keys()
        others = {other for name in changed for other in self.rivals(key, name)}
        return {*map(host_key, changed), *map(node_set_key, others)}

    def rivals(self, key: str, name: str) -> Sequence[str]:
        """Return other NodeSets in which a Pod of this name is missing, sorted (N22)."""
        return sorted(one for one, names in self._free.items() if name in names and one != key)

    def _missing_names(self, spec: NodeSet) -> Sequence[str]:
        if spec.deleting:
            return ()
        if spec.per_node:
            return self._names_of_free_nodes(spec)
        missing = spec.replicas - len(self._staying.get(spec.uid, NOTHING))
        used = self._names(spec, self.pods_of(spec)) if missing > 0 else ()
        names: list[str] = []
        ordinal = 0
        while len(names) < missing:
            name = spec.pod_name(ordinal)
            if name not in used:
                names.append(name)
            ordinal += 1
        return names

    def _names_of_free_nodes(self, spec: NodeSet) -> Sequence[str]:
        used = self._names(spec, self.pods_of(spec))
        staying = self._names(spec, self._staying.get(spec.uid, NOTHING))
        kept = [name for name in staying if not self.matches.rejects(spec, name)]
        missing = max(self.desired(spec) - len(kept), 0)
        return [one for one in self.matches.wanted(spec) if one not in used][:missing]

    def wish(self, key: str) -> NodeSet:
        """Return the known NodeSet of this key, without its status."""
        return self._specs[key]

    def of_record(self, slurm_node: SlurmNode) -> NodeSet | None:
        """Return the NodeSet that the stamp of this record names, without its status."""
        stamp = slurm_node.stamp
        key = self._by_digest.get(stamp.node_set) if stamp is not None else None
        return self._specs.get(key) if key is not None else None

    def left_records(self, spec: NodeSet) -> Iterable[str]:
        """Return the Slurm nodes of this NodeSet without a Pod of their name, sorted."""
        pods = self.slurmd_pods.entries
        records = sorted(self.records_of(spec))
        return [name for name in records if f"{spec.namespace}/{name}" not in pods]

    def slurm_was_read(self) -> set[Key]:
        return {*map(host_key, self.registrations.missing), *map(node_set_key, self._deleting)}

    def emptied_s(self, spec: NodeSet) -> float:
        """Return when this process saw the last Pod of this NodeSet go; NEVER: it saw none go."""
        return self._emptied_s.get(spec.uid, NEVER)

    def node_set_changed(self, before: NodeSet | None, after: NodeSet | None) -> set[Key]:
        if before is not None and after is not None and same_wish(before, after):
            return {node_set_key(after.key)}
        self.moves += 1
        if before is not None and after is not None and before.uid == after.uid:
            revision = self.plan(after).revision
            updated = self.plan(before).revision != revision
            self.memory.continue_story(before, after, updated_to=revision if updated else None)
        if before is not None:
            self.memory.spared.pop(before.uid, None)
            self._by_uid.pop(before.uid, None)
            self._deleting.discard(before.key)
            self._by_digest.pop(self.plan(before).stamp.node_set, None)
            self._by_prefix[before.prefix].discard(before.key)
            self._specs.pop(before.key, None)
        if after is not None:
            self._by_uid[after.uid] = after.key
            if after.deleting:
                self._deleting.add(after.key)
            self._by_digest[self.plan(after).stamp.node_set] = after.key
            self._by_prefix[after.prefix].add(after.key)
            self._specs[after.key] = without_status(after)
        row = after or before
        assert row is not None
        self.matches.node_set_changed(after, key=row.key)
        keys = self._find_free(row.key)
        for row in filter(None, (before, after)):
            keys |= {node_set_key(row.key), *map(host_key, self.records_of(row))}
            if not self._by_prefix[row.prefix]:
                del self._by_prefix[row.prefix]
        if after is None and before is not None:
            self.memory.forget(before.key)
            self._emptied_s.pop(before.uid, None)
        return keys

    def records_of(self, spec: NodeSet) -> Set[str]:
        return self._records.get(self.plan(spec).stamp.node_set, NOTHING)

    def pod_changed(
        self, before: SlurmdPod | None, after: SlurmdPod | None, *, now: float
    ) -> set[Key]:
        """Index a Pod; note the end of one that failed, or that had no record in Slurm."""
        in_vain = before is not None and self.registrations.is_in_vain(before)
        if before is not None and before.owner in self._by_uid:
            self.memory.note_spared(before, after)
        self.moves += before is None or after is None or before.node_name != after.node_name
        if before is not None and before.owner:
            self._drop(before)
        if after is not None and after.owner:
            self._add(after)
        if before is not None and before.owner in self._by_uid and before.owner not in self._pods:
            self._emptied_s[before.owner] = now
        keys: set[Key] = set()
        for row in filter(None, (before, after)):
            keys.update(self._keys_of(row))
        if before is None or after is None or _counts_for(before) != _counts_for(after):
            owners = {row.owner for row in (before, after) if row is not None}
            sets = [self._by_uid[uid] for uid in owners if uid in self._by_uid]
            keys = keys.union(*map(self._find_free, sets))
        if before is not None and after is None and before.failed:
            self._note_failure(self.memory.failures, before, why=before.failed, now=now)
        if before is not None and in_vain and _is_ending(before, after):
            self._note_failure(self.memory.unregistered, before, why=NO_RECORD, now=now)
        return keys

    def _add(self, pod: SlurmdPod) -> None:
        self._pods[pod.owner].add(_key(pod))
        if not leaves(pod):
            self._staying[pod.owner].add(_key(pod))
        self.registrations.add(pod, has_record=pod.slurm_node in self.slurm_nodes.entries)

    def _drop(self, pod: SlurmdPod) -> None:
        self._pods[pod.owner].discard(_key(pod))
        self._staying[pod.owner].discard(_key(pod))
        self.registrations.drop(pod)
        if not self._pods[pod.owner]:
            del self._pods[pod.owner]
            self._staying.pop(pod.owner, None)

    def _keys_of(self, pod: SlurmdPod) -> Iterator[Key]:
        """Yield NodeSets that own the Pod, or that may want its name."""
        key = self._by_uid.get(pod.owner)
        if key is not None:
            yield node_set_key(key)
        yield from self.named(pod.name)
        yield from self.named(pod.slurm_node)

    def named(self, slurm_node: str) -> Iterator[Key]:
        """Yield NodeSets that may want a Pod of this name."""
        for key in self._by_prefix.get(slurm_node.rpartition("-")[0], NOTHING):
            yield node_set_key(key)
        yield from map(node_set_key, self.matches.that_name(slurm_node))

    def _note_failure(self, log: FailureLog, pod: SlurmdPod, *, why: str, now: float) -> None:
        key = self._by_uid.get(pod.owner)
        if key is not None:
            log.note(key, pod.name, why=why, now=now)

    def unregistered_of(self, pod: SlurmdPod) -> Failures | None:
        """Return how often in a row Pods of this name went without a record in Slurm."""
        key = self._by_uid.get(pod.owner)
        return self.memory.unregistered.get(key, pod.name) if key is not None else None

    def deletions_held(self, pods: Sequence[str]) -> set[Key]:
        """Note which deletions the breaker holds now; return the NodeSets that this concerns."""
        before, self.held = self.held, frozenset(pods)
        rows = [self.slurmd_pods.get(key) for key in before ^ self.held]
        owners = {row.owner for row in rows if row is not None}
        return {node_set_key(self._by_uid[uid]) for uid in owners if uid in self._by_uid}

    def answered(self, answer: NodeSetAnswer, *, now: float) -> set[Key]:
        """Note what became of a write; return the keys that this concerns."""
        match answer:
            case CreateRefused():
                return self._create_refused(answer, now=now)
            case ControllerAge():
                self.controller = answer
                return set(map(host_key, self.registrations.missing))
            case NodeLimit():
                if answer.nodes_max == self.nodes_max:
                    return set()
                self.nodes_max = answer.nodes_max
                return {*map(node_set_key, self.node_sets.entries)}
            case RequeueTried():
                return self._requeue_tried(answer)
            case JobEnds():
                return self._job_ends_read(answer)
            case ReservationSet():
                return self._reservation_set(answer)
            case _:
                return set()

    def _reservation_set(self, answer: ReservationSet) -> set[Key]:
        if answer.node_set not in self.node_sets.entries:
            return set()
        self.memory.reservations[answer.node_set] = answer
        return {node_set_key(answer.node_set)}

    def _job_ends_read(self, answer: JobEnds) -> set[Key]:
        if answer.node_set not in self.node_sets.entries:
            return set()
        self.memory.job_ends[answer.node_set] = answer
        return {node_set_key(answer.node_set)}

    def _create_refused(self, refused: CreateRefused, *, now: float) -> set[Key]:
        key = f"{refused.namespace}/{refused.node_set}"
        if key not in self.node_sets.entries:
            return set()
        self.memory.failures.note(key, refused.name, why=refused.why, now=now)
        return {node_set_key(key)}

    def _requeue_tried(self, tried: RequeueTried) -> set[Key]:
        record = self.slurm_nodes.get(tried.slurm_node)
        if record is None or record.ready:
            return set()
        self.memory.requeued[tried.slurm_node] = tried
        return {host_key(tried.slurm_node)}

    def slurm_node_changed(
        self, before: SlurmNode | None, after: SlurmNode | None, *, now: float
    ) -> set[Key]:
        keys: set[Key] = set()
        self.moves += _is_elsewhere(before, after)
        for row in filter(None, (before, after)):
            keys.update(self.named(row.name))
            if row.stamp is not None:
                self._records[row.stamp.node_set].discard(row.name)
                if key := self._by_digest.get(row.stamp.node_set):
                    keys.add(node_set_key(key))
        if after is not None and after.stamp is not None:
            self._records[after.stamp.node_set].add(after.name)
        if before is not None and (after is None or after.ready):
            self.memory.requeued.pop(before.name, None)
        if before is None and after is not None:
            self.registrations.record_came(after.name, now=now)
            if after.stamp is not None:
                self.made[after.name] += 1
        if before is not None and after is None:
            self._record_went(before, now=now)
        return keys

    def _record_went(self, record: SlurmNode, *, now: float) -> None:
        stood = self.registrations.record_went(record.name, now=now)
        key = self._by_digest.get(record.stamp.node_set) if record.stamp is not None else None
        if stood and key is not None:
            self.memory.unregistered.succeeded(key, record.name)

    def node_changed(self, before: Node | None, after: Node | None) -> set[Key]:
        """A Node may claim the name that a NodeSet wants, or get a Pod of its own."""
        rows = [row for row in (before, after) if row is not None]
        self.moves += len(rows) < 2 or rows[0].offer.labels != rows[1].offer.labels
        names = {name for row in rows for name in (row.name, row.slurm_node) if name}
        keys = {key for name in names for key in self.named(name)}
        for key, name in self.matches.node_changed(before, after):
            keys |= {node_set_key(key), host_key(name), *self._find_free(key)}
        return keys


def _key(pod: SlurmdPod) -> str:
    return f"{pod.namespace}/{pod.name}"


def _is_ending(before: SlurmdPod, after: SlurmdPod | None) -> bool:
    return after is None or after.terminating or after.uid != before.uid


def _counts_for(pod: SlurmdPod) -> tuple[str, bool]:
    """Return the owner of the Pod, which a person or a new Pod can change, and whether it stays."""
    return pod.owner, leaves(pod)


def _is_elsewhere(before: SlurmNode | None, after: SlurmNode | None) -> bool:
    """Whether a record of a NodeSet is new or gone, or has another place in the topology."""
    if before is None or after is None:
        return True
    return before.stamp != after.stamp or before.topology != after.topology


def without_status(row: NodeSet) -> NodeSet:
    """Return what hosts read of a NodeSet."""
    return replace(
        row,
        counts=NO_COUNTS,
        observed_generation=0,
        shown_revision="",
        shown_selector="",
        conditions=(),
        changed_at=(),
    )


def same_wish(before: NodeSet, after: NodeSet) -> bool:
    """Whether only the status changed, as it does all the time while Pods come and go."""
    return without_status(before) == without_status(after)
