"""Features of the Slurm nodes of NodeSets (T1)."""

from sunk_sync.core.model.actions import SetFeatures
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.node_features import has_features, wanted_features
from sunk_sync.core.translate.node_states import is_frozen
from sunk_sync.core.views.host import Host, is_marked


def feature(host: Host, *_: object) -> Ruling:
    """Set them once the mark stands: it notes which features are of sunk-sync."""
    wish, slurm_node, mark = host.wish, host.slurm_node, host.mark
    if wish is None or slurm_node is None or host.node is None or is_frozen(slurm_node.state):
        return QUIET
    wanted = wanted_features(wish.features, host.node, node_set=wish.node_set)
    if mark is None or not is_marked(host):
        waits = "features follow once the Slurm node is marked"
        return Ruling(because=waits if wanted else "")
    if has_features(slurm_node, mark, wanted=wanted):
        return QUIET
    because = "features follow the NodeSet and the labels of the Node"
    return Ruling((SetFeatures(slurm_node.name, wanted),), because)
