"""F6: a standby passes calls of the hooks on to the leader. No call is lost."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp
import pytest

from sunk_sync.core.model.actions import AnswerGate
from sunk_sync.core.model.calls import GateCall
from sunk_sync.core.model.facts import News
from sunk_sync.server import pass_on
from sunk_sync.server.hooks import Hooks, Rest
from sunk_sync.server.pass_on import PASSED_ON, PassOn
from sunk_sync.server.tokens import GATE, make_token
from sunk_sync.settings.types import Address
from sunk_sync.telemetry.exchange import Called

KEY = b"a key of the tests, long enough"
CALL = {"job_id": "7", "nodes": "n1", "deadline_s": 20}
NOWHERE = "127.0.0.1:1"


class Replica:
    """The hooks server of one replica; the test is its core."""

    def __init__(self, *, leads: bool) -> None:
        self.leads = leads
        self.leader = ""
        """Address of the leader, as the Lease has it."""
        self.address = ""
        self.facts: list[News] = []
        self.called: list[Called] = []
        self.pass_on = PassOn(lambda: not self.leads, lambda: self.leader)
        rest = Rest(
            ready=lambda _path: "",
            subject=lambda _: None,
            requeueable=self._never,
            called=self.called.append,
            pass_on=self.pass_on,
        )
        clock = asyncio.get_running_loop().time
        self.hooks = Hooks(KEY, self._tell, clock=clock, rest=rest)

    async def _never(self, _job: str) -> bool:
        return False

    async def _tell(self, news: Sequence[News]) -> None:
        self.facts += news

    async def waits(self) -> GateCall:
        """Wait until a gate call waits here."""
        while not self.hooks.calls.waiting:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.01)
        return next(one for one in self.facts if isinstance(one, GateCall))

    async def post(self, *, token: str = "", **headers: str) -> tuple[int, Any]:
        given = {"Authorization": f"Bearer {token or make_token(KEY, GATE)}", **headers}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"http://{self.address}/v1/gate", json=CALL, headers=given) as answer,
        ):
            return answer.status, await answer.json()


@pytest.fixture
async def leader() -> AsyncIterator[Replica]:
    made = Replica(leads=True)
    async with made.hooks.serve(Address("127.0.0.1", 0)) as made.address:
        yield made


@pytest.fixture
async def standby(leader: Replica) -> AsyncIterator[Replica]:
    made = Replica(leads=False)
    made.leader = leader.address
    async with made.hooks.serve(Address("127.0.0.1", 0)) as made.address:
        yield made
        await made.pass_on.aclose()


async def test_a_call_waits_at_the_leader_and_gets_its_answer_F6_L7(
    leader: Replica, standby: Replica
) -> None:
    calling = asyncio.create_task(standby.post())
    call = await leader.waits()
    await leader.hooks.push([AnswerGate(call.call, "n1", go=True, why="")])
    assert await calling == (200, {"action": "go"})
    assert standby.facts == []
    assert [one.reply and one.reply.outcome for one in standby.called] == ["forwarded"]


async def test_the_leader_checks_the_token_L5(standby: Replica) -> None:
    assert (await standby.post(token="gate.wrong"))[0] == 401


async def test_when_the_leader_changes_the_caller_asks_again_F6(
    leader: Replica, standby: Replica
) -> None:
    calling = asyncio.create_task(standby.post())
    await leader.waits()
    standby.pass_on.let_go()
    assert await calling == (503, {"error": "another replica leads now"})


@pytest.mark.parametrize("address", ["", NOWHERE])
async def test_without_a_leader_the_caller_asks_again_L9(
    standby: Replica, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pass_on, "HANDOVER_S", 0.05)
    standby.leader = address
    assert (await standby.post())[0] == 503


@pytest.mark.parametrize("last", ["", NOWHERE], ids=["released", "gone"])
@pytest.mark.parametrize("itself", [False, True], ids=["another", "itself"])
async def test_a_call_during_a_handover_waits_for_the_next_leader_F6(
    leader: Replica, standby: Replica, itself: bool, last: str
) -> None:
    standby.leader = last
    calling = asyncio.create_task(standby.post())
    await asyncio.sleep(0.05)
    assert not calling.done()
    standby.leader, standby.leads = "" if itself else leader.address, itself
    standby.pass_on.let_go()
    next_leader = standby if itself else leader
    call = await next_leader.waits()
    await next_leader.hooks.push([AnswerGate(call.call, "n1", go=True, why="")])
    assert await calling == (200, {"action": "go"})


async def test_a_replica_that_is_about_to_lead_keeps_a_call_that_was_passed_on_F6(
    standby: Replica,
) -> None:
    """The other standby may read the Lease before this one has taken over."""
    standby.leader = ""
    calling = asyncio.create_task(standby.post(**{PASSED_ON: "1"}))
    await asyncio.sleep(0.05)
    assert not calling.done()
    standby.leads = True
    standby.pass_on.let_go()
    call = await standby.waits()
    await standby.hooks.push([AnswerGate(call.call, "n1", go=True, why="")])
    assert await calling == (200, {"action": "go"})


async def test_a_call_that_comes_after_the_stop_of_the_leader_does_not_wait_F10(
    leader: Replica,
) -> None:
    """It would keep the server open, and with it the Lease, for two seconds."""
    leader.hooks.calls.end()
    assert await leader.post() == (503, {"error": "sunk-sync stops: ask again"})
    assert leader.facts == []


async def test_a_standby_that_stops_keeps_no_call_F10(
    standby: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pass_on, "HANDOVER_S", 600.0)
    standby.leader = ""
    calling = asyncio.create_task(standby.post())
    await asyncio.sleep(0.05)
    await standby.pass_on.aclose()
    async with asyncio.timeout(60):
        assert (await calling)[0] == 503


async def test_a_standby_that_stops_begins_no_call_to_a_leader_it_learns_of_F10(
    leader: Replica, standby: Replica
) -> None:
    standby.leader = ""
    calling = asyncio.create_task(standby.post())
    await asyncio.sleep(0.05)
    standby.leader = leader.address
    await standby.pass_on.aclose()
    assert (await calling)[0] == 503
    assert leader.facts == []


async def test_two_standbys_never_pass_a_call_back_and_forth_F6(standby: Replica) -> None:
    standby.leader = standby.address
    assert (await standby.post())[0] == 503
    assert (await standby.post(**{PASSED_ON: "1"}))[0] == 503


async def test_a_leader_that_stops_lets_its_callers_ask_again_F10(leader: Replica) -> None:
    calling = asyncio.create_task(leader.post())
    await leader.waits()
    leader.hooks.calls.end()
    assert (await calling)[0] == 503


async def test_a_caller_that_leaves_also_leaves_the_leader_F6(
    leader: Replica, standby: Replica
) -> None:
    calling = asyncio.create_task(standby.post())
    await leader.waits()
    calling.cancel()
    async with asyncio.timeout(60):
        while leader.hooks.calls.waiting:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.01)
