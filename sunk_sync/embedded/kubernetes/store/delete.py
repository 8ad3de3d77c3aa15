"""Deletion of objects: grace period, finalizers, preconditions."""

from sunk_sync.embedded.kubernetes.store.kinds import NAMESPACES, PODS, Kind, Object
from sunk_sync.embedded.kubernetes.store.place import DeleteOptions, Place
from sunk_sync.embedded.kubernetes.store.refusal import not_found, precondition
from sunk_sync.embedded.kubernetes.store.store import Store, Stored
from sunk_sync.embedded.kubernetes.store.timers import Clock

_ENDED = ("Succeeded", "Failed")


class Deletes:
    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def delete(self, place: Place, options: DeleteOptions) -> tuple[Stored, bool]:
        """Return the object after the DELETE, and whether it is gone."""
        kind, stored = place.kind, self._store.get(place.kind, place.key)
        if stored is None:
            raise not_found(kind, place.name)
        _check_preconditions(place, stored, options)
        grace_s = _grace_s(kind, stored.an_object, options)
        metadata = stored.an_object["metadata"]
        if "deletionTimestamp" in metadata:
            return self._delete_again(place, stored, grace_s=grace_s)
        if kind in (PODS, NAMESPACES) or metadata.get("finalizers"):
            stored = self._mark(place, stored, grace_s=grace_s)
            if held_back(kind, stored.an_object):
                return stored, False
        return self._store.remove(kind, place.key), True

    def _delete_again(self, place: Place, stored: Stored, *, grace_s: int) -> tuple[Stored, bool]:
        """Shorten the grace period; a second DELETE cannot extend it."""
        waits_s = stored.an_object["metadata"].get("deletionGracePeriodSeconds", 0)
        if grace_s < waits_s:
            stored = self._mark(place, stored, grace_s=grace_s)
        if held_back(place.kind, stored.an_object):
            return stored, False
        return self._store.remove(place.kind, place.key), True

    def _mark(self, place: Place, stored: Stored, *, grace_s: int) -> Stored:
        old = stored.an_object
        first = "deletionTimestamp" not in old["metadata"]
        metadata = {**old["metadata"], "deletionTimestamp": self._clock.text(later_s=grace_s)}
        if place.kind is not NAMESPACES:
            metadata["deletionGracePeriodSeconds"] = grace_s
        if place.kind.has_generation:
            metadata["generation"] = metadata["generation"] + first
        marked = {**old, "metadata": metadata}
        if place.kind is NAMESPACES:
            marked["status"] = {**old["status"], "phase": "Terminating"}
        return self._store.put(place.kind, place.key, an_object=marked)


def held_back(kind: Kind, an_object: Object) -> bool:
    metadata = an_object["metadata"]
    if kind is NAMESPACES:
        return bool(an_object["spec"].get("finalizers"))
    waits = metadata.get("deletionGracePeriodSeconds", 0) > 0
    return waits or bool(metadata.get("finalizers"))


def _grace_s(kind: Kind, an_object: Object, options: DeleteOptions) -> int:
    """Return the grace period; 0 unless the object is a Pod that runs on a Node."""
    if kind is not PODS:
        return 0
    spec = an_object["spec"]
    if not spec.get("nodeName") or an_object["status"].get("phase") in _ENDED:
        return 0
    if options.grace_s is not None:
        return max(options.grace_s, 0)
    return int(spec["terminationGracePeriodSeconds"])


def _check_preconditions(place: Place, stored: Stored, options: DeleteOptions) -> None:
    uid, version = stored.an_object["metadata"]["uid"], str(stored.version)
    if options.uid and options.uid != uid:
        why = f"the UID in the precondition ({options.uid}) does not match the UID in record"
        rest = f"({uid}). The object might have been deleted and then recreated"
        raise precondition(place.kind, place.name, why=f"{why} {rest}")
    wanted = options.resource_version
    if wanted and wanted != version:
        why = f"the ResourceVersion in the precondition ({wanted}) does not match the"
        rest = f"ResourceVersion in record ({version}). The object might have been modified"
        raise precondition(place.kind, place.name, why=f"{why} {rest}")
