"""Requests of a slurmd Pod (P28), cached: all Pods of one NodeSet request the same."""

from collections.abc import Sequence
from functools import lru_cache
from sys import intern

import msgspec

from sunk_sync.core.translate.quantity import amounts_of, counted, pod_requests
from sunk_sync.kube.api.answers import BAD_BYTES
from sunk_sync.kube.decode import wire_hosts
from sunk_sync.kube.decode import wire_pods as workload

SEPARATOR = b"\0"
"""JSON never contains this byte."""

_decode_resources = msgspec.json.Decoder(workload.WireResources | None).decode


def requests_of(
    containers: Sequence[wire_hosts.WireSlurmdContainer],
) -> tuple[tuple[str, int], ...]:
    """Return pairs of resource and amount, sorted; empty if unreadable."""
    return _read(SEPARATOR.join([bytes(one.resources) for one in containers]))


@lru_cache(maxsize=1024)
def _read(resources: bytes) -> tuple[tuple[str, int], ...]:
    try:
        asked = [_decode_resources(one or b"null") for one in resources.split(SEPARATOR)]
        amounts = pod_requests(
            containers=[amounts_of(one.requests if one else None) for one in asked],
            init_containers=(),
            pod_level={},
            overhead={},
        )
    except BAD_BYTES:
        return ()
    whole = ((resource, counted(resource, amount)) for resource, amount in amounts.items())
    return tuple(sorted((intern(name), one) for name, one in whole if one > 0))
