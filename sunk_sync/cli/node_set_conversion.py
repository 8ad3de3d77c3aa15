"""A NodeSet of another operator on its way to one of sunk-sync: what is taken, what is left out."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from msgspec import Struct

Object = dict[str, Any]
Take = Callable[["Conversion", "Field"], None]
"""Takes a field into the result, or leaves it out."""

SLURMD = "slurmd"
COMPONENT = "app.kubernetes.io/component"
NAME = re.compile(r"[a-z]([-a-z0-9]{0,48}[a-z0-9])?")
OWN_WORDS = re.compile(r"-[ZN]|--conf(=.*)?")
"""Arguments of slurmd that sunk-sync adds."""
WITH_A_VALUE = ("-N", "--conf")
OURS_ALONE = "sunk-sync sets it"
POD_FIELDS = {
    "hostname": OURS_ALONE,
    "subdomain": OURS_ALONE,
    "nodeName": "use nodeSelector: it would put every Pod on one Node",
    "activeDeadlineSeconds": "it would end slurmd under running jobs",
}
"""Fields of a Pod that the kind refuses → what to do instead."""
KEPT_METADATA = ("name", "namespace", "labels", "annotations")
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Field(Struct, frozen=True):
    path: str
    value: Any


class LeftOut(Struct, frozen=True):
    path: str
    instead: str
    """What to do instead."""


class Conversion:
    """The result so far. `leave` names a field that has no counterpart."""

    def __init__(self, source: Object) -> None:
        self.left: list[LeftOut] = []
        self.spec: Object = {}
        self.pod: Object = {}
        self._pod_metadata: Object = {}
        self._metadata = _metadata(source.get("metadata") or {})

    def leave(self, path: str, instead: str) -> None:
        self.left.append(LeftOut(path, instead))

    @property
    def name(self) -> str:
        namespace = self._metadata.get("namespace")
        name = self._metadata.get("name", "")
        return f"{namespace}/{name}" if namespace else str(name)

    @property
    def features(self) -> Object:
        """The field `features` of the result; made if it is missing."""
        made: Object = self.spec.setdefault("features", {})
        return made

    @property
    def slurmd(self) -> Object:
        """The container slurmd; made if it is missing."""
        containers: list[Object] = self.pod.setdefault("containers", [])
        for container in containers:
            if container.get("name") == SLURMD:
                return container
        containers.insert(0, {"name": SLURMD})
        return containers[0]

    def take_pod(self, path: str, template: Object) -> None:
        """Take a PodTemplateSpec."""
        metadata = mapping(template.get("metadata"))
        for name in ("labels", "annotations"):
            if metadata.get(name):
                self._pod_metadata[name] = dict(metadata[name])
        if self._pod_metadata.get("labels", {}).get(COMPONENT, SLURMD) != SLURMD:
            del self._pod_metadata["labels"][COMPONENT]
            self.leave(f"{path}.metadata.labels[{COMPONENT}]", OURS_ALONE)
        self.pod.update(mapping(template.get("spec")))
        self._drop_refused(f"{path}.spec")

    def _drop_refused(self, path: str) -> None:
        for name, instead in POD_FIELDS.items():
            if self.pod.pop(name, None) is not None:
                self.leave(f"{path}.{name}", instead)
        if self.pod.pop("restartPolicy", "Always") != "Always":
            self.leave(f"{path}.restartPolicy", "it is always Always")

    def result(self) -> Object:
        self._check_name()
        slurmd = self.slurmd
        if slurmd.get("args"):
            slurmd["args"] = list(self._own_args(slurmd["args"]))
        template: Object = {"metadata": self._pod_metadata} if self._pod_metadata else {}
        return {
            "apiVersion": "sunk-sync.dev/v1alpha1",
            "kind": "NodeSet",
            "metadata": self._metadata,
            "spec": {**self.spec, "template": {**template, "spec": self.pod}},
        }

    def _own_args(self, words: Iterable[str]) -> Iterator[str]:
        skipping = False
        for word in words:
            if not skipping and not OWN_WORDS.fullmatch(str(word)):
                yield word
            elif not skipping:
                self.leave(f"args of slurmd: {word}", "sunk-sync adds -Z, -N and --conf")
            skipping = not skipping and word in WITH_A_VALUE

    def _check_name(self) -> None:
        prefix = self.spec.get("podNamePrefix") or self._metadata.get("name", "")
        if not NAME.fullmatch(str(prefix)):
            instead = "begin it with a letter, at most 50 small letters, digits and hyphens"
            self.leave("metadata.name", instead)


def _metadata(given: Object) -> Object:
    kept = {name: given[name] for name in KEPT_METADATA if given.get(name)}
    notes = mapping(kept.pop("annotations", None))
    notes.pop(LAST_APPLIED, None)
    return {**kept, "annotations": notes} if notes else kept


def mapping(value: Any) -> Object:
    return dict(value) if isinstance(value, dict) else {}


def same(name: str) -> Take:
    """Take the value as it is, as the field `name`."""

    def take(conversion: Conversion, field: Field) -> None:
        conversion.spec[name] = field.value

    return take


def without(instead: str, *, harmless: tuple[object, ...] = ()) -> Take:
    """Leave the field out, in silence if its value means nothing."""

    def take(conversion: Conversion, field: Field) -> None:
        if field.value not in (False, "", [], {}, 0, *harmless):
            conversion.leave(field.path, instead)

    return take


def template(conversion: Conversion, field: Field) -> None:
    conversion.take_pod(field.path, mapping(field.value))


def update_strategy(conversion: Conversion, field: Field) -> None:
    path, given = field.path, mapping(field.value)
    kind = given.get("type", "RollingUpdate")
    if kind not in ("RollingUpdate", "OnDelete"):
        conversion.leave(
            f"{path}.type", f"{kind} has no counterpart yet: OnDelete, which changes no Pod itself"
        )
        kind = "OnDelete"
    conversion.spec["updateStrategy"] = {"type": kind}
    limit = mapping(given.get("rollingUpdate")).get("maxUnavailable")
    if limit in (0, "0%"):
        conversion.leave(f"{path}.rollingUpdate.maxUnavailable", "it must be at least 1 or 1%")
    elif limit is not None and kind == "RollingUpdate":
        conversion.spec["updateStrategy"]["rollingUpdate"] = {"maxUnavailable": limit}


def convert(source: Object, fields: Mapping[str, Take]) -> Conversion:
    """Convert a NodeSet with the rows of its operator; a field without a row is left out."""
    source = deepcopy(source)
    conversion = Conversion(source)
    spec = {name: one for name, one in mapping(source.get("spec")).items() if one is not None}
    for name, take in fields.items():
        if name in spec:
            take(conversion, Field(f"spec.{name}", spec[name]))
    for name in sorted(spec.keys() - fields.keys()):
        conversion.leave(f"spec.{name}", "unknown to this converter: see docs/nodesets.md")
    return conversion
