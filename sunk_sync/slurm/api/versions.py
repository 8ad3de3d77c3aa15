"""Versions of slurmrestd's API that sunk-sync speaks, and how they differ.

A new version is a row of `DIALECTS`: negotiation, reads, writes, settings and the doctor ask it.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct


class Dialect(Struct, frozen=True):
    """What one version of slurmrestd's data parser can do."""

    allocates: bool = True
    """POST /job/allocate is served."""
    conditional_nodes: bool = False
    """`update_time` of GET /nodes/ answers 304; before, a server bug makes it useless."""
    conf: bool = False
    """GET /conf is served."""
    external_jobs: bool = False
    """Flag EXTERNAL_JOB is known: an unknown one is an error, and the job is made all the same."""
    topo: bool = True
    """`shared` may be `topo`."""
    undrain_clears_reason: bool = False
    """UNDRAIN empties the reason, even one sent in the same call."""


DIALECTS: Final[Mapping[str, Dialect]] = {
    "v0.0.45": Dialect(
        conditional_nodes=True, conf=True, external_jobs=True, undrain_clears_reason=True
    ),
    "v0.0.44": Dialect(external_jobs=True),
    "v0.0.43": Dialect(external_jobs=True),
    "v0.0.42": Dialect(),
    "v0.0.41": Dialect(),
    "v0.0.40": Dialect(allocates=False, topo=False),
}
"""Newest first: the order of negotiation."""
NEWEST, *_, OLDEST = DIALECTS


def dialect_of(version: str) -> Dialect:
    """What this version can do; of an unknown one nothing special is expected."""
    return DIALECTS.get(version, Dialect())


def first_with(ability: str) -> str:
    """The oldest version that has this ability."""
    return min(version for version, dialect in DIALECTS.items() if getattr(dialect, ability))
