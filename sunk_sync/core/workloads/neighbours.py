"""Pods whose hard rules compare them with other Pods, and where those stand (P8).

It follows from the rows alone. Nothing is kept while no Pod has such a rule.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from sunk_sync.core.model.facts import Node, Pod, Taken
from sunk_sync.core.model.pod_spec import NO_RULES
from sunk_sync.core.tables.host_identity import HostIdentity
from sunk_sync.core.translate.fences import Fences
from sunk_sync.core.translate.node_fit import label_of
from sunk_sync.core.translate.pod_rules import (
    Kind,
    LabelsRead,
    Standing,
    fences_of,
    labels_read,
    mind_each_other,
    waits_for,
)
from sunk_sync.core.workloads.index import WorkloadIndex
from sunk_sync.core.workloads.lines import Line
from sunk_sync.core.workloads.other_kinds import OtherKinds
from sunk_sync.core.workloads.places import Place, Places, Rank

HEADS = 2
"""Workloads at the head of a line that are decided again when a place was taken or left."""


class Neighbours:
    def __init__(
        self,
        *,
        index: WorkloadIndex,
        placed: Places,
        hosts: HostIdentity,
        others: OtherKinds,
    ) -> None:
        self._index = index
        self._placed = placed
        self._others = others
        self._nodes = hosts.nodes
        self._hosts = hosts
        self._claims = hosts.claims
        self._ruled: set[str] = set()
        """UIDs of the Pods with rules."""
        self._places: dict[str, tuple[Place, ...]] = {}
        self._lines: dict[Kind, Line] = {}

    @property
    def active(self) -> bool:
        """Whether some Pod has a rule."""
        return bool(self._ruled) or self._others.keep_away

    @property
    def reads_namespaces(self) -> bool:
        """Whether some rule selects Namespaces by their labels."""
        return bool(self._placed.read.of_namespaces)

    def pod_changed(
        self, before: Pod | None, after: Pod | None, *, keys: Iterable[str]
    ) -> set[str]:
        """Read the workloads `keys` of a changed Pod again; return those that this concerns.

        The first Pod with a rule, and a rule that reads a new label, cost a look at all Pods.
        """
        reads = self.reads_namespaces
        return self._or_all(self._pod_changed(before, after, keys=keys), reads=reads)

    def _or_all(self, concerned: set[str], *, reads: bool) -> set[str]:
        """Return all workloads if Namespaces matter from now on, or no more."""
        return concerned if reads == self.reads_namespaces else {*concerned, *self._index.pods}

    def _pod_changed(
        self, before: Pod | None, after: Pod | None, *, keys: Iterable[str]
    ) -> set[str]:
        if after is not None and after.spec.rules != NO_RULES:
            self._ruled.add(after.uid)
        if not self.active:
            return set()
        read = self._placed.read
        read = read if after is None else read.joined(labels_read(after.spec.rules))
        if read != self._placed.read or not self._places:
            self._read_anew(read)
            places = [place for key in keys for place in self._places.get(key, ())]
            concerned = {one for place in places for one in self._concerned(place.kind)}
            concerned.update(self.heads())  # equal Pods may differ now: turns change
        else:
            concerned = self.refresh_each(keys)
        if before is not None and (after is None or after.uid != before.uid):
            self._forget_pod(before.uid)
        return concerned

    def _forget_pod(self, uid: str) -> None:
        self._ruled.discard(uid)
        self._placed.forget(uid)
        if not self.active:
            self._forget()

    def others_changed(self, taken: Taken) -> set[str]:
        """Pods of other schedulers changed on a Node; return the workloads that this concerns."""
        reads = self.reads_namespaces
        return self._or_all(self._others_changed(taken), reads=reads)

    def _others_changed(self, taken: Taken) -> set[str]:
        was_active = self.active
        kinds = self._others.take(taken)
        read = self._placed.read.joined(self._others.labels_read())
        if was_active and self.active and read == self._placed.read:
            return {key for kind in kinds for key in self._other_changed(kind)}
        concerned = self._kept_away()
        if not self.active:
            self._forget()
            return concerned
        self._read_anew(read)
        return {*concerned, *self._kept_away(), *self.heads()}

    def _other_changed(self, kind: Kind) -> set[str]:
        if kind not in self._lines:
            self._new_line(kind)
        concerned = set(self._concerned(kind))
        self._tidy([kind])
        return concerned

    def _kept_away(self) -> set[str]:
        """Return the workloads that rules of other schedulers' Pods concern."""
        kinds = [kind for kind in self._lines if kind.other and kind.spec.rules.apart]
        return {key for kind in kinds for key in self._concerned(kind)}

    def _forget(self) -> None:
        self._placed.forget_all()
        self._others.read(None)
        self._places.clear()
        self._lines.clear()

    def _read_anew(self, read: LabelsRead) -> None:
        """Compare all Pods by these labels: one counts that did not before, or the first rule."""
        self._placed.read = read
        self._others.read(read)
        self._lines.clear()
        for kind in self._others.nodes:
            self._new_line(kind)
        self.rebuild()

    def namespaces_changed(self, labels: Collection[str]) -> bool:
        """These labels of Namespaces changed; return whether rules read one of them."""
        if self._placed.read.of_namespaces.isdisjoint(labels):
            return False
        self._read_anew(self._placed.read)
        return True

    def namespaces_listed(self) -> None:
        """All Namespaces are known now."""
        self.namespaces_changed(self._placed.read.of_namespaces)

    def rebuild(self) -> None:
        """Read every workload again: volumes, rules of Namespaces or a Node changed."""
        if not self.active:
            return
        self._places.clear()
        own = [kind for kind in self._lines if not kind.other]
        for kind in own:
            self._lines[kind].clear()
        for key in self._index.pods:
            self.refresh(key)
        self._tidy(own)

    def refresh_each(self, keys: Iterable[str]) -> set[str]:
        return {one for key in keys for one in self.refresh(key)}

    def refresh(self, key: str) -> set[str]:
        """Read the places of a workload again; return the workloads that this concerns."""
        if not self.active:
            return set()
        before, after = self._places.get(key, ()), self._placed.of(key)
        if before == after:
            return set()
        for place in before:
            self._leave(key, place)
        self._places[key] = after
        for place in after:
            self._enter(key, place)
        kinds = {place.kind for place in (*before, *after)}
        concerned = {one for kind in kinds for one in self._concerned(kind)}
        if not after:
            del self._places[key]
        self._tidy(kinds)
        return concerned

    def _tidy(self, kinds: Iterable[Kind]) -> None:
        """Remove kinds without a Pod."""
        for kind in kinds:
            if kind in self._lines and self._lines[kind].is_empty():
                self._drop(kind)

    def _drop(self, kind: Kind) -> None:
        for rival in self._lines.pop(kind).rivals:
            if rival != kind:
                del self._lines[rival].rivals[kind]

    def _nodes_of(self, place: Place) -> list[str]:
        claims = map(self._claims.claim_of, place.slurm_nodes)
        return [claim.node.row.name for claim in claims if claim.node is not None]

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
        line = self._lines[kind] = Line({}, self._others.nodes.get(kind, Counter()), {}, {}, {}, [])
        for other, its in self._lines.items():
            if not (kind.other and other.other) and mind_each_other(kind, other):
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
            fences = fences_of(
                kind,
                bound=self._bound(kind, but=key),
                arriving=self._arriving(kind, but=key, before=rank),
                domain=self._domain,
                hosts=self._hosts_of_spread(kind),
            )
            found.append(fences)
        return tuple(dict.fromkeys(fence for fences in found for fence in fences))

    def _bound(self, kind: Kind, *, but: str) -> Standing:
        """Return the bound Pods of other workloads that count."""
        own = [place for place in self._places.get(but, ()) if place.phase == "stands"]
        found: Standing = {}
        for other in self._lines[kind].rivals:
            nodes = self._lines[other].nodes
            left = Counter([place.node_name for place in own if place.kind == other])
            if rest := nodes - left if left else nodes:
                found[other] = rest
        return found

    def _arriving(self, kind: Kind, *, but: str, before: Rank) -> Standing:
        """Return the Pods that count where they are expected: their jobs came earlier."""
        found: Standing = {}
        for other in self._lines[kind].rivals:
            arrived = [
                name
                for key, place in self._lines[other].arriving.values()
                if place.rank < before and key != but
                for name in self._nodes_of(place)
            ]
            if arrived:
                found[other] = Counter(arrived)
        return found

    def _domain(self, node_name: str, key: str) -> str | None:
        row = self._nodes.get(node_name)
        return None if row is None else label_of(row.offer.labels, key)

    def _hosts_of_spread(self, kind: Kind) -> Sequence[Node]:
        return [*self._hosts.nodes_of_hosts()] if kind.spec.rules.spread else ()
