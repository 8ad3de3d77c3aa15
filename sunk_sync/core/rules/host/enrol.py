"""Make a Pod of a NodeSet anew whose record vanished from Slurm (N3).

slurmd registers once. If slurmctld loses the record, or somebody deletes it, slurmd lives on and
never comes back, and its Pod stays ready. A slurmd that never registers looks the same, so each Pod
of a name gets twice the time of the one before it.
"""

from sunk_sync.core.model.actions import RecordEvent
from sunk_sync.core.model.event_kinds import EVENT_NOT_REGISTERED
from sunk_sync.core.model.facts import SlurmdPod, reference_of
from sunk_sync.core.model.node_set_actions import RemakePod
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.views.host import Host
from sunk_sync.core.views.node_set import cause_of
from sunk_sync.core.views.unregistered import patience_s

FIRST_MINUTE_S = 60.0
"""So long after its start slurmctld may show too few nodes: it may have started without its state,
and a person is about to give that back."""


def enrol(host: Host, _: object, now: float) -> Ruling:
    """Delete the Pod after two listings without its record; the breaker counts it (N5).

    Never in slurmctld's first minute, nor while nobody knows how long it has run.
    """
    pod = host.pod
    if pod is None or not pod.owner or host.slurm_node is not None or not host.slurm_listed:
        return QUIET
    if not pod.ready or pod.terminating or cause_of(pod) is not None:
        return QUIET
    if host.blind or host.residents.all:
        return QUIET
    due_s = host.pod_since_s + patience_s(host.unregistered)
    if now < due_s:
        return Ruling(look_again_s=due_s)
    if why_not := _why_not_yet(host, due_s):
        return Ruling(because=f"{_path(pod)} is ready and not in Slurm{why_not}")
    message = (
        f"Slurm has no node {host.name}, and slurmd registers only once:"
        " sunk-sync makes the Pod anew"
    )
    return Ruling(
        (
            RemakePod(reference_of(pod)),
            RecordEvent(reference_of(pod), EVENT_NOT_REGISTERED, message),
        ),
        f"{_path(pod)} ends: its record vanished from Slurm",
    )


def _why_not_yet(host: Host, due_s: float) -> str:
    """Return why the listing proves nothing yet; the next read of Slurm decides the host again."""
    if host.slurm_read_s < due_s:
        return ": waiting for a second listing"
    if host.controller is None or host.controller.asked_s < host.slurm_read_s:
        return ": waiting for GET /diag, which tells how long slurmctld has run"
    if host.controller.runs_s < FIRST_MINUTE_S:
        return ", and slurmctld started less than a minute ago"
    return ""


def _path(pod: SlurmdPod) -> str:
    return f"Pod {pod.namespace}/{pod.name}"
