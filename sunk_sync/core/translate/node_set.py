"""What the Pods of a NodeSet register in Slurm (N4, N30, T9)."""

from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.node_set import Gres, NodeSet, Plan, Registration
from sunk_sync.core.translate.counted import counted
from sunk_sync.core.translate.gres import gres_of
from sunk_sync.core.translate.slurmd_options import digest, stamp_of

MIB = 1 << 20
THOUSANDTHS = 1000
NAME_MAX = 63
"""Characters of a host name."""


def pod_name_on(node_name: str, *, prefix: str) -> str:
    """Return the name of the Pod, and so of the Slurm node, on this Node (N17).

    It ends with the first label of the Node's name. A name that is too long is cut, and ends with a
    digest of the whole.
    """
    name = f"{prefix}-{node_name.partition('.')[0]}"
    if len(name) <= NAME_MAX:
        return name
    end = digest(prefix, node_name)
    return f"{name[: NAME_MAX - len(end) - 1].rstrip('-')}-{end}"


def plan_of(spec: NodeSet, configuration: Configuration) -> Plan:
    """Return the plan; `problem` says why there is none to follow."""
    return _plan(
        _Given(
            spec.namespace,
            spec.name,
            spec.template,
            spec.limits,
            spec.registration,
            configuration.cluster_uid,
            configuration.gres_map,
        )
    )


class _Given(Struct, frozen=True, gc=False):
    """All that a plan depends on."""

    namespace: str
    name: str
    template: bytes
    limits: tuple[tuple[str, int], ...]
    registration: Registration
    cluster_uid: str
    gres_map: tuple[tuple[str, str], ...]


@lru_cache(maxsize=1024)
def _plan(given: _Given) -> Plan:
    limits = dict(given.limits)
    registration, problem = _complete(given.registration, limits, given.gres_map)
    stamp = stamp_of(
        cluster_uid=given.cluster_uid,
        namespace=given.namespace,
        name=given.name,
        registration=registration,
    )
    revision = digest(given.template.decode(errors="replace"), stamp.shape)
    return Plan(registration=registration, stamp=stamp, revision=revision, problem=problem)


def _complete(
    given: Registration, limits: dict[str, int], gres_map: tuple[tuple[str, str], ...]
) -> tuple[Registration, str]:
    """Fill in what the limits of container slurmd say; also return why they cannot serve."""
    cpus = given.cpus or limits.get("cpu", 0) // THOUSANDTHS
    memory_mib = given.memory_mib or limits.get("memory", 0) // MIB
    gres = given.gres
    if gres is None:
        counts, _ = gres_of(limits.items(), gres_map)
        gres = tuple(_gres(spelled, count) for spelled, count in sorted(counts.items()))
    complete = replace(given, cpus=cpus, memory_mib=memory_mib, gres=gres)
    return complete, _problem(complete, limits, given)


def _gres(spelled: str, count: int) -> Gres:
    name, _, kind = spelled.partition(":")
    return Gres(name, count, kind)


def _problem(complete: Registration, limits: dict[str, int], given: Registration) -> str:
    cpu = limits.get("cpu", 0)
    if not given.cpus and cpu % THOUSANDTHS:
        return (
            f"the CPU limit of container slurmd is {cpu}m, and Slurm counts whole CPUs:"
            " change it, or set spec.cpus"
        )
    if complete.cpus and complete.reserved_cores >= complete.cpus:
        return f"spec.reserved.cores leaves none of {counted(complete.cpus, 'CPU')}"
    if complete.memory_mib and complete.reserved_mib >= complete.memory_mib:
        return f"spec.reserved.memory leaves none of {complete.memory_mib} MiB"
    return ""
