"""The number of submissions under way at once follows the time that each one takes."""

import asyncio

import pytest

from sunk_sync.slurm.api.client import BULK_MAX
from sunk_sync.slurm.write.concurrency import MOST, Throttle, next_limit


class Server:
    """Serves `parallel` calls at a time, `service_s` each; the others wait."""

    def __init__(self, *, parallel: float, service_s: float) -> None:
        self.parallel = parallel
        self.service_s = service_s

    def took_s(self, under_way: int) -> float:
        return self.service_s * max(1.0, under_way / self.parallel)


def settled(server: Server) -> set[int]:
    """Return the limits that it reaches after a while."""
    limit, quickest_s, seen = 2, float("inf"), []
    for _ in range(200):
        usual_s = server.took_s(limit)
        quickest_s = min(quickest_s * 1.02, usual_s)
        limit = next_limit(limit, quickest_s=quickest_s, usual_s=usual_s)
        seen.append(limit)
    return set(seen[50:])


@pytest.mark.parametrize("service_s", [0.002, 2.0])
@pytest.mark.parametrize("parallel", [2, 4, 8])
def test_the_limit_reaches_the_parallelism_of_the_server(parallel: int, service_s: float) -> None:
    assert min(settled(Server(parallel=parallel, service_s=service_s))) >= min(parallel, MOST)


def test_the_limit_falls_when_slurmctld_is_slower_under_load() -> None:
    assert next_limit(5, quickest_s=0.002, usual_s=0.04) == 4
    assert next_limit(1, quickest_s=0.002, usual_s=0.2) == 2


@pytest.mark.parametrize(("quickest_s", "usual_s"), [(1.0, 1.0), (0.0, 0.0), (0.0, 9.0)])
def test_the_limit_stays_in_its_bounds(quickest_s: float, usual_s: float) -> None:
    """At least one; one connection stays free for the listing."""
    for limit in range(1, MOST + 1):
        assert 1 <= next_limit(limit, quickest_s=quickest_s, usual_s=usual_s) <= MOST < BULK_MAX


async def test_slots_are_given_in_order_and_never_beyond_the_limit() -> None:
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


async def test_a_cancelled_wait_takes_no_slot() -> None:
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
    async with asyncio.timeout(60):
        await asyncio.gather(*calls[4:])
        async with throttle.slot(), throttle.slot():
            pass
