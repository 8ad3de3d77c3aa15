"""Delete a condemned Pod of a NodeSet once nothing needs it (N8)."""

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import SlurmdPod, SlurmNode, reference_of
from sunk_sync.core.model.names import (
    REASON_NODE_GONE,
    REASON_NODE_NOT_READY,
    REASON_PENDING_DELETION,
)
from sunk_sync.core.model.node_set_actions import DeletePod
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.node_states import (
    is_drained,
    is_frozen,
    is_ours,
    may_run_jobs,
    sanitise_reason,
)
from sunk_sync.core.views.host import Host
from sunk_sync.core.views.node_set import cause_of

OF_NODE = (REASON_NODE_GONE, REASON_NODE_NOT_READY)
"""Reasons that stay although a deletion is pending, while they hold (S9)."""


def part(host: Host, *_: Configuration | float) -> Ruling:
    """Delete a condemned Pod that is drained, never registered, or on no Node.

    `drained` is the proof of the rule `retire`: a read that began after the drain showed no job. A
    Pod without a record in Slurm runs no job, if a listing shows so that began after the newest
    facts about the Pod. One that is on no Node never started slurmd, and its name may have a record
    from before that is DOWN and cannot be drained (S13).
    """
    pod = host.pod
    if pod is None or pod.terminating or host.blind or cause_of(pod) is None:
        return QUIET
    if not pod.node_name:
        return _delete(pod, "on no Node", unbound=True)
    if host.slurm_node is not None:
        return _drained(host, pod)
    if not host.slurm_listed:
        return QUIET
    if host.slurm_read_s <= host.pod_changed_s:
        return Ruling(because="waiting for a listing of Slurm nodes")
    return _delete(pod, "never registered in Slurm")


def _drained(host: Host, pod: SlurmdPod) -> Ruling:
    record = host.slurm_node
    assert record is not None
    if not pod.drained or record.assumed:
        return QUIET
    if not is_drained(record.state) or may_run_jobs(record.state):
        return QUIET
    if not _is_for_it(host, record, pod.pending_deletion or ""):
        return Ruling(because=f"waiting until the drain says so: {record.reason}")
    return _delete(pod, "drained and idle", drained=True)


def _is_for_it(host: Host, record: SlurmNode, why: str) -> bool:
    """Whether sunk-sync drained the node, or gave the drain its reason, for this deletion.

    The lift of an older drain may be on its way, and a job start. Reason and lift are writes to one
    field, of which only one is on its way.
    """
    if not is_ours(record) or is_frozen(record.state):
        return True
    if record.reason == sanitise_reason(f"{REASON_PENDING_DELETION}: {why}"):
        return True
    lost = host.node is None or host.node.ready != "True"
    return lost and record.reason.startswith(OF_NODE)


def _delete(pod: SlurmdPod, state: str, *, drained: bool = False, unbound: bool = False) -> Ruling:
    why = pod.pending_deletion or ""
    return Ruling(
        (DeletePod(reference_of(pod), why, drained=drained, unbound=unbound),),
        f"Pod {pod.namespace}/{pod.name} ends ({why}): {state}",
    )
