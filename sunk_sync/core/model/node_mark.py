"""The mark in the comment of a Slurm node names its Node and slurmd Pod (M8).

After a restart only the mark names a Pod or Node that was deleted meanwhile.
"""

from sys import intern

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from sunk_sync.core.model.names import MARK_KEY


class Mark(Struct, frozen=True, gc=False):
    """Node and slurmd Pod of one Slurm node in the Kubernetes cluster `cluster`."""

    cluster: str
    node: str = ""
    namespace: str = ""
    pod: str = ""
    uid: str = ""
    set_features: tuple[str, ...] | UnsetType = UNSET
    """Features of the Slurm node that sunk-sync set, sorted (T1)."""

    @property
    def features(self) -> tuple[str, ...]:
        return () if self.set_features is UNSET else self.set_features

    def with_features(self, features: tuple[str, ...]) -> "Mark":
        return replace(self, set_features=tuple(sorted(features)) or UNSET)


class _Comment(Struct, frozen=True, rename={"mark": MARK_KEY}):
    mark: Mark


_decode = msgspec.json.Decoder(_Comment).decode
_encode = msgspec.json.Encoder().encode


def mark_text(mark: Mark) -> str:
    return _encode(_Comment(mark)).decode()


def parse_mark(comment: str) -> Mark | None:
    """Return the mark in a comment, of any cluster; None: there is none."""
    if not comment.startswith("{"):
        return None
    try:
        mark = _decode(comment.encode()).mark
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    place = (intern(mark.cluster), intern(mark.node), intern(mark.namespace))
    return Mark(*place, mark.pod, mark.uid, mark.set_features)
