"""What a reader watches, for tests that need but one source."""

from collections.abc import Sequence

from sunk_sync.kube.read.selection import COLLECTIONS, Selection, SelectionScope


def nodes() -> Selection:
    return COLLECTIONS["nodes"].selection(SelectionScope())


def slurmd_pods(namespaces: Sequence[str], *, selector: str) -> Selection:
    scope = SelectionScope(slurmd_namespace=tuple(namespaces), slurmd_selector=selector)
    return COLLECTIONS["slurmd_pods"].selection(scope)


def other_pods(*, scheduler_name: str) -> Selection:
    return COLLECTIONS["other_pods"].selection(SelectionScope(scheduler_name=scheduler_name))
