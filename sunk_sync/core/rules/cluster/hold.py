"""The breakers hold drains (S19) or ends of Pods (P31): say so, ask for an independent listing."""

from sunk_sync.core.model.actions import Action, RecordEvent, Relist
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import Reference
from sunk_sync.core.model.names import EVENT_DRAINS_HELD
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.views.parts import Cluster

DRAINS_HELD = (
    "More drains than --max-drains-per-minute are wanted because something is missing or not"
    " ready. The rest is held until a second complete listing agrees, then released slowly."
)
ENDS_HELD = (
    "More Pods than --max-pod-ends-per-minute are to end because nodes failed or jobs are missing."
    " The rest is held until the Nodes were read again, then released slowly."
)


def hold(cluster: Cluster, configuration: Configuration) -> Ruling:
    """One Warning and one listing of each source per time that the breaker closes."""
    holding = cluster.holding
    if holding is None:
        return QUIET
    nodes = Relist("nodes", max(holding.since_s, holding.ends_since_s))
    if not holding.count:
        return Ruling((nodes,), ENDS_HELD)
    namespace = Reference("Namespace", "", configuration.namespace, "")
    wants: tuple[Action, ...] = (
        RecordEvent(namespace, "Warning", EVENT_DRAINS_HELD, DRAINS_HELD),
        nodes,
        Relist("slurmd_pods", holding.since_s),
    )
    return Ruling(wants, f"{DRAINS_HELD} {ENDS_HELD}" if holding.ends else DRAINS_HELD)
