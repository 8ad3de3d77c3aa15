"""Whether the Slurm nodes of a NodeSet can have the features that a job asks for."""

import re

from sunk_sync.core.model.node_set import NodeSet

_NAME = re.compile(r"[A-Za-z0-9_.=:/-]+")


def can_have(node_set: NodeSet, features: str) -> bool:
    """Return whether nodes of the NodeSet can satisfy this constraint of a job.

    Values of labels are not known while there is no node: a feature with the prefix of a label
    counts. Alternatives with `|` are read; counts and brackets (`a*2`, `[a|b]`) never match.
    """
    if not features:
        return True
    if "|" in features and "&" not in features:
        return any(_has(node_set, one) for one in features.split("|"))
    return all(_has(node_set, one) for one in re.split("[&,]", features))


def _has(node_set: NodeSet, feature: str) -> bool:
    if not _NAME.fullmatch(feature):
        return False
    if feature == node_set.name or feature in node_set.features.static:
        return True
    return any(feature.startswith(prefix) for _, prefix in node_set.features.dynamic if prefix)
