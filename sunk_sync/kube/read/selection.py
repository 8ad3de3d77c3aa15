"""What a reader watches: one source, where its objects live and which of them count."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from sunk_sync.core.model.facts import Source
from sunk_sync.kube.decode.decode import NODES, OFFERING_NODES, OTHERS, PODS, SLURMD_PODS, Wire

EVERYWHERE = "*"


class Subject(Struct, frozen=True, kw_only=True):
    """One source. `paths` are its collections: one, or one for each namespace."""

    wire: Wire[Any]
    paths: tuple[str, ...]
    selectors: tuple[tuple[str, str], ...] = ()

    @property
    def source(self) -> Source:
        """The source that the news is about."""
        return self.wire.source


def nodes(*, offers: bool = False) -> Subject:
    """All Nodes; with what they offer to Pods where somebody schedules."""
    return Subject(wire=OFFERING_NODES if offers else NODES, paths=("/api/v1/nodes",))


def slurmd_pods(namespaces: Sequence[str], *, selector: str) -> Subject:
    """Pods by label selector in these namespaces; `*` means all."""
    selectors = (("labelSelector", selector),)
    return Subject(wire=SLURMD_PODS, paths=_pod_paths(namespaces), selectors=selectors)


def pods(namespaces: Sequence[str], *, scheduler_name: str) -> Subject:
    """Pods of our scheduler in these namespaces; `*` means all."""
    selectors = (("fieldSelector", f"spec.schedulerName={scheduler_name}"),)
    return Subject(wire=PODS, paths=_pod_paths(namespaces), selectors=selectors)


def other_pods(*, scheduler_name: str) -> Subject:
    """Pods everywhere that stand on a Node, have not ended, and are not of our scheduler."""
    fields = (
        "spec.nodeName!=",
        "status.phase!=Succeeded",
        "status.phase!=Failed",
        f"spec.schedulerName!={scheduler_name}",
    )
    selectors = (("fieldSelector", ",".join(fields)),)
    return Subject(wire=OTHERS, paths=_pod_paths((EVERYWHERE,)), selectors=selectors)


def _pod_paths(namespaces: Sequence[str]) -> tuple[str, ...]:
    if EVERYWHERE in namespaces:
        return ("/api/v1/pods",)
    return tuple(f"/api/v1/namespaces/{name}/pods" for name in dict.fromkeys(namespaces))
