"""The reader of Slurm nodes: what it tells, how often it asks, how it fails and heals."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import pytest

from sunk_sync.core.model.facts import Confirmed, ListingEnded, ListingStarted, Lost, News, Observed
from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse
from sunk_sync.slurm.api.requests import SlurmCall, Take
from sunk_sync.slurm.read.nodes import NodePoll
from sunk_sync.slurm.read.pacing import PollTiming, Time
from tests.kit.news import NewsLog
from tests.slurm.recorded.world import DOWN, World, slurm_node

NODES = [slurm_node(f"n{i}") for i in range(5)]
SOURCE: Final = "slurm_nodes"


async def until(condition: Callable[[], bool]) -> None:
    """Let others run until it holds."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    pytest.fail("it never came to that")


class Reader(NewsLog):
    """A poll over a small world, its news, its waits."""

    def __init__(
        self, world: World, *, timing: PollTiming | None = None, random: float = 1.0
    ) -> None:
        super().__init__()
        self.world = world
        self.waits: list[float] = []
        self.began: list[float] = []
        time = Time(clock=world.clock, sleep=self.sleep, random=lambda: random)
        self.poll = NodePoll(world, self.tell, timing=timing or PollTiming(), time=time)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.world.now_s += seconds
        await asyncio.sleep(0)

    async def run_until(self, polls: int) -> None:
        """Let it run until so many listings were asked for."""
        running = asyncio.ensure_future(self.poll.run())
        await until(lambda: len(self.world.asked) >= polls)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    def lost(self) -> list[Lost]:
        return [news for news in self.news if isinstance(news, Lost)]


class Quick(World):
    """Answers take `took_s` of the world's time."""

    def __init__(self, took_s: float) -> None:
        super().__init__()
        self.took_s = took_s
        self.times: list[float] = []

    def _ask(self, call: SlurmCall) -> tuple[float, str]:
        self.times.append(self.now_s)
        begun_s, line = super()._ask(call)
        self.now_s += self.took_s - 1
        return begun_s, line


async def test_a_full_listing_is_told_from_its_question_on() -> None:
    """Begun and ordered by the second just before the request."""
    reader = Reader(World().add(*NODES))
    assert await reader.poll.poll() is None
    assert reader.news == [
        ListingStarted(SOURCE, begun_s=100.0, order=100.0),
        *[Observed(node, 100.0) for node in NODES],
        ListingEnded(SOURCE),
    ]


async def test_no_nodes_at_all_is_a_listing() -> None:
    """Whether to believe it is for others to decide."""
    reader = Reader(World())
    await reader.poll.poll()
    assert reader.news == [ListingStarted(SOURCE, 100.0, 100.0), ListingEnded(SOURCE)]


async def test_an_unchanged_listing_confirms_what_is_known() -> None:
    """Where the server can say so: from v0.0.45 on."""
    world = World(changed=False).add(*NODES)
    reader = Reader(world)
    await reader.poll.poll()
    reader.news.clear()
    await reader.poll.poll()
    assert world.asked[-1] == "GET nodes/?update_time=17"
    assert reader.news == [Confirmed(SOURCE, 101.0)]


async def test_before_26_05_the_whole_is_asked_for_each_time() -> None:
    """update_time on nodes is broken there."""
    world = World(version="v0.0.42").add(*NODES)
    reader = Reader(world)
    await reader.poll.poll()
    await reader.poll.poll()
    assert world.asked == ["GET nodes/"] * 2


async def test_without_the_servers_clock_the_whole_is_asked_for() -> None:
    """Ours might be another."""
    world = World(last_update=None).add(*NODES)
    reader = Reader(world)
    await reader.poll.poll()
    await reader.poll.poll()
    assert world.asked == ["GET nodes/"] * 2


async def test_once_a_minute_the_whole_is_asked_for() -> None:
    """A controller that took over with a slower clock would hide changes for ever."""
    world = World(changed=False).add(*NODES)
    reader = Reader(world)
    await reader.poll.poll()
    await reader.poll.poll()
    world.now_s += 60
    await reader.poll.poll()
    assert world.asked[-1] == "GET nodes/"


async def test_after_a_read_of_one_node_the_whole_is_asked_for() -> None:
    """The graph may have dismissed that node's row of the last listing (7710482)."""
    world = World(changed=False).add(*NODES)
    reader = Reader(world)
    await reader.poll.poll()
    world.now_s += 1
    reader.poll.touched()
    await reader.poll.poll()
    await reader.poll.poll()
    assert world.asked == ["GET nodes/", "GET nodes/", "GET nodes/?update_time=17"]


async def test_304_to_a_whole_listing_is_no_answer() -> None:
    """It would confirm what was never read."""

    class Odd(World):
        async def read_records(
            self, call: SlurmCall, key: str, take: Take
        ) -> SlurmResponse | SlurmError:
            del call, key, take
            return self._answer(100.0, {}, unchanged=True)

    reader = Reader(Odd())
    failure = await reader.poll.poll()
    assert failure is not None
    assert reader.news == [Lost(SOURCE, str(failure))]


async def test_half_a_listing_never_ends_F4() -> None:
    """Its rows are true; what it did not name is unknown."""

    class Half(World):
        async def read_records(
            self, call: SlurmCall, key: str, take: Take
        ) -> SlurmResponse | SlurmError:
            await super().read_records(call, key, take)
            return SlurmError("broken", "connection lost")

    reader = Reader(Half().add(*NODES))
    await reader.poll.poll()
    assert [type(news) for news in reader.news] == [ListingStarted, *[Observed] * 5, Lost]


async def test_a_node_that_cannot_be_read_ends_the_listing_F4() -> None:
    """Left out it would count as gone."""

    class Strange(World):
        async def read_records(
            self, call: SlurmCall, key: str, take: Take
        ) -> SlurmResponse | SlurmError:
            answer = await super().read_records(call, key, take)
            return await take([b'{"name":7}'], 100.0) or answer

    reader = Reader(Strange().add(*NODES))
    await reader.poll.poll()
    assert ListingEnded(SOURCE) not in reader.news
    assert "a node is unreadable" in reader.lost()[0].why


async def test_a_loss_is_told_once_and_again_when_its_cause_changes_F4() -> None:
    """Not once a second for an hour."""
    world = World().add(*NODES)
    reader = Reader(world)
    for failure in (
        DOWN,
        DOWN,
        SlurmError("auth", "token"),
        SlurmError("auth", "token"),
        None,
        DOWN,
    ):
        world.before = lambda _, failure=failure: failure  # type: ignore[misc]
        await reader.poll.poll()
    whys = [str(DOWN), "auth: token", str(DOWN)]
    assert reader.lost() == [Lost(SOURCE, why) for why in whys]


async def test_after_a_minute_it_is_blind_M2() -> None:
    """Told once more, with the same cause; and it sees again by itself."""
    world = World().add(*NODES)
    reader = Reader(world)
    await reader.poll.poll()
    world.before = lambda _: DOWN
    for _ in range(3):
        await reader.poll.poll()
        world.now_s += 40
    assert reader.lost() == [Lost(SOURCE, str(DOWN)), Lost(SOURCE, str(DOWN), blind=True)]
    world.before = lambda _: None
    reader.news.clear()
    await reader.poll.poll()
    assert reader.news[-1] == ListingEnded(SOURCE)


async def test_after_a_loss_the_whole_is_asked_for() -> None:
    """Another controller may have answered meanwhile."""
    world = World(changed=False).add(*NODES)
    reader = Reader(world)
    await reader.poll.poll()
    world.before = lambda _: DOWN
    await reader.poll.poll()
    world.before = lambda _: None
    await reader.poll.poll()
    assert world.asked[-1] == "GET nodes/"


@pytest.mark.parametrize(
    ("took_s", "period_s"), [(0.005, 1.0), (0.1, 1.0), (0.2, 1.0), (0.5, 2.5), (2.0, 10.0)]
)
async def test_at_most_a_fifth_of_the_time_is_spent_waiting(took_s: float, period_s: float) -> None:
    """One request a second, fewer where a listing takes longer than 0.2 s."""
    world = Quick(took_s).add(*NODES)
    reader = Reader(world)
    await reader.run_until(4)
    periods = [b - a for a, b in zip(world.times, world.times[1:], strict=False)]
    assert periods == pytest.approx([period_s] * 3)


async def test_one_listing_that_was_held_up_makes_nobody_wait_longer() -> None:
    """slurmrestd holds a question while slurmctld restarts; the answer says nothing of its load."""
    world = Quick(0.01).add(*NODES)
    reader = Reader(world)
    await reader.run_until(2)
    world.took_s = 9.0
    await reader.run_until(4)
    held_s, next_s = world.times[-2:]
    assert next_s - held_s <= 9.0 + 0.05


async def test_failures_that_take_long_are_repeated_slower_up_to_five_seconds() -> None:
    """With jitter: 0.5 to 1 of the step."""
    world = Quick(10.0)
    world.before = lambda _: DOWN
    reader = Reader(world)
    await reader.run_until(7)
    assert reader.waits[:6] == [1.0, 2.0, 4.0, 5.0, 5.0, 5.0]
    lower = Reader(world, random=0.0)
    world.asked.clear()
    await lower.run_until(3)
    assert lower.waits[:2] == [0.5, 1.0]


async def test_failures_that_take_no_time_are_repeated_every_half_second_F4() -> None:
    """A refused connection costs slurmctld nothing, and its end is to be seen at once."""
    world = Quick(0.0)
    world.before = lambda _: DOWN
    reader = Reader(world)
    await reader.run_until(100)
    assert reader.waits == [0.5] * len(reader.waits)


async def test_failures_take_no_more_than_a_fifth_of_the_time() -> None:
    """An answer that cannot be read cost slurmctld a listing all the same."""
    world = Quick(0.2)
    world.before = lambda _: SlurmError("garbage", "x")
    reader = Reader(world, random=0.0)
    await reader.run_until(10)
    assert reader.waits[-1] == pytest.approx(5 * 0.2)


async def test_a_demand_for_news_cuts_the_wait_short() -> None:
    """But not the share of time, and not a listing that runs."""
    world = Quick(0.01).add(*NODES)
    reader = Reader(world, timing=PollTiming(interval_s=100.0))
    blocked = asyncio.Event()

    async def sleep(seconds: float) -> None:
        reader.waits.append(seconds)
        if seconds > 1:
            await blocked.wait()

    reader.poll._time = Time(clock=world.clock, sleep=sleep, random=lambda: 0.0)
    running = asyncio.ensure_future(reader.poll.run())
    await until(lambda: len(reader.waits) >= 3)
    assert len(world.asked) == 1
    reader.poll.poll_now()
    await until(lambda: len(world.asked) >= 2)
    running.cancel()
    rests = [pytest.approx(rest) for rest in (0.04, 0.01, 99.94)]
    assert reader.waits[:3] == rests


async def test_a_full_inbox_is_waited_for() -> None:
    """What the loop cannot take is not read from the wire."""
    world = World().add(*NODES)
    room = asyncio.Event()

    async def tell(news: Sequence[News]) -> None:
        del news
        await room.wait()

    time = Time(clock=world.clock, sleep=asyncio.sleep, random=lambda: 0.0)
    poll = NodePoll(world, tell, timing=PollTiming(), time=time)
    running = asyncio.ensure_future(poll.poll())
    await asyncio.sleep(0.01)
    assert not running.done()
    room.set()
    assert await running is None
