"""What should stand in the topology file of Slurm: one file for all NodeSets (T6, T7).

It is computed when the script beside slurmctld asks. It changes only if a Slurm node gets another
place, or joins: a slot that merely restarts, or has gone, stays until the next change, because each
change costs a reconfigure.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from sunk_sync.core.model.facts import Node, Source
from sunk_sync.core.model.keys import CLUSTER, Key, host_key, node_set_key
from sunk_sync.core.model.node_set import NodeSet
from sunk_sync.core.model.topology_file import (
    NO_FILE,
    UNKNOWN,
    TopologyFile,
    TopologyReport,
    TopologyState,
)
from sunk_sync.core.node_sets.index import NodeSetIndex
from sunk_sync.core.tables.table import Table
from sunk_sync.core.translate.node_features import wanted_topology
from sunk_sync.core.translate.topology_lines import block_lines, content_digest, tree_lines

SERVED_MAX = 8
"""Files that the script may still be about to apply."""
HEARD_S = 15.0
"""NodeSets see no call sooner after the last one: a quarter of the time of silence."""
CONTENT_MAX = 900_000
"""Bytes that the script takes in one answer."""
READ: tuple[Source, ...] = ("nodes", "slurmd_pods", "node_sets", "slurm_nodes")


class TopologyPlan:
    def __init__(self, index: NodeSetIndex) -> None:
        self._index = index
        self._nodes: Table[Node] = index.tables["nodes"]
        self.state = UNKNOWN
        self._planned: tuple[str, int] | None = None
        """Format and changes of the index that `state` is of."""
        self._served: dict[str, TopologyFile] = {}
        """Digest → file, oldest first."""

    def hear(self, report: TopologyReport) -> set[Key]:
        """Take in what the script has; return the keys that read a change."""
        before = self.state
        self.state = self._state(report)
        keys = {CLUSTER}
        if _shown(before) != _shown(self.state):
            specs = [one for one in self._index.node_sets.rows() if one.topology.labels]
            keys.update(node_set_key(spec.key) for spec in specs)
            if before.applied.blocks != self.state.applied.blocks:
                hosts = [self._index.records_of(spec) for spec in specs if spec.topology.blocks]
                keys.update(host_key(name) for names in hosts for name in names)
        return keys

    def _state(self, report: TopologyReport) -> TopologyState:
        tables = self._index.tables
        unread = [one for one in READ if not (tables[one].listed and tables[one].live)]
        last = self.state.report
        if last is not None and last.format != report.format:
            self.state = UNKNOWN  # Slurm was upgraded
        wanted, unplaced = self.state.wanted, self.state.unplaced
        why_not = f"cannot be read now: {', '.join(unread)}" if unread else ""
        seen = (report.format, self._index.moves)
        if not why_not and self._planned != seen:
            self._planned = seen
            places = self._places(blocks=report.format == "yaml")
            unplaced = frozenset(name for name, place in places.items() if not place)
            wanted = self._with_blocks(places) if report.format == "yaml" else self._tree(places)
        if len(wanted.content) > CONTENT_MAX:
            why_not = f"the file would have {len(wanted.content)} bytes, more than supported"
        self._serve(wanted)
        return TopologyState(
            report=report if last is None else replace(report, asked_s=_heard_s(last, report)),
            wanted=wanted,
            applied=self._served.get(report.applied, NO_FILE),
            unplaced=unplaced,
            why_not=why_not,
        )

    def _serve(self, wanted: TopologyFile) -> None:
        self._served.pop(wanted.digest, None)
        self._served[wanted.digest] = wanted
        applied = self.state.report.applied if self.state.report is not None else ""
        for digest in list(self._served)[:-SERVED_MAX]:
            if digest != applied:
                del self._served[digest]

    def _specs(self, *, blocks: bool) -> Iterator[NodeSet]:
        specs = sorted(self._index.node_sets.rows(), key=lambda spec: spec.key)
        return (one for one in specs if one.topology.labels and one.topology.blocks == blocks)

    def _places(self, *, blocks: bool) -> dict[str, str]:
        """Return the place of each slot that is bound to a known Node; empty: a label is missing.

        A slot that is not bound has no place, and may keep the one that it has in the file.
        """
        places: dict[str, str] = {}
        for spec in self._specs(blocks=blocks):
            for key in sorted(self._index.pods_of(spec)):
                pod = self._index.slurmd_pods.entries[key].row
                node = self._nodes.get(pod.node_name)
                if node is not None:
                    places.setdefault(pod.slurm_node, wanted_topology(spec.topology, node))
        return places

    def _tree(self, now: Mapping[str, str]) -> TopologyFile:
        before = self.state.wanted
        places = before.places
        if any(places.get(name, "") != place for name, place in now.items()):
            kept = {name: places[name] for name in self._absent(places, now)}
            places = {**kept, **{name: place for name, place in now.items() if place}}
        joined = self._joined(places)
        if places is before.places and joined == before.joined:
            return before
        content = tree_lines(places, joined)
        return TopologyFile(
            content=content, digest=content_digest(content), places=places, joined=joined
        )

    def _absent(self, places: Iterable[str], now: Mapping[str, str]) -> Iterator[str]:
        """Yield the Slurm nodes in the file that a record, a waiting Pod or a free name may need.

        T7: none of them leaves the file while Slurm knows it.
        """
        waiting = {
            name
            for spec in self._specs(blocks=False)
            for name in (
                *self._index.free_names(spec),
                *(key.rpartition("/")[2] for key in self._index.pods_of(spec)),
            )
        }
        records = self._index.slurm_nodes.entries
        return (one for one in places if one not in now and (one in waiting or one in records))

    def _joined(self, places: Mapping[str, str]) -> Mapping[str, str]:
        """Return those that are or were registered: one whose record is gone needs no reconfigure.

        A record that was made again must join again.
        """
        before, records = self.state.wanted.joined, self._index.slurm_nodes
        joined = {name: before[name] for name in places if name in before}
        for name in places:
            record = records.get(name)
            if record is not None and record.stamp is not None:
                again = self._index.made[name] - 1
                joined[name] = f"{record.stamp.shape}.{again}" if again else record.stamp.shape
        return joined

    def _with_blocks(self, now: Mapping[str, str]) -> TopologyFile:
        """T7: slurmctld ends at a reconfigure that takes away a block which a node still names."""
        before = self.state.wanted
        needed = {*filter(None, now.values()), *self._named_blocks()}
        if needed <= before.blocks:
            return before
        content = block_lines(needed)
        return TopologyFile(
            content=content, digest=content_digest(content), blocks=frozenset(needed)
        )

    def _named_blocks(self) -> Iterator[str]:
        """Yield the blocks that Slurm nodes of NodeSets stand in."""
        topologies = {spec.topology.under for spec in self._specs(blocks=True)}
        for record in self._index.slurm_nodes.rows():
            for place in (record.topology or "").split(","):
                if place.count(":") == 1 and place.partition(":")[0] in topologies:
                    yield place


def _shown(state: TopologyState) -> tuple[object, ...]:
    """Return what conditions of NodeSets and places of Slurm nodes depend on."""
    report = state.report
    told = replace(report, call=0) if report else None
    return (told, state.wanted.digest, state.applied.digest, state.unplaced, state.why_not)


def _heard_s(last: TopologyReport, report: TopologyReport) -> float:
    """Return when the script called, as NodeSets see it: not every call concerns them."""
    return report.asked_s if report.asked_s >= last.asked_s + HEARD_S else last.asked_s
