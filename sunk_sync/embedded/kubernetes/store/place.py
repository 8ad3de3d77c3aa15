"""The target of a write, and the options of a deletion."""

from msgspec import Struct

from sunk_sync.embedded.kubernetes.store.kinds import Key, Kind


class Place(Struct, frozen=True, kw_only=True):
    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    manager: str = "unknown"

    @property
    def key(self) -> Key:
        return f"{self.namespace}/{self.name}"


class DeleteOptions(Struct, frozen=True, kw_only=True):
    grace_s: int | None = None
    uid: str = ""
    resource_version: str = ""
