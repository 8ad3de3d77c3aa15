"""Delete the record of a Slurm node whose Pod is gone for good (N4, N10, N11)."""

from sunk_sync.core.model.actions import LOOK_AGAIN_S, GetObject
from sunk_sync.core.model.facts import SlurmNode
from sunk_sync.core.model.node_set import Stamp
from sunk_sync.core.model.node_set_actions import DeleteNode
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.node_states import is_busy, is_foreign_drain
from sunk_sync.core.views.host import Home, Host, record_goes

DYNAMIC = "DYNAMIC_NORM"


def forget(host: Host, _: object, now: float) -> Ruling:
    """Delete a record of a NodeSet of this cluster, if a read by name found no Pod.

    A record that the next Pod of this name can use stays. So does one that a person drained, unless
    no Pod is to come: the reason would be lost with it.
    """
    record, home = host.slurm_node, host.home
    if record is None or record.stamp is None or home is None or not record_goes(host):
        return QUIET
    if not _may_go(host, record):
        return QUIET
    if home.vacant and is_foreign_drain(record):
        return Ruling(
            because=f"its record has an older shape, but somebody drained it ({record.reason}):"
            " it stays until the drain is lifted"
        )
    read = home.pod_get_result
    if read is None or read.found != "no":
        return _look(host, home, now)
    return Ruling((DeleteNode(record.name, record.stamp),), _because(home, record.stamp))


def _may_go(host: Host, record: SlurmNode) -> bool:
    """Whether all Pods are listed, and no job is left."""
    if not host.kube_listed or host.blind or record.assumed:
        return False
    return DYNAMIC in record.state and not is_busy(record.state)


def _look(host: Host, home: Home, now: float) -> Ruling:
    """Read the Pod by name; the rule `drain` does so for a Pod that was seen before.

    For `drain` that Pod is gone once another one has its name: then only this rule looks on.
    """
    last, read = host.traces.last, home.pod_get_result
    because = f"waiting for the proof that Pod {home.spec.namespace}/{host.name} is gone"
    another = last is not None and read is not None and read.uid not in ("", last.uid)
    if last is not None and last.pod and not another:
        return Ruling(because=because)
    again_s = read.asked_s + LOOK_AGAIN_S if read is not None else now
    if now < again_s:
        return Ruling(because=because, look_again_s=again_s)
    after_s = read.asked_s if read is not None else 0.0
    return Ruling((GetObject("Pod", home.spec.namespace, host.name, after_s),), because)


def _because(home: Home, stamp: Stamp) -> str:
    if stamp != home.stamp:
        return f"the record in Slurm is from another shape of {home.spec.path}"
    return f"the Pod is gone, and {home.spec.path} needs no other of this name"
