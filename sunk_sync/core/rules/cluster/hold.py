"""The breakers hold drains (S19) or ends of Pods (P31): say so."""

from sunk_sync.core.model.actions import RecordEvent
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


def hold(cluster: Cluster, configuration: Configuration, *_: object) -> Ruling:
    """One Warning per time that the breaker closes; the rule `relist` asks for the listing."""
    holding = cluster.holding
    if holding is None:
        return QUIET
    if not holding.count:
        return Ruling((), ENDS_HELD)
    namespace = Reference("Namespace", "", configuration.namespace, "")
    told = RecordEvent(namespace, "Warning", EVENT_DRAINS_HELD, DRAINS_HELD)
    return Ruling((told,), f"{DRAINS_HELD} {ENDS_HELD}" if holding.ends else DRAINS_HELD)
