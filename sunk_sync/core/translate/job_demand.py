"""Whether the Slurm nodes of a NodeSet can be what a waiting job asks for."""

import re

from sunk_sync.core.model.node_set import NodeSet
from sunk_sync.core.model.pending_jobs import Demand

_NAME = re.compile(r"[A-Za-z0-9_.=:/-]+")


def can_run(node_set: NodeSet, demand: Demand) -> bool:
    """Return whether its nodes can have the features and the GRES; numbers are not compared.

    The registration of the NodeSet is complete, as in its Plan.
    """
    return _can_have(node_set, demand.features) and _has_gres(node_set, demand.gres)


def _can_have(node_set: NodeSet, features: str) -> bool:
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


def _has_gres(node_set: NodeSet, gres: str) -> bool:
    """Return whether its nodes register each of these: `gpu`, or `gpu:h100` of this type alone."""
    given = node_set.registration.gres or ()
    has = {one.name for one in given} | {f"{one.name}:{one.type}" for one in given}
    return not gres or has.issuperset(gres.split(","))
