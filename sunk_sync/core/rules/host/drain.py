"""Drains and undrains: the only rule that writes a Slurm node's state and reason (S1-S15).

Each cause exists, does not exist, or is unknown. An unknown cause neither begins a drain nor lifts
one.
"""

from collections.abc import Callable
from typing import NamedTuple

from sunk_sync.core.model.actions import (
    LOOK_AGAIN_S,
    Drain,
    GetObject,
    RewriteReason,
    Undrain,
)
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import GetResult, SlurmdPod, SlurmNode
from sunk_sync.core.model.names import (
    LIFTED_PREFIX,
    REASON_NODE_GONE,
    REASON_NODE_NOT_READY,
    REASON_PENDING_DELETION,
)
from sunk_sync.core.model.node_signs import first_sign
from sunk_sync.core.model.timing import BEFORE_KILL_S
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.node_states import (
    is_drained,
    is_foreign_drain,
    is_our_reason,
    is_under_power,
    keeps_drain,
    sanitise_reason,
    wakes_for_jobs,
)
from sunk_sync.core.views.host import Host, record_goes

EXISTS_AGAIN_S = 60.0
"""Seconds between two reads of an object that exists but is in no listing: a selector may be wrong
for thousands of Pods."""


class Stands(NamedTuple):
    """The cause exists."""

    words: str
    """For the operator, with the name of the object."""
    why: str = ""
    """The text that a user gave, for the reason in Slurm."""


class Open(NamedTuple):
    """It is unknown whether the cause exists."""

    words: str
    look: GetObject | None = None
    again_s: float | None = None


Answer = Stands | Open | None


class Cause(NamedTuple):
    """A cause to drain a host."""

    reason: str
    """Text for Slurm."""
    ask: Callable[[Host, Configuration, float], Answer]
    absence: bool = False
    """It rests on an absence or on NotReady: the breaker counts it (S19)."""
    ends: bool = False
    """The slurmd Pod is about to be absent."""

    def comes_of_power_saving(self) -> bool:
        """Whether Slurm itself brings it about when it unmakes the machine."""
        return self.absence or self.ends


def drain(host: Host, configuration: Configuration, now: float) -> Ruling:
    """Drain while a cause exists; lift a drain of sunk-sync when the last cause is gone."""
    slurm_node = host.slurm_node
    if slurm_node is None or not _known(host):
        return QUIET
    first: tuple[Cause, Stands] | None = None
    undecided: list[Open] = []
    opens: list[Open] = []
    powered = is_under_power(slurm_node.state)
    for cause in CAUSES:
        if powered and cause.comes_of_power_saving():
            continue
        answer = cause.ask(host, configuration, now)
        if answer is None:
            continue
        if isinstance(answer, Open):
            opens.append(answer)
        elif first is None:
            first, undecided = (cause, answer), opens.copy()
    if first is None:
        if not opens and not is_our_reason(slurm_node.reason):
            return _no_cause(slurm_node)
        undecided = opens
    ruling = _rule_state(slurm_node, first, undecided, goes=record_goes(host))
    if not opens:
        return ruling
    return Ruling(
        (*ruling.wants, *(one.look for one in opens if one.look)),
        ruling.because,
        min((one.again_s for one in opens if one.again_s), default=None),
    )


def _known(host: Host) -> bool:
    """Whether Kubernetes has the machine, or the mark says that it had (S18)."""
    return host.pod is not None or host.node is not None or host.traces.last is not None


def _no_cause(slurm_node: SlurmNode) -> Ruling:
    if not is_drained(slurm_node.state):
        return QUIET
    return Ruling(because=f"left alone: drained in Slurm ({slurm_node.reason or 'no reason'})")


def _rule_state(
    slurm_node: SlurmNode,
    first: tuple[Cause, Stands] | None,
    undecided: list[Open],
    *,
    goes: bool,
) -> Ruling:
    """`undecided`: causes that rank before the first one that exists. `goes`: its record does."""
    name, reason = slurm_node.name, slurm_node.reason
    flags = "+".join(sorted(slurm_node.state))
    if keeps_drain(slurm_node.state):
        return Ruling(because=f"left alone: Slurm node is {flags}")
    if first is not None:
        return _with_cause(slurm_node, *first, undecided, goes=goes)
    waiting = "; ".join(one.words for one in undecided)
    if not is_our_reason(reason):
        return Ruling(because=f"waiting: {waiting}")
    lifted = _lifted(reason)
    if not is_drained(slurm_node.state):
        return Ruling(
            (RewriteReason(name, lifted),), "a reason of sunk-sync on a node without drain: lifted"
        )
    if undecided:
        return Ruling(because=f"drain kept ({reason}): {waiting}")
    return Ruling((Undrain(name, lifted),), f"undrained: no cause is left (was {reason})")


def _with_cause(
    slurm_node: SlurmNode, cause: Cause, stands: Stands, undecided: list[Open], *, goes: bool
) -> Ruling:
    """A drain of sunk-sync keeps its reason while a cause that ranks higher is unknown (S9).

    It keeps it, too, if the record is about to be deleted: a new one would often come too late.
    """
    if is_foreign_drain(slurm_node):
        whose = slurm_node.reason or "no reason"
        return Ruling(because=f"left alone: drained in Slurm ({whose}), though {stands.words}")
    drained = is_drained(slurm_node.state)
    if not drained and wakes_for_jobs(slurm_node.state):
        return _waking(slurm_node, stands)
    because = f"drained: {stands.words}"
    reason = sanitise_reason(f"{cause.reason}: {stands.why}" if stands.why else cause.reason)
    if drained and (goes or slurm_node.reason == reason):
        return Ruling(because=because)
    if drained and undecided:
        waiting = "; ".join(one.words for one in undecided)
        return Ruling(because=f"drain kept ({slurm_node.reason}): {waiting}")
    new, again = cause.absence and not drained, cause.absence and drained
    return Ruling((Drain(slurm_node.name, reason, absence=new, rewrites=again),), because)


def _waking(slurm_node: SlurmNode, stands: Stands) -> Ruling:
    """Wait until it is up; a text of ours must not stand without a drain meanwhile (S2)."""
    name, reason = slurm_node.name, slurm_node.reason
    flags = "+".join(sorted(slurm_node.state))
    because = f"waiting: {stands.words}, but Slurm wakes it for a job ({flags})"
    return Ruling((RewriteReason(name, _lifted(reason)),) if is_our_reason(reason) else (), because)


def _lifted(reason: str) -> str:
    """Return the text that stands for a drain of sunk-sync that is over (S2)."""
    return sanitise_reason(LIFTED_PREFIX + reason)


def _node_gone(host: Host, _: Configuration, now: float) -> Answer:
    """S8."""
    last, get_result = host.traces.last, host.traces.node_get_result
    if last is None or not host.traces.node_absent:
        return None
    name = last.node
    if not host.kube_listed:
        return Open(f"Node {name} is not listed yet")
    if get_result is not None and get_result.found == "no":
        return Stands(f"Node {name} is gone")
    return _open(f"Node {name} is missing", GetObject("Node", "", name, 0.0), get_result, now)


def _node_not_ready(host: Host, configuration: Configuration, now: float) -> Answer:
    """S8."""
    node = host.node
    if node is None or node.ready == "True":
        return None
    ripe_s = host.node_since_s + configuration.node_not_ready_grace_s
    words = f"Node {node.name} is not ready ({node.ready})"
    return Open(words, again_s=ripe_s) if now < ripe_s else Stands(words)


def _pod_gone(host: Host, _: Configuration, now: float) -> Answer:
    """S7."""
    traces, last = host.traces, host.traces.last
    get_result = traces.pod_get_result
    if host.pod or traces.finished or last is None or not last.pod or traces.moved:
        return None
    path = f"Pod {last.namespace}/{last.pod}"
    if not host.kube_listed:
        return Open(f"{path} is not listed yet")
    if get_result is not None and (
        get_result.found == "no" or (get_result.found == "yes" and get_result.uid != last.uid)
    ):
        return Stands(f"{path} is gone")
    return _open(
        f"{path} is missing", GetObject("Pod", last.namespace, last.pod, 0.0), get_result, now
    )


def _open(words: str, look: GetObject, get_result: GetResult | None, now: float) -> Open:
    """Read the object by name; read it again after a while if the result proves nothing."""
    if get_result is None:
        return Open(f"{words}, reading it by name", look)
    exists = get_result.found == "yes"
    words = f"{words} from the listing but exists" if exists else words
    again_s = get_result.asked_s + (EXISTS_AGAIN_S if exists else LOOK_AGAIN_S)
    if now < again_s:
        return Open(words, again_s=again_s)
    return Open(words, GetObject(look.kind, look.namespace, look.name, get_result.asked_s))


def _pod_terminating(host: Host, *_: object) -> Answer:
    """S5; its containers may have ended already."""
    pod = host.pod or host.traces.finished
    if pod is None or not pod.terminating:
        return None
    return Stands(f"{_path(pod)} is terminating")


def _pod_pending_deletion(host: Host, *_: object) -> Answer:
    """S6."""
    pod = host.pod
    if pod is None or pod.pending_deletion is None:
        return None
    why = pod.pending_deletion
    words = f"{_path(pod)} is to be deleted"
    return Stands(f"{words} ({why})" if why else words, why)


def _node_cordoned(host: Host, *_: object) -> Answer:
    """S1; a cordon by sunk-sync (M7) does not count."""
    node = host.node
    if node is None or not node.unschedulable or node.cordoned_for_drain:
        return None
    why = node.cordon_reason
    words = f"Node {node.name} is cordoned"
    return Stands(f"{words} ({why})" if why else words, why)


def _node_tainted(host: Host, configuration: Configuration, _: float) -> Answer:
    """S21."""
    node = host.node
    if node is None:
        return None
    sign = first_sign(node.signs, "taint", wanted=configuration.drain_taints)
    if sign is None:
        return None
    return Stands(f"Node {node.name} has taint {sign.words}", sign.words)


def _node_condition(host: Host, configuration: Configuration, _: float) -> Answer:
    """S21."""
    node = host.node
    if node is None or not configuration.drain_conditions:
        return None
    sign = first_sign(node.signs, "condition", wanted=configuration.drain_conditions)
    if sign is None:
        return None
    return Stands(f"Node {node.name} has condition {sign.words}", sign.words)


def _pod_cordoned(host: Host, *_: object) -> Answer:
    """S3."""
    pod = host.pod
    if pod is None or not pod.cordon:
        return None
    return Stands(f"{_path(pod)} is cordoned")


def _pod_not_ready(host: Host, configuration: Configuration, now: float) -> Answer:
    """S4."""
    pod = host.pod or host.traces.finished
    if pod is None or (pod.ready and not pod.finished):
        return None
    ripe_s = host.pod_since_s + configuration.not_ready_grace_s
    words = f"{_path(pod)} is not ready"
    return Open(words, again_s=ripe_s) if now < ripe_s else Stands(words)


def _pod_without_job(host: Host, configuration: Configuration, *_: object) -> Answer:
    """P30."""
    lost = [resident.pod for resident in host.residents.lingering if resident.lost]
    if not lost or configuration.lost_job == "end":
        return None
    return Stands(f"Pod {lost[0]} lives without a job")


def _pod_outlives_script(host: Host, _: Configuration, now: float) -> Answer:
    """L6."""
    times = [
        (one.stop_until_s, one.pod)
        for one in host.residents.lingering
        if one.stop_until_s is not None and not one.confirmed
    ]
    if not times:
        return None
    until_s, pod = min(times)
    words, ripe_s = f"Pod {pod} outlives its job", until_s - BEFORE_KILL_S
    return Open(words, again_s=ripe_s) if now < ripe_s else Stands(words)


def _pod_outlives_job(host: Host, *_: object) -> Answer:
    """P25: neither the gate nor a script of its own keeps the next job away."""
    if host.gate:
        return None
    for resident in host.residents.lingering:
        if resident.held or resident.stop_until_s is not None:
            continue
        if resident.ended or resident.away:
            why = "has ended" if resident.ended else "is not here"
            return Stands(f"Pod {resident.pod} lives though its job {why}")
    return None


def _path(pod: SlurmdPod) -> str:
    return f"Pod {pod.namespace}/{pod.name}"


CAUSES = (
    Cause(REASON_NODE_GONE, _node_gone, absence=True),
    Cause(REASON_NODE_NOT_READY, _node_not_ready, absence=True),
    Cause("k8s: pod terminated", _pod_gone, absence=True),
    Cause("k8s: pod without job", _pod_without_job),
    Cause("k8s: pod deletion timeout", _pod_outlives_script),
    Cause("k8s: pod still terminating", _pod_outlives_job),
    Cause("k8s: pod terminating", _pod_terminating, ends=True),
    Cause(REASON_PENDING_DELETION, _pod_pending_deletion),
    Cause("k8s: node cordoned", _node_cordoned),
    Cause("k8s: node tainted", _node_tainted),
    Cause("k8s: node condition", _node_condition),
    Cause("k8s: pod cordoned", _pod_cordoned),
    Cause("k8s: pod not ready", _pod_not_ready, absence=True),
)
"""In the order of S9: the first cause that exists gives the reason."""
