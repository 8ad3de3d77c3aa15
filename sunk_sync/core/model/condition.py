"""Conditions of Kubernetes objects."""

from typing import Literal

from msgspec import Struct

ConditionStatus = Literal["True", "False", "Unknown"]
WaitReason = Literal[
    "GangFull",
    "GangIncomplete",
    "InvalidPod",
    "JobUnproven",
    "NotReadYet",
    "SlurmJobAllocated",
    "SlurmJobCancelled",
    "SlurmJobEndedEarly",
    "SlurmJobPending",
    "SlurmRefused",
    "SlurmUnreachable",
    "Unschedulable",
    "VolumeNotReady",
]
"""Reason of PodScheduled while a Pod waits. Autoscalers add Nodes for Unschedulable alone."""


class Condition(Struct, frozen=True, gc=False):
    """One condition of sunk-sync on a Pod or Node, without lastTransitionTime."""

    type: str
    status: ConditionStatus
    reason: str
    message: str
