"""Sum up the Pods of other schedulers on each Node (P8, P28), from a watch of all of them.

Of each Pod it keeps the UID, its Node, its requests and what rules about other Pods read. Pods that
are equal in these share their objects.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from itertools import islice
from typing import Final, NamedTuple

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
from sunk_sync.core.model.pod_spec import OtherPod
from sunk_sync.core.translate.node_fit import Amounts, summed

AT_A_TIME: Final = 200
"""Nodes between two turns of the loop."""


class Seen(NamedTuple):
    """What one Pod takes, and what rules about other Pods read of it."""

    requests: Amounts
    pod: OtherPod


class OtherPods:
    """Receives the facts of that watch; reports one `Taken` for each Node that changes."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._node_of: dict[str, str] = {}
        self._there: defaultdict[str, dict[str, Seen]] = defaultdict(dict)
        """Node → UID → the Pod."""
        self._known: dict[Seen, Seen] = {}
        """One object for equal ones."""
        self._listed: set[str] | None = None
        """UIDs in the current listing; None: no listing is running."""
        self._touched: dict[str, None] = {}

    async def tell(self, news: Sequence[News]) -> None:
        """Receive facts in the order of the watch: a listing, then changes."""
        for one in news:
            match one:
                case Observed(row=Pod() as pod):
                    self._put(pod)
                case Deleted():
                    self._drop(one.uid)
                case _:
                    self._follow(one)
                    await self._report()
                    await self._tell([one])
        await self._report()

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
        seen, before = self._seen(pod), self._node_of.get(pod.uid, "")
        if before == pod.node_name and self._there[before][pod.uid] == seen:
            return
        self._drop(pod.uid)
        self._node_of[pod.uid] = pod.node_name
        self._there[pod.node_name][pod.uid] = seen
        self._touched[pod.node_name] = None

    def _seen(self, pod: Pod) -> Seen:
        other = OtherPod(
            namespace=pod.namespace,
            labels=pod.labels,
            rules=pod.spec.rules,
            terminating=pod.terminating,
        )
        seen = Seen(pod.spec.requests, other)
        if len(self._known) > 2 * len(self._node_of) + len(self._there):
            self._share_anew()
        return self._known.setdefault(seen, seen)

    def _share_anew(self) -> None:
        """Forget those that no Pod has any more."""
        self._known = {one: one for there in self._there.values() for one in there.values()}

    def _drop(self, uid: str) -> None:
        node_name = self._node_of.pop(uid, "")
        if node_name:
            del self._there[node_name][uid]
            self._touched[node_name] = None

    async def _report(self) -> None:
        """Report each changed Node, some at a time, unless a listing is running."""
        if self._listed is not None:
            return
        while names := [*islice(self._touched, AT_A_TIME)]:
            await self._tell([_taken(name, self._there[name].values()) for name in names])
            for name in names:
                del self._touched[name]
                if not self._there[name]:
                    del self._there[name]
            await asyncio.sleep(0)


def _taken(node_name: str, there: Collection[Seen]) -> Taken:
    if not there:
        return Taken(node_name, ())
    amounts = summed((*[one.requests for one in there], (("pods", len(there)),)))
    return Taken(node_name, amounts, tuple(Counter(one.pod for one in there).items()))
