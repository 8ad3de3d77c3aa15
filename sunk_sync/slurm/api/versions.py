"""Versions of slurmrestd's API that sunk-sync speaks, newest first, and how they differ."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct


class Dialect(Struct, frozen=True):
    """What one version of slurmrestd's data parser can do."""

    conditional_nodes: bool = False
    """`update_time` of GET /nodes/ answers 304; before, a server bug makes it useless."""
    conf: bool = False
    """GET /conf is served."""
    undrain_clears_reason: bool = False
    """UNDRAIN empties the reason, even one sent in the same call."""


DIALECTS: Final[Mapping[str, Dialect]] = {
    "v0.0.45": Dialect(conditional_nodes=True, conf=True, undrain_clears_reason=True),
    "v0.0.44": Dialect(),
    "v0.0.43": Dialect(),
    "v0.0.42": Dialect(),
    "v0.0.41": Dialect(),
    "v0.0.40": Dialect(),
}
"""Newest first: the order of negotiation."""


def dialect_of(version: str) -> Dialect:
    """What this version can do; of an unknown one nothing special is expected."""
    return DIALECTS.get(version, Dialect())
