"""Features and topology of a Slurm node from labels of its Node (T1, T3, T5, T8)."""

import re
from collections.abc import Iterable, Mapping

from sunk_sync.core.model.facts import Node, SlurmNode
from sunk_sync.core.model.node_mark import Mark
from sunk_sync.core.model.node_set import STAMP_PREFIX, Features, Topology
from sunk_sync.core.translate.slurmd_options import digest

FEATURE_LENGTH = 64
SWITCH_LENGTH = 60
_NOT_IN_FEATURE = re.compile(r"[^A-Za-z0-9_.=:/-]")
_NOT_IN_SWITCH = re.compile(r"[^A-Za-z0-9_.-]")


def wanted_features(asked: Features, node: Node, *, node_set: str) -> tuple[str, ...]:
    """Return the features that NodeSet `node_set` wants on the Slurm node of this Node, sorted.

    Its name and the stamp are not among them: they come with the record, and stay.
    """
    labels = dict(node.offer.labels)
    features = set(asked.static)
    features.update(
        _NOT_IN_FEATURE.sub("_", prefix + labels[label])[:FEATURE_LENGTH]
        for label, prefix in asked.dynamic
        if labels.get(label)
    )
    return tuple(sorted(one for one in features - {node_set} if not one.startswith(STAMP_PREFIX)))


def of_others(features: Iterable[str], mark: Mark) -> tuple[str, ...]:
    """Return the features that sunk-sync did not set."""
    return tuple(one for one in features if one not in mark.features)


def noted(slurm_node: SlurmNode, mark: Mark, *, wanted: Iterable[str]) -> tuple[str, ...]:
    """Return the features that the mark must note: wanted ones that nobody else set."""
    others = of_others(slurm_node.features, mark)
    return tuple(sorted(one for one in wanted if one not in others))


def has_features(slurm_node: SlurmNode, mark: Mark, *, wanted: tuple[str, ...]) -> bool:
    """Whether the Slurm node has these features and no others that sunk-sync set."""
    if mark.features != noted(slurm_node, mark, wanted=wanted):
        return False
    both = set(slurm_node.features).intersection(slurm_node.active_features)
    return both.issuperset(wanted)


def missing_labels(topology: Topology, node: Node) -> tuple[str, ...]:
    labels = dict(node.offer.labels)
    return tuple(label for label in topology.labels if not labels.get(label))


def wanted_topology(topology: Topology, node: Node) -> str:
    """Return the full path, as `tree:root:f1:f1-p2`; empty: the Node lacks a label.

    Each switch has the names above it in its own: Slurm knows a switch by its last name only.
    """
    if missing_labels(topology, node):
        return ""
    labels: Mapping[str, str] = dict(node.offer.labels)
    path, switches = "", []
    for label in topology.labels:
        name = _NOT_IN_SWITCH.sub("_", labels[label])
        path = f"{path}-{name}" if path else name
        switches.append(_cut(path))
    return ":".join([topology.under, *switches])


def _cut(name: str) -> str:
    """Keep long names apart by a digest."""
    if len(name) <= SWITCH_LENGTH:
        return name
    return f"{name[:SWITCH_LENGTH]}-{digest(name)}"
