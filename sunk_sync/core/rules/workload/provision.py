"""The only rule that gives claims a volume: where the job runs, before its Pods are bound (P8)."""

from sunk_sync.core.model.actions import Action
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import reference_of
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.model.volume_actions import GetProvisioning, ReserveVolume, SelectNode
from sunk_sync.core.views.binding import places_to_bind, why_held
from sunk_sync.core.views.workload import WantedVolume, Workload

ASK_S = 3.0
"""A volume that takes longer may be in trouble: sunk-sync reads what the provisioner says."""
ASK_AGAIN_S = 30.0
NAMED_MAX = 3
"""Claims that a reason names."""


def provision(workload: Workload, configuration: Configuration, now: float) -> Ruling:  # noqa: ARG001
    """Reserve free volumes, and select the Node of claims whose provisioner makes one."""
    wanted = workload.volumes.wanted
    if not wanted or why_held(workload, now) is not None:
        return QUIET
    if isinstance(places_to_bind(workload), Ruling):
        return QUIET
    wants: list[Action] = []
    times: list[float] = []
    for one in wanted:
        write, ask_s = _write(one), _ask_s(one)
        if write is not None:
            wants.append(write)
        elif ask_s is not None and now >= ask_s:
            wants.append(GetProvisioning(reference_of(one.claim), one.asked_s))
        elif ask_s is not None:
            times.append(ask_s)
    names = ", ".join([f"{one.claim.name} on {one.node_name}" for one in wanted[:NAMED_MAX]])
    again_s = min(times, default=None)
    return Ruling(tuple(wants), f"waits for volumes: {names}", again_s)


def _ask_s(one: WantedVolume) -> float | None:
    """Return when to read what the provisioner says; None: nobody makes the volume yet."""
    claim = one.claim
    if one.volume is not None or claim.volume or claim.selected_for != one.owner:
        return None
    if one.is_given_up:
        return 0.0
    return max(one.since_s + ASK_S, one.asked_s + ASK_AGAIN_S)


def _write(one: WantedVolume) -> Action | None:
    """Return the next write for the claim; None: Kubernetes or the provisioner goes on."""
    claim, volume = one.claim, one.volume
    if claim.volume or one.is_given_up:
        return None
    if volume is not None:
        reserved = volume.claim_uid == claim.uid
        return None if reserved else ReserveVolume(reference_of(volume), reference_of(claim))
    if (claim.selected_node, claim.selected_for) == (one.node_name, one.owner):
        return None
    if claim.selected_node and claim.selected_for != one.owner:
        return None
    return SelectNode(reference_of(claim), one.node_name, one.owner)
