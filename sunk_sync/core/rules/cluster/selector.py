"""An Event reports that the selector of slurmd Pods is wrong (S20)."""

from sunk_sync.core.model.actions import RecordEvent
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.event_kinds import EVENT_SELECTOR
from sunk_sync.core.model.facts import Reference
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.views.parts import Cluster


def selects_too_little(cluster: Cluster) -> bool:
    """At least half of the Pods named in marks exist, but no listing shows them."""
    return cluster.unselected > 0 and cluster.unselected * 2 >= cluster.marked


def selector(cluster: Cluster, configuration: Configuration, *_: object) -> Ruling:
    """Record one Event; the rule `drain` ignores an absence that a read contradicts."""
    if not selects_too_little(cluster):
        return QUIET
    message = (
        "Most slurmd Pods named in the comments of Slurm nodes exist, but no listing shows them:"
        " check --slurmd-selector and --slurmd-namespace. sunk-sync drains nothing for this."
    )
    namespace = Reference("Namespace", "", configuration.namespace, "")
    return Ruling((RecordEvent(namespace, EVENT_SELECTOR, message),), message)
