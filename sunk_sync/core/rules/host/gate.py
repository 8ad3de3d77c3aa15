"""No job starts beside a Pod whose own job is not confirmed running (L7)."""

from sunk_sync.core.model.actions import Action, AnswerGate, Relist
from sunk_sync.core.model.calls import GateCall
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.views.host import Host
from sunk_sync.core.views.parts import Resident


def gate(host: Host, *_: object) -> Ruling:
    """Let a job start once each Pod here is gone, or its job was read running after the call."""
    if not host.gate_calls:
        return QUIET
    wants: list[Action] = []
    unread_s = 0.0
    for call in host.gate_calls:
        waits = [one for one in host.residents.all if _stands_in_the_way(one, call)]
        wants.append(_answer(call, host.name, waits))
        if any(one.confirmed for one in waits):
            unread_s = max(unread_s, call.asked_s)
    if unread_s:
        wants.append(Relist("jobs", unread_s))
    names = sorted({one.pod for one in host.residents.all})
    because = f"a job wants to start on {host.name}, where Pods live: {', '.join(names[:5])}"
    return Ruling(tuple(wants), because if names else f"a job may start on {host.name}")


def _stands_in_the_way(resident: Resident, call: GateCall) -> bool:
    """Check also the Pod of the calling job: Slurm may have reused its id (P23)."""
    return not resident.confirmed or resident.read_s < call.asked_s


def _answer(call: GateCall, slurm_node: str, waits: list[Resident]) -> AnswerGate:
    why = ", ".join(f"Pod {one.pod}" for one in waits[:5])
    return AnswerGate(call.call, slurm_node, not waits, why)
