"""What the condition TopologyInSync of a NodeSet says (T3, T5-T7)."""

from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.node_set import Topology
from sunk_sync.core.model.topology_file import SILENT_S
from sunk_sync.core.translate.counted import counted
from sunk_sync.core.translate.shortened import shortened
from sunk_sync.core.views.node_set import NodeSetView, is_registered

TYPE = "TopologyInSync"
SCRIPT = "sunk-sync-topology.sh"
"""It runs beside slurmctld."""


def topology_condition(view: NodeSetView, now: float) -> Condition | None:
    """Return the condition from what Slurm shows, or else from what the script reported.

    None: the NodeSet asks for no topology.
    """
    asked = view.spec.topology
    if not asked.labels:
        return None
    records = [slot.slurm_node for slot in view.slots if is_registered(slot)]
    shown = {record.name: record.topology for record in records if record is not None}
    if _from_file(view, list(shown.values())):
        return _of_file(view, list(shown), now)
    above = f"{asked.under}:"
    lost = [name for name, place in shown.items() if not (place or "").startswith(above)]
    if lost and asked.blocks:
        return _missing(view, lost, now)
    if lost:
        return _no_place(asked, lost)
    nodes = counted(len(shown), "Slurm node has its", "Slurm nodes have their")
    return Condition(TYPE, "True", "InSync", f"{nodes} place")


def next_silence_s(view: NodeSetView, now: float) -> float | None:
    """Return when the script counts as silent if it calls no more; None: nothing changes then."""
    report = view.topology.report
    if report is None or not view.spec.topology.labels or now > report.asked_s + SILENT_S:
        return None
    return report.asked_s + SILENT_S + 1.0


def _from_file(view: NodeSetView, places: list[str | None]) -> bool:
    """Whether this Slurm takes the places of its nodes from the file, as 24.11 does."""
    report = view.topology.report
    return None in places or (not places and report is not None and report.format == "conf")


def _of_file(view: NodeSetView, names: list[str], now: float) -> Condition:
    if view.spec.topology.blocks:
        return _false("NotSupported", "blocks need Slurm 25.05 or later")
    if trouble := _no_script(view, now):
        return trouble
    state = view.topology
    wanted, applied = state.wanted, state.applied
    waiting = [
        name
        for name in names
        if name not in state.unplaced
        and not (
            name in wanted.places
            and applied.places.get(name) == wanted.places[name]
            and applied.joined.get(name) == wanted.joined.get(name)
        )
    ]
    if waiting:
        return _missing(view, waiting, now)
    if lost := [name for name in names if name in state.unplaced]:
        return _no_place(view.spec.topology, lost)
    nodes = counted(len(names), "Slurm node has its", "Slurm nodes have their")
    return Condition(TYPE, "True", "InSync", f"{nodes} place in topology.conf")


def _missing(view: NodeSetView, names: list[str], now: float) -> Condition:
    """Say why these Slurm nodes do not have their place yet."""
    state = view.topology
    if trouble := _no_script(view, now):
        return trouble
    if lost := [name for name in names if name in state.unplaced]:
        return _no_place(view.spec.topology, lost)
    if state.why_not:
        return _false("Pending", state.why_not)
    report = state.report
    if report is not None and report.refused and report.refused == state.wanted.digest:
        return _false("Refused", f"slurmctld refuses the topology file: {report.why}")
    return _false("Pending", f"{shortened(names)}: slurmctld does not use their place yet")


def _no_script(view: NodeSetView, now: float) -> Condition | None:
    report = view.topology.report
    if report is None:
        what = "takes blocks" if view.spec.topology.blocks else "takes the topology of a node"
        cure = f"run {SCRIPT} beside slurmctld (docs/nodesets.md)"
        return _false("NoScript", f"this Slurm {what} only from its files: {cure}")
    if now > report.asked_s + SILENT_S:
        return _false("ScriptSilent", f"{SCRIPT} beside slurmctld has not called for a minute")
    return None


def _no_place(asked: Topology, names: list[str]) -> Condition:
    labels = ", ".join(dict.fromkeys(asked.labels))
    message = f"{shortened(names)}: no place under {asked.under}. Their Nodes need {labels}"
    return _false("NoPlace", message)


def _false(reason: str, message: str) -> Condition:
    return Condition(TYPE, "False", reason, message)
