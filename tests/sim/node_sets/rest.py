"""What holds for NodeSets when everything has converged: one sentence for each deviation."""

from collections.abc import Iterator

from msgspec import Struct

from sunk_sync.embedded.slurm.model.node import Node, state_of
from tests.sim import words
from tests.sim.judging import mark_of
from tests.sim.node_sets import truth
from tests.sim.node_sets.truth import name_of
from tests.sim.packing import own_of
from tests.sim.words import Object
from tests.sim.worlds import Worlds


class Expected(Struct, frozen=True, kw_only=True):
    """What a scenario leaves open on purpose."""

    stuck: frozenset[str] = frozenset()
    """NodeSets whose new Pods cannot start: their updates wait."""
    packs: bool = False
    """With --pack nodes."""


def node_set_unrest(worlds: Worlds, expected: Expected) -> list[str]:
    found: list[str] = []
    for one in truth.node_sets(worlds):
        if truth.is_deleting(one):
            found += _leaving(worlds, one)
        else:
            found += _standing(worlds, one, expected)
    return [*found, *_busy_labels(worlds)]


def _leaving(worlds: Worlds, node_set: Object) -> Iterator[str]:
    """N23: a deleted NodeSet stays while a job runs there or requires one of its records."""
    pods, records = truth.pods_of(worlds, node_set), truth.records_of(worlds, node_set)
    needed = [one for one in records if truth.is_at_work(one) or truth.requiring(worlds, one.name)]
    if not needed:
        left = [*map(name_of, pods), *(one.name for one in records)]
        yield f"N23: NodeSet {name_of(node_set)} is still there, with {left}"


def _standing(worlds: Worlds, node_set: Object, expected: Expected) -> Iterator[str]:
    name, pods = name_of(node_set), truth.pods_of(worlds, node_set)
    if truth.FINALIZER not in (node_set["metadata"].get("finalizers") or ()):
        yield f"N23: NodeSet {name} has no finalizer"
    staying = [pod for pod in pods if not truth.leaves(pod)]
    if len(staying) != truth.replicas_of(node_set):
        yield f"N1: NodeSet {name} has {[*map(name_of, staying)]} of {truth.replicas_of(node_set)}"
    stuck = name in expected.stuck
    for pod in pods:
        record = worlds.slurm.nodes.get(name_of(pod))
        if not stuck:
            yield from _slot(worlds, node_set, pod, record, packs=expected.packs)
    yield from _records(worlds, node_set)
    yield from _status(worlds, node_set, pods)


def _slot(
    worlds: Worlds, node_set: Object, pod: Object, record: Node | None, *, packs: bool
) -> Iterator[str]:
    """N2, N4, N6, N9, N12: the Pod, and the record that belongs to it."""
    name = name_of(pod)
    cause = truth.condemned_for(pod)
    at_work = record is not None and truth.is_at_work(record)
    if cause and not at_work:
        yield f"N8: Pod {name} is condemned ({cause}) and stays"
    if cause or at_work:
        return
    if truth.rolls(node_set) and not truth.is_current(pod, node_set):
        yield f"N12: Pod {name} has an older template"
    if not truth.is_useful(pod, record):
        shown = None if record is None else (state_of(record), record.features)
        yield f"N2: Pod {name} is of no use: ready={words.is_ready(pod)} record={shown}"
        return
    assert record is not None
    if record.spec.memory_mb != int(truth.conf_of(pod)["RealMemory"]):
        yield f"N4: {name} has {record.spec.memory_mb} MiB in Slurm"
    yield from _fields(worlds, node_set, pod, record)
    yield from _weight(worlds, node_set, pod, record, packs=packs)


def _fields(worlds: Worlds, node_set: Object, pod: Object, record: Node) -> Iterator[str]:
    """T1-T5."""
    name, node = record.name, worlds.kube.node(pod["spec"]["nodeName"])
    if node is None or (record.comment and not mark_of(record.comment)):
        return
    wanted = truth.wanted_features(node_set, node)
    if not wanted <= set(record.features) & set(record.active_features):
        yield f"T1: {name} has features {record.features}, wanted are {sorted(wanted)}"
    noted = truth.features_in_mark(record)
    if noted - wanted:
        yield f"T1: {name} keeps the features {sorted(noted - wanted)}"
    place = truth.wanted_topology(node_set, node)
    if place is not None and worlds.slurm.setup.generation == "26.05" and record.topology != place:
        yield f"T3: {name} stands at {record.topology!r}, not {place!r}"


def _weight(
    worlds: Worlds, node_set: Object, pod: Object, record: Node, *, packs: bool
) -> Iterator[str]:
    """T2, W1: its own weight is that of the NodeSet."""
    if worlds.kube.node(pod["spec"]["nodeName"]) is None:
        return
    weight = node_set["spec"].get("weight", 1)
    own = own_of(record.weight) if packs else record.weight
    if own != weight:
        yield f"T2: {record.name} has weight {record.weight}, not {weight}"


def _records(worlds: Worlds, node_set: Object) -> Iterator[str]:
    """N10: no record without a Pod, unless a job needs it."""
    names = set(map(name_of, truth.pods_of(worlds, node_set)))
    for record in truth.records_of(worlds, node_set):
        needed = truth.is_at_work(record) or truth.requiring(worlds, record.name)
        if record.name not in names and not needed:
            yield f"N10: the record {record.name} has no Pod: {state_of(record)}"


def _busy_labels(worlds: Worlds) -> Iterator[str]:
    """N27."""
    for pod in worlds.kube.pods(truth.NAMESPACE):
        record = worlds.slurm.nodes.get(name_of(pod))
        busy = record is not None and bool(words.BUSY & set(state_of(record)))
        shown = words.labels_of(pod).get(truth.BUSY) == "true"
        if truth.owner_of(pod) and busy != shown:
            yield f"N27: Pod {name_of(pod)} has busy={shown}, its record says {busy}"


def _status(worlds: Worlds, node_set: Object, pods: list[Object]) -> Iterator[str]:
    """N2: the numbers of the status."""
    name, shown = name_of(node_set), node_set.get("status") or {}
    records = [worlds.slurm.nodes.get(name_of(pod)) for pod in pods]
    known = [one for one in records if one is not None]
    wanted = {
        "observedGeneration": node_set["metadata"]["generation"],
        "desired": truth.replicas_of(node_set),
        "replicas": len(pods),
        "ready": sum(map(words.is_ready, pods)),
        "registered": sum(map(truth.is_useful, pods, records)),
        "available": sum(map(truth.jobs_can_use, pods, records)),
        "allocated": sum(bool(words.BUSY & set(state_of(one))) for one in known),
        "draining": sum("DRAIN" in one.flags for one in known),
    }
    for key, number in wanted.items():
        if shown.get(key, 0) != number:
            yield f"status: NodeSet {name} shows {key}={shown.get(key, 0)}, not {number}"
