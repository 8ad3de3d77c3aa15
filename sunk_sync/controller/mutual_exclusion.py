"""Writes that must not be in flight together, and writes whose result is in doubt."""

from sunk_sync.controller.slots import Slot, Slots
from sunk_sync.core.model.actions import (
    Action,
    AnswerGate,
    Bind,
    SlurmAction,
    SubmitJob,
)
from sunk_sync.core.model.keys import Key
from sunk_sync.core.model.lock_actions import AnswerLock
from sunk_sync.core.model.node_set_actions import Condemn, CreatePod, DeleteNode, DeletePod

Choice = tuple[Key, type[Action]]
"""A NodeSet, and a kind of write that chooses among its Pods."""


class MutualExclusion:
    """Lets a slot wait for the slots that its write excludes."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._submits: dict[Key, Slot] = {}
        """Key → the last submission for it."""
        self._binds: dict[str, list[Slot]] = {}
        """Slurm node → the bindings to it that are in flight or in doubt."""
        self._dropped: dict[Choice, list[Slot]] = {}
        """NodeSet and kind of write → those that are not desired any more and may take effect."""

    def arrange(self, slot: Slot, action: Action, *, now: float) -> None:
        """Name the slots that this write must wait for."""
        if isinstance(action, SlurmAction | DeleteNode):
            self._on_slurm_node(slot, action)
        match action:
            case Bind():
                self._bind(slot, action, now=now)
            case SubmitJob():
                self._submit(slot)
            case AnswerGate(go=True):
                slot.after = tuple(self._bindings(action.slurm_node, now=now))
            case AnswerGate() | Condemn(why=""):
                slot.after = ()
            case CreatePod():
                # Else the record could be deleted under the slurmd of the new Pod (N10).
                record = self._slots.of(("slurm_node", action.name, "record"))
                slot.after = (*self._other_choices(slot, action, now=now), record)
            case Condemn():
                slot.after = self._other_choices(slot, action, now=now)
            case DeletePod():
                # The drain may be lifted at this moment, and a job may start (N8). The Pod of a
                # NodeSet has the name of its Slurm node.
                slot.after = (self._slots.of(("slurm_node", action.reference.name, "state")),)
            case AnswerLock():
                # A job must not start on a Node that is being unlocked (L3).
                lock = ("Node", "", action.node_name, "lock")
                slot.after = (self._slots.of(lock),) if action.node_name else ()

    def drop(self, slot: Slot, *, now: float) -> None:
        """Note a choice of a NodeSet that is not desired any more while it has no answer."""
        action = slot.in_flight or slot.sent
        if isinstance(action, CreatePod | Condemn) and (slot.in_flight or slot.attempts):
            choice = (slot.key, type(action))
            self._dropped[choice] = [*self._late(choice, now=now), slot]

    def forget(self, slot: Slot) -> None:
        if self._submits.get(slot.key) is slot:
            del self._submits[slot.key]

    def _bind(self, slot: Slot, action: Bind, *, now: float) -> None:
        """Keep a binding of a Pod and a cancel of its job apart (P12)."""
        job = self._slots.of(("job", action.job_id))
        slot.behind = (job,)
        if slot not in job.behind:
            job.behind = (*job.behind, slot)
        others = [one for one in self._bindings(action.slurm_node, now=now) if one is not slot]
        self._binds[action.slurm_node] = [*others, slot]

    def _submit(self, slot: Slot) -> None:
        """Submit a gang whose members changed only after the answer to the earlier submission.

        The two have different targets: the identity of the job is another one (G1, P29).
        """
        earlier, self._submits[slot.key] = self._submits.get(slot.key, slot), slot
        if earlier is not slot and earlier.in_flight is not None:
            slot.behind, earlier.behind = (earlier,), (slot,)

    def _on_slurm_node(self, slot: Slot, action: SlurmAction | DeleteNode) -> None:
        """Keep the deletion of a record and other writes to it apart: Slurm would refuse them."""
        if not isinstance(action, DeleteNode):
            record = self._slots.get(("slurm_node", action.slurm_node, "record"))
            slot.after = (record,) if record is not None else ()
            return
        state = self._slots.of(("slurm_node", action.slurm_node, "state"))
        slot.after = (state,)
        if slot not in state.after:
            state.after = (*state.after, slot)

    def _other_choices(self, slot: Slot, action: Action, *, now: float) -> tuple[Slot, ...]:
        """Return other choices of the NodeSet that are on their way.

        For example a lower name got free, or another Pod was not ready. Whether both must be made,
        or must go, shows when that one is done (N1, N6).
        """
        others = self._late((slot.key, type(action)), now=now)
        return tuple(one for one in others if one is not slot)

    def _late(self, choice: Choice, *, now: float) -> list[Slot]:
        """Return writes that may still make, or condemn, a Pod that is not chosen any more."""
        slots = self._dropped.pop(choice, [])
        may = [one for one in slots if one.desired is None and _may_come(one, now)]
        if may:
            self._dropped[choice] = may
        return may

    def _bindings(self, slurm_node: str, *, now: float) -> list[Slot]:
        """Return the bindings that may still bring a Pod to this host: no job starts there (L7)."""
        slots = self._binds.pop(slurm_node, [])
        may = [one for one in slots if _may_come(one, now)]
        if may:
            self._binds[slurm_node] = may
        return may


def _may_come(slot: Slot, now: float) -> bool:
    """Return whether its write may still take effect, or may yet be sent."""
    return bool(slot.desired or slot.in_flight or slot.doubt_until_s > now)
