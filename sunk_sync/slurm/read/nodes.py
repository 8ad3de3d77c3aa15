"""List the Slurm nodes for ever. The listing also proves that slurmctld works.

/ping still answers while slurmctld hangs, so only this listing counts. If the server can answer 304
to an unchanged listing, sunk-sync requests that. But it requests all nodes once a minute: a
controller that took over with a slower clock would hide changes behind 304. It also requests all
nodes after a read or write of a single node: the graph may have ignored that node in the last
listing, because the listing was requested earlier, and 304 would never show it again.

While a ready Pod of a NodeSet has no record, it reads after each listing how long slurmctld has
run: one that has just started may show too few nodes (N3).
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from sunk_sync.core.model.facts import (
    Confirmed,
    ListingEnded,
    ListingStarted,
    Lost,
    News,
    Observed,
    Tell,
)
from sunk_sync.core.model.node_set_answers import ControllerAge, NodeLimit
from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse, number_of, read_envelope
from sunk_sync.slurm.api.client import Slurm
from sunk_sync.slurm.api.controller import read_conf, runs_at_least_s
from sunk_sync.slurm.api.requests import list_nodes
from sunk_sync.slurm.api.versions import dialect_of
from sunk_sync.slurm.decode.nodes import read_node
from sunk_sync.slurm.read.pacing import PollLoop, PollTiming, Time

_SOURCE: Final = "slurm_nodes"
LIMIT_EVERY_S: Final = 60.0
NEVER: Final = float("-inf")


class AlsoRead(Struct, frozen=True, kw_only=True):
    """What the listings must tell besides states, reasons and comments."""

    asks_age: Callable[[], bool] = lambda: False
    """Whether the age of slurmctld is needed now, and how many nodes it takes."""
    usage: bool = False
    """How full the nodes are, and their weights."""


NOTHING_ELSE: Final = AlsoRead()


class NodePoll:
    def __init__(
        self,
        client: Slurm,
        tell: Tell,
        *,
        timing: PollTiming,
        time: Time,
        also: AlsoRead = NOTHING_ELSE,
    ) -> None:
        self._also = also
        self._client = client
        self._tell = tell
        self._timing = timing
        self._time = time
        self._loop = PollLoop(timing, time)
        self._read_s = time.clock()
        self._lost: Lost | None = None
        self._since_s: int | None = None
        self._full_s = 0.0
        self._touched_s = 0.0
        """When another reader or writer last reported single nodes."""
        self._limit_s = NEVER
        """When the largest number of nodes was last asked for."""

    def poll_now(self) -> None:
        """Start a listing as soon as the share of time allows; a running one is too old."""
        self._loop.poll_now()

    def touched(self) -> None:
        """Note that single nodes were reported: request all nodes next time."""
        self._touched_s = self._time.clock()

    async def run(self) -> None:
        await self._loop.run(self.poll, interval=self._interval)

    def _interval(self) -> float:
        return self._timing.interval_s * self._timing.rarer

    async def poll_after(self, since_s: float) -> None:
        """Wait for the end of a complete listing that began later; it may fail."""
        self.touched()
        await self._loop.poll_after(since_s)

    async def poll(self) -> SlurmError | None:
        """List once and report it. Report a failure as Lost, once for each new reason."""
        answer = await self._list()
        if isinstance(answer, SlurmError):
            await self._lose(answer)
            return answer
        self._loop.listing_s = answer.answered_s - answer.asked_s
        self._read_s = answer.answered_s
        self._lost = None
        return None

    async def _list(self) -> SlurmResponse | SlurmError:
        since_s = self._since()
        telling = _Telling(self._tell, usage=self._also.usage)
        call = list_nodes(changed_since_s=since_s)
        answer = await self._client.read_records(call, "nodes", telling.take)
        if isinstance(answer, SlurmError):
            return answer
        await self._tell_age()
        if not answer.unchanged:
            await telling.end(answer.asked_s)
            self._remember(answer)
        elif since_s is None:
            return SlurmError("garbage", "slurmrestd answered 304 to an unconditional listing")
        else:
            await self._tell([Confirmed(_SOURCE, answer.asked_s)])
        return answer

    async def _tell_age(self) -> None:
        """Tell the age of slurmctld before the end of the listing, which it belongs to."""
        if not self._also.asks_age():
            return
        asked_s = self._time.clock()
        runs_s = await runs_at_least_s(self._client)
        if not isinstance(runs_s, SlurmError):
            await self._tell([ControllerAge(asked_s, runs_s)])
        await self._tell_limit(asked_s)

    async def _tell_limit(self, now: float) -> None:
        """Tell how many nodes Slurm takes: a slurmd beyond them lives on without a word."""
        if now < self._limit_s + LIMIT_EVERY_S:
            return
        self._limit_s = now
        conf = await read_conf(self._client)
        if not isinstance(conf, SlurmError) and conf.nodes_max is not None:
            await self._tell([NodeLimit(conf.nodes_max)])

    def _since(self) -> int | None:
        full_every_s = self._timing.full_every_s * self._timing.rarer
        due = self._time.clock() - self._full_s >= full_every_s
        return None if due or self._touched_s > self._full_s else self._since_s

    def _remember(self, answer: SlurmResponse) -> None:
        """Keep slurmctld's time of this listing, to request later changes."""
        envelope = read_envelope(answer.body)
        conditional = dialect_of(answer.version).conditional_nodes
        updated = None if isinstance(envelope, SlurmError) else number_of(envelope.last_update)
        self._since_s = int(updated) if conditional and updated else None
        self._full_s = answer.asked_s

    async def _lose(self, failure: SlurmError) -> None:
        self._since_s = None
        unread_s = self._time.clock() - self._read_s
        lost = Lost(_SOURCE, str(failure), blind=unread_s >= self._timing.blind_after_s)
        if lost != self._lost:
            self._lost = lost
            await self._tell([lost])


class _Telling:
    """One listing as news: the rows as they arrive; its end only without an error."""

    def __init__(self, tell: Tell, *, usage: bool) -> None:
        self._tell = tell
        self._usage = usage
        self._started = False

    async def take(self, records: Sequence[bytes], asked_s: float) -> SlurmError | None:
        news = self._start(asked_s)
        for record in records:
            node = read_node(record, usage=self._usage)
            if isinstance(node, SlurmError):
                return node
            news.append(Observed(node, asked_s))
        await self._tell(news)
        return None

    async def end(self, asked_s: float) -> None:
        await self._tell([*self._start(asked_s), ListingEnded(_SOURCE)])

    def _start(self, asked_s: float) -> list[News]:
        if self._started:
            return []
        self._started = True
        return [ListingStarted(_SOURCE, begun_s=asked_s, order=asked_s)]
