"""Perform actions on Slurm nodes: read, check the precondition, send few requests.

slurmctld has no compare-and-set. A change by a user between the read and the write, one round trip,
is lost (S0).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final, TypeGuard

import anyio
import msgspec
from msgspec import Struct

from sunk_sync.core.model.actions import (
    Action,
    GetSlurmNode,
    SetComment,
    SetFeatures,
    SetTopology,
    SetWeight,
    SlurmAction,
)
from sunk_sync.core.model.facts import Observed, SlurmNode, Tell
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse
from sunk_sync.slurm.api.client import Slurm
from sunk_sync.slurm.api.http import Clock
from sunk_sync.slurm.api.requests import post_node, post_nodes
from sunk_sync.slurm.api.versions import dialect_of
from sunk_sync.slurm.read.one_node import YOUNG_S, Reads, is_node_name, read_nodes_now
from sunk_sync.slurm.write.precondition import Forbidden, NodeUpdate, plan

BULK: Final = (SetComment, SetFeatures, SetTopology, SetWeight)
_KEPT_S: Final = 60.0
"""Longer than any push."""


class _Write(Struct, frozen=True):
    """A desired write that its node allows: its index in the batch, and what to send."""

    index: int
    action: SlurmAction
    node: SlurmNode
    read_s: float
    change: NodeUpdate

    @property
    def bulk(self) -> bool:
        """Marks and features come by the thousand and can wait; drains cannot."""
        return isinstance(self.action, BULK)


class SlurmPush:
    """The only writer of Slurm nodes; its method `push` is an outcomes.Push.

    `tell` takes each read before its write is sent. A write can last for ten seconds, and other
    decisions must not rely on an older listing meanwhile (S6).
    """

    def __init__(
        self, client: Slurm, clock: Clock, *, tell: Tell | None = None, usage: bool = False
    ) -> None:
        """`usage`: also read how full the nodes are."""
        self._usage = usage
        self._client = client
        self._clock = clock
        self._tell = tell
        self._written: dict[str, tuple[SlurmNode, float]] = {}
        """Nodes after the last writes, and when: another batch may have read before."""

    async def push(self, actions: Sequence[Action]) -> Sequence[Outcome]:
        self._forget()
        desired_writes = [action for action in actions if _is_desired(action)]
        reads = await self._read(desired_writes)
        outcomes: dict[int, Outcome] = {}
        writes: list[_Write] = []
        for index, action in enumerate(actions):
            verdict = _judge(index, action, reads)
            if isinstance(verdict, _Write):
                writes.append(verdict)
            else:
                outcomes[index] = verdict
        for answered in await anyio.gather(*map(self._send, _grouped(writes))):
            outcomes.update(answered)
        return [outcomes[index] for index in range(len(actions))]

    async def _read(self, desired_writes: Sequence[SlurmAction | GetSlurmNode]) -> Reads:
        names = {desired.slurm_node for desired in desired_writes}
        bulk = all(isinstance(desired, BULK) for desired in desired_writes)
        reads = await read_nodes_now(
            self._client, names, bulk=bulk, clock=self._clock, usage=self._usage
        )
        if self._tell is not None:
            seen = [one for one in reads.values() if not isinstance(one, SlurmError)]
            await self._tell([news for one in seen for news in one.news])
        return reads

    async def _send(self, group: Sequence[_Write]) -> dict[int, Outcome]:
        """Send one request for all. If it is refused, some were changed: then send one each."""
        answer = await self._post(group)
        if isinstance(answer, SlurmError) and answer.final and len(group) > 1:
            singles = await anyio.gather(*(self._send([write]) for write in group))
            return {index: outcome for single in singles for index, outcome in single.items()}
        return {write.index: self._outcome(write, answer) for write in group}

    async def _post(self, group: Sequence[_Write]) -> SlurmResponse | SlurmError:
        """Send now or not at all: not after a long wait, nor again with another token (S0)."""
        first, by_s = group[0], self._clock() + YOUNG_S

        def young() -> bool:
            return self._clock() <= by_s

        if len(group) == 1:
            body = _body(first.change)
            call = post_node(first.node.name, body, bulk=first.bulk, wanted=young)
        else:
            body = _body(first.change, [write.node.name for write in group])
            call = post_nodes(body, wanted=young)
        return await self._client.call(call)

    def _outcome(self, write: _Write, answer: SlurmResponse | SlurmError) -> Outcome:
        if isinstance(answer, SlurmError):
            news = () if answer.kind == "no_such" else (Observed(write.node, write.read_s),)
            return _unsuccessful(write.action, answer, news)
        return Done(write.action, (self._note(write, answer),))

    def _note(self, write: _Write, answer: SlurmResponse) -> Observed:
        """Return the node after this write, which may follow other writes since it was read."""
        name, read = write.node.name, (write.node, write.read_s)
        node, order = max(read, self._written.get(name, read), key=itemgetter(1))
        clears = dialect_of(answer.version).undrain_clears_reason
        after = write.change.applied_to(node, clears_reason=clears)
        written = (after, max(answer.answered_s, order))
        self._written.pop(name, None)  # the newest entries are last
        self._written[name] = written
        return Observed(*written)

    def _forget(self) -> None:
        now_s = self._clock()
        while self._written:
            name, (_, written_s) = next(iter(self._written.items()))
            if now_s - written_s < _KEPT_S:
                return
            del self._written[name]


def _is_desired(action: Action) -> TypeGuard[SlurmAction | GetSlurmNode]:
    """Whether the action is for one Slurm node."""
    if not isinstance(action, SlurmAction | GetSlurmNode):
        return False
    return is_node_name(action.slurm_node) is not None


def _judge(index: int, action: Action, reads: Reads) -> _Write | Outcome:
    """Return the write for this action on its node as read, or the outcome."""
    if not _is_desired(action):
        return Refused(action, "the action does not name one Slurm node")
    seen = reads[action.slurm_node]
    if isinstance(seen, SlurmError):
        return _unsuccessful(action, seen)
    if isinstance(action, GetSlurmNode):
        return Done(action, seen.news)
    if seen.too_old:
        return Unsure(action, seen.too_old, seen=seen.news)
    if seen.node is None:
        return Refused(action, "Slurm has no such node", seen.news, missing=True)
    planned = plan(action, seen.node)
    if planned is None:
        return Done(action, seen.news)
    if isinstance(planned, Forbidden):
        return Refused(action, planned.why, seen.news)
    return _Write(index, action, seen.node, seen.asked_s, planned)


def _unsuccessful(action: Action, failure: SlurmError, news: Sequence[Observed] = ()) -> Outcome:
    """Return the outcome of a failed call, with `news`, which was read before the call."""
    if failure.final:
        return Refused(action, str(failure), tuple(news), missing=failure.kind == "no_such")
    return Unsure(action, str(failure), seen=tuple(news))


def _grouped(writes: Iterable[_Write]) -> Iterable[Sequence[_Write]]:
    groups: defaultdict[NodeUpdate, list[_Write]] = defaultdict(list)
    for write in writes:
        groups[write.change].append(write)
    return groups.values()


def _body(change: NodeUpdate, names: Sequence[str] = ()) -> bytes:
    """Return the update for slurmrestd, without unchanged fields."""
    fields = {
        "name": names or None,
        "state": [change.state] if change.state else None,
        "reason": change.reason,
        "comment": change.comment,
        "features": change.features,
        "features_act": change.active_features,
        "weight": change.weight,
        "topology_str": change.topology,
    }
    return msgspec.json.encode({name: value for name, value in fields.items() if value is not None})
