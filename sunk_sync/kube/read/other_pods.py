"""Sum the requests of other schedulers' Pods on each Node (P28), from a watch of all of them.

It keeps each Pod's UID, its Node and its requests; Pods with equal requests share one object.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence

from sunk_sync.core.model.facts import (
    Deleted,
    ListingEnded,
    ListingStarted,
    Lost,
    News,
    Observed,
    Pod,
    Taken,
    Tell,
)
from sunk_sync.core.translate.node_fit import Amounts, summed


class OtherPods:
    """Receives the facts of that watch; reports one `Taken` for each Node whose sum changes."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._node_of: dict[str, str] = {}
        self._there: defaultdict[str, dict[str, Amounts]] = defaultdict(dict)
        """Node → UID → requests of the Pod."""
        self._listed: set[str] | None = None
        """UIDs in the current listing; None: no listing is running."""
        self._touched: dict[str, None] = {}

    async def tell(self, news: Sequence[News]) -> None:
        """Receive facts in the order of the watch: a listing, then changes."""
        passed: list[News] = []
        for one in news:
            match one:
                case Observed(row=Pod() as pod):
                    self._put(pod)
                case Deleted():
                    self._drop(one.uid)
                case _:
                    self._follow(one)
                    passed += [*self._sums(), one]
        await self._tell([*passed, *self._sums()])

    def _follow(self, one: News) -> None:
        match one:
            case ListingStarted():
                self._listed = set()
            case ListingEnded():
                for uid in self._node_of.keys() - (self._listed or set()):
                    self._drop(uid)
                self._listed = None
            case Lost():
                self._listed = None
            case _:
                pass

    def _put(self, pod: Pod) -> None:
        if self._listed is not None:
            self._listed.add(pod.uid)
        before = self._node_of.get(pod.uid, "")
        if before == pod.node_name and self._there[before][pod.uid] == pod.spec.requests:
            return
        self._drop(pod.uid)
        self._node_of[pod.uid] = pod.node_name
        self._there[pod.node_name][pod.uid] = pod.spec.requests
        self._touched[pod.node_name] = None

    def _drop(self, uid: str) -> None:
        node_name = self._node_of.pop(uid, "")
        if node_name:
            del self._there[node_name][uid]
            self._touched[node_name] = None

    def _sums(self) -> list[News]:
        """Return one `Taken` for each changed Node, unless a listing is running."""
        if self._listed is not None:
            return []
        touched, self._touched = self._touched, {}
        sums: list[News] = [Taken(name, _taken(self._there[name].values())) for name in touched]
        for name in touched:
            if not self._there[name]:
                del self._there[name]
        return sums


def _taken(pods: Collection[Amounts]) -> Amounts:
    return summed((*pods, (("pods", len(pods)),))) if pods else ()
