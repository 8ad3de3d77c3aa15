"""What the two servers hold about NodeSets, read from outside and spelled independently."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from sunk_sync.embedded.kubernetes.store.kinds import NODE_SETS
from sunk_sync.embedded.slurm.model.job import Job
from sunk_sync.embedded.slurm.model.node import Node
from tests.sim import words
from tests.sim.judging import mark_of
from tests.sim.words import PREFIX, Object
from tests.sim.worlds import Worlds

API_VERSION: Final = "sunk-sync.dev/v1alpha1"
FINALIZER: Final = "sunk-sync.dev/drain"
ORPHAN: Final = "orphan"
NODESET: Final = PREFIX + "nodeset"
SHAPE: Final = PREFIX + "shape"
REVISION: Final = PREFIX + "revision"
BUSY: Final = PREFIX + "busy"
DYNAMIC: Final = "DYNAMIC_NORM"
NAMESPACE: Final = "slurm"
USELESS: Final = frozenset({"DOWN", "NOT_RESPONDING", "INVALID_REG"})
_condemned_text = re.compile(r"(scale-in|update|registration|deletion) of NodeSet (.+)").fullmatch
_stamp = re.compile(r"k8s\.([0-9a-f]{8})\.([0-9a-f]{8})").fullmatch


def name_of(an_object: Object) -> str:
    return str(an_object["metadata"]["name"])


def node_sets(worlds: Worlds) -> Iterator[Object]:
    for _, stored in sorted(worlds.kube.store.rows(NODE_SETS).items()):
        yield stored.an_object


def node_set_of_uid(worlds: Worlds, uid: str) -> Object | None:
    return next((one for one in node_sets(worlds) if one["metadata"]["uid"] == uid), None)


def owner_of(pod: Object) -> str:
    """Return the UID of the NodeSet that owns the Pod, or empty."""
    for one in pod["metadata"].get("ownerReferences") or ():
        if (one["kind"], one["apiVersion"]) == ("NodeSet", API_VERSION) and one.get("controller"):
            return str(one["uid"])
    return ""


def pods_of(worlds: Worlds, node_set: Object) -> list[Object]:
    uid = node_set["metadata"]["uid"]
    return [pod for pod in worlds.kube.pods(NAMESPACE) if owner_of(pod) == uid]


def condemned_for(pod: Object) -> str:
    """Return the cause for which sunk-sync marked the Pod of a NodeSet, or empty."""
    return mark_on(pod) if owner_of(pod) else ""


def mark_on(pod: Object) -> str:
    """Return the same, also if its NodeSet has left the Pod alone since."""
    found = _condemned_text(words.annotations_of(pod).get(words.PENDING_DELETION, ""))
    return found[1] if found else ""


def leaves(pod: Object) -> bool:
    """Whether no Pod of its name is to follow."""
    return condemned_for(pod) in ("scale-in", "deletion")


def digest_of(worlds: Worlds, node_set: Object) -> str:
    """Return the part of the stamp that names the NodeSet."""
    metadata = node_set["metadata"]
    text = "\0".join((worlds.cluster_uid, metadata["namespace"], metadata["name"]))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def stamp_of(record: Node) -> tuple[str, str]:
    """Return the digests of NodeSet and shape in the features of a Slurm node; empty: none."""
    for one in record.features:
        if found := _stamp(one):
            return found[1], found[2]
    return "", ""


def records_of(worlds: Worlds, node_set: Object) -> list[Node]:
    digest = digest_of(worlds, node_set)
    return [one for one in worlds.slurm.nodes.values() if stamp_of(one)[0] == digest]


def features_in_mark(record: Node) -> set[str]:
    """Return the features that sunk-sync notes as its own in the comment."""
    return set(mark_of(record.comment).get("set_features") or ())


def is_at_work(record: Node) -> bool:
    return bool(record.running or record.ending)


def is_deleting(node_set: Object) -> bool:
    return "deletionTimestamp" in node_set["metadata"]


def is_orphaned(node_set: Object) -> bool:
    return ORPHAN in (node_set["metadata"].get("finalizers") or ())


def replicas_of(node_set: Object) -> int:
    return int(node_set["spec"].get("replicas", 1))


def prefix_of(node_set: Object) -> str:
    return str(node_set["spec"].get("podNamePrefix") or name_of(node_set))


def budget_of(node_set: Object) -> int:
    """Return how many of the desired Pods may be unavailable during an update."""
    strategy = node_set["spec"].get("updateStrategy") or {}
    most = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", "25%")
    if isinstance(most, int):
        return max(most, 1)
    return max(replicas_of(node_set) * int(most.rstrip("%")) // 100, 1)


def rolls(node_set: Object) -> bool:
    strategy = node_set["spec"].get("updateStrategy") or {}
    return bool(strategy.get("type", "RollingUpdate") == "RollingUpdate")


def slurmd_of(spec: Object) -> Object:
    """Return container slurmd of the spec of a Pod or of a template."""
    return next(one for one in spec["containers"] if one["name"] == "slurmd")


def conf_of(pod: Object) -> dict[str, str]:
    """Return the keys of the option --conf of its slurmd."""
    arguments: Sequence[str] = slurmd_of(pod["spec"])["args"]
    text = arguments[arguments.index("--conf") + 1]
    return dict(part.split("=", 1) for part in text.split())


def is_current(pod: Object, node_set: Object) -> bool:
    """Whether the Pod is as the template and the shape of the NodeSet ask for."""
    template = node_set["spec"]["template"]
    if slurmd_of(pod["spec"])["image"] != slurmd_of(template["spec"])["image"]:
        return False
    asked = (template.get("metadata") or {}).get("annotations") or {}
    held = words.annotations_of(pod)
    given = {key for key in held if key.startswith(EMBEDDED)}
    if given != asked.keys() or any(held[key] != value for key, value in asked.items()):
        return False
    return conf_of(pod).get("RealMemory") == str(memory_mib_of(node_set))


EMBEDDED: Final = "embedded/"
"""Begins the annotations that tell the embedded kubelet how the Pod behaves."""


def memory_mib_of(node_set: Object) -> int:
    """Return the memory of its Slurm nodes. The simulator writes it in Gi alone."""
    given = node_set["spec"].get("memory")
    limits = slurmd_of(node_set["spec"]["template"]["spec"])["resources"]["limits"]
    return int((given or limits["memory"]).removesuffix("Gi")) * 1024


def is_useful(pod: Object, record: Node | None) -> bool:
    """Whether jobs can use the Pod: it is ready, and Slurm has its own record in good state."""
    if not words.is_ready(pod) or words.is_finished(pod) or record is None:
        return False
    fits = stamp_of(record)[1] == words.labels_of(pod).get(SHAPE)
    return fits and record.base != "DOWN" and not record.flags & USELESS


def is_available(pod: Object, record: Node | None) -> bool:
    """Whether the Pod counts as available in an update."""
    if words.is_terminating(pod) or not is_useful(pod, record):
        return False
    assert record is not None
    ours = "DRAIN" in record.flags and not is_drained_by_others(record)
    return not (ours or condemned_for(pod))


def is_drained_by_others(record: Node) -> bool:
    return "DRAIN" in record.flags and not words.is_our_text(record.reason)


def jobs_can_use(pod: Object, record: Node | None) -> bool:
    """Whether it counts as available in the status: a drain of anybody keeps jobs away."""
    return record is not None and is_available(pod, record) and "DRAIN" not in record.flags


def requiring(worlds: Worlds, slurm_node: str) -> list[Job]:
    """Return the waiting jobs that require this Slurm node."""
    return [
        job
        for job in worlds.slurm.jobs.values()
        if job.state == "PENDING" and slurm_node in job.request.required_nodes
    ]


def wanted_features(node_set: Object, node: Object | None) -> set[str]:
    """Return the features that the NodeSet asks for on the Slurm node of this Node."""
    asked: Any = node_set["spec"].get("features") or {}
    labels = words.labels_of(node) if node is not None else {}
    found = set(asked.get("static") or ())
    for label, one in (asked.get("dynamic") or {}).items():
        if labels.get(label):
            found.add(one.get("prefix", "") + labels[label])
    return found


def wanted_topology(node_set: Object, node: Object | None) -> str | None:
    """Return the place that the NodeSet asks for; None: it asks for none."""
    asked: Any = node_set["spec"].get("topology") or {}
    labels = words.labels_of(node) if node is not None else {}
    if not asked.get("tree"):
        return None
    path: list[str] = []
    switches = []
    for label in asked["tree"]:
        if not labels.get(label):
            return ""
        path.append(labels[label])
        switches.append(_switch(path))
    return ":".join([asked.get("under", "tree:root"), *switches])


def _switch(path: list[str]) -> str:
    """T8: values with hyphens give names that could be of another path, so a digest follows."""
    name = "-".join(path)
    if not any("-" in value for value in path):
        return name
    return f"{name}-{hashlib.sha256(chr(0).join(path).encode()).hexdigest()[:8]}"
