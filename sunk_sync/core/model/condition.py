"""Conditions of Kubernetes objects."""

from msgspec import Struct


class Condition(Struct, frozen=True, gc=False):
    """One condition of sunk-sync on a Pod or Node, without lastTransitionTime."""

    type: str
    status: str
    """True, False or Unknown."""
    reason: str
    message: str
