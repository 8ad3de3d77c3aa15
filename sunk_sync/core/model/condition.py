"""Conditions of Kubernetes objects."""

from typing import Literal

from msgspec import Struct

ConditionStatus = Literal["True", "False", "Unknown"]


class Condition(Struct, frozen=True, gc=False):
    """One condition of sunk-sync on a Pod or Node, without lastTransitionTime."""

    type: str
    status: ConditionStatus
    reason: str
    message: str
