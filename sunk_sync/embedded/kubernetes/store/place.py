"""Where a write goes, and what a deletion may say."""

from msgspec import Struct

from sunk_sync.embedded.kubernetes.store.kinds import Key, Kind


class Place(Struct, frozen=True, kw_only=True):
    """Where a write goes, and by whom."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    manager: str = "unknown"

    @property
    def key(self) -> Key:
        """Where the object stands among its kind."""
        return f"{self.namespace}/{self.name}"


class DeleteOptions(Struct, frozen=True, kw_only=True):
    """What a DELETE may say."""

    grace_s: int | None = None
    uid: str = ""
    resource_version: str = ""
