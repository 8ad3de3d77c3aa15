"""Features and topology of a Slurm node from labels of its Node (T1, T3, T5, T8)."""

import re
from collections.abc import Iterable, Mapping, Sequence

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
    """Return the full path, as `tree:root:f1:f1-p2`; empty: the Node lacks a label."""
    if missing_labels(topology, node):
        return ""
    labels: Mapping[str, str] = dict(node.offer.labels)
    values = [_NOT_IN_SWITCH.sub("_", labels[label]) for label in topology.labels]
    if topology.blocks:
        return ":".join([topology.under, *values])
    paths = [values[: level + 1] for level in range(len(values))]
    return ":".join([topology.under, *map(_switch, paths)])


def _switch(path: Sequence[str]) -> str:
    """Return the name of the last switch of this path (T8).

    Slurm knows a switch by its last name only, so that has the names above it in its own. A digest
    keeps `a-b` in `c` apart from `a` in `b-c`, and names that are too long.
    """
    name = "-".join(path)
    if len(name) <= SWITCH_LENGTH and name.count("-") < len(path):
        return name
    return f"{name[:SWITCH_LENGTH]}-{digest(*path)}"
