"""No job starts beside a Pod whose own job is not confirmed running (L7)."""

from sunk_sync.core.model.actions import Action, AnswerGate, Relist
from sunk_sync.core.model.calls import GateCall
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.views.absence import look_where_bound
from sunk_sync.core.views.host import Host
from sunk_sync.core.views.parts import Arrival, Resident


def gate(host: Host, configuration: Configuration, now: float) -> Ruling:  # noqa: ARG001
    """Let a job start once each Pod here is gone, or its job was read running after the call.

    The job of a Pod that may come must have been read too: if it ended, its place may be what the
    caller got, and the Pod does not come any more. A Pod that may be here by a binding without an
    answer is read by name.
    """
    if not host.gate_calls:
        return QUIET
    looks = [
        look_where_bound(one.tried, namespace=one.namespace, name=one.name, now=now)
        for one in host.doubtful
    ]
    wants: list[Action] = [look for look, _ in looks if look is not None]
    unread_s = 0.0
    for call in host.gate_calls:
        waits = [one for one in host.residents.all if _stands_in_the_way(one, call)]
        coming = [one for one in host.arrivals if _may_come(one, call)]
        wants.append(_answer(call, host, waits, coming))
        if coming or any(one.confirmed for one in waits):
            unread_s = max(unread_s, call.asked_s)
    if unread_s:
        wants.append(Relist("jobs", unread_s))
    names = sorted({one.pod for one in host.residents.all})
    because = f"a job wants to start on {host.name}, where Pods live: {', '.join(names[:5])}"
    again_s = min([again_s for look, again_s in looks if look is None], default=None)
    return Ruling(tuple(wants), because if names else f"a job may start on {host.name}", again_s)


def _stands_in_the_way(resident: Resident, call: GateCall) -> bool:
    """Check also the Pod of the calling job: Slurm may have reused its id (P23)."""
    return not resident.confirmed or resident.read_s < call.asked_s


def _may_come(arrival: Arrival, call: GateCall) -> bool:
    return arrival.job_id != call.job_id and arrival.read_s < call.asked_s


def _answer(call: GateCall, host: Host, waits: list[Resident], coming: list[Arrival]) -> AnswerGate:
    names = [f"Pod {one.pod}" for one in waits] + [f"placeholder {one.job_id}" for one in coming]
    names += [f"Pod {one.namespace}/{one.name}, if it is bound" for one in host.doubtful]
    return AnswerGate(call.call, host.name, not names, ", ".join(names[:5]))
