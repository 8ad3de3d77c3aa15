"""The mark in the comment of a Slurm node names its Node and slurmd Pod (M8, F11)."""

from sunk_sync.core.model.actions import SetComment
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.node_mark import Mark, mark_text
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.node_states import is_frozen
from sunk_sync.core.views.host import Host, is_marked


def mark(host: Host, configuration: Configuration, *_: object) -> Ruling:
    """Set the mark if the comment is empty or a mark; leave any other comment."""
    slurm_node, standing = host.slurm_node, host.mark
    if slurm_node is None or is_marked(host):
        return QUIET
    wanted = _wanted(host, configuration.cluster_uid)
    if wanted is not None and standing is not None:
        wanted = wanted.with_features(standing.features)
    if wanted is None or wanted == standing or is_frozen(slurm_node.state):
        return QUIET
    if slurm_node.comment and standing is None:
        return Ruling(because="not marked: the Slurm node has a comment of somebody else")
    return Ruling(
        (SetComment(slurm_node.name, mark_text(wanted)),), "marked with its Node and slurmd Pod"
    )


def _wanted(host: Host, cluster: str) -> Mark | None:
    """Return the mark for the present Pod and Node; a terminating Pod keeps the old mark."""
    pod, traces = host.pod, host.traces
    if pod is None:
        known_by_pod = traces.finished is not None or (traces.last is not None and traces.last.pod)
        if host.node is None or not host.owns_node or known_by_pod:
            return None
        return Mark(cluster, host.node.name)
    if pod.terminating or not pod.node_name:
        return None
    return Mark(cluster, pod.node_name, pod.namespace, pod.name, pod.uid)
