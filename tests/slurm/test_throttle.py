"""How many submissions are under way at once: by what each takes, never more than there is."""

import asyncio

import pytest

from sunk_sync.slurm.api.client import BULK_MAX
from sunk_sync.slurm.write.concurrency import MOST, Throttle, next_limit


class Server:
    """Serves `parallel` calls at a time, `service_s` each; the others stand in a queue."""

    def __init__(self, *, parallel: float, service_s: float) -> None:
        self.parallel = parallel
        self.service_s = service_s

    def took_s(self, under_way: int) -> float:
        return self.service_s * max(1.0, under_way / self.parallel)


def settled(server: Server) -> set[int]:
    """Limits that it comes to, after a while."""
    limit, quickest_s, seen = 2, float("inf"), []
    for _ in range(200):
        usual_s = server.took_s(limit)
        quickest_s = min(quickest_s * 1.02, usual_s)
        limit = next_limit(limit, quickest_s=quickest_s, usual_s=usual_s)
        seen.append(limit)
    return set(seen[50:])


@pytest.mark.parametrize("service_s", [0.002, 2.0])
@pytest.mark.parametrize("parallel", [2, 4, 8])
def test_a_server_that_works_on_several_gets_as_many(parallel: int, service_s: float) -> None:
    """However fast or slow it is."""
    assert min(settled(Server(parallel=parallel, service_s=service_s))) >= min(parallel, MOST)


def test_what_only_waits_longer_is_held_back() -> None:
    """Twenty times slower under load than alone: slurmctld has other work."""
    assert next_limit(5, quickest_s=0.002, usual_s=0.04) == 4
    assert next_limit(1, quickest_s=0.002, usual_s=0.2) == 2


@pytest.mark.parametrize(("quickest_s", "usual_s"), [(1.0, 1.0), (0.0, 0.0), (0.0, 9.0)])
def test_the_limit_stays_in_its_bounds(quickest_s: float, usual_s: float) -> None:
    """A connection is left for the listing, and there is always one."""
    for limit in range(1, MOST + 1):
        assert 1 <= next_limit(limit, quickest_s=quickest_s, usual_s=usual_s) <= MOST < BULK_MAX


async def test_turns_are_taken_in_order_and_never_too_many_at_once() -> None:
    """Oldest first (P26); it grows while nothing waits."""
    throttle = Throttle()
    began: list[int] = []
    under_way = most = 0

    async def call(number: int) -> None:
        nonlocal under_way, most
        async with throttle.slot():
            began.append(number)
            under_way += 1
            most = max(most, under_way)
            assert under_way <= throttle.limit
            await asyncio.sleep(0)
            under_way -= 1
            throttle.note(0.001)

    await asyncio.gather(*map(call, range(100)))
    assert began == sorted(began)
    assert 2 < most <= MOST


async def test_who_gives_up_waiting_takes_nobodys_turn() -> None:
    """Whether its turn had come or not."""
    throttle = Throttle()
    gate = asyncio.Event()

    async def call() -> None:
        async with throttle.slot():
            await gate.wait()

    calls = [asyncio.ensure_future(call()) for _ in range(6)]
    await asyncio.sleep(0)
    for one in calls[:4]:
        one.cancel()
    await asyncio.gather(*calls[:4], return_exceptions=True)
    gate.set()
    async with asyncio.timeout(1):
        await asyncio.gather(*calls[4:])
        async with throttle.slot(), throttle.slot():
            pass
