"""The origin of the key of the hook tokens: a file, a Secret, or this process (L5)."""

from typing import Final

from structlog.typing import FilteringBoundLogger

from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.backoff import Ambient, Backoff
from sunk_sync.kube.api.client import Caller
from sunk_sync.kube.write.hooks_key import SecretReference, find_key, keep_key, secret_name
from sunk_sync.server.tokens import KeyFileError, checked_key, new_key
from sunk_sync.settings.model import Settings

TRIES: Final = 8
"""About ten seconds: an API server that answered a moment ago may be busy, not down."""
EVENT: Final = "hooks key is not kept"


def cure_of(place: SecretReference) -> str:
    return (
        f"kubectl -n {place.namespace} create secret generic {place.name}; grant get and patch on"
        " it, as deploy/manifests/roles.yaml does; restart sunk-sync. Or give --hooks-key-file"
    )


def needs_secret(settings: Settings) -> bool:
    """Whether hooks are in use and no file has the key."""
    return settings.hooks_open and settings.hooks_key_file is None


async def kept_key(
    client: Caller,
    settings: Settings,
    *,
    log: FilteringBoundLogger,
    namespace: str,
    ambient: Ambient,
) -> bytes:
    """Return the key in the Secret, made if it is missing; else a key for this process alone."""
    if not needs_secret(settings):
        return new_key()
    place = SecretReference(namespace, secret_name(settings.cluster_name))
    found = await _found(client, place, writes=not settings.dry_run, ambient=ambient)
    try:
        if isinstance(found, KubeError):
            raise KeyFileError(found.why)
        key = checked_key(found, f"Secret {place}")
    except KeyFileError as error:
        log.warning(
            EVENT,
            secret=str(place),
            why=str(error),
            then="running placeholders and the gate cannot call after the next restart",
            cure=cure_of(place),
        )
        return new_key()
    log.info("hooks key", secret=str(place))
    return key


async def _found(
    client: Caller, place: SecretReference, *, writes: bool, ambient: Ambient
) -> bytes | KubeError:
    """Read the key; retry while the failure may be temporary."""
    backoff = Backoff(ambient)
    for _ in range(TRIES - 1):
        found = await _once(client, place, writes=writes)
        if not (isinstance(found, KubeError) and found.passing):
            return found
        await backoff.wait(found.retry_after_s)
    return await _once(client, place, writes=writes)


async def _once(client: Caller, place: SecretReference, *, writes: bool) -> bytes | KubeError:
    return await (keep_key(client, place, make=new_key) if writes else find_key(client, place))
