"""The reader of Slurm nodes: its facts, the pace of its listings, its failures."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.facts import Confirmed, ListingEnded, ListingStarted, Lost, News, Observed
from sunk_sync.core.model.node_set_answers import ControllerAge, NodeLimit
from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse
from sunk_sync.slurm.api.requests import SlurmCall, Take
from sunk_sync.slurm.read.nodes import AlsoRead, NodePoll
from sunk_sync.slurm.read.pacing import PollTiming, Time
from tests.kit.job_reader import until
from tests.kit.news import NewsLog
from tests.slurm.recorded.slurm_nodes import DOWN, SlurmNodes, slurm_node

NODES = [slurm_node(f"n{i}") for i in range(5)]
SOURCE: Final = "slurm_nodes"


class Reader(NewsLog):
    """A poll of a small Slurm, its news, its waits."""

    def __init__(
        self,
        slurm: SlurmNodes,
        *,
        timing: PollTiming | None = None,
        random: float = 1.0,
        asks_age: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__()
        self.slurm = slurm
        self.waits: list[float] = []
        self.began: list[float] = []
        time = Time(clock=slurm.clock, sleep=self.sleep, random=lambda: random)
        timing = timing or PollTiming()
        also = AlsoRead(asks_age=asks_age)
        self.poll = NodePoll(slurm, self.tell, timing=timing, time=time, also=also)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.slurm.now_s += seconds
        await asyncio.sleep(0)

    async def run_until(self, polls: int) -> None:
        """Let it run until so many listings were requested."""
        running = asyncio.ensure_future(self.poll.run())
        await until(lambda: len(self.slurm.asked) >= polls)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    def lost(self) -> list[Lost]:
        return [news for news in self.news if isinstance(news, Lost)]


async def polled(slurm: SlurmNodes) -> Reader:
    reader = Reader(slurm)
    await reader.poll.poll()
    return reader


async def test_a_listing_and_its_rows_have_the_time_before_the_request() -> None:
    reader = Reader(SlurmNodes().add(*NODES))
    assert await reader.poll.poll() is None
    assert reader.news == [
        ListingStarted(SOURCE, begun_s=100.0, order=100.0),
        *[Observed(node, 100.0) for node in NODES],
        ListingEnded(SOURCE),
    ]


AGE = b'{"statistics":{"req_time":1000,"req_time_start":900}}'


def with_age(answer: SlurmResponse | SlurmError, *, changed: bool = True) -> Reader:
    """Make a poll that asks for the age of slurmctld, which answers so."""
    slurm = SlurmNodes(changed=changed).add(*NODES)
    slurm.before = lambda asked: answer if asked == "GET diag/" else None
    return Reader(slurm, asks_age=lambda: True)


ANSWERED = SlurmResponse(body=AGE, version="v0.0.45", asked_s=0.0, answered_s=0.0)


async def test_the_age_of_slurmctld_comes_after_the_answer_and_before_the_end_of_a_listing_N3() -> (
    None
):
    reader = with_age(ANSWERED, changed=False)
    await reader.poll.poll()
    age, end = reader.news[-2:]
    assert isinstance(age, ControllerAge)
    assert (age.runs_s, end) == (99.0, ListingEnded(SOURCE))
    assert age.asked_s > 100.0, "the listing began then"
    await reader.poll.poll()
    age, end = reader.news[-2:]
    assert isinstance(age, ControllerAge)
    assert isinstance(end, Confirmed)
    assert age.asked_s > end.begun_s


async def test_the_largest_number_of_nodes_is_read_with_it_once_a_minute_N3() -> None:
    answers = {
        "GET diag/": ANSWERED,
        "GET conf": replace(ANSWERED, body=b'{"slurm_conf":{"MaxNodeCount":2}}'),
        "GET ping/": replace(ANSWERED, body=b"{}"),
    }
    slurm = SlurmNodes().add(*NODES)
    slurm.before = answers.get
    reader = Reader(slurm, asks_age=lambda: True)
    for _ in range(3):
        await reader.poll.poll()
    assert [one for one in reader.news if isinstance(one, NodeLimit)] == [NodeLimit(2)]


async def test_a_listing_counts_without_the_age_of_slurmctld_N3() -> None:
    reader = with_age(DOWN)
    assert await reader.poll.poll() is None
    assert reader.news[-1] == ListingEnded(SOURCE)
    assert not [one for one in reader.news if isinstance(one, ControllerAge)]


async def test_a_listing_without_nodes_is_reported() -> None:
    """The graph decides whether to believe it."""
    reader = await polled(SlurmNodes())
    assert reader.news == [ListingStarted(SOURCE, 100.0, 100.0), ListingEnded(SOURCE)]


async def test_an_unchanged_listing_is_a_confirmation() -> None:
    slurm = SlurmNodes(changed=False).add(*NODES)
    reader = await polled(slurm)
    reader.news.clear()
    await reader.poll.poll()
    assert slurm.asked[-1] == "GET nodes/?update_time=17"
    assert reader.news == [Confirmed(SOURCE, 101.0)]


@pytest.mark.parametrize(
    "fields",
    [{"version": "v0.0.42"}, {"last_update": None}],
    ids=["update_time is broken before 26.05", "the server did not send its time"],
)
async def test_without_update_time_every_listing_is_complete(fields: dict[str, Any]) -> None:
    slurm = SlurmNodes(**fields).add(*NODES)
    reader = await polled(slurm)
    await reader.poll.poll()
    assert slurm.asked == ["GET nodes/"] * 2


async def test_once_a_minute_the_listing_is_complete() -> None:
    """A backup slurmctld with a slower clock would hide changes for ever."""
    slurm = SlurmNodes(changed=False).add(*NODES)
    reader = await polled(slurm)
    await reader.poll.poll()
    slurm.now_s += 60
    await reader.poll.poll()
    assert slurm.asked[-1] == "GET nodes/"


async def test_after_a_read_of_one_node_the_next_listing_is_complete() -> None:
    """The graph may have dropped the row of that node from the last listing (seed 7710482)."""
    slurm = SlurmNodes(changed=False).add(*NODES)
    reader = await polled(slurm)
    slurm.now_s += 1
    reader.poll.touched()
    await reader.poll.poll()
    await reader.poll.poll()
    assert slurm.asked == ["GET nodes/", "GET nodes/", "GET nodes/?update_time=17"]


async def test_304_to_a_complete_listing_is_a_failure() -> None:
    slurm = SlurmNodes()
    slurm.before = lambda _: slurm._answer(100.0, {}, unchanged=True)
    reader = Reader(slurm)
    failure = await reader.poll.poll()
    assert failure is not None
    assert reader.news == [Lost(SOURCE, str(failure))]


async def test_a_broken_listing_does_not_end_F4() -> None:
    reader = await polled(SlurmNodes(end=SlurmError("broken", "connection lost")).add(*NODES))
    assert [type(news) for news in reader.news] == [ListingStarted, *[Observed] * 5, Lost]


async def test_a_node_that_cannot_be_read_breaks_the_listing_F4() -> None:
    """A node missing from a listing would count as gone."""
    reader = await polled(SlurmNodes(unreadable=True).add(*NODES))
    assert ListingEnded(SOURCE) not in reader.news
    assert "a node is unreadable" in reader.lost()[0].why


async def test_a_loss_is_reported_once_for_each_cause_F4() -> None:
    slurm = SlurmNodes().add(*NODES)
    reader = Reader(slurm)
    auth = SlurmError("auth", "token")
    for failure in (DOWN, DOWN, auth, auth, None, DOWN):
        slurm.before = lambda _, failure=failure: failure  # type: ignore[misc]
        await reader.poll.poll()
    whys = [str(DOWN), "auth: token", str(DOWN)]
    assert reader.lost() == [Lost(SOURCE, why) for why in whys]


async def test_after_a_minute_the_loss_is_reported_as_blind_until_a_listing_succeeds_M2() -> None:
    slurm = SlurmNodes().add(*NODES)
    reader = await polled(slurm)
    slurm.before = lambda _: DOWN
    for _ in range(3):
        await reader.poll.poll()
        slurm.now_s += 40
    assert reader.lost() == [Lost(SOURCE, str(DOWN)), Lost(SOURCE, str(DOWN), blind=True)]
    slurm.before = lambda _: None
    reader.news.clear()
    await reader.poll.poll()
    assert reader.news[-1] == ListingEnded(SOURCE)


async def test_after_a_loss_the_next_listing_is_complete() -> None:
    """A backup slurmctld may have taken over."""
    slurm = SlurmNodes(changed=False).add(*NODES)
    reader = await polled(slurm)
    slurm.before = lambda _: DOWN
    await reader.poll.poll()
    slurm.before = lambda _: None
    await reader.poll.poll()
    assert slurm.asked[-1] == "GET nodes/"


@pytest.mark.parametrize(
    ("took_s", "period_s"), [(0.005, 1.0), (0.1, 1.0), (0.2, 1.0), (0.5, 2.5), (2.0, 10.0)]
)
async def test_at_most_a_fifth_of_the_time_is_spent_waiting(took_s: float, period_s: float) -> None:
    slurm = SlurmNodes(tick_s=took_s).add(*NODES)
    reader = Reader(slurm)
    await reader.run_until(4)
    periods = [b - a for a, b in zip(slurm.times, slurm.times[1:], strict=False)]
    assert periods == pytest.approx([period_s] * 3)


async def test_one_slow_listing_does_not_delay_the_next() -> None:
    """slurmrestd holds a request while slurmctld restarts; that time says nothing about load."""
    slurm = SlurmNodes(tick_s=0.01).add(*NODES)
    reader = Reader(slurm)
    await reader.run_until(2)
    slurm.tick_s = 9.0
    await reader.run_until(4)
    held_s, next_s = slurm.times[-2:]
    assert next_s - held_s <= 9.0 + 0.05


class SlowVersions(SlurmNodes):
    """The first call takes long before it asks for the nodes: proxies answer each version late."""

    async def read_records(
        self, call: SlurmCall, key: str, take: Take
    ) -> SlurmResponse | SlurmError:
        if not self.asked:
            self.now_s += 20.0
        return await super().read_records(call, key, take)


async def test_slow_questions_for_the_version_delay_no_listing() -> None:
    """With a rest of four times as long a simulation was blind for 68 seconds."""
    slurm = SlowVersions(tick_s=0.01).add(*NODES)
    await Reader(slurm).run_until(2)
    first_s, second_s = slurm.times[:2]
    assert second_s - first_s <= 1.0


async def test_slow_failures_are_repeated_with_a_back_off_up_to_five_seconds() -> None:
    slurm = SlurmNodes(tick_s=10.0)
    slurm.before = lambda _: DOWN
    reader = Reader(slurm)
    await reader.run_until(7)
    assert reader.waits[:6] == [1.0, 2.0, 4.0, 5.0, 5.0, 5.0]
    lower = Reader(slurm, random=0.0)
    slurm.asked.clear()
    await lower.run_until(3)
    assert lower.waits[:2] == [0.5, 1.0]


async def test_quick_failures_are_repeated_every_half_second_F4() -> None:
    """A refused connection costs slurmctld nothing."""
    slurm = SlurmNodes(tick_s=0.0)
    slurm.before = lambda _: DOWN
    reader = Reader(slurm)
    await reader.run_until(100)
    assert reader.waits == [0.5] * len(reader.waits)


async def test_failures_take_no_more_than_a_fifth_of_the_time() -> None:
    slurm = SlurmNodes(tick_s=0.2)
    slurm.before = lambda _: SlurmError("garbage", "x")
    reader = Reader(slurm, random=0.0)
    await reader.run_until(10)
    assert reader.waits[-1] == pytest.approx(5 * 0.2)


async def test_poll_now_shortens_the_wait_but_not_the_share_of_time() -> None:
    slurm = SlurmNodes(tick_s=0.01).add(*NODES)
    reader = Reader(slurm, timing=PollTiming(interval_s=100.0))
    blocked = asyncio.Event()

    async def sleep(seconds: float) -> None:
        reader.waits.append(seconds)
        if seconds > 1:
            await blocked.wait()

    reader.poll._time = Time(clock=slurm.clock, sleep=sleep, random=lambda: 0.0)
    running = asyncio.ensure_future(reader.poll.run())
    await until(lambda: len(reader.waits) >= 3)
    assert len(slurm.asked) == 1
    reader.poll.poll_now()
    await until(lambda: len(slurm.asked) >= 2)
    running.cancel()
    rests = [pytest.approx(rest) for rest in (0.04, 0.01, 99.94)]
    assert reader.waits[:3] == rests


async def test_the_poll_waits_while_the_inbox_is_full() -> None:
    slurm = SlurmNodes().add(*NODES)
    room = asyncio.Event()

    async def tell(news: Sequence[News]) -> None:
        del news
        await room.wait()

    time = Time(clock=slurm.clock, sleep=asyncio.sleep, random=lambda: 0.0)
    poll = NodePoll(slurm, tell, timing=PollTiming(), time=time)
    running = asyncio.ensure_future(poll.poll())
    await asyncio.sleep(0.01)
    assert not running.done()
    room.set()
    assert await running is None


@pytest.mark.parametrize("usage", [True, False])
async def test_a_listing_tells_how_full_the_nodes_are_only_with_packing_W2(usage: bool) -> None:
    row = replace(NODES[0], weight=5, fill=2)
    slurm = SlurmNodes().add(row)
    log = NewsLog()
    poll = NodePoll(
        slurm,
        log.tell,
        timing=PollTiming(),
        time=Time(clock=slurm.clock, sleep=asyncio.sleep, random=lambda: 1.0),
        also=AlsoRead(usage=usage),
    )
    await poll.poll()
    expected = row if usage else replace(row, weight=0, fill=None)
    assert Observed(expected, 100.0) in log.news
