"""Versions of slurmrestd's API that sunk-sync supports, and how they differ.

A new version is a row of `DIALECTS`. Negotiation, reads, writes, settings and the doctor use it.
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from sunk_sync.core.model.placeholder import PLACEHOLDERS

_ALL: Final = frozenset(PLACEHOLDERS)
_BEFORE_EXTERNAL: Final = _ALL - {"external"}


class Dialect(Struct, frozen=True):
    """Capabilities of one version of slurmrestd's data parser."""

    conditional_nodes: bool = False
    """GET /nodes/ with `update_time` can answer 304; a bug of older servers makes that useless."""
    conf: bool = False
    """GET /conf is served."""
    placeholders: frozenset[str] = _BEFORE_EXTERNAL
    """Kinds of placeholder jobs that it supports. POST /job/allocate came first, then the flag
    EXTERNAL_JOB. An unknown flag is an error, but Slurm makes the job nevertheless."""
    topo: bool = True
    """`shared` may be `topo`."""
    reservations: bool = False
    """POST /reservation is served."""
    requeue: bool = False
    """POST /jobs/requeue is served."""
    undrain_clears_reason: bool = False
    """UNDRAIN empties the reason, even a reason in the same call."""


DIALECTS: Final[Mapping[str, Dialect]] = {
    "v0.0.45": Dialect(
        conditional_nodes=True,
        conf=True,
        placeholders=_ALL,
        reservations=True,
        requeue=True,
        undrain_clears_reason=True,
    ),
    "v0.0.44": Dialect(placeholders=_ALL, reservations=True),
    "v0.0.43": Dialect(placeholders=_ALL, reservations=True),
    "v0.0.42": Dialect(),
    "v0.0.41": Dialect(),
    "v0.0.40": Dialect(placeholders=frozenset({"script"}), topo=False),
}
"""In the order of negotiation, newest first."""
NEWEST, *_, OLDEST = DIALECTS


def dialect_of(version: str) -> Dialect:
    """Return the capabilities of this version; an unknown version gets the defaults."""
    return DIALECTS.get(version, Dialect())


def first_that(can: Callable[[Dialect], bool]) -> str:
    """Return the oldest version with this capability."""
    return min(version for version, dialect in DIALECTS.items() if can(dialect))
