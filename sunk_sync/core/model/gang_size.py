"""The size of a gang, as its PodGroup or Job names it."""

from msgspec import Struct

from sunk_sync.core.model.pod_spec import GangKind


class GangSize(Struct, frozen=True, gc=False):
    """Number of members of a gang, from its PodGroup or Job (G1)."""

    kind: GangKind
    namespace: str
    name: str
    size: int
    """0: unknown, `why` says so."""
    why: str
    asked_s: float
    owner: str = ""
    """UID of the Job."""
    succeeded: int = 0
    """Ranks of the Job that have succeeded."""
