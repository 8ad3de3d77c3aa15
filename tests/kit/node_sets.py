"""Makers of NodeSets, their Pods and their records in Slurm, and what a core wants for them."""

from typing import Any

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import SlurmdPod, SlurmNode
from sunk_sync.core.model.keys import node_set_key
from sunk_sync.core.model.node_mark import Mark, mark_text
from sunk_sync.core.model.node_set import Gres, NodeSet, Plan, Registration, Stamp
from sunk_sync.core.model.node_set_actions import (
    Condemn,
    CreatePod,
    DeleteNode,
    DeletePod,
    SetStatus,
)
from sunk_sync.core.translate.node_set import plan_of
from tests.kit.build import CLUSTER_UID, Core, slurm_node, slurmd_pod

TEMPLATE = b'{"spec":{"containers":[{"name":"slurmd","image":"slurmd:1"}]}}'
NEWER = TEMPLATE.replace(b"slurmd:1", b"slurmd:2")
SHAPE = Registration(cpus=4, memory_mib=8192, gres=())
LARGER = Registration(cpus=8, memory_mib=8192, gres=())
GPUS = Registration(cpus=4, memory_mib=8192, gres=(Gres("gpu", 8, "h100"),))
CONFIGURATION = Configuration(cluster_uid=CLUSTER_UID)


def node_set(replicas: int = 3, **fields: Any) -> NodeSet:
    """Make NodeSet `slurm/cpu`, which sunk-sync follows already."""
    standard = {
        "namespace": "slurm",
        "name": "cpu",
        "uid": "uid-cpu",
        "generation": 1,
        "held": True,
        "replicas": replicas,
        "prefix": "cpu",
        "template": TEMPLATE,
        "registration": SHAPE,
    }
    return NodeSet(**{**standard, **fields})


def plan(spec: NodeSet) -> Plan:
    return plan_of(spec, CONFIGURATION)


def set_pod(ordinal: int, spec: NodeSet | None = None, **fields: Any) -> SlurmdPod:
    """Make a ready Pod of this NodeSet on a Node of its own, as the NodeSet wants it now."""
    of = spec or node_set()
    name = of.pod_name(ordinal)
    standard = {
        "name": name,
        "uid": f"uid-{name}",
        "node_name": f"k{name}",
        "nodeset": of.name,
        "owner": of.uid,
        "revision": plan(of).revision,
        "shape": plan(of).stamp.shape,
    }
    return slurmd_pod(name, **{**standard, **fields})


def record(
    ordinal: int, state: str = "IDLE", spec: NodeSet | None = None, **fields: Any
) -> SlurmNode:
    """Make the record of that Pod, with its mark."""
    of = spec or node_set()
    name = of.pod_name(ordinal)
    mark = Mark(CLUSTER_UID, f"k{name}", of.namespace, name, f"uid-{name}")
    features = (of.name, plan(of).stamp.feature)
    standard: dict[str, Any] = {
        "stamp": plan(of).stamp,
        "comment": mark_text(mark),
        "features": features,
        "active_features": features,
        "weight": of.registration.weight,
    }
    return slurm_node(name, f"{state}+DYNAMIC_NORM", **{**standard, **fields})


def members(*ordinals: int, spec: NodeSet | None = None) -> list[SlurmdPod | SlurmNode]:
    """Make Pods and records that are ready and idle."""
    return [make(one, spec=spec) for one in ordinals for make in (set_pod, record)]


OTHER_STAMP = Stamp("00000000", "00000000")


def wants(core: Core, *kinds: type, key: str = "slurm/cpu") -> list[Any]:
    """Return what is wanted for the NodeSet, of these kinds if any are given."""
    verdict = core.decided(node_set_key(key))
    return [want for want in verdict.wants if not kinds or isinstance(want, kinds)]


def made(core: Core) -> list[str]:
    """Return the names of the Pods to be made."""
    return [want.name for want in wants(core, CreatePod)]


def condemned(core: Core) -> dict[str, str]:
    """Return the annotation to be set, by Pod; empty: to be removed."""
    return {want.reference.name: want.why for want in wants(core, Condemn)}


def status(core: Core) -> SetStatus | None:
    """Return the status to be set, a second later: it changes at most once a second."""
    core.wait(1.0)
    found = wants(core, SetStatus)
    return found[0] if found else None


def parted(core: Core, name: str) -> list[DeletePod]:
    """Return the wanted deletions of this Pod."""
    return core.wants(name, DeletePod)


def forgotten(core: Core, name: str) -> list[DeleteNode]:
    """Return the wanted deletions of this record."""
    return core.wants(name, DeleteNode)
