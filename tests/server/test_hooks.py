"""The hooks server: who may speak, what is refused, and how calls wait (L5-L9)."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp
import pytest

from sunk_sync.core.model.actions import AnswerGate, AnswerStop
from sunk_sync.core.model.facts import CallEnded, GateCall, JobNotice, News, StopCall
from sunk_sync.core.model.outcomes import Done, Refused
from sunk_sync.server import hooks
from sunk_sync.server.hooks import Hooks, Rest
from sunk_sync.server.pending_calls import PendingCalls
from sunk_sync.server.tokens import GATE, make_token
from sunk_sync.settings.types import Address
from sunk_sync.telemetry.exchange import Called

KEY = b"a key of the tests, long enough"
WORK = "0123456789abcdef"
GATE_CALL = {"job_id": "7", "nodes": "n[1-2]", "deadline_s": 5}
STOPPING = "/v1/placeholder/stopping"
STARTED = "/v1/placeholder/started"


class World:
    """The rest of the service; tests change it."""

    def __init__(self) -> None:
        self.told: list[News] = []
        self.heard = asyncio.Event()
        self.called: list[Called] = []
        self.not_ready = ""
        self.subjects = {"12": WORK, "13": "fedcba9876543210", "3_1": "k8s/ns/a/00000000"}
        self.requeueable = False
        self.hooks = Hooks(KEY, self._tell, clock=self._clock, rest=self._rest())
        self.address = ""

    def _clock(self) -> float:
        return asyncio.get_running_loop().time()

    def _rest(self) -> Rest:
        return Rest(
            ready=lambda: self.not_ready,
            subject=self.subjects.get,
            requeueable=self._requeueable,
            called=self.called.append,
        )

    async def _tell(self, news: Sequence[News]) -> None:
        self.told.extend(news)
        self.heard.set()

    async def _requeueable(self, _job_id: str) -> bool:
        return self.requeueable

    async def post(
        self, path: str, body: object, *, token: str | None = None
    ) -> tuple[int, dict[str, Any]]:
        given = token if token is not None else make_token(KEY, GATE)
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {given}"} if given else {}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"http://{self.address}{path}", data=content, headers=headers) as answer,
        ):
            text = await answer.text()
            assert text.count("\n") == 1, text
            return answer.status, json.loads(text)

    async def seen(self, kind: type[News]) -> Any:
        """The first fact of this kind, once it was told."""
        async with asyncio.timeout(5):
            while not (found := [one for one in self.told if isinstance(one, kind)]):
                await self.heard.wait()
                self.heard.clear()
        return found[0]


@contextlib.asynccontextmanager
async def opened() -> AsyncIterator[World]:
    world = World()
    async with world.hooks.serve(Address("127.0.0.1", 0)) as address:
        world.address = address
        yield world


TOKENS = [
    ("", "none"),
    ("gate", "no proof"),
    (".", "nothing on either side"),
    (make_token(b"another key, as long as ours", GATE), "of another key"),
    (make_token(KEY, GATE)[:-1] + "x", "one character off"),
    (make_token(KEY, GATE)[:-1], "one character short"),
    ("x" * 5000, "huge"),
    ("gät.é", "not ASCII"),
]


@pytest.mark.parametrize(("token", "what"), TOKENS, ids=[what for _, what in TOKENS])
@pytest.mark.parametrize("path", ["/v1/gate", "/v1/ended", STARTED, STOPPING])
async def test_any_call_without_a_valid_token_is_401_L5(path: str, token: str, what: str) -> None:
    """And tells the core nothing."""
    del what
    async with opened() as world:
        status, body = await world.post(path, GATE_CALL, token=token)
        assert (status, list(body)) == (401, ["error"])
        assert world.told == []
        assert [one.reply and one.reply.outcome for one in world.called] == ["401"]


async def test_a_placeholder_speaks_for_its_own_job_alone_L5() -> None:
    """Its token is right, the job is another's: 401. Nor may it use the gate, or the gate it."""
    async with opened() as world:
        own = make_token(KEY, WORK)
        for job in ("13", "3_1"):
            body = {"job_id": job, "deadline_s": 5}
            assert (await world.post(STARTED, body, token=own))[0] == 401
            assert (await world.post(STOPPING, body, token=own))[0] == 401
        assert (await world.post("/v1/gate", GATE_CALL, token=own))[0] == 401
        assert (await world.post(STARTED, {"job_id": "12"}))[0] == 401
        assert world.told == []
        assert (await world.post(STARTED, {"job_id": "12"}, token=own))[0] == 200


async def test_one_token_serves_the_tasks_of_an_array_L5() -> None:
    """The call names its task."""
    async with opened() as world:
        token = make_token(KEY, "k8s/ns/a/00000000")
        assert (await world.post(STARTED, {"job_id": "3_1"}, token=token))[0] == 200
        assert [(one.job_id, one.what) for one in world.told] == [("3_1", "started")]  # type: ignore[union-attr]


BODIES = [
    ("/v1/gate", b"", "truncated"),
    ("/v1/gate", b"\xff\xfe{}", "malformed"),
    ("/v1/gate", b"[" * 10_000, ""),
    ("/v1/gate", {}, "job_id"),
    ("/v1/gate", [], "object"),
    ("/v1/gate", GATE_CALL | {"job_id": 7}, "$.job_id"),
    ("/v1/gate", GATE_CALL | {"job_id": "7\n"}, "$.job_id"),
    ("/v1/gate", GATE_CALL | {"job_id": "../7"}, "$.job_id"),
    ("/v1/gate", GATE_CALL | {"job_id": "7" * 11}, "$.job_id"),
    ("/v1/gate", GATE_CALL | {"nodes": ""}, "$.nodes"),
    ("/v1/gate", GATE_CALL | {"nodes": "n[1-"}, "unbalanced"),
    ("/v1/gate", GATE_CALL | {"nodes": "n[1-9999999]"}, "more than"),
    ("/v1/gate", GATE_CALL | {"nodes": ","}, "none named"),
    ("/v1/gate", GATE_CALL | {"deadline_s": 0}, "$.deadline_s"),
    ("/v1/gate", GATE_CALL | {"deadline_s": -1}, "$.deadline_s"),
    ("/v1/gate", GATE_CALL | {"deadline_s": 1e9}, "$.deadline_s"),
    ("/v1/gate", GATE_CALL | {"deadline_s": "5"}, "$.deadline_s"),
    ("/v1/gate", GATE_CALL | {"then": "explode"}, "$.then"),
    ("/v1/ended", {"job_id": "x"}, "$.job_id"),
    ("/v1/ended", {"job_id": "7", "state": "x" * 65}, "$.state"),
]


@pytest.mark.parametrize(("path", "body", "why"), BODIES)
async def test_a_bad_body_is_400_and_says_where(path: str, body: object, why: str) -> None:
    """One line of JSON names the field; the core hears nothing."""
    async with opened() as world:
        status, answer = await world.post(path, body)
        assert status == 400
        assert why in answer["error"]
        assert world.told == []


async def test_bodies_are_bounded() -> None:
    """413, whether the size is told before or not; just below it is read."""
    async with opened() as world:
        room = hooks.BODY_BYTES_MAX
        assert (await world.post("/v1/gate", b"x" * (room + 1)))[0] == 413
        assert (await world.post("/v1/ended", b'{"job_id":"7"}'.ljust(room)))[0] == 200


async def test_a_body_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """408, and the connection is closed."""
    monkeypatch.setattr(hooks, "BODY_S", 0.1)
    async with opened() as world:
        host, port = world.address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        token = make_token(KEY, GATE)
        head = f"POST /v1/gate HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
        writer.write(f"{head}Content-Length: 100\r\n\r\nhalf".encode())
        async with asyncio.timeout(5):
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 408 ")
        writer.close()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/gate", 405),
        ("POST", "/v1/health", 405),
        ("POST", "/v1/nothing", 404),
        ("GET", "/", 404),
        ("GET", "/metrics", 404),
        ("GET", "/v1/health", 200),
    ],
)
async def test_there_is_nothing_else(method: str, path: str, status: int) -> None:
    """404 and 405 as JSON; counted without making a label of what a stranger wrote."""
    async with opened() as world, aiohttp.ClientSession() as session:
        headers = {"Authorization": f"Bearer {make_token(KEY, GATE)}"}
        url = f"http://{world.address}{path}"
        async with session.request(method, url, headers=headers) as answer:
            assert answer.status == status
            assert await answer.json()
        assert {one.call for one in world.called} <= {"gate", "health", "other"}


async def test_a_standby_and_one_that_has_not_listed_yet_say_503_L9() -> None:
    """With Retry-After: ask again, perhaps another answers."""
    async with opened() as world:
        world.not_ready = "not listed yet: slurm"
        assert await world.post("/v1/gate", GATE_CALL) == (
            503,
            {"error": "not listed yet: slurm"},
        )
        assert world.told == []


async def test_a_gate_opens_when_every_node_may_go_L7() -> None:
    """One call, one answer; the call and its end are facts."""
    async with opened() as world:
        call = asyncio.create_task(world.post("/v1/gate", GATE_CALL))
        fact: GateCall = await world.seen(GateCall)
        assert (fact.job_id, fact.slurm_nodes) == ("7", ("n1", "n2"))
        assert fact.until_s - fact.asked_s == 5
        first = AnswerGate(fact.call, "n1", go=True, why="")
        assert await world.hooks.push([first]) == [Done(first)]
        await asyncio.sleep(0.05)
        assert not call.done()
        await world.hooks.push([AnswerGate(fact.call, "n2", go=True, why="")])
        assert await call == (200, {"action": "go"})
        assert JobNotice("7", "starting", fact.asked_s) in world.told
        assert world.told[-1] == CallEnded(fact.call)
        assert world.hooks.calls.waiting == 0


async def test_leave_for_a_node_can_be_taken_back_L7() -> None:
    """The latest word counts while the job has not started."""
    async with opened() as world:
        body = GATE_CALL | {"deadline_s": 0.2}
        call = asyncio.create_task(world.post("/v1/gate", body))
        number = (await world.seen(GateCall)).call
        await world.hooks.push(
            [
                AnswerGate(number, "n1", go=True, why=""),
                AnswerGate(number, "n1", go=False, why="Pod ns/a"),
                AnswerGate(number, "n2", go=True, why=""),
            ]
        )
        assert await call == (200, {"action": "wait", "pods": ["Pod ns/a"]})


async def test_the_callers_deadline_ends_the_wait_with_the_names_of_pods_L7() -> None:
    """And the core is told that the call ended."""
    async with opened() as world:
        body = GATE_CALL | {"deadline_s": 0.2}
        call = asyncio.create_task(world.post("/v1/gate", body))
        number = (await world.seen(GateCall)).call
        await world.hooks.push(
            [AnswerGate(number, f"n{i}", go=False, why="Pod ns/a ends") for i in (1, 2)]
        )
        assert await call == (200, {"action": "wait", "pods": ["Pod ns/a ends"]})
        assert world.told[-1] == CallEnded(number)


@pytest.mark.parametrize(
    ("then", "requeueable", "action", "counted"),
    [
        ("ask", True, "wait", "wait"),
        ("requeue", True, "requeue", "requeue"),
        ("requeue", False, "wait", "wait"),
        ("pass", True, "wait", "passed"),
    ],
)
async def test_the_answer_carries_the_action_L9(
    then: str, requeueable: bool, action: str, counted: str
) -> None:
    """Requeue only for a job that can be; a job that starts all the same is counted."""
    async with opened() as world:
        world.requeueable = requeueable
        body = GATE_CALL | {"deadline_s": 0.05, "then": then}
        status, answer = await world.post("/v1/gate", body)
        assert (status, answer["action"]) == (200, action)
        assert [one.reply and one.reply.outcome for one in world.called] == [counted]


async def test_a_caller_that_goes_away_is_forgotten() -> None:
    """CallEnded, nothing is kept; a late answer of the core is refused."""
    async with opened() as world:
        call = asyncio.create_task(world.post("/v1/gate", GATE_CALL))
        number = (await world.seen(GateCall)).call
        call.cancel()
        assert await world.seen(CallEnded) == CallEnded(number)
        assert world.hooks.calls.waiting == 0
        late = AnswerGate(number, "n1", go=True, why="")
        assert await world.hooks.push([late]) == [Refused(late, "the caller is gone")]
        assert [one.reply for one in world.called] == [None]


async def test_an_answer_in_the_moment_in_which_the_caller_goes_is_harmless() -> None:
    """Found by the simulator: it ended the process (1028)."""
    heard: list[News] = []

    async def tell(news: Sequence[News]) -> None:
        heard.extend(news)

    calls = PendingCalls(tell, clock=lambda: 0.0)
    call = asyncio.create_task(calls.gate("7", ["n1"], deadline_s=60.0))
    await asyncio.sleep(0.01)  # it waits for the answer
    (number,) = (one.call for one in heard if isinstance(one, GateCall))
    call.cancel()
    answer = AnswerGate(number, "n1", go=True, why="")
    assert await calls.push([answer]) == [Done(answer)]
    await asyncio.wait([call])
    assert call.cancelled()
    assert heard[-1] == CallEnded(number)


@pytest.mark.parametrize("word", ["gone", "drain"])
async def test_a_placeholder_is_told_that_its_pods_are_gone_or_its_host_drained_L6(
    word: Any,
) -> None:
    """What the core says, at once."""
    async with opened() as world:
        body = {"job_id": "12", "deadline_s": 5}
        token = make_token(KEY, WORK)
        call = asyncio.create_task(world.post(STOPPING, body, token=token))
        fact: StopCall = await world.seen(StopCall)
        assert (fact.job_id, fact.until_s - fact.asked_s) == ("12", 5)
        await world.hooks.push([AnswerStop(fact.call, word)])
        assert await call == (200, {"action": word})
        assert world.told[-1] == CallEnded(fact.call)


async def test_a_job_that_was_not_seen_yet_is_looked_at_and_asks_again_L6() -> None:
    """Right after its start, or ours: 503, not 401."""
    async with opened() as world:
        body = {"job_id": "99", "deadline_s": 5}
        assert (await world.post(STOPPING, body, token=make_token(KEY, WORK)))[0] == 503
        assert [type(one) for one in world.told] == [JobNotice]


async def test_an_end_is_a_fact_at_once_L8() -> None:
    """The job is looked at now instead of at the next poll."""
    async with opened() as world:
        answer = await world.post("/v1/ended", {"job_id": "3_1", "state": "COMPLETED"})
        assert answer == (200, {"action": "noted"})
        (told,) = world.told
        assert isinstance(told, JobNotice)
        assert (told.job_id, told.what) == ("3_1", "ended")


async def test_shutting_down_ends_every_wait() -> None:
    """The script sees a broken connection and asks the next of us."""
    world = World()
    async with world.hooks.serve(Address("127.0.0.1", 0)) as address:
        world.address = address
        call = asyncio.create_task(world.post("/v1/gate", GATE_CALL))
        await world.seen(GateCall)
    with pytest.raises(aiohttp.ClientError):
        await call
    assert world.hooks.calls.waiting == 0
