"""The label `busy` stands on Pods of NodeSets with jobs, for a disruption budget (N27)."""

from sunk_sync.core.model.actions import SetMetadata
from sunk_sync.core.model.facts import reference_of
from sunk_sync.core.model.names import LABEL_BUSY, MANAGER_BUSY
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.node_states import is_busy, may_run_jobs
from sunk_sync.core.views.host import Host


def busy(host: Host, *_: object) -> Ruling:
    """Set the label exactly while jobs run there; while Slurm does not say so it stays."""
    pod = host.pod
    if pod is None or not pod.owner or host.blind or not host.slurm_listed:
        return QUIET
    state = host.slurm_node.state if host.slurm_node is not None else frozenset()
    wanted = may_run_jobs(state) if pod.busy else is_busy(state)
    if wanted == pod.busy:
        return QUIET
    labels = ((LABEL_BUSY, "true"),) if wanted else ()
    because = "jobs run here: no eviction" if wanted else "no job runs here: eviction is allowed"
    return Ruling((SetMetadata(reference_of(pod), MANAGER_BUSY, labels, ()),), because)
