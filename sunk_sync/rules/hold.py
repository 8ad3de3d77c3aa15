"""The breaker holds drains: say so, and ask for a second, independent listing (S19)."""

from sunk_sync.actions import Announce, Relist
from sunk_sync.configuration import Configuration
from sunk_sync.facts import Reference
from sunk_sync.names import EVENT_DRAINS_HELD
from sunk_sync.verdict import QUIET, Ruling
from sunk_sync.views import Cluster


def hold(cluster: Cluster, configuration: Configuration) -> Ruling:
    """One Warning and one listing of each source per time that the breaker closes."""
    holding = cluster.holding
    if holding is None:
        return QUIET
    message = (
        "More drains than --max-drains-per-minute are wanted because something is missing or not"
        " ready. The rest is held until a second complete listing agrees, then released slowly."
    )
    namespace = Reference("Namespace", "", configuration.namespace, "")
    return Ruling(
        (
            Announce(namespace, "Warning", EVENT_DRAINS_HELD, message),
            Relist("nodes", holding.since_s),
            Relist("slurmd_pods", holding.since_s),
        ),
        message,
    )
