"""A model of Kubernetes and Slurm for random histories: objects, what readers report, and writes.

All chance comes from the seeded generator of the history; the clock is a number.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable
from itertools import zip_longest

from msgspec.structs import replace

from sunk_sync.core.model.actions import (
    Action,
    Cordon,
    GetObject,
    GetSlurmNode,
    RecordEvent,
    Relist,
    SetConditions,
    SetMetadata,
    SlurmAction,
    Uncordon,
)
from sunk_sync.core.model.facts import (
    Confirmed,
    Deleted,
    GetResult,
    Kind,
    ListingEnded,
    ListingStarted,
    Lost,
    News,
    Node,
    Observed,
    Pod,
    Row,
    SlurmdPod,
    SlurmNode,
    Source,
)
from sunk_sync.core.model.lock_actions import Lock, Unlock
from sunk_sync.core.model.names import DRAIN, MANAGER_RETIRE
from sunk_sync.core.model.outcomes import Done, Outcome, Refused
from sunk_sync.core.model.user_policy import Namespace
from sunk_sync.core.model.volumes import VolumeRow
from sunk_sync.slurm.write.precondition import Forbidden, NodeUpdate, plan
from tests.kit.build import labels_of

SEEN: tuple[Source, ...] = ("nodes", "slurmd_pods", "slurm_nodes")
POLLED: tuple[Source, ...] = ("slurm_nodes", "jobs")
"""Sources of Slurm: they have no watch, and an answer counts from when it was asked for."""


KubeRow = Node | SlurmdPod | Pod | Namespace | VolumeRow


class World:
    """The objects of both sides, and for each source the facts under way to sunk-sync."""

    sources: tuple[Source, ...] = SEEN

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now = 1000.0
        self.version = 100
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, SlurmdPod] = {}
        self.slurm_nodes: dict[str, SlurmNode] = {}
        self.orders: dict[tuple[str, str], float] = {}
        self.human_cordons: set[str] = set()
        self.hidden = False
        """No slurmd Pod matches the selector."""
        self.clears_reason = rng.random() < 0.5
        """UNDRAIN empties the reason: 26.05 does, 24.11 does not."""
        self.unreadable = 0.0
        """Share of reads by name that are answered 403."""
        self.streams: dict[Source, deque[News]] = {source: deque() for source in self.sources}
        self.following: set[Source] = set()
        """Sources whose watch works."""
        self.delivered: list[News] = []
        """The last facts delivered; some are repeated out of order."""

    def tick(self, seconds: float = 0.01) -> None:
        self.now += seconds

    # Objects change

    def put_node(self, row: Node) -> None:
        self.nodes[row.name] = row
        self._changed("nodes", row)

    def drop_node(self, name: str) -> None:
        self.human_cordons.discard(name)
        self._changed("nodes", self.nodes.pop(name), gone=True)

    def put_pod(self, row: SlurmdPod) -> None:
        self.pods[row.name] = row
        self._changed("slurmd_pods", row)

    def drop_pod(self, name: str) -> None:
        self._changed("slurmd_pods", self.pods.pop(name), gone=True)

    def put_slurm_node(self, row: SlurmNode) -> None:
        self.slurm_nodes[row.name] = row

    def hide_pods(self, hidden: bool) -> None:
        """The labels of all slurmd Pods stop matching the selector, or match again."""
        if hidden == self.hidden:
            return
        self.hidden = False
        for row in self.pods.values():
            self._changed("slurmd_pods", row, gone=hidden)
        self.hidden = hidden

    def _changed(self, source: Source, row: KubeRow, *, gone: bool = False) -> None:
        """Count the change; the watch reports it if it works and the object is selected."""
        self.version += 1
        order = float(self.version)
        self.orders[source, row.name] = order
        if source not in self.following or (source == "slurmd_pods" and self.hidden):
            return
        namespace = getattr(row, "namespace", "")
        deleted = Deleted(source, namespace, row.name, row.uid, order)
        self.streams[source].append(deleted if gone else Observed(row, order))

    # Readers

    def rows(self, source: Source) -> Iterable[Row]:
        """Return what a listing of the source contains."""
        if source == "nodes":
            return self.nodes.values()
        if source == "slurm_nodes":
            return self.slurm_nodes.values()
        return self.pods.values() if source == "slurmd_pods" and not self.hidden else ()

    def start_listing(self, source: Source, *, whole: bool = True) -> None:
        """A listing is asked for; its answer is under way, whole or broken off in the middle."""
        self.tick()
        slurm = source in POLLED
        order = self.now if slurm else float(self.version)
        rows = list(self.rows(source))
        self.rng.shuffle(rows)
        news: list[News] = [ListingStarted(source, self.now, order)]
        news += [
            Observed(row, order if slurm else self.orders[source, getattr(row, "name", "")])
            for row in rows
        ]
        stream = self.streams[source]
        if not slurm:
            stream.clear()
            self.following.add(source)
        if whole:
            stream.extend([*news, ListingEnded(source)])
        else:
            stream.extend(news[: self.rng.randint(1, len(news))])
            self.lose(source)
        self.tick()

    def lose(self, source: Source, *, blind: bool = False) -> None:
        """The source is lost; facts that are under way still arrive before that."""
        self.following.discard(source)
        self.streams[source].append(Lost(source, "broken pipe", blind))

    def confirm(self, source: Source) -> None:
        """Slurm reports no change, or the watch continues without a gap."""
        if source in self.following:
            self.streams[source].append(Confirmed(source, self.now))

    def deliver(self, source: Source, most: int = 1000) -> list[News]:
        stream = self.streams[source]
        news = [stream.popleft() for _ in range(min(most, len(stream)))]
        self.delivered = [*self.delivered, *news][-30:]
        return news

    def repeat(self) -> list[News]:
        """Return a few old events again, in any order."""
        events = [one for one in self.delivered if isinstance(one, Observed | Deleted)]
        return self.rng.sample(events, min(len(events), self.rng.randint(1, 3)))

    # Writes

    def perform(self, action: Action) -> Outcome:
        """Write as a push does: check the precondition by a new read, write, return the row."""
        self.tick()
        if isinstance(action, SlurmAction):
            return self._write_slurm(action)
        match action:
            case SetConditions():
                return self._write(action, lambda row: _with_conditions(action, row, self.now))
            case SetMetadata():
                return self._write(action, lambda row: _with_metadata(action, row))
            case Cordon():
                return self._write(
                    action, lambda row: replace(row, unschedulable=True, cordoned_for_drain=True)
                )
            case Uncordon():
                human = action.reference.name in self.human_cordons
                return self._write(
                    action, lambda row: replace(row, unschedulable=human, cordoned_for_drain=False)
                )
            case GetObject():
                return Done(action, (self._look(action),))
            case GetSlurmNode():
                return Done(action, (self._read(action.slurm_node),))
            case Relist():
                self.start_listing(action.source)
                return Done(action)
            case RecordEvent():
                return Done(action)
            case _:
                raise AssertionError(f"no rule of hosts wants {action}")

    def _object(self, look: GetObject) -> Node | SlurmdPod | Pod | None:
        return (self.nodes if look.kind == "Node" else self.pods).get(look.name)

    def _look(self, look: GetObject) -> GetResult:
        row = self._object(look)
        kind: Kind = "Node" if look.kind == "Node" else "Pod"
        place = (kind, look.namespace, look.name)
        if self.rng.random() < self.unreadable:
            return GetResult(*place, "unknown", "", self.now)
        if row is None:
            return GetResult(*place, "no", "", self.now)
        if not isinstance(row, Pod) or not row.node_name:
            return GetResult(*place, "yes", row.uid, self.now)
        order = self.orders["pods", row.name]
        return GetResult(*place, "yes", row.uid, self.now, row.node_name, order)

    def _read(self, name: str) -> Observed | Deleted:
        node = self.slurm_nodes.get(name)
        if node is None:
            return Deleted("slurm_nodes", "", name, "", self.now)
        return Observed(node, self.now)

    def _write_slurm(self, action: SlurmAction) -> Outcome:
        node = self.slurm_nodes.get(action.slurm_node)
        if node is None:
            return Refused(action, "no such node", (self._read(action.slurm_node),))
        planned = plan(action, node)
        if isinstance(planned, Forbidden):
            return Refused(action, planned.why, (Observed(node, self.now),))
        if isinstance(planned, NodeUpdate):
            node = planned.applied_to(node, clears_reason=self.clears_reason)
            if planned.state == "UNDRAIN" and not self.clears_reason:
                node = replace(node, reason=planned.reason)
            self.slurm_nodes[node.name] = replace(node, assumed=False)
        return Done(action, (Observed(node, self.now),))

    def _write(
        self,
        action: SetConditions | SetMetadata | Cordon | Uncordon | Lock | Unlock,
        change: Callable[..., Node | SlurmdPod],
    ) -> Outcome:
        reference = action.reference
        table: dict[str, Node] | dict[str, SlurmdPod]
        table = self.nodes if reference.kind == "Node" else self.pods
        row = table.get(reference.name)
        if row is None or row.uid != reference.uid:
            return Refused(action, "not found, or another UID", missing=True)
        after = change(row)
        if after != row:
            self.put_node(after) if isinstance(after, Node) else self.put_pod(after)
        source = "nodes" if reference.kind == "Node" else "slurmd_pods"
        return Done(action, (Observed(after, self.orders[source, reference.name]),))


def _with_conditions(action: SetConditions, row: Node | SlurmdPod, now: float) -> Node | SlurmdPod:
    since = zip_longest(action.conditions, action.changed_at)
    changed_at = tuple(changed_at or f"{now:.2f}" for _, changed_at in since)
    return replace(row, conditions=action.conditions, changed_at=changed_at)


def _with_metadata(action: SetMetadata, row: Node | SlurmdPod) -> Node | SlurmdPod:
    if action.manager == MANAGER_RETIRE:
        return replace(row, drained=bool(action.annotations))
    row = replace(row, drain=dict(action.annotations).get(DRAIN))
    return replace(row, labels=labels_of(action.labels)) if isinstance(row, Node) else row
