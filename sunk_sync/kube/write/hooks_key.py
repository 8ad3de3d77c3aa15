"""Keep the key of the hook tokens in a Secret, so that it survives a restart (L5).

Decision 27 explains why the manifests create the Secret empty, and the permissions on it.
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.client import Caller, Request
from sunk_sync.kube.write.lease import own_object_name
from sunk_sync.kube.write.outcomes import is_gone

FIELD: Final = "key"
MANAGER: Final = "sunk-sync-hooks-key"
_TRIES: Final = 3


class SecretReference(Struct, frozen=True):
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class _SecretMeta(Struct, frozen=True):
    version: str = msgspec.field(name="resourceVersion")


class _Secret(Struct, frozen=True):
    metadata: _SecretMeta
    data: dict[str, bytes] | None = None


_decode = msgspec.json.Decoder(_Secret).decode


def secret_name(cluster_name: str) -> str:
    """Return the name of the Secret for a Slurm cluster."""
    return f"{own_object_name(cluster_name)}-hooks-key"


async def find_key(client: Caller, place: SecretReference) -> bytes | KubeError:
    """Read the key; empty if the Secret has none."""
    found = await _read(client, place)
    return found if isinstance(found, KubeError) else _key_in(found)


async def keep_key(
    client: Caller, place: SecretReference, *, make: Callable[[], bytes]
) -> bytes | KubeError:
    """Read the key; if the Secret is empty or missing, make a key and store it first.

    If two processes do so at once, the second reads the key of the first.
    """
    error = KubeError(kind="answer", status=409, why=f"other clients keep changing Secret {place}")
    for _ in range(_TRIES):
        found = await _read(client, place)
        if isinstance(found, KubeError) and not is_gone(found):
            return found
        version = "" if isinstance(found, KubeError) else found.metadata.version
        key = b"" if isinstance(found, KubeError) else _key_in(found)
        if key:
            return key
        key = make()
        written = await client.call(_put(place, key, version=version), _decode)
        if not isinstance(written, KubeError):
            return key
        error = written
        if written.status != 409:
            break
    return error


async def _read(client: Caller, place: SecretReference) -> _Secret | KubeError:
    return await client.call(Request(path=_path(place)), _decode)


def _key_in(secret: _Secret) -> bytes:
    return (secret.data or {}).get(FIELD, b"").strip()


def _put(place: SecretReference, key: bytes, *, version: str) -> Request:
    """Store the key in the Secret of exactly this version; empty: create the Secret.

    Every replica may do so: the API server takes only the first key.
    """
    if version:
        filled = {"metadata": {"resourceVersion": version}, "data": {FIELD: key}}
        return Request(
            method="PATCH",
            path=_path(place),
            query=(("fieldManager", MANAGER),),
            body=msgspec.json.encode(filled),
            content_type="application/merge-patch+json",
            by_anyone=True,
        )
    made = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": place.name},
        "type": "Opaque",
        "data": {FIELD: key},
    }
    return Request(
        method="POST",
        path=_path(place).rpartition("/")[0],
        query=(("fieldManager", MANAGER),),
        body=msgspec.json.encode(made),
        by_anyone=True,
    )


def _path(place: SecretReference) -> str:
    return f"/api/v1/namespaces/{place.namespace}/secrets/{place.name}"
