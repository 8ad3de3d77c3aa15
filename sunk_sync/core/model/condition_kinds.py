"""Every condition that sunk-sync sets, one row for each status and reason.

`tools/reference.py` makes the table of the reference from it. A test compares it with the reasons
in the rules. Each type and reason has an entry in docs/troubleshooting.md.
"""

from typing import Final, NamedTuple

from sunk_sync.core.model.condition import ConditionStatus
from sunk_sync.core.model.names import (
    DISRUPTION_CONDITION,
    NODE_CORDON_CONDITION,
    NODE_DRAIN_CONDITION,
    NODE_NOT_RESPONDING_CONDITION,
    NODE_RUNNING_CONDITION,
    POD_CONFLICT_CONDITION,
    POD_STATE_CONDITION,
    SCHEDULED_CONDITION,
    TOO_SMALL_CONDITION,
)


class Meaning(NamedTuple):
    """What a condition says with one status and reason."""

    status: ConditionStatus
    reason: str
    text: str


class ConditionKind(NamedTuple):
    type: str
    on: str
    """The object that carries it."""
    meanings: tuple[Meaning, ...]
    family: bool = False
    """The type is the beginning of many: one for each state."""


_BLIND = Meaning("Unknown", "SlurmUnreachable", "Slurm has not answered for a minute")

CONDITIONS: Final = (
    ConditionKind(
        POD_STATE_CONDITION,
        "slurmd Pod",
        (
            Meaning(
                "True",
                "SlurmState",
                "the Slurm node has this base state or flag; a state that it does not have has no"
                " condition",
            ),
        ),
        family=True,
    ),
    ConditionKind(
        POD_CONFLICT_CONDITION,
        "slurmd Pod",
        (
            Meaning(
                "True",
                "DoubleClaim",
                "several objects claim the Slurm node; nothing is written for them",
            ),
        ),
    ),
    ConditionKind(
        NODE_CORDON_CONDITION,
        "Node",
        (
            Meaning("True", "DrainedInSlurm", "a drain that began in Slurm"),
            Meaning("False", "NotDrainedInSlurm", "no drain, or one of sunk-sync"),
            _BLIND,
        ),
    ),
    ConditionKind(
        NODE_DRAIN_CONDITION,
        "Node",
        (
            Meaning("True", "Drained", "the Slurm node is drained; the message is Slurm's reason"),
            Meaning("False", "NotDrained", "the Slurm node takes jobs"),
            _BLIND,
        ),
    ),
    ConditionKind(
        NODE_NOT_RESPONDING_CONDITION,
        "Node",
        (
            Meaning("True", "NotResponding", "slurmctld does not hear from slurmd"),
            Meaning("False", "Responding", "slurmd answers slurmctld"),
            _BLIND,
        ),
    ),
    ConditionKind(
        NODE_RUNNING_CONDITION,
        "Node",
        (
            Meaning("True", "JobsRunning", "the Slurm node has jobs"),
            Meaning("False", "NoJobs", "the Slurm node is free of jobs"),
            Meaning("Unknown", "NotKnownYet", "slurmctld has just started, and waits for slurmd"),
            _BLIND,
        ),
    ),
    ConditionKind(
        SCHEDULED_CONDITION,
        "waiting workload Pod",
        (
            Meaning(
                "False",
                "Unschedulable",
                "no node is free or large enough: the only reason for which autoscalers add Nodes;"
                " the API server sets the condition True at the binding",
            ),
            Meaning("False", "SlurmJobPending", "its job waits for something else than nodes"),
            Meaning("False", "SlurmJobAllocated", "its job has its nodes, and is not bound yet"),
            Meaning("False", "GangIncomplete", "Pods of its gang are missing"),
            Meaning("False", "GangFull", "its gang has its Pods already"),
            Meaning("False", "InvalidPod", "the manifest has errors"),
            Meaning("False", "SlurmRefused", "Slurm refused the job, and more nodes are no cure"),
            Meaning("False", "SlurmUnreachable", "Slurm has not answered the submission yet"),
            Meaning("False", "SlurmJobEndedEarly", "Slurm ended the job before the binding"),
            Meaning("False", "SlurmJobCancelled", "somebody cancelled the job in Slurm"),
            Meaning("False", "JobUnproven", "a live job may be that of the Pod; nothing proves it"),
            Meaning("False", "VolumeNotReady", "a claim or volume of the Pod cannot be used yet"),
            Meaning("False", "NotReadYet", "what decides about the job has not been read yet"),
        ),
    ),
    ConditionKind(
        DISRUPTION_CONDITION,
        "bound workload Pod",
        (
            Meaning("True", "SlurmJobEnded", "its job, or another Pod of its gang, ended"),
            Meaning("True", "SlurmJobCancelled", "somebody cancelled the job in Slurm"),
            Meaning("True", "PreemptionByScheduler", "another job preempted the job"),
            Meaning("True", "SlurmTimeLimit", "the job reached its time limit"),
            Meaning("True", "SlurmNodeFail", "Slurm took the node of the job for failed"),
            Meaning("True", "SlurmSuspended", "somebody suspended the job"),
        ),
    ),
    ConditionKind(
        TOO_SMALL_CONDITION,
        "bound workload Pod",
        (
            Meaning(
                "True",
                "PodResized",
                "a resize made the Pod larger than its job; without such a resize there is no"
                " condition",
            ),
        ),
    ),
    ConditionKind(
        "Available",
        "NodeSet",
        (
            Meaning("True", "AllAvailable", "all its Pods can be used"),
            Meaning("False", "TooFew", "fewer Pods can be used than it should have"),
        ),
    ),
    ConditionKind(
        "Held",
        "NodeSet",
        (
            Meaning(
                "True",
                "RecordsVanished",
                "more Pods than --max-drains-per-minute lost their records in Slurm, and the"
                " deletion of the others waits; without such Pods there is no condition",
            ),
        ),
    ),
    ConditionKind(
        "Progressing",
        "NodeSet",
        (
            Meaning("True", "Complete", "nothing is left to do"),
            Meaning("True", "Working", "sunk-sync makes, updates or ends Pods"),
            Meaning("False", "InvalidNodeSet", "the NodeSet has a mistake, and nothing is made"),
            Meaning("False", "PodsFail", "Pods failed, or the API server refused them"),
            Meaning(
                "False",
                "NameTaken",
                "another Pod or Slurm node has the name, or another NodeSet wants it",
            ),
            Meaning("False", "InvalidRegistration", "Slurm refuses what slurmd registers"),
            Meaning("False", "PodsNotReady", "Pods are not ready for a minute"),
            Meaning("False", "NotRegistered", "slurmd runs, and slurmctld does not hear from it"),
            Meaning("False", "NoReservation", "the update waits for a reservation"),
            Meaning("False", "DrainedByOthers", "records wait until somebody lifts a drain"),
        ),
    ),
    ConditionKind(
        "TopologyInSync",
        "NodeSet",
        (
            Meaning("True", "InSync", "each Slurm node has the place that its labels give"),
            Meaning("False", "Pending", "slurmctld does not use the places yet"),
            Meaning("False", "Refused", "slurmctld refuses the topology file"),
            Meaning("False", "NoPlace", "labels on Nodes are missing"),
            Meaning("False", "NoScript", "no script beside slurmctld has called"),
            Meaning("False", "ScriptSilent", "the script beside slurmctld calls no more"),
            Meaning("False", "NotSupported", "this Slurm knows no blocks"),
        ),
    ),
)
