"""What the checks of NodeSets remember: older states excuse a write for a while."""

from collections import defaultdict, deque
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from sunk_sync.embedded.slurm.model.node import Node
from tests.sim import words
from tests.sim.node_sets import truth
from tests.sim.node_sets.truth import NAMESPACE, name_of, owner_of
from tests.sim.words import Object
from tests.sim.worlds import US, Worlds

DOUBT_S: Final = 30.0
"""With faults, an answer to a condemnation can be lost for so long."""
PING_S: Final = 1.0
"""Within this time slurmctld pings a node whose drain was lifted."""
FIRST_MINUTE_S: Final = 60.0
LATE_S: Final = 35.0
"""With faults, a write can be sent so long after the reads that it rests on."""


class Slot(Struct):
    """What the checks remember of one name."""

    useful_s: float | None = None
    """Since when jobs can use it; None: they cannot."""
    available_s: float = -1e9
    """When it was last available."""
    idle_s: float | None = None
    """Since when it is useful and idle."""
    busy_s: float | None = None
    """Since when jobs are at work there."""
    ready_s: float | None = None
    """Since when its Pod is ready."""
    made_s: float = -1e9
    """When sunk-sync made its last Pod."""
    failed_s: float = -1e9
    """When sunk-sync last deleted a Pod of this name that had failed."""
    failed_of: str = ""
    """UID of the NodeSet of that Pod."""
    left_s: float = -1e9
    """When others last began to end its Pod."""
    remade_s: float = -1e9
    """When sunk-sync last began to end its Pod, to make it anew."""
    condemned_s: float = -1e9
    """When sunk-sync last condemned its Pod, or took this back."""
    asked_s: float = -1e9
    """When others last asked for the deletion of its Pod, or took this back."""
    drained_s: float = float("inf")
    """Since when its Slurm node is drained."""
    drained_before_s: float = float("inf")
    """Since when it was drained when its drain was last lifted."""
    lifted_s: float = -1e9
    """When its drain was last lifted: slurmctld counts it as silent until its next ping."""


class Past:
    """Told of each change. `window_s`: the longest time for which an older state counts."""

    def __init__(self, worlds: Worlds, *, window_s: float) -> None:
        self._worlds = worlds
        self.window_s = window_s
        self._specs: defaultdict[str, deque[tuple[float, Object]]] = defaultdict(deque)
        """UID of a NodeSet → its versions, and until when each stood."""
        self.slots: defaultdict[str, Slot] = defaultdict(Slot)
        self.without_heir: set[str] = set()
        """UIDs of Pods that end, and of whose name no Pod was to follow at some moment since."""
        self.touched_s: dict[str, float] = {}
        """Slurm node → when others last changed its drain, or made it."""
        self.features_s: dict[str, float] = {}
        """Slurm node → when others last changed its features."""
        self.unmarked: dict[str, tuple[set[str], float]] = {}
        """Slurm node → features that its mark called ours until others removed it, and when."""
        self.submitted_s: dict[int, float] = {}
        self.begun_s: dict[int, float] = {}
        """Life → when it sent its first request."""
        self.read_s: dict[int, float] = {}
        """Life → when it last got an answer about Slurm nodes."""

    @property
    def lossy(self) -> bool:
        """Whether there are faults."""
        return self.window_s > DOUBT_S

    def is_first_minute(self, sent_s: float) -> bool:
        """Whether a request rests on reads from slurmctld's first minute (N3)."""
        memory = self._worlds.slurm.memory
        age_s = sent_s - (memory.started_s - memory.setup.epoch_s)
        return (LATE_S if self.lossy else 0.05) < age_s < FIRST_MINUTE_S

    def is_recent(self, at_s: float | None) -> bool:
        return at_s is not None and at_s >= self._worlds.now_s - self.window_s

    def learn_spec(self, before: Object | None, now: Object, *, gone: bool) -> None:
        past = self._specs[now["metadata"]["uid"]]
        if before is not None:
            past.append((self._worlds.now_s, before))
        if gone:
            past.append((self._worlds.now_s, now))
        while past and past[0][0] < self._worlds.now_s - self.window_s:
            past.popleft()

    def versions(self, uid: str) -> list[Object]:
        """Return the NodeSet as it is, and as it was within the window."""
        now = truth.node_set_of_uid(self._worlds, uid)
        past = [one for until_s, one in self._specs.get(uid, ()) if self.is_recent(until_s)]
        return [*past, *([now] if now is not None else [])]

    def learn_pod(self, before: Object | None, now: Object, *, gone: bool, author: str) -> None:
        slot, now_s = self.slots[name_of(now)], self._worlds.now_s
        ends = words.is_terminating(now) or gone
        if ends and not (before is not None and words.is_terminating(before)):
            if author != US:
                slot.left_s = now_s
            elif not truth.leaves(now):
                slot.remade_s = now_s
        if before is not None and owner_of(before) != owner_of(now):
            slot.left_s = now_s
        if author == US and ends and now["status"].get("phase") == "Failed":
            slot.failed_s, slot.failed_of = now_s, owner_of(now)
        key = words.PENDING_DELETION
        asked = {words.annotations_of(one).get(key) for one in (before, now) if one is not None}
        if author != US and len(asked) > 1:
            slot.asked_s = now_s
        if author == US and before is None:
            slot.made_s = now_s
        if words.is_terminating(now) and truth.leaves(now):
            self.without_heir.add(now["metadata"]["uid"])
        ready = words.is_ready(now) and not gone
        slot.ready_s = (slot.ready_s or now_s) if ready else None
        self.look_at(name_of(now))

    def learn_record(self, before: Node | None, after: Node | None, *, author: str) -> None:
        row = after or before
        assert row is not None
        drained = [one is not None and "DRAIN" in one.flags for one in (before, after)]
        if author != US and (before is None or after is None or drained[0] != drained[1]):
            self.touched_s[row.name] = self._worlds.now_s
        features = [one and one.features for one in (before, after)]
        if author != US and features[0] != features[1]:
            self.features_s[row.name] = self._worlds.now_s
        marked = [set() if one is None else truth.features_in_mark(one) for one in (before, after)]
        if author != US and marked[0] - marked[1]:
            self.unmarked[row.name] = (marked[0], self._worlds.now_s)
        if drained[0] and not drained[1]:
            slot = self.slots[row.name]
            slot.lifted_s, slot.drained_before_s = self._worlds.now_s, slot.drained_s
        if drained[0] != drained[1]:
            self.slots[row.name].drained_s = self._worlds.now_s if drained[1] else float("inf")

    def drained_s(self, slot: Slot) -> float:
        """Return since when sunk-sync may count its Slurm node as drained.

        A request that it sent before a lift may arrive after the next drain.
        """
        if self.is_recent(slot.lifted_s):
            return min(slot.drained_s, slot.drained_before_s)
        return slot.drained_s

    def look_at(self, name: str) -> None:
        """Note since when the slot is of use, idle and available."""
        slot, now_s = self.slots[name], self._worlds.now_s
        pod, record = self.pod(name), self._worlds.slurm.nodes.get(name)
        useful = pod is not None and truth.is_useful(pod, record)
        busy = record is not None and truth.is_at_work(record)
        idle = useful and record is not None and not busy
        if slot.available_s == float("inf"):
            slot.available_s = now_s
        if pod is not None and truth.is_available(pod, self._answering(record)):
            slot.available_s = float("inf")
        slot.useful_s = (slot.useful_s or now_s) if useful else None
        slot.idle_s = (slot.idle_s or now_s) if idle else None
        slot.busy_s = (slot.busy_s or now_s) if busy else None

    def _answering(self, record: Node | None) -> Node | None:
        """Return the record without the silence that a lift brings for a moment."""
        if record is None or self._worlds.now_s > self.slots[record.name].lifted_s + PING_S:
            return record
        return replace(record, flags=record.flags - {"NOT_RESPONDING"})

    def pod(self, name: str) -> Object | None:
        return self._worlds.kube.pod(name, namespace=NAMESPACE)

    def has_read(self, life: int, at_s: float) -> bool:
        """Whether this life has read the Slurm nodes since."""
        return self.read_s.get(life, -1e9) >= at_s

    def is_in_doubt(self, slot: Slot) -> bool:
        """Whether a condemnation got no answer, so that sunk-sync may choose again."""
        return self.lossy and slot.condemned_s >= self._worlds.now_s - DOUBT_S

    def named_as(self, node_set: Object) -> dict[str, Slot]:
        """Return what is remembered of all Pods of the NodeSet, also of those that are gone."""
        prefix = f"{truth.prefix_of(node_set)}-"
        return {name: slot for name, slot in self.slots.items() if name.startswith(prefix)}

    def was_useful(self, name: str) -> bool:
        """Whether the slot is of use, and was all the time within the window."""
        useful_s = self.slots[name].useful_s
        return useful_s is not None and not self.is_recent(useful_s)

    def was_available(self, name: str) -> bool:
        """Whether its Pod is available, or was when sunk-sync may have looked."""
        pod = self.pod(name)
        condemned = pod is not None and truth.condemned_for(pod)
        return not condemned and self.is_recent(self.slots[name].available_s)

    def was_held_by_drain(self, name: str) -> bool:
        """Whether no Pod of this name can come, or could, until others lift a drain (N11)."""
        record = self._worlds.slurm.nodes.get(name)
        if self.pod(name) is not None:
            return False
        if self.is_recent(self.touched_s.get(name)):
            return True
        return record is not None and truth.is_drained_by_others(record)

    def specs_known(self) -> set[str]:
        return {*self._specs, *(one["metadata"]["uid"] for one in truth.node_sets(self._worlds))}
