"""What others say about a Node by taints and conditions: it is about to go, or it is ill (S21)."""

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

SignKind = Literal["taint", "condition"]

GOING: Final = (
    ("ToBeDeletedByClusterAutoscaler", ""),
    ("karpenter.sh/disrupted", ""),
    ("karpenter.sh/disruption", ""),
    ("node.kubernetes.io/out-of-service", ""),
    ("node.cloudprovider.kubernetes.io/shutdown", ""),
    ("cloud.google.com/impending-node-termination", ""),
    ("aws-node-termination-handler/spot-itn", ""),
    ("aws-node-termination-handler/scheduled-maintenance", ""),
    ("aws-node-termination-handler/asg-lifecycle-termination", ""),
)
"""Taints of autoscalers and clouds on a Node that is about to go: key, value (empty: any)."""


class Sign(Struct, frozen=True, gc=False):
    """A taint that keeps Pods away, or a condition, of somebody else.

    Taints and conditions of Kubernetes itself, which repeat Node.unschedulable and Node.ready or
    name a pressure, are none. Source: watch of Nodes.
    """

    kind: SignKind
    name: str
    """Key of the taint, type of the condition."""
    value: str
    """Value of the taint, status of the condition."""
    why: str = ""
    """Reason of the condition."""

    @property
    def words(self) -> str:
        text = f"{self.name}={self.value}" if self.value else self.name
        return f"{text} ({self.why})" if self.why else text


Signs = tuple[Sign, ...]
NO_SIGNS: Signs = ()


def first_sign(signs: Signs, kind: SignKind, *, wanted: Sequence[tuple[str, str]]) -> Sign | None:
    """Return the first sign of this kind that is wanted; an empty wanted value is any value."""
    for one in signs:
        if one.kind == kind and ((one.name, "") in wanted or (one.name, one.value) in wanted):
            return one
    return None
