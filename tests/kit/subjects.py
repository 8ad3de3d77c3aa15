"""What a reader watches, for tests that need but one source."""

from collections.abc import Sequence

from sunk_sync.kube.read.selection import COLLECTIONS, Scope, Subject


def nodes() -> Subject:
    return COLLECTIONS["nodes"].subject(Scope())


def slurmd_pods(namespaces: Sequence[str], *, selector: str) -> Subject:
    scope = Scope(slurmd_namespace=tuple(namespaces), slurmd_selector=selector)
    return COLLECTIONS["slurmd_pods"].subject(scope)


def other_pods(*, scheduler_name: str) -> Subject:
    return COLLECTIONS["other_pods"].subject(Scope(scheduler_name=scheduler_name))
