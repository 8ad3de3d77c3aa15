"""An Event reports that the breakers hold drains (S19) or ends of Pods (P31)."""

from sunk_sync.core.model.actions import RecordEvent
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.event_kinds import EVENT_DRAINS_HELD
from sunk_sync.core.model.facts import Reference
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.views.parts import Cluster

DRAINS_HELD = (
    "Objects are missing or not ready, so sunk-sync wants more drains than"
    " --max-drains-per-minute. It holds the rest until a second complete listing agrees; then it"
    " drains slowly."
)
ENDS_HELD = (
    "Nodes failed or jobs are missing, so sunk-sync must end more Pods than"
    " --max-pod-ends-per-minute. It holds the rest until it has read the Nodes again; then it ends"
    " them slowly."
)


def hold(cluster: Cluster, configuration: Configuration, *_: object) -> Ruling:
    """Record one Warning each time the breaker trips."""
    holding = cluster.holding
    if holding is None:
        return QUIET
    if not holding.count:
        return Ruling((), ENDS_HELD)
    namespace = Reference("Namespace", "", configuration.namespace, "")
    told = RecordEvent(namespace, EVENT_DRAINS_HELD, DRAINS_HELD)
    return Ruling((told,), f"{DRAINS_HELD} {ENDS_HELD}" if holding.ends else DRAINS_HELD)
