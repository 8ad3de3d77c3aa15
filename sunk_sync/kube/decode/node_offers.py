"""Decode labels, taints and allocatable of a Node, once for equal bytes."""

from functools import lru_cache
from sys import intern
from typing import Final

import msgspec
from msgspec import Struct

from sunk_sync.core.model import names
from sunk_sync.core.model.facts import Labels
from sunk_sync.core.model.node_lock import TAINT
from sunk_sync.core.model.pod_spec import Offer, Taint
from sunk_sync.core.translate.quantity import counted, nanos
from sunk_sync.kube.decode import wire_pods as shapes
from sunk_sync.kube.decode.strings import cut

OFFERS_KEPT: Final = 16_384
"""More than the Nodes of a large cluster: each has its own set of labels."""
BYTES_KEPT: Final = 32 << 10
"""Longer parts are decoded at each event."""

_decode_labels = msgspec.json.Decoder(dict[str, str] | None).decode
_decode_taints = msgspec.json.Decoder(list[shapes.WireTaint] | None).decode
_decode_amounts = msgspec.json.Decoder(dict[str, str | int | float] | None).decode


class Offered(Struct, frozen=True, gc=False):
    offer: Offer
    ours: Labels


def offered(node: shapes.WireOfferingNode) -> Offered:
    """Decode a Node. Equal bytes give the same object. Raise one of BAD_BYTES."""
    labels = bytes(node.metadata.labels)
    taints = bytes(node.spec.taints)
    allocatable = bytes(node.status.allocatable)
    if len(labels) + len(taints) + len(allocatable) > BYTES_KEPT:
        return _read(labels, taints, allocatable)
    return _kept(labels, taints, allocatable)


def _read(labels: bytes, taints: bytes, allocatable: bytes) -> Offered:
    pairs = tuple(
        _pair(*pair) for pair in sorted((_decode_labels(labels or b"null") or {}).items())
    )
    offer = _once(Offer(pairs, taints_of(taints), _amounts(allocatable)))
    given = dict(pairs)
    return Offered(offer, tuple([given.get(key) for key in names.NODE_LABELS]))


_kept = lru_cache(maxsize=OFFERS_KEPT)(_read)


@lru_cache(maxsize=OFFERS_KEPT)
def _once(offer: Offer) -> Offer:
    """Share one object for equal offers with different bytes."""
    return offer


@lru_cache(maxsize=4096)
def _pair(key: str, value: str) -> tuple[str, str]:
    return intern(key), intern(cut(value))


@lru_cache(maxsize=1024)
def taints_of(content: bytes) -> tuple[Taint, ...]:
    taints = _decode_taints(content or b"null") or ()
    return tuple(Taint(intern(one.key), intern(one.effect), cut(one.value)) for one in taints)


def is_tainted(content: bytes) -> bool:
    """Whether the taint of the lock is among these taints."""
    return TAINT in taints_of(content)


@lru_cache(maxsize=4096)
def _amounts(content: bytes) -> tuple[tuple[str, int], ...]:
    amounts = _decode_amounts(content or b"null") or {}
    return tuple(
        (intern(resource), counted(resource, nanos(str(amount))))
        for resource, amount in sorted(amounts.items())
    )
