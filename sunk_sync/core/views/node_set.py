"""The view of one NodeSet: its Pods with their records in Slurm, and the names that are free."""

from msgspec import Struct

from sunk_sync.core.model.facts import SlurmdPod, SlurmNode
from sunk_sync.core.model.node_set import Cause, NodeSet, Plan
from sunk_sync.core.model.node_set_answers import ENDLESS, ReservationSet
from sunk_sync.core.model.topology_file import UNKNOWN, TopologyState
from sunk_sync.core.translate.node_states import (
    is_drained,
    is_foreign_drain,
    is_ours,
    may_run_jobs,
    takes_no_job,
)

OF_NO_USE = ("DOWN", "NOT_RESPONDING", "INVALID_REG")
OF_NODE_SET = " of NodeSet "
CAUSES: tuple[Cause, ...] = ("scale-in", "update", "registration", "deletion", "node-mismatch")


class Failures(Struct, frozen=True, gc=False):
    """Pods of one name that failed (N21) or did not register (N3), or that were refused."""

    count: int
    """In a row."""
    last_s: float
    why: str


class Slot(Struct, frozen=True, kw_only=True, gc=False):
    """One Pod of a NodeSet. Its name is also the name of its Slurm node."""

    name: str
    ordinal: int
    """-1: the name has none."""
    pod: SlurmdPod
    since_s: float
    """Since when the Pod is ready, or not ready."""
    slurm_node: SlurmNode | None = None
    own: bool = False
    """A slurmd of this NodeSet made the record, and nobody else."""
    stale: bool = False
    """It made it with other options than the Pod has (N4)."""
    unregistered: Failures | None = None
    """Pods of this name before it that had no record in Slurm (N3)."""
    ends_s: int = ENDLESS
    """When its last job ends by its time limit, as far as it was read; only of a busy one (N6)."""
    spared: bool = False
    """It was condemned, and stays after all, since the NodeSet last changed."""
    outdated: bool = False
    """The Pod has another revision than the NodeSet."""
    misplaced: bool = False
    """Its Node does not match the template any more (N17)."""


class Vacancy(Struct, frozen=True, kw_only=True, gc=False):
    """A free name, for a Pod that is to be made."""

    name: str
    node_name: str = ""
    """The Node that it is for; empty: any."""
    taken: str = ""
    """Another object that has the name, or empty (N22, N29)."""
    record: SlurmNode | None = None
    """A record in Slurm from before."""
    failures: Failures | None = None
    unregistered: Failures | None = None
    """As in Slot."""


class Story(Struct, frozen=True, kw_only=True, gc=False):
    """What this process saw happen to a NodeSet; nothing of it survives a restart."""

    scaled: tuple[int, int] | None = None
    """The last change of replicas: from, to."""
    updated_to: str = ""
    """The revision of the last change of the template."""


NO_STORY = Story()


class NodeSetView(Struct, frozen=True, kw_only=True, gc=False):
    spec: NodeSet
    wish: NodeSet
    """The same without its status, which changes while its Pods come and go."""
    plan: Plan
    slots: tuple[Slot, ...] = ()
    """By ordinal."""
    desired: int = 0
    """Number of Pods that should exist."""
    vacancies: tuple[Vacancy, ...] = ()
    """The lowest free ordinals, or Nodes without a Pod, as many as Pods are missing."""
    records_left: int = 0
    """Records of this NodeSet in Slurm without a Pod."""
    kube_listed: bool = False
    slurm_listed: bool = False
    blind: bool = False
    """sunk-sync could not read Slurm for a minute."""
    slurm_read_s: float = 0.0
    """Start of the latest complete read of all Slurm nodes."""
    ends_read_s: float = float("-inf")
    """When the ends of its jobs were last asked for."""
    reservation: ReservationSet | None = None
    """The last answer about the reservation for its updates."""
    topology: TopologyState = UNKNOWN
    held: tuple[str, ...] = ()
    """Pods whose records vanished, and whose deletion the breaker holds (N5)."""
    emptied_s: float = float("-inf")
    """When the last Pod went."""
    story: Story = NO_STORY
    full: str = ""
    """Why slurmctld takes no more nodes; empty: it does, or nobody knows."""


def condemnation(cause: Cause, spec: NodeSet) -> str:
    """Return the text of the annotation pending-deletion, which users read in `sinfo -R`."""
    return f"{cause}{OF_NODE_SET}{spec.name}"


def cause_of(pod: SlurmdPod) -> Cause | None:
    """Return why sunk-sync wants the Pod to go; None: it does not."""
    if not (pod.pending_deletion and pod.owner):
        return None
    cause, found, _ = pod.pending_deletion.partition(OF_NODE_SET)
    if not found:
        return None
    return next((one for one in CAUSES if one == cause), None)


def leaves(pod: SlurmdPod) -> bool:
    """Whether it ends and no Pod of this name follows: it is not one of the desired any more.

    A condemned Pod that has not been deleted is one of them if replicas rise again: the rule
    `condemn` takes its condemnation back (N9).
    """
    return pod.terminating and cause_of(pod) in ("scale-in", "deletion", "node-mismatch")


def is_registered(slot: Slot) -> bool:
    """Whether the Pod is ready and its own record answers (N2)."""
    record = slot.slurm_node
    if record is None or not slot.pod.ready or not slot.own or slot.stale:
        return False
    return record.state.isdisjoint(OF_NO_USE)


def is_available(slot: Slot, spec: NodeSet, *, now: float) -> bool:
    """Whether sunk-sync is done with it; it counts the others against the budget of an update.

    A drain of a person is not its business: see `jobs_can_use`. After an undrain a new slurmd does
    not respond at first: only a read tells.
    """
    if not is_registered(slot) or slot.pod.terminating or now < available_s(slot, spec):
        return False
    assert slot.slurm_node is not None
    return not (slot.slurm_node.assumed or is_ours(slot.slurm_node))


def jobs_can_use(slot: Slot, spec: NodeSet, *, now: float) -> bool:
    """Whether Slurm may start jobs there: what users call available."""
    record = slot.slurm_node
    return (
        is_available(slot, spec, now=now) and record is not None and not takes_no_job(record.state)
    )


def is_foreign(record: SlurmNode | None, plan: Plan) -> bool:
    """Whether Slurm has this record, and no slurmd of this NodeSet made it (N22)."""
    if record is None:
        return False
    return record.stamp is None or record.stamp.node_set != plan.stamp.node_set


def is_older(record: SlurmNode | None, plan: Plan) -> bool:
    """Whether a slurmd of this NodeSet made the record with other options than now (N4)."""
    if record is None or record.stamp is None or is_foreign(record, plan):
        return False
    return record.stamp.shape != plan.stamp.shape


def available_s(slot: Slot, spec: NodeSet) -> float:
    """Return when a Pod that stays ready counts as available."""
    return slot.since_s + spec.min_ready_s


def next_available_s(view: NodeSetView, now: float) -> float | None:
    """Return when time alone makes the next Pod that is ready available; None: no Pod."""
    times = [available_s(slot, view.spec) for slot in view.slots if slot.pod.ready]
    return min([time for time in times if time > now], default=None)


def is_set_aside(slot: Slot) -> bool:
    """Whether somebody else drained its node: it is not one that an update makes unavailable."""
    record = slot.slurm_node
    if record is None or not (slot.own and slot.pod.ready and is_foreign_drain(record)):
        return False
    return record.state.isdisjoint(OF_NO_USE)


def waits_for_lift(slot: Slot, plan: Plan) -> bool:
    """Whether its record must be made anew, which waits until somebody lifts the drain (N11)."""
    return is_set_aside(slot) and (slot.stale or slot.pod.shape != plan.stamp.shape)


def is_held_by_drain(vacancy: Vacancy, plan: Plan) -> bool:
    """Whether its name is free only when somebody lifts the drain of the record there (N11)."""
    record = vacancy.record
    if record is None or record.stamp is None or not is_foreign_drain(record):
        return False
    return record.stamp.node_set == plan.stamp.node_set and record.stamp != plan.stamp


def is_slot_busy(slot: Slot) -> bool:
    return slot.slurm_node is not None and may_run_jobs(slot.slurm_node.state)


def is_slot_drained(slot: Slot) -> bool:
    record = slot.slurm_node
    return record is not None and is_drained(record.state) and not may_run_jobs(record.state)
