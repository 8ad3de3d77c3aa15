"""A slurmd Pod with pending deletion shows when its Slurm node is drained and idle (S6)."""

from sunk_sync.core.model.actions import GetSlurmNode, SetMetadata
from sunk_sync.core.model.facts import reference_of
from sunk_sync.core.model.names import DRAINED, MANAGER_RETIRE
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.node_states import is_drained, may_run_jobs
from sunk_sync.core.views.host import Host


def retire(host: Host, *_: object) -> Ruling:
    """Set `drained=true` exactly while deletion is pending and no job runs or can start there.

    A job may start between the read and the DRAIN: only a read that began after the DRAIN counts.
    """
    pod, slurm_node = host.pod, host.slurm_node
    if pod is None:
        return QUIET
    done = (
        pod.pending_deletion is not None
        and slurm_node is not None
        and not host.blind
        and not slurm_node.assumed
        and is_drained(slurm_node.state)
        and not may_run_jobs(slurm_node.state)
    )
    if done == pod.drained:
        return _look(host)
    annotations = ((DRAINED, "true"),) if done else ()
    because = "drained and idle: the Pod may be deleted" if done else "no longer drained and idle"
    return Ruling((SetMetadata(reference_of(pod), MANAGER_RETIRE, (), annotations),), because)


def _look(host: Host) -> Ruling:
    """Read the node once after the drain: an idle one need not wait for the next listing."""
    pod, slurm_node = host.pod, host.slurm_node
    if pod is None or pod.pending_deletion is None or slurm_node is None or host.blind:
        return QUIET
    if not (slurm_node.assumed and is_drained(slurm_node.state)) or may_run_jobs(slurm_node.state):
        return QUIET
    return Ruling((GetSlurmNode(host.name, host.drained_since_s),))
