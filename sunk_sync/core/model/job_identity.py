"""What our placeholder jobs are called in Slurm, and whose a job is (design §6).

A job is ours only if its admin_comment parses and names our cluster and our scheduler; a job id
alone means nothing: slurmctld hands ids out again.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from sunk_sync.core.model.names import MARK_KEY

ADMIN_COMMENT_MAX: Final = 64 << 10
"""Longer texts are nobody's identity: 64 Pods take 4 kB."""
PODS_MAX: Final = 4096
_NAME: Final = "k8s/"
_NAME_MAX: Final = 1024


class Identity(Struct, frozen=True, gc=False, rename={"workload": "work"}):
    """For what a job of ours stands."""

    cluster: str
    """UID of the namespace kube-system."""
    scheduler: str
    """--scheduler-name of the installation that made it."""
    workload: str = ""
    """Id of the workload; empty for an array, whose tasks stand for one Pod each."""
    pods: tuple[str, ...] = ()
    """`namespace/name/uid` of each Pod, sorted; empty for an array."""
    uids: tuple[str, ...] = ()
    """Of an array: task i stands for the Pod with the i-th UID."""
    replaced: bool = False
    """We are about to cancel it ourselves, to submit another (P17)."""
    digest: str = ""
    """Of the description it was submitted with (P20)."""
    hosts: str = ""
    """Digest of the hosts that its exclusions name (P7)."""


class _Envelope(Struct, frozen=True):
    identity: Identity = msgspec.field(name=MARK_KEY)


_decode = msgspec.json.Decoder(_Envelope).decode


def workload_id(uids: Sequence[str]) -> str:
    """Id of the workload that these Pods are: 16 hex digits, a recreated Pod makes another."""
    return hashlib.sha256("\0".join(sorted(uids)).encode(errors="replace")).hexdigest()[:16]


def hosts_digest(names: Sequence[str]) -> str:
    """Of a sorted list of hosts: never empty, though the list may be."""
    return hashlib.sha256("\0".join(names).encode(errors="replace")).hexdigest()[:8]


def job_name(namespace: str, name: str, *, workload: str) -> str:
    """`k8s/<namespace>/<pod>/<8 hex>`; of a gang its first Pod."""
    return f"{_NAME}{namespace}/{name}/{workload[:8]}"[:_NAME_MAX]


def is_named(name: str) -> bool:
    """As we name jobs; a human may have renamed one of ours."""
    return name.startswith(_NAME)


def spell_identity(identity: Identity) -> str:
    """The admin_comment; what is empty is left out."""
    given: dict[str, Any] = {
        key: value for key, value in msgspec.to_builtins(identity).items() if value
    }
    return msgspec.json.encode({MARK_KEY: given}).decode()


def read_identity(admin_comment: str) -> Identity | None:
    """The identity in an admin_comment; None where it is none."""
    if MARK_KEY not in admin_comment or len(admin_comment) > ADMIN_COMMENT_MAX:
        return None
    try:
        identity = _decode(admin_comment.encode(errors="replace")).identity
    except (msgspec.DecodeError, RecursionError):
        return None
    known = len(identity.pods) + len(identity.uids)
    return identity if 0 < known <= PODS_MAX and identity.cluster else None
