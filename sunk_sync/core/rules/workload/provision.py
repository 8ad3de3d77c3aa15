"""The only rule that gives claims a volume: where the job runs, before its Pods are bound (P8)."""

from sunk_sync.core.model.actions import Action
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import reference_of
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.model.volume_actions import ReserveVolume, SelectNode
from sunk_sync.core.views.binding import places_to_bind, why_held
from sunk_sync.core.views.workload import WantedVolume, Workload

NAMED_MAX = 3
"""Claims that a reason names."""


def provision(workload: Workload, configuration: Configuration, now: float) -> Ruling:
    """Reserve free volumes, and select the Node of claims whose provisioner makes one."""
    wanted = workload.volumes.wanted
    if not wanted or why_held(workload, now) is not None:
        return QUIET
    if isinstance(places_to_bind(workload), Ruling):
        return QUIET
    wants = [action for one in wanted if (action := _write(one)) is not None]
    timeout_s = configuration.volume_timeout_s
    times = [one.since_s + timeout_s for one in wanted if one.since_s is not None]
    again_s = min([time for time in times if time > now], default=None)
    names = ", ".join([f"{one.claim.name} on {one.node_name}" for one in wanted[:NAMED_MAX]])
    return Ruling(tuple(wants), f"waits for volumes: {names}", again_s)


def _write(one: WantedVolume) -> Action | None:
    """Return the next write for the claim; None: Kubernetes or the provisioner goes on."""
    claim, volume = one.claim, one.volume
    if claim.volume:
        return None
    if volume is not None:
        reserved = volume.claim_uid == claim.uid
        return None if reserved else ReserveVolume(reference_of(volume), reference_of(claim))
    if (claim.selected_node, claim.selected_for) == (one.node_name, one.owner):
        return None
    if claim.selected_node and claim.selected_for != one.owner:
        return None
    return SelectNode(reference_of(claim), one.node_name, one.owner)
