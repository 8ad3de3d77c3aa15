"""An Event reports that an operator paused sunk-sync."""

from sunk_sync.core.model.actions import RecordEvent
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.event_kinds import EVENT_PAUSED
from sunk_sync.core.model.facts import Reference
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.views.parts import Cluster


def pause(cluster: Cluster, configuration: Configuration, *_: object) -> Ruling:
    """Record one Warning for each pause; policy lets it through."""
    if not cluster.paused:
        return QUIET
    message = f"sunk-sync writes nothing: {cluster.paused}. To go on: kubectl sunk resume"
    namespace = Reference("Namespace", "", configuration.namespace, "")
    return Ruling((RecordEvent(namespace, EVENT_PAUSED, message),), message)
