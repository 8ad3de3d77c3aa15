"""What is known for the choice among the Pods of a NodeSet (N6). Held in memory only."""

from collections import defaultdict
from collections.abc import Set

from sunk_sync.core.model.facts import SlurmdPod
from sunk_sync.core.model.node_set import NodeSet
from sunk_sync.core.model.node_set_answers import JobEnds
from sunk_sync.core.views.node_set import cause_of

UNKNOWN = JobEnds("", float("-inf"))
NOBODY: Set[str] = frozenset()


class Choices:
    def __init__(self) -> None:
        self._ends: dict[str, JobEnds] = {}
        """Key of the NodeSet → the last answer about the ends of its jobs."""
        self._spared: defaultdict[str, set[str]] = defaultdict(set)
        """UID of the NodeSet → UIDs of its Pods."""

    def ends(self, key: str) -> JobEnds:
        return self._ends.get(key, UNKNOWN)

    def ends_were_read(self, answer: JobEnds) -> None:
        self._ends[answer.node_set] = answer

    def spared(self, spec: NodeSet) -> Set[str]:
        """Return UIDs of Pods that were condemned and stay after all, since it last changed."""
        return self._spared.get(spec.uid, NOBODY)

    def pod_changed(self, before: SlurmdPod, after: SlurmdPod | None) -> None:
        """Note that a condemnation was taken back: the same Pod is not to go to and fro."""
        if after is None or after.uid != before.uid:
            self._spared[before.owner].discard(before.uid)
        elif cause_of(before) is not None and cause_of(after) is None:
            self._spared[before.owner].add(before.uid)

    def node_set_changed(self, before: NodeSet, after: NodeSet | None) -> None:
        self._spared.pop(before.uid, None)
        if after is None:
            self._ends.pop(before.key, None)
