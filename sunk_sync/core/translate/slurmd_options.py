"""Options of slurmd for a Pod of a NodeSet, and the digests that identify them (N4)."""

import hashlib
from collections.abc import Iterator

from sunk_sync.core.model.node_set import STAMP_PREFIX, Registration, Stamp

DIGEST_LENGTH = 8


def digest(*parts: str) -> str:
    """Return eight hexadecimal digits of these texts."""
    joined = "\0".join(parts).encode(errors="replace")
    return hashlib.sha256(joined).hexdigest()[:DIGEST_LENGTH]


def stamp_of(*, cluster_uid: str, namespace: str, name: str, registration: Registration) -> Stamp:
    """Return the stamp of the records that Pods of this NodeSet make now."""
    return Stamp(digest(cluster_uid, namespace, name), digest(*_shape(registration)))


def read_stamp(feature: str) -> Stamp | None:
    """Return the stamp that this feature of a Slurm node spells; None: it is another feature."""
    if not feature.startswith(STAMP_PREFIX):
        return None
    node_set, _, shape = feature.removeprefix(STAMP_PREFIX).partition(".")
    return Stamp(node_set, shape) if _is_digest(node_set) and _is_digest(shape) else None


def conf_of(registration: Registration, *, name: str, stamp: Stamp) -> str:
    """Return the value of slurmd's option --conf.

    Slurm resets CPUs= alone, so sockets, cores and threads always stand together. A key without a
    value makes the registration invalid, so it is left out. The name of the NodeSet is a feature
    from the first moment: the partitions of slurm.conf can select the nodes by it.
    """
    weight = f"Weight={registration.weight}"
    return " ".join([*_shape(registration), weight, f"Feature={name},{stamp.feature}"])


def _shape(registration: Registration) -> Iterator[str]:
    """Yield all that a record takes from slurmd for good, in a fixed order.

    The weight is not among it: sunk-sync changes it in the record (T2).
    """
    one = registration
    if one.cpus and "Sockets=" not in one.extra:
        yield f"Sockets=1 CoresPerSocket={one.cpus} ThreadsPerCore=1"
    numbers = (
        ("RealMemory", one.memory_mib),
        ("CoreSpecCount", one.reserved_cores),
        ("MemSpecLimit", one.reserved_mib),
    )
    yield from (f"{key}={number}" for key, number in numbers if number)
    gres = [
        ":".join(filter(None, (each.name, each.type, str(each.count)))) for each in one.gres or ()
    ]
    if gres:
        yield f"Gres={','.join(gres)}"
    if one.extra:
        yield one.extra


def _is_digest(text: str) -> bool:
    return len(text) == DIGEST_LENGTH and set(text) <= set("0123456789abcdef")
