"""Nodes and partitions as slurmrestd writes them, in every API version."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Struct

from sunk_sync.embedded.slurm.memory import Memory, Partition
from sunk_sync.embedded.slurm.model.gres import configured
from sunk_sync.embedded.slurm.model.names import ranged
from sunk_sync.embedded.slurm.model.node import Node, NodeSpec, state_of
from sunk_sync.embedded.slurm.model.release import Release

Shape = Mapping[str, Any]
SYSTEM: Final = "Linux 6.12.0 #1 SMP PREEMPT_DYNAMIC"
_ENERGY: Final = {
    "average_watts": 0,
    "base_consumed_energy": 0,
    "consumed_energy": 0,
    "current_watts": {"set": True, "infinite": False, "number": 0},
    "previous_consumed_energy": 0,
    "last_collected": 0,
}


def number(value: float) -> Shape:
    return {"set": True, "infinite": False, "number": value}


UNSET: Final = {"set": False, "infinite": False, "number": 0}
INFINITE: Final = {"set": False, "infinite": True, "number": 0}
_ZERO: Final = number(0)


def node_record(node: Node, version: str, *, memory: Memory) -> bytes:
    """Return one element of `nodes` as JSON; fixed fields are encoded once."""
    known = node.slurmd_start_s > 0
    partitions = tuple(partitions_of(node.name, memory))
    fixed = _fixed(node.spec, _Place(version, memory.release.name, partitions, known))
    topology = {"topology": node.topology} if version > "v0.0.42" else {}
    changing = {**topology, **_changing(node, memory.release)}
    return fixed + msgspec.json.encode(changing)[1:]


class _Place(Struct, frozen=True):
    """The inputs of a node's fixed fields besides its configuration."""

    version: str
    release: str
    partitions: tuple[str, ...]
    known: bool


@lru_cache(maxsize=32_768)
def _fixed(spec: NodeSpec, place: _Place) -> bytes:
    shape = {**_hardware(spec, place), **_software(spec, place), **_by_version(place.version)}
    return msgspec.json.encode(shape)[:-1] + b","


def _hardware(spec: NodeSpec, place: _Place) -> Shape:
    return {
        "architecture": "x86_64" if place.known else "",
        "boards": 1,
        "cores": spec.cpus,
        "specialized_cores": 0,
        "cpu_binding": 0,
        "cpu_load": 100 if place.known else 0,
        "free_mem": number(spec.memory_mb) if place.known else UNSET,
        "cpus": spec.cpus,
        "effective_cpus": spec.cpus,
        "specialized_cpus": "",
        "energy": _ENERGY,
        "gres_drained": "N/A",
        "specialized_memory": 0,
        "real_memory": spec.memory_mb,
        "sockets": 1,
        "threads": 1,
        "temporary_disk": 0,
        "tres": _tres(spec.cpus, spec.memory_mb),
    }


def _software(spec: NodeSpec, place: _Place) -> Shape:
    return {
        "name": spec.name,
        "address": spec.address,
        "hostname": spec.hostname,
        "port": spec.port,
        "partitions": place.partitions,
        "operating_system": SYSTEM if place.known else "",
        "version": place.release if place.known else "",
        "burstbuffer_network_address": "",
        "cluster_name": "",
        "instance_id": "",
        "instance_type": "",
        "mcs_label": "",
        "next_state_after_reboot": ["INVALID"],
        "owner": "",
        "reservation": "",
        "resume_after": _ZERO,
    }


def _by_version(version: str) -> Shape:
    return {
        **({"gpu_spec": "", "res_cores_per_gpu": 0} if version > "v0.0.40" else {}),
        **({"external_sensors": {}, "power": {}} if version < "v0.0.45" else {}),
        **({"tres_weighted": 0.0} if version < "v0.0.45" else {"suspend_time": INFINITE}),
        **({"tls_cert_last_renewal": _ZERO, "cert_flags": []} if version > "v0.0.42" else {}),
    }


def _changing(node: Node, release: Release) -> Shape:
    cpus, memory_mb = node.listed_cpus, node.listed_memory_mb
    never = release.never_set_by
    return {
        "state": state_of(node),
        "reason": node.reason,
        "reason_changed_at": number(node.reason_s),
        "reason_set_by_user": never if node.reason_user is None else node.reason_user,
        "comment": node.comment,
        "extra": node.extra,
        "features": node.features,
        "active_features": node.active_features,
        "weight": node.weight,
        "gres": node.gres,
        "gres_used": _used(node),
        "boot_time": number(node.boot_s),
        "slurmd_start_time": number(node.slurmd_start_s),
        "last_busy": number(node.last_busy_s),
        "alloc_memory": memory_mb,
        "alloc_cpus": cpus,
        "alloc_idle_cpus": node.spec.cpus - cpus,
        "tres_used": f"cpu={cpus},mem={_size(memory_mb)}" if cpus else "",
    }


def _used(node: Node) -> str:
    used = dict(node.gres_used)
    return ",".join(f"{kind}:{used.get(kind, 0)}" for kind, _ in configured(node.gres))


def _tres(cpus: int, memory_mb: int, nodes: int = 0) -> str:
    counted = f",node={nodes}" if nodes else ""
    return f"cpu={cpus},mem={_size(memory_mb)}{counted},billing={cpus}"


def _size(memory_mb: int) -> str:
    """Spell memory in GiB if that is exact to half a GiB, else in MiB."""
    if memory_mb < 1024 or memory_mb % 512:
        return f"{memory_mb}M"
    return f"{memory_mb / 1024:.2f}G" if memory_mb % 1024 else f"{memory_mb // 1024}G"


def partitions_of(name: str, memory: Memory) -> Sequence[str]:
    every = memory.partitions.values()
    return [each.name for each in every if not each.nodes or name in each.nodes]


def partition_shape(partition: Partition, version: str, *, memory: Memory) -> Shape:
    nodes = memory.members([partition.name])[partition.name]
    cpus = sum(node.spec.cpus for node in nodes)
    memory_mb = sum(node.spec.memory_mb for node in nodes)
    newest = version >= "v0.0.45"
    return {
        "nodes": {
            "allowed_allocation": "",
            "configured": ranged([node.name for node in nodes]),
            "total": len(nodes),
        },
        "accounts": {"allowed": "", "deny": ""},
        "groups": {"allowed": ""},
        "qos": {"allowed": "", "deny": "", "assigned": ""},
        "alternate": "",
        "tres": {"billing_weights": "", "configured": _tres(cpus, memory_mb, len(nodes))},
        "cluster": "",
        "select_type": ["NONE"] if memory.setup.generation == "26.05" else [],
        "cpus": {"task_binding": [] if newest else 0, "total": cpus},
        "defaults": _DEFAULTS,
        **({"flags": ["DEFAULT"] if partition.default else []} if newest else {}),
        "grace_time": int(partition.grace_s),
        "maximums": {**_MAXIMUMS, **_shares(int(not newest))},
        "minimums": {"nodes": 0},
        "name": partition.name,
        "node_sets": "" if partition.nodes else "ALL",
        **({"preempt_mode": _preempt_mode(partition)} if newest else {}),
        "priority": {"job_factor": 1, "tier": partition.tier},
        "partition": {**({"exclusive": "NO", "oversubscribe": "NO"} if newest else {}), **_UP},
        "timeouts": {"resume": UNSET, "suspend": UNSET},
        **({"topology": ""} if version >= "v0.0.43" else {}),
        "suspend_time": UNSET,
    }


def _preempt_mode(partition: Partition) -> Sequence[str]:
    return ["CLUSTER_GLOBAL" if partition.preempt_mode == "OFF" else partition.preempt_mode]


_UP: Final = {"state": ["UP"]}
_DEFAULTS: Final = {
    "memory_per_cpu": 0,
    "partition_memory_per_cpu": UNSET,
    "partition_memory_per_node": _ZERO,
    "time": UNSET,
    "job": "",
}
_MAXIMUMS: Final = {
    "cpus_per_node": INFINITE,
    "cpus_per_socket": INFINITE,
    "memory_per_cpu": 0,
    "partition_memory_per_cpu": UNSET,
    "partition_memory_per_node": _ZERO,
    "nodes": INFINITE,
    "time": INFINITE,
    "over_time_limit": UNSET,
}


def _shares(jobs: int) -> Shape:
    return {"shares": jobs, "oversubscribe": {"jobs": jobs, "flags": []}}


def meta_shape(version: str, *, memory: Memory, user: str) -> Shape:
    major, minor, micro = memory.release.name.split(".")
    local = "127.0.0.1" if memory.setup.generation == "26.05" else "[localhost]"
    return {
        "plugin": {
            "type": "openapi/slurmctld",
            "name": "Slurm OpenAPI slurmctld",
            "data_parser": f"data_parser/{version}",
            "accounting_storage": "",
        },
        "client": {"source": f"{local}:6820(fd:9)", "user": user, "group": user},
        "command": [],
        "slurm": {
            "version": {"major": major, "micro": micro, "minor": minor},
            "release": memory.release.name,
            "cluster": memory.setup.cluster,
        },
    }
