"""The names of placeholder jobs in Slurm, and the identity of a job (design §6).

Two texts of a job hold its identity: the first word of its command line, which Slurm lets nobody
change, and its admin_comment, which also holds what changes later. A job belongs to sunk-sync if
one of them names this cluster and scheduler. The job id alone is no proof: slurmctld reuses ids.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from sunk_sync.core.model.names import MARK_KEY

ADMIN_COMMENT_MAX: Final = 64 << 10
"""A longer admin_comment is no identity: 64 Pods take 4 kB."""
PODS_MAX: Final = 4096
_NAME: Final = "k8s/"
_NAME_MAX: Final = 1024


class Identity(Struct, frozen=True, gc=False, rename={"workload": "work"}):
    """The workload that a placeholder job stands for."""

    cluster: str
    """UID of the namespace kube-system."""
    scheduler: str
    """--scheduler-name of the installation that submitted the job."""
    workload: str = ""
    """Empty for an array: each of its tasks stands for one Pod."""
    pods: tuple[str, ...] = ()
    """`namespace/name/uid` of each Pod, sorted; empty for an array."""
    uids: tuple[str, ...] = ()
    """For an array: task i stands for the Pod with the i-th UID."""
    replaced: bool = False
    """sunk-sync is about to cancel the job itself and to submit another (P17)."""
    digest: str = ""
    """Digest of the submitted description (P20)."""
    hosts: str = ""
    """Digest of the excluded hosts, and of those that a gang must get (P7)."""
    name: str = ""
    """The name that sunk-sync gave the job: a person may have renamed it. Empty: not noted."""


class _Envelope(Struct, frozen=True):
    identity: Identity = msgspec.field(name=MARK_KEY)


_decode = msgspec.json.Decoder(_Envelope).decode


def workload_id(uids: Sequence[str]) -> str:
    """Return 16 hex digits; a recreated Pod makes another id."""
    return hashlib.sha256("\0".join(sorted(uids)).encode(errors="replace")).hexdigest()[:16]


def hosts_digest(excluded: Sequence[str], *, required: Sequence[str] = ()) -> str:
    """Return the digest of sorted lists of hosts; not empty for empty lists."""
    names = (*excluded, "", *required) if required else excluded
    return hashlib.sha256("\0".join(names).encode(errors="replace")).hexdigest()[:8]


def job_name(namespace: str, name: str, *, workload: str) -> str:
    """Return `k8s/<namespace>/<pod>/<8 hex>`; for a gang the first Pod."""
    return f"{_NAME}{namespace}/{name}/{workload[:8]}"[:_NAME_MAX]


def given_name(name: str, identity: Identity) -> str:
    """Return the name that sunk-sync gave the job whose name is `name` now."""
    return identity.name or name


def is_named(name: str) -> bool:
    """Whether the job has a name that sunk-sync gives; a user may have renamed one of its jobs."""
    return name.startswith(_NAME)


def spell_identity(identity: Identity) -> str:
    """Return the text for admin_comment and command line, without empty fields."""
    given: dict[str, Any] = {
        key: value for key, value in msgspec.to_builtins(identity).items() if value
    }
    return msgspec.json.encode({MARK_KEY: given}).decode()


def read_identity(text: str) -> Identity | None:
    """Return the identity in an admin_comment or a command line; None: there is none."""
    if MARK_KEY not in text or len(text) > ADMIN_COMMENT_MAX:
        return None
    try:
        identity = _decode(text.encode(errors="replace")).identity
    except (msgspec.DecodeError, RecursionError):
        return None
    known = len(identity.pods) + len(identity.uids)
    return identity if 0 < known <= PODS_MAX and identity.cluster else None
