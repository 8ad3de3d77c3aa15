"""Jobs that look like those of sunk-sync, while their own texts prove nothing (P23)."""

from typing import Literal

from msgspec import Struct

from sunk_sync.core.model.job_identity import Identity


class Claim(Struct, frozen=True, gc=False):
    """A job that looks like one of sunk-sync, while its own texts do not prove whose it is."""

    job_id: str
    name: str
    identity: Identity | None
    """In its command line, which its user chose; None: only its name says something."""
    user_id: int
    trusted: bool
    """Its user is root, or the user of our token."""
    live: bool


Vouched = Identity | Literal["foreign", "unknown"]
"""What the Pods say of a claim: unknown while they are not known."""


class Claims(Struct, frozen=True, gc=False):
    """All claims that no Pod proves or disproves, from the latest listing of jobs."""

    claims: tuple[Claim, ...]
