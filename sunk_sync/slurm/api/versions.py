"""Versions of slurmrestd's API that sunk-sync speaks, and how they differ.

A new version is a row of `DIALECTS`: negotiation, reads, writes, settings and the doctor ask it.
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from sunk_sync.core.model.placeholder import PLACEHOLDERS

_ALL: Final = frozenset(PLACEHOLDERS)
_BEFORE_EXTERNAL: Final = _ALL - {"external"}


class Dialect(Struct, frozen=True):
    """What one version of slurmrestd's data parser can do."""

    conditional_nodes: bool = False
    """`update_time` of GET /nodes/ answers 304; before, a server bug makes it useless."""
    conf: bool = False
    """GET /conf is served."""
    placeholders: frozenset[str] = _BEFORE_EXTERNAL
    """Kinds of placeholder jobs that it makes. POST /job/allocate came first; then the flag
    EXTERNAL_JOB: an unknown flag is an error, and the job is made all the same."""
    topo: bool = True
    """`shared` may be `topo`."""
    undrain_clears_reason: bool = False
    """UNDRAIN empties the reason, even one sent in the same call."""


DIALECTS: Final[Mapping[str, Dialect]] = {
    "v0.0.45": Dialect(
        conditional_nodes=True, conf=True, placeholders=_ALL, undrain_clears_reason=True
    ),
    "v0.0.44": Dialect(placeholders=_ALL),
    "v0.0.43": Dialect(placeholders=_ALL),
    "v0.0.42": Dialect(),
    "v0.0.41": Dialect(),
    "v0.0.40": Dialect(placeholders=frozenset({"script"}), topo=False),
}
"""Newest first: the order of negotiation."""
NEWEST, *_, OLDEST = DIALECTS


def dialect_of(version: str) -> Dialect:
    """What this version can do; of an unknown one nothing special is expected."""
    return DIALECTS.get(version, Dialect())


def first_that(can: Callable[[Dialect], bool]) -> str:
    """The oldest version that can do this."""
    return min(version for version, dialect in DIALECTS.items() if can(dialect))
