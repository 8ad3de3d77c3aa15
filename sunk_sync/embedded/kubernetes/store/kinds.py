"""The kinds of object in the embedded Kubernetes, with their properties."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

Object = dict[str, Any]
"""One Kubernetes object as JSON. Never changed in place: each write makes a new one."""

Key = str
"""`namespace/name`, or `/name` without a namespace; sorts as in etcd."""

Field = Callable[[Object], str]


class Kind(Struct, frozen=True, kw_only=True):
    name: str
    plural: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    has_status: bool = False
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    fields: Mapping[str, Field]
    """Fields that a fieldSelector may name."""
    kept_by_main: tuple[str, ...] = ()
    """Parts that a write to the object itself does not change."""
    kept_by_status: tuple[str, ...] = ()
    """Parts that a write to its status does not change."""
    creates_on_update: bool = False
    """A PUT creates the object if it does not exist."""
    has_generation: bool = False
    """metadata.generation counts the changes of its spec."""
    needs_version: bool = False
    """A PUT must contain the resourceVersion that it replaces."""
    blank: Mapping[str, Any] = {}
    """Fields that the real server always writes, even if empty."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def qualified(self) -> str:
        """`nodes` or `leases.coordination.k8s.io`, as error texts write it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _meta(name: str) -> Field:
    return lambda an_object: str(an_object["metadata"].get(name, ""))


def _in(part: str, name: str, default: str = "") -> Field:
    return lambda an_object: str(an_object.get(part, {}).get(name, default))


def _switch(part: str, name: str) -> Field:
    return lambda an_object: "true" if an_object.get(part, {}).get(name) else "false"


def _top(name: str) -> Field:
    return lambda an_object: str(an_object.get(name, ""))


_NAMED: dict[str, Field] = {"metadata.name": _meta("name")}
_PLACED: dict[str, Field] = {**_NAMED, "metadata.namespace": _meta("namespace")}
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

NODE_SYSTEM = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)

NODES = Kind(
    name="Node",
    plural="nodes",
    namespaced=False,
    has_status=True,
    short_names=("no",),
    fields={**_NAMED, "spec.unschedulable": _switch("spec", "unschedulable")},
    kept_by_main=("status",),
    kept_by_status=("spec",),
    blank={
        "spec": {},
        "status": {
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": dict.fromkeys(NODE_SYSTEM, ""),
        },
    },
)
PODS = Kind(
    name="Pod",
    plural="pods",
    has_status=True,
    short_names=("po",),
    categories=("all",),
    fields={
        **_PLACED,
        "spec.nodeName": _in("spec", "nodeName"),
        "spec.schedulerName": _in("spec", "schedulerName"),
        "spec.restartPolicy": _in("spec", "restartPolicy"),
        "spec.serviceAccountName": _in("spec", "serviceAccountName"),
        "spec.hostNetwork": _switch("spec", "hostNetwork"),
        "status.phase": _in("status", "phase"),
        "status.podIP": _in("status", "podIP"),
        "status.nominatedNodeName": _in("status", "nominatedNodeName"),
    },
    kept_by_main=("status",),
    kept_by_status=("spec",),
    has_generation=True,
    blank={"spec": {"containers": None}, "status": {}},
)
EVENTS = Kind(
    name="Event",
    plural="events",
    short_names=("ev",),
    creates_on_update=True,
    fields={
        **_PLACED,
        **{f"involvedObject.{name}": _in("involvedObject", name) for name in _INVOLVED},
        "reason": _top("reason"),
        "reportingComponent": _top("reportingComponent"),
        "source": _in("source", "component"),
        "type": _top("type"),
    },
    blank={
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    },
)
NAMESPACES = Kind(
    name="Namespace",
    plural="namespaces",
    namespaced=False,
    has_status=True,
    short_names=("ns",),
    fields={**_NAMED, "status.phase": _in("status", "phase")},
    kept_by_main=("status",),
    kept_by_status=("spec",),
    blank={"spec": {}, "status": {}},
)
LEASES = Kind(
    name="Lease",
    plural="leases",
    group="coordination.k8s.io",
    fields=_PLACED,
    creates_on_update=True,
    needs_version=True,
    blank={"spec": {}},
)
VOLUME_CLAIMS = Kind(
    name="PersistentVolumeClaim",
    plural="persistentvolumeclaims",
    has_status=True,
    short_names=("pvc",),
    fields=_PLACED,
    kept_by_main=("status",),
    kept_by_status=("spec",),
    blank={"spec": {}, "status": {}},
)
VOLUMES = Kind(
    name="PersistentVolume",
    plural="persistentvolumes",
    namespaced=False,
    has_status=True,
    short_names=("pv",),
    fields=_NAMED,
    kept_by_main=("status",),
    kept_by_status=("spec",),
    blank={"spec": {}, "status": {}},
)
STORAGE_CLASSES = Kind(
    name="StorageClass",
    plural="storageclasses",
    group="storage.k8s.io",
    namespaced=False,
    short_names=("sc",),
    fields=_NAMED,
    blank={"provisioner": ""},
)
CSI_NODES = Kind(
    name="CSINode",
    plural="csinodes",
    group="storage.k8s.io",
    namespaced=False,
    fields=_NAMED,
    blank={"spec": {"drivers": None}},
)
CSI_DRIVERS = Kind(
    name="CSIDriver",
    plural="csidrivers",
    group="storage.k8s.io",
    namespaced=False,
    fields=_NAMED,
    blank={"spec": {}},
)
STORAGE_CAPACITIES = Kind(
    name="CSIStorageCapacity",
    plural="csistoragecapacities",
    group="storage.k8s.io",
    fields=_PLACED,
    blank={"storageClassName": ""},
)

REVIEWS = Kind(
    name="SelfSubjectAccessReview",
    plural="selfsubjectaccessreviews",
    group="authorization.k8s.io",
    namespaced=False,
    fields={},
    kept_by_main=("status",),
    blank={"spec": {}},
)

NODE_SETS = Kind(
    name="NodeSet",
    plural="nodesets",
    group="sunk-sync.dev",
    version="v1alpha1",
    has_status=True,
    short_names=("nset",),
    categories=("slurm",),
    fields=_PLACED,
    kept_by_main=("status",),
    kept_by_status=("spec",),
    has_generation=True,
    needs_version=True,
)
"""A custom resource: a cluster knows it only where it is installed."""

KINDS = (
    NODES, PODS, EVENTS, NAMESPACES, LEASES, VOLUME_CLAIMS, VOLUMES, STORAGE_CLASSES, CSI_NODES,
    CSI_DRIVERS, STORAGE_CAPACITIES,
)  # fmt: skip
"""The kinds of every cluster."""
KNOWN_KINDS = (*KINDS, NODE_SETS)
