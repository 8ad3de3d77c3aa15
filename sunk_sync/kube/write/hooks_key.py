"""The key of the hook tokens in a Secret of its own, so that it outlives the process (L5).

Decision 27 says why the manifests bring the Secret empty, and who may do what with it.
"""

import re
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.client import Caller, Request
from sunk_sync.kube.write.outcomes import is_gone

FIELD: Final = "key"
"""In the data of the Secret."""
MANAGER: Final = "sunk-sync-hooks-key"
_TRIES: Final = 3
_UNFIT: Final = re.compile(r"[^a-z0-9]+")


class SecretReference(Struct, frozen=True):
    """Which Secret."""

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
    """Of the Secret for the Slurm cluster that is called so; labels may hold what names may not."""
    return f"sunk-sync-{_UNFIT.sub('-', cluster_name.lower())}-hooks-key"


async def find_key(client: Caller, place: SecretReference) -> bytes | KubeError:
    """The key in the Secret; empty: the Secret holds none."""
    found = await _read(client, place)
    return found if isinstance(found, KubeError) else _key_in(found)


async def keep_key(
    client: Caller, place: SecretReference, *, make: Callable[[], bytes]
) -> bytes | KubeError:
    """The key in the Secret; made and put there first where the Secret is empty or missing.

    Of two processes that do so at once, the second reads what the first one wrote.
    """
    error = KubeError(kind="answer", status=409, why=f"Secret {place} changes all the time")
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
    """Put it into the Secret of this version and no other; empty: there is none yet."""
    if version:
        filled = {"metadata": {"resourceVersion": version}, "data": {FIELD: key}}
        return Request(
            method="PATCH",
            path=_path(place),
            query=(("fieldManager", MANAGER),),
            body=msgspec.json.encode(filled),
            content_type="application/merge-patch+json",
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
    )


def _path(place: SecretReference) -> str:
    return f"/api/v1/namespaces/{place.namespace}/secrets/{place.name}"
