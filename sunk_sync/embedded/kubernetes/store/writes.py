"""Writes to one object: create, replace, patch, apply, bind, delete. Refusals are raised."""

from collections.abc import Callable, Mapping
from typing import Any

from sunk_sync.embedded.kubernetes.store import apply
from sunk_sync.embedded.kubernetes.store.defaults import admitted, completed
from sunk_sync.embedded.kubernetes.store.delete import Deletes, held_back
from sunk_sync.embedded.kubernetes.store.kinds import NAMESPACES, NODES, PODS, Object
from sunk_sync.embedded.kubernetes.store.place import Place
from sunk_sync.embedded.kubernetes.store.refusal import (
    RefusalError,
    already_exists,
    bad_request,
    conflict,
    modified,
    not_found,
    without_version,
)
from sunk_sync.embedded.kubernetes.store.store import Store, Stored
from sunk_sync.embedded.kubernetes.store.timers import Clock
from sunk_sync.embedded.kubernetes.store.validate import check_change, check_new

_FROM_OLD = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generateName",
    "generation",
    "managedFields",
    "resourceVersion",
)
_TOPOLOGY = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


class Writes:
    """All writes to a store; `delete` is the one of Deletes."""

    def __init__(self, store: Store, *, clock: Clock, new_uid: Callable[[], str]) -> None:
        self._store = store
        self._clock = clock
        self._new_uid = new_uid
        self.delete = Deletes(store, clock=clock).delete

    def _writing(self, place: Place) -> apply.Writing:
        return apply.Writing(
            kind=place.kind,
            manager=place.manager,
            subresource=place.subresource,
            at=self._clock.text(),
        )

    def _stored(self, place: Place) -> Stored:
        stored = self._store.get(place.kind, place.key)
        if stored is None:
            raise not_found(place.kind, place.name)
        return stored

    def owners_of(self, an_object: Object, place: Place) -> list[Object]:
        return apply.created(an_object, self._writing(place))

    def create(self, place: Place, an_object: Object) -> Stored:
        given = _metadata(an_object)
        _check_namespace(place, given)
        if given.get("resourceVersion"):
            raise RefusalError(
                500, "", "resourceVersion should not be set on objects to be created"
            )
        made, place = self._prepared(place, an_object, given)
        metadata = made["metadata"] | {"managedFields": apply.created(made, self._writing(place))}
        return self._make(place, {**made, "metadata": _tidy(metadata)})

    def _prepared(self, place: Place, an_object: Object, given: Object) -> tuple[Object, Place]:
        kind = place.kind
        self._check_home(place)
        name = given.get("name", "")
        if not name and given.get("generateName"):
            name = given["generateName"] + self._new_uid()[:5]
        place = Place(
            kind=kind,
            namespace=place.namespace,
            name=name,
            subresource=place.subresource,
            manager=place.manager,
        )
        metadata: Object = {"name": name}
        if place.namespace:
            metadata["namespace"] = place.namespace
        metadata |= {"uid": self._new_uid(), "creationTimestamp": self._clock.text()}
        if kind.has_generation:
            metadata["generation"] = 1
        metadata |= {part: given[part] for part in apply.OWNED_METADATA if part in given}
        fresh = {**an_object, "metadata": metadata}
        if kind is not NODES:
            for part in kind.kept_by_main:
                fresh.pop(part, None)
        made = completed(kind, fresh)
        check_new(kind, made)
        return made, place

    def _check_home(self, place: Place) -> None:
        if not place.kind.namespaced:
            return
        home = self._store.get(NAMESPACES, f"/{place.namespace}")
        if home is None:
            raise not_found(NAMESPACES, place.namespace)
        if home.an_object["status"]["phase"] == "Terminating":
            name = place.name
            why = f"unable to create new content in namespace {place.namespace}"
            message = f'{place.kind.qualified} "{name}" is forbidden: {why}'
            details = {"name": name, "kind": place.kind.plural}
            text = f"{message} because it is being terminated"
            raise RefusalError(403, "Forbidden", text, details=details)

    def _make(self, place: Place, made: Object) -> Stored:
        standing = self._store.get(place.kind, place.key)
        if standing is not None:
            ends = "deletionTimestamp" in standing.an_object["metadata"]
            raise already_exists(place.kind, place.name, ends=ends)
        if place.kind is PODS and made["spec"].get("nodeName"):
            made = self._placed(made, made["spec"]["nodeName"])
        return self._store.put(place.kind, place.key, an_object=admitted(place.kind, made))

    def replace(self, place: Place, an_object: Object) -> tuple[Stored, bool]:
        given = _metadata(an_object)
        _check_place(place, given)
        stored = self._store.get(place.kind, place.key)
        if stored is None and place.kind.creates_on_update and not given.get("uid"):
            return self.create(place, an_object), True
        stored = self._stored(place)
        version = given.get("resourceVersion", "")
        if place.kind.needs_version and not version:
            raise without_version(place.kind, place.name)
        self._check_uid(place, stored, given.get("uid", ""))
        return self._change(place, stored, an_object), False

    def _check_uid(self, place: Place, stored: Stored, uid: str) -> None:
        held = stored.an_object["metadata"]["uid"]
        if uid and uid != held:
            folder = "minions" if place.kind is NODES else place.kind.plural
            key = "/".join(part for part in (place.namespace, place.name) if part)
            raise conflict(
                place.kind,
                place.name,
                why=f"StorageError: invalid object, Code: 4, Key: /registry/{folder}/{key},"
                " ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in"
                f" precondition: {uid}, UID in object meta: {held}",
            )

    def patch(self, place: Place, patched: Callable[[Object], Object]) -> Stored:
        """Do a PATCH: `patched` computes the new object from the old one."""
        stored = self._stored(place)
        new = patched(stored.an_object)
        _check_place(place, _metadata(new))
        return self._change(place, stored, new)

    def apply(self, place: Place, config: Object, *, force: bool) -> tuple[Stored, bool]:
        given = _metadata(config)
        _check_place(place, given)
        stored = self._store.get(place.kind, place.key)
        if stored is None:
            return self._apply_new(place, config, given), True
        uid, version = given.get("uid"), given.get("resourceVersion")
        new = apply.applied(stored.an_object, config, writing=self._writing(place), force=force)
        if uid or version:
            new["metadata"] |= {"uid": uid or new["metadata"]["uid"]}
            new["metadata"] |= {"resourceVersion": version or str(stored.version)}
        return self._finish(place, stored, new), False

    def _apply_new(self, place: Place, config: Object, given: Object) -> Stored:
        if place.subresource:
            raise not_found(place.kind, place.name)
        uid = given.get("uid")
        if uid:
            why = f"uid mismatch: the provided object specified uid {uid}"
            raise conflict(place.kind, place.name, why=f"{why}, and no existing object was found")
        if not given.get("name"):
            raise apply.nameless(place.name)
        made, place = self._prepared(place, config, given)
        nothing = {**place.kind.blank, "metadata": {}}
        owned = apply.applied(nothing, config, writing=self._writing(place), force=True)
        metadata = made["metadata"] | {"managedFields": owned["metadata"]["managedFields"]}
        return self._make(place, {**made, "metadata": _tidy(metadata)})

    def _change(self, place: Place, stored: Stored, new: Object) -> Stored:
        old = stored.an_object
        metadata = {**new["metadata"], "name": place.name}
        metadata.pop("namespace", None)
        if place.namespace:
            metadata["namespace"] = place.namespace
        for name in _FROM_OLD[:-1]:
            metadata.pop(name, None)
            if name in old["metadata"]:
                metadata[name] = old["metadata"][name]
        whole = {**new, "metadata": {"uid": old["metadata"]["uid"], **metadata}}
        kept = place.kind.kept_by_status if place.subresource else place.kind.kept_by_main
        for part in kept:
            whole.pop(part, None)
            if part in old:
                whole[part] = old[part]
        whole = completed(place.kind, whole)
        owners = apply.updated(old, whole, writing=self._writing(place))
        whole["metadata"]["managedFields"] = owners
        return self._finish(place, stored, whole)

    def _finish(self, place: Place, stored: Stored, new: Object) -> Stored:
        """Check the new object against the old one; write it unless nothing changes."""
        kind, old = place.kind, stored.an_object
        metadata = new["metadata"]
        if metadata.get("resourceVersion") not in (None, "", str(stored.version)):
            raise modified(kind, place.name)
        new = completed(kind, {**new, "metadata": {**metadata}})
        new["metadata"] = _tidy({**new["metadata"], "resourceVersion": str(stored.version)})
        check_change(kind, old=old, new=new)
        if new == old:
            return stored
        if "generation" in metadata and new["spec"] != old["spec"]:
            new["metadata"]["generation"] = metadata["generation"] + 1
        if "deletionTimestamp" in metadata and not held_back(kind, new):
            self._store.remove(kind, place.key)
            return Stored(new, stored.version)
        return self._store.put(kind, place.key, an_object=new)

    def bind(self, place: Place, binding: Object) -> None:
        """Do a POST of pods/binding: the Pod gets annotations and labels of the Binding."""
        node_name = (binding.get("target") or {}).get("name", "")
        if not node_name:
            raise RefusalError(500, "", "target.name: Required value")
        stored = self._stored(place)
        pod, given = stored.an_object, _metadata(binding)
        self._check_uid(place, stored, given.get("uid", ""))
        why = ""
        if pod["spec"].get("schedulingGates"):
            why = f"pod {place.name} has non-empty .spec.schedulingGates"
        if pod["spec"].get("nodeName"):
            why = f'pod {place.name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        if "deletionTimestamp" in pod["metadata"]:
            why = f"pod {place.name} is being deleted, cannot be assigned to a host"
        if why:
            message = f'Operation cannot be fulfilled on pods/binding "{place.name}": {why}'
            details = {"name": place.name, "kind": "pods/binding"}
            raise RefusalError(409, "Conflict", message, details=details)
        metadata = dict(pod["metadata"])
        for part in ("annotations", "labels"):
            if given.get(part):
                metadata[part] = {**metadata.get(part, {}), **given[part]}
        bound = self._placed({**pod, "metadata": metadata}, node_name)
        self._store.put(PODS, place.key, an_object=self._scheduled(bound))

    def _scheduled(self, pod: Object) -> Object:
        condition = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": self._clock.text(),
        }
        others = pod["status"].get("conditions", [])
        conditions = [*(one for one in others if one["type"] != "PodScheduled"), condition]
        return {**pod, "status": {**pod["status"], "conditions": conditions}}

    def _placed(self, pod: Object, node_name: str) -> Object:
        """Bind the Pod and give it the topology labels of its Node."""
        pod = {**pod, "spec": {**pod["spec"], "nodeName": node_name}}
        node = self._store.get(NODES, f"/{node_name}")
        labels: Mapping[str, Any] = node.an_object["metadata"].get("labels", {}) if node else {}
        topology = {name: labels[name] for name in _TOPOLOGY if name in labels}
        if not topology:
            return pod
        metadata = pod["metadata"]
        metadata = {**metadata, "labels": {**metadata.get("labels", {}), **topology}}
        return {**pod, "metadata": metadata}


def _metadata(an_object: Object) -> Object:
    metadata = an_object.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _check_namespace(place: Place, given: Object) -> None:
    namespace = given.get("namespace", place.namespace)
    if place.kind.namespaced and namespace not in ("", place.namespace):
        what = "the namespace of the provided object does not match the namespace sent on the"
        raise bad_request(f"{what} request")


def _check_place(place: Place, given: Object) -> None:
    name = given.get("name", place.name)
    if name != place.name:
        what = f"the name of the object ({name}) does not match the name on the URL ({place.name})"
        raise bad_request(what)
    _check_namespace(place, given)


def _tidy(metadata: Object) -> Object:
    return {name: value for name, value in metadata.items() if value not in ({}, [], None, "")}
