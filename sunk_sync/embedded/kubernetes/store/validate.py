"""Validation of objects, with the error texts of the API server."""

import re
from typing import Any

from sunk_sync.embedded.kubernetes.store.kinds import Kind, Object
from sunk_sync.embedded.kubernetes.store.refusal import (
    StatusCause,
    bad_value,
    forbidden,
    invalid,
    required,
)

_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_label_name = re.compile(_LABEL_NAME).fullmatch
_is_qualified = re.compile(_QUALIFIED).fullmatch
_is_value = re.compile(_VALUE).fullmatch

_BAD_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
    " '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used"
    f" for validation is '{_SUBDOMAIN}')"
)
_BAD_LABEL_NAME = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and"
    " must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used"
    f" for validation is '{_LABEL_NAME}')"
)
_BAD_NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end"
    " with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for"
    f" validation is '{_QUALIFIED}')"
)
_BAD_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or"
    " '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',"
    f"  or '12345', regex used for validation is '{_VALUE}')"
)
_NAME_LENGTH_MAX = 253
_LABEL_LENGTH_MAX = 63
_POD_SPEC = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only"
    " additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set"
    " to 1 if it was previously negative)"
)
_MUTABLE = (
    "activeDeadlineSeconds",
    "schedulingGates",
    "terminationGracePeriodSeconds",
    "tolerations",
)


def check_new(kind: Kind, an_object: Object) -> None:
    """Raise RefusalError 422 if the object cannot be created."""
    metadata = an_object["metadata"]
    name = metadata.get("name", "")
    causes = [*_name(kind, name), *_metadata(metadata)]
    if kind.name == "Pod":
        causes += [*_containers(an_object["spec"]), *_gates(an_object["spec"])]
    if kind.name == "Event":
        causes += _event(an_object)
    if causes:
        raise invalid(kind, name, causes=causes)


def check_change(kind: Kind, *, old: Object, new: Object) -> None:
    """Raise RefusalError 422 if the object cannot change in this way."""
    was, now = old["metadata"], new["metadata"]
    causes: list[StatusCause] = []
    if now.get("uid", was["uid"]) != was["uid"]:
        causes += [bad_value("metadata.uid", now["uid"], why="field is immutable")] * 2
    for part in ("labels", "annotations"):
        if now.get(part) is not was.get(part):
            causes += _metadata({part: now.get(part)})
    if kind.name == "Pod" and old["spec"] is not new["spec"]:
        causes += _pod_spec(old["spec"], new["spec"])
    if causes:
        raise invalid(kind, was["name"], causes=causes)


def _name(kind: Kind, name: str) -> list[StatusCause]:
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    if kind.name == "Namespace":
        fits = _is_label_name(name)
        why = "must not contain dots" if "." in name else _BAD_LABEL_NAME
    else:
        fits, why = _is_subdomain(name), _BAD_SUBDOMAIN
    if len(name) > _NAME_LENGTH_MAX:
        why = f"must be no more than {_NAME_LENGTH_MAX} bytes"
        return [bad_value("metadata.name", name, why=why)]
    return [] if fits else [bad_value("metadata.name", name, why=why)]


def _metadata(metadata: Object) -> list[StatusCause]:
    causes = []
    for key, value in sorted((metadata.get("labels") or {}).items()):
        causes += _qualified("metadata.labels", key)
        if not _is_value(value):
            causes.append(bad_value("metadata.labels", value, why=_BAD_VALUE))
        elif len(value) > _LABEL_LENGTH_MAX:
            why = f"must be no more than {_LABEL_LENGTH_MAX} bytes"
            causes.append(bad_value("metadata.labels", value, why=why))
    for key in sorted(metadata.get("annotations") or {}):
        causes += _qualified("metadata.annotations", key)
    return causes


def _qualified(field: str, key: str) -> list[StatusCause]:
    prefix, slash, name = key.rpartition("/")
    causes = []
    if slash and not _is_subdomain(prefix):
        causes.append(bad_value(field, key, why=f"prefix part {_BAD_SUBDOMAIN}"))
    if not _is_qualified(name):
        causes.append(bad_value(field, key, why=_BAD_NAME_PART))
    elif len(name) > _LABEL_LENGTH_MAX:
        why = f"name part must be no more than {_LABEL_LENGTH_MAX} bytes"
        causes.append(bad_value(field, key, why=why))
    return causes


def _event(event: Object) -> list[StatusCause]:
    """Check that an Event is in the namespace of its object; `default` for objects without one."""
    where = event["metadata"].get("namespace", "")
    involved = event.get("involvedObject", {}).get("namespace", "")
    field = "involvedObject.namespace"
    if involved and involved != where:
        return [bad_value(field, involved, why="does not match event.namespace")]
    if not involved and where not in ("default", "kube-system"):
        return [bad_value(field, involved, why="does not match event.namespace")]
    return []


def _containers(spec: Object) -> list[StatusCause]:
    containers = spec.get("containers") or []
    if not containers:
        return [required("spec.containers")]
    return [
        required(f"spec.containers[{number}].image")
        for number, container in enumerate(containers)
        if not container.get("image")
    ]


def _gates(spec: Object) -> list[StatusCause]:
    if spec.get("nodeName") and spec.get("schedulingGates"):
        why = "cannot be set until all schedulingGates have been cleared"
        return [forbidden("spec.nodeName", why)]
    return []


def _pod_spec(old: Object, new: Object) -> list[StatusCause]:
    if missing := _containers(new):
        return missing
    gates = new.get("schedulingGates") or []
    if any(gate not in (old.get("schedulingGates") or []) for gate in gates):
        return [forbidden("spec.schedulingGates", "only deletion is allowed")]
    if _frozen(old) == _frozen(new):
        return []
    return [forbidden("spec", _POD_SPEC)]


def _frozen(spec: Object) -> dict[str, Any]:
    frozen = {name: value for name, value in spec.items() if name not in _MUTABLE}
    for part in ("containers", "initContainers"):
        listed = frozen.get(part) or []
        frozen[part] = [{**container, "image": ""} for container in listed]
    return frozen
