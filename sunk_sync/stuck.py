"""Pods that cannot end because their Node is gone or does not answer (P25b)."""

from collections.abc import Iterable, Mapping

from sunk_sync.facts import Node, Pod, Sighting
from sunk_sync.table import Table
from sunk_sync.views import Stuck

Asked = Mapping[str, Sighting]
"""Name of a Node that is not in the picture → the answer to a read by that name."""


def stuck_pods(ending: Iterable[Pod], *, nodes: Table[Node], asked: Asked) -> tuple[Stuck, ...]:
    """Those of these bound Pods, which are to end, that no kubelet is seen to end."""
    if not nodes.listed:
        return ()
    return tuple(
        Stuck(pod, entry.row.ready, entry.since_s) if entry else _homeless(pod, asked)
        for pod in ending
        if not (entry := nodes.entries.get(pod.node_name)) or entry.row.ready != "True"
    )


def _homeless(pod: Pod, asked: Asked) -> Stuck:
    sighting = asked.get(pod.node_name)
    return Stuck(pod, "", sighting.asked_s if sighting else None, is_stranded(pod, asked))


def is_stranded(pod: Pod, asked: Asked) -> bool:
    """It is to end, and its Node was asked for by name and is gone: the Pod counts as gone."""
    if not (asked and pod.terminating):
        return False
    sighting = asked.get(pod.node_name)
    return sighting is not None and sighting.found == "no"
