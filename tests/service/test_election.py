"""F6: of several replicas at most one writes, whatever happens to them and to the Lease."""

import asyncio
import random

import pytest

from sunk_sync.service.election import ElectionTiming, Elector
from tests.kit.clock import in_virtual_time, now, run
from tests.service.election_world import DURATION_S, History, LeaseServer, Replica

SEEDS = range(40)
LONGEST_S = 60.0
"""A Lease may name a longer duration, and others wait as long, but no longer than this."""
HERE_S = 1.0
"""A take-over needs no more than this beyond the Lease: looks, calls and their deadlines."""


async def played(seed: int) -> LeaseServer:
    return await History(seed).play()


@pytest.mark.parametrize("seed", SEEDS)
def test_never_do_two_replicas_write_F6(seed: int) -> None:
    """Kills, stops, pauses, cut-offs, lost answers, clock jumps, and Leases that people change."""
    server = run(played(seed))
    assert server.violations == []


def test_the_histories_have_writes_and_many_leaders() -> None:
    """Otherwise they would show nothing."""
    servers = [run(played(seed)) for seed in SEEDS[:10]]
    assert sum(server.writes for server in servers) > 5000
    assert sum(len(server.taken) for server in servers) > 50


def found(seeds: range) -> bool:
    return any(run(played(seed)).violations for seed in seeds)


def test_the_histories_notice_a_lease_that_is_taken_while_it_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Elector, "_is_free", lambda *_: True)
    assert found(SEEDS[:3])


def test_the_histories_notice_an_emptied_lease_that_counts_as_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Elector, "_is_released", lambda _, lease, now: not lease.holder)  # noqa: ARG005
    assert found(SEEDS)


def test_the_histories_notice_a_leader_that_writes_until_others_take_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A margin that is too small."""
    monkeypatch.setattr(ElectionTiming, "margin_s", property(lambda _: -1.5))
    assert found(SEEDS)


@pytest.mark.parametrize("seed", SEEDS[:20])
def test_somebody_leads_soon_after_the_last_fault_F6(seed: int) -> None:
    """However the Lease was left."""

    async def story() -> None:
        history = History(seed)
        await history.play()
        await history.calm(LONGEST_S + 4 * DURATION_S)
        assert history.server.holder in {one.identity for one in history.replicas}
        assert history.server.violations == []

    run(story())


async def pair() -> tuple[LeaseServer, Replica, Replica]:
    """A leader and a standby that has seen it."""
    server = LeaseServer()
    leader = Replica(server, random.Random(1), "a")
    await until_led(server, "a")
    standby = Replica(server, random.Random(2), "b")
    await asyncio.sleep(2.0)
    return server, leader, standby


async def until_led(server: LeaseServer, identity: str) -> float:
    """Wait until this replica took the Lease; return the seconds."""
    began_s = now()
    while server.holder != identity:  # noqa: ASYNC110 - the server is not ours to change
        await asyncio.sleep(0.001)
    return now() - began_s


@in_virtual_time
async def test_a_released_lease_is_taken_at_once_F6() -> None:
    server, leader, _ = await pair()
    await leader.stop()
    assert await until_led(server, "b") < 0.5


@in_virtual_time
async def test_the_lease_of_a_killed_leader_is_taken_when_it_expires_F6() -> None:
    server, leader, _ = await pair()
    leader.kill()
    taken_s = await until_led(server, "b")
    assert DURATION_S - 1.1 < taken_s < DURATION_S + HERE_S


@in_virtual_time
async def test_a_leader_that_was_stopped_writes_nothing_after_it_wakes_up_F6() -> None:
    server, leader, standby = await pair()
    leader.pause()
    await until_led(server, "b")
    await asyncio.sleep(60)
    leader.wake()
    await asyncio.sleep(10)
    assert server.violations == []
    assert "stopped" in leader.lost
    assert standby.elector.leads


@in_virtual_time
async def test_a_leader_that_is_cut_off_stops_before_the_other_begins_F6() -> None:
    server, leader, _ = await pair()
    leader.cut_off = True
    closed_s = 0.0
    while server.holder == "a":
        await asyncio.sleep(0.01)
        closed_s = closed_s or (now() if leader.fence.left_s() <= 0 else 0.0)
    assert 0 < closed_s < now() - 0.9
    assert leader.lost.endswith("no answer in time")


@in_virtual_time
@pytest.mark.parametrize("patch", [None, {"spec": {"holderIdentity": ""}}, {"spec": None}])
async def test_an_emptied_or_deleted_lease_stays_with_its_leader_F6(patch: object) -> None:
    server, leader, standby = await pair()
    if isinstance(patch, dict):
        server.change(patch)
    else:
        server.delete()
    await asyncio.sleep(30)
    assert server.lease()["spec"]["holderIdentity"] == "a"
    assert leader.elector.leads
    assert not standby.elector.leads


@in_virtual_time
async def test_a_lease_in_another_name_ends_the_leader_F6() -> None:
    server, leader, _ = await pair()
    server.change({"spec": {"holderIdentity": "somebody"}})
    await asyncio.sleep(3)
    assert leader.lost == "somebody holds the Lease"
    assert leader.fence.left_s() <= 0


@in_virtual_time
async def test_the_first_leader_waits_a_lease_because_nobody_knows_who_led_before() -> None:
    server = LeaseServer()
    Replica(server, random.Random(1), "a")
    taken_s = await until_led(server, "a")
    assert DURATION_S <= taken_s < DURATION_S + HERE_S


@in_virtual_time
async def test_the_lease_names_its_holder_for_humans() -> None:
    """kubectl get lease shows the same fields as for Kubernetes' own components."""
    server, leader, _ = await pair()
    lease = server.lease()
    assert lease["spec"]["holderIdentity"] == "a"
    assert lease["spec"]["leaseDurationSeconds"] == 6
    assert lease["spec"]["renewTime"] > lease["spec"]["acquireTime"]
    await leader.stop()
    await until_led(server, "b")
    assert server.lease()["spec"]["leaseTransitions"] == 2
