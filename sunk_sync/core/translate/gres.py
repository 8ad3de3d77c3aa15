"""Resources of a Pod as generic resources (GRES) of Slurm, and the type of GPU (P6)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sunk_sync.core.model.pod_spec import PodSpec, Term
from sunk_sync.core.translate.kube_forms import is_label_value

Pairs = tuple[tuple[str, str], ...]

GPU: Final = "gpu"
KUBELET_ONLY: Final = "-"
"""In a gres map: only the kubelet counts the resource, and Slurm does not."""
TYPE_LABELS: Final = ("gpu.nvidia.com/model", "gpu.nvidia.com/class")

_SLURM_COUNTS: Final = frozenset({"cpu", "memory"})
_KUBELET_COUNTS: Final = ("ephemeral-storage", "hugepages-")

_resource = re.compile(r"[a-z0-9][-a-z0-9.]*/(?:\*|[A-Za-z0-9][-A-Za-z0-9_.]*)", re.ASCII).fullmatch
_gres = re.compile(r"-|[A-Za-z][A-Za-z0-9_.-]*(?::[A-Za-z0-9_.+-]+)?", re.ASCII).fullmatch
_type = re.compile(r"[A-Za-z0-9_.+-]+", re.ASCII).fullmatch


def read_gres(entry: tuple[str, str]) -> tuple[str, str]:
    """Read one entry of --gres-map. The ValueError says which form is allowed."""
    resource, gres = entry
    if not (_resource(resource) and _gres(gres)):
        raise ValueError(
            "allowed is RESOURCE=GRES with an extended resource such as nvidia.com/gpu or "
            "rdma/*, and a GRES of Slurm such as gpu or gpu:a100, or -"
        )
    return entry


def read_gpu_type(entry: tuple[str, str]) -> tuple[str, str]:
    """Read one entry of --gpu-types. The ValueError says which form is allowed."""
    value, kind = entry
    if not (is_label_value(value) and _type(kind)):
        raise ValueError("allowed is LABELVALUE=TYPE such as A100_PCIE_80GB=a100")
    return entry


def gres_of(
    requests: Iterable[tuple[str, int]], gres_map: Pairs
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Count each GRES; also return the resources that the map does not name."""
    counts: dict[str, int] = {}
    unmapped = []
    for resource, amount in requests:
        if resource in _SLURM_COUNTS or resource.startswith(_KUBELET_COUNTS) or not amount:
            continue
        name = _mapped(resource, gres_map)
        if not name:
            unmapped.append(resource)
        elif name != KUBELET_ONLY:
            counts[name] = counts.get(name, 0) + amount
    return counts, tuple(unmapped)


def _mapped(resource: str, gres_map: Pairs) -> str:
    """Return the GRES of a resource; the exact name wins over `prefix/*`; empty: not in the map."""
    found = ""
    for pattern, name in gres_map:
        if pattern == resource:
            return name
        if pattern.endswith("/*") and resource.startswith(pattern[:-1]):
            found = name
    return found


def gpu_type(spec: PodSpec, gpu_types: Pairs) -> str:
    """Return the one GPU type that the selector or every affinity term requests, or empty.

    With several types sunk-sync requests none: it excludes hosts of other types by name (P7).
    """
    types = dict(gpu_types)
    if not types:
        return ""
    selector = dict(spec.node_selector)
    for label in TYPE_LABELS:
        if label in selector:
            return types.get(selector[label], "")
    found = {_type_of(term, types) for term in spec.terms or ()}
    return found.pop() if len(found) == 1 else ""


def _type_of(term: Term, types: Mapping[str, str]) -> str:
    for values in _wanted(term):
        found = {types.get(value, "") for value in values}
        if len(found) == 1:
            return found.pop()
    return ""


def _wanted(term: Term) -> Iterable[Sequence[str]]:
    """Yield values of the expressions that name a GPU type, the model before the class."""
    for label in TYPE_LABELS:
        for line in term.expressions:
            if line.key == label and line.operator == "In":
                yield line.values


def typed(counts: Mapping[str, int], kind: str) -> dict[str, int]:
    """Add the type to GPUs that have none, unless it is empty."""
    return {f"{GPU}:{kind}" if name == GPU and kind else name: n for name, n in counts.items()}
