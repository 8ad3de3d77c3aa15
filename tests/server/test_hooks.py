"""The hooks server: tokens, refused requests, waiting calls (L5-L9)."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp
import pytest

from sunk_sync.core.model.actions import AnswerGate, AnswerStop
from sunk_sync.core.model.calls import CallEnded, GateCall, JobNotice, LockCall, StopCall
from sunk_sync.core.model.facts import News
from sunk_sync.core.model.lock_actions import AnswerLock
from sunk_sync.core.model.outcomes import Done, Refused
from sunk_sync.core.model.topology_file import AnswerTopology, TopologyReport
from sunk_sync.server import hooks
from sunk_sync.server.hooks import Hooks, Rest
from sunk_sync.server.pending_calls import PendingCalls
from sunk_sync.server.tokens import GATE, LOCK, make_token
from sunk_sync.settings.types import Address
from sunk_sync.telemetry.exchange import Called

KEY = b"a key of the tests, long enough"
WORKLOAD = "0123456789abcdef"
GATE_CALL = {"job_id": "7", "nodes": "n[1-2]", "deadline_s": 5}
STOPPING = "/v1/placeholder/stopping"
STARTED = "/v1/placeholder/started"


class Service:
    """The hooks server, with the rest of the service as the test sets it."""

    def __init__(self) -> None:
        self.reported: list[News] = []
        self.heard = asyncio.Event()
        self.called: list[Called] = []
        self.not_ready = ""
        self.subjects = {"12": WORKLOAD, "13": "fedcba9876543210", "3_1": "k8s/ns/a/00000000"}
        self.requeueable = False
        self.locks = True
        self.hooks = Hooks(KEY, self._tell, clock=self._clock, rest=self._rest())
        self.address = ""

    def _clock(self) -> float:
        return asyncio.get_running_loop().time()

    def _rest(self) -> Rest:
        return Rest(
            ready=lambda _path: self.not_ready,
            subject=self.subjects.get,
            requeueable=self._requeueable,
            called=self.called.append,
            locks=self.locks,
        )

    async def _tell(self, news: Sequence[News]) -> None:
        self.reported.extend(news)
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

    async def gate(self, **more: object) -> tuple[asyncio.Task[tuple[int, Any]], GateCall]:
        """Call the gate, and return the call and its fact."""
        call = asyncio.create_task(self.post("/v1/gate", GATE_CALL | more))
        return call, await self.seen(GateCall)

    async def seen(self, kind: type[News]) -> Any:
        """Return the first fact of this kind, and wait for it."""
        async with asyncio.timeout(60):
            while not (found := [one for one in self.reported if isinstance(one, kind)]):
                await self.heard.wait()
                self.heard.clear()
        return found[0]


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    made = Service()
    async with made.hooks.serve(Address("127.0.0.1", 0)) as address:
        made.address = address
        yield made


TOKENS = {
    "none": "",
    "no proof": "gate",
    "nothing on either side": ".",
    "of another key": make_token(b"another key, as long as ours", GATE),
    "one character off": make_token(KEY, GATE)[:-1] + "x",
    "one character short": make_token(KEY, GATE)[:-1],
    "huge": "x" * 5000,
    "not ASCII": "gät.é",
}


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
@pytest.mark.parametrize(
    "path", ["/v1/gate", "/v1/lock", "/v1/topology", "/v1/ended", STARTED, STOPPING]
)
async def test_a_wrong_or_no_token_is_401_L5(service: Service, path: str, token: str) -> None:
    status, body = await service.post(path, GATE_CALL, token=token)
    assert (status, list(body)) == (401, ["error"])
    assert service.reported == []
    assert [one.reply and one.reply.outcome for one in service.called] == ["401"]


async def test_the_token_of_a_placeholder_is_valid_for_its_job_alone_L5(service: Service) -> None:
    own = make_token(KEY, WORKLOAD)
    for job in ("13", "3_1"):
        body = {"job_id": job, "deadline_s": 5}
        assert (await service.post(STARTED, body, token=own))[0] == 401
        assert (await service.post(STOPPING, body, token=own))[0] == 401
    assert (await service.post("/v1/gate", GATE_CALL, token=own))[0] == 401
    assert (await service.post(STARTED, {"job_id": "12"}))[0] == 401
    assert service.reported == []
    assert (await service.post(STARTED, {"job_id": "12"}, token=own))[0] == 200


async def test_one_token_is_valid_for_all_tasks_of_an_array_L5(service: Service) -> None:
    token = make_token(KEY, "k8s/ns/a/00000000")
    assert (await service.post(STARTED, {"job_id": "3_1"}, token=token))[0] == 200
    assert [(one.job_id, one.what) for one in service.reported] == [("3_1", "started")]  # type: ignore[union-attr]


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
    ("/v1/topology", {"format": "ini"}, "$.format"),
    ("/v1/topology", {"format": "conf", "why": "x" * 1001}, "$.why"),
    ("/v1/topology", {"format": "conf", "applied": "x" * 65}, "$.applied"),
    ("/v1/ended", {"job_id": "x"}, "$.job_id"),
    ("/v1/ended", {"job_id": "7", "state": "x" * 65}, "$.state"),
]


@pytest.mark.parametrize(("path", "body", "why"), BODIES)
async def test_the_answer_400_says_why(service: Service, path: str, body: object, why: str) -> None:
    status, answer = await service.post(path, body)
    assert status == 400
    assert why in answer["error"]
    assert service.reported == []


TOPOLOGY = {"format": "conf", "applied": "a1", "refused": "b2", "why": "fatal: no"}
WRITE = AnswerTopology(1, "c3", "SwitchName=root Nodes=n1\n")


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (WRITE, {"action": "write", "hash": "c3", "content": "SwitchName=root Nodes=n1\n"}),
        (AnswerTopology(1, why="not read"), {"action": "nothing", "why": "not read"}),
    ],
)
async def test_the_script_of_the_topology_file_gets_the_answer_of_the_core_T6(
    service: Service, answer: AnswerTopology, body: dict[str, str]
) -> None:
    call = asyncio.create_task(service.post("/v1/topology", TOPOLOGY))
    fact = await service.seen(TopologyReport)
    assert (fact.format, fact.applied, fact.refused, fact.why) == ("conf", "a1", "b2", "fatal: no")
    assert service.hooks.calls.waiting == 1
    assert await service.hooks.push([answer]) == [Done(answer)]
    assert await call == (200, body)
    assert await service.hooks.push([answer]) == [Refused(answer, "the caller is gone")]
    assert service.reported[-1] == CallEnded(fact.call)


async def test_without_an_answer_of_the_core_the_script_writes_nothing_T7(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "TOPOLOGY_S", 0.05)
    told = {"action": "nothing", "why": "no answer in time"}
    assert await service.post("/v1/topology", TOPOLOGY) == (200, told)


async def test_the_script_gets_503_when_the_service_stops(service: Service) -> None:
    call = asyncio.create_task(service.post("/v1/topology", TOPOLOGY))
    await service.seen(TopologyReport)
    service.hooks.calls.end()
    assert (await call)[0] == 503
    assert (await service.post("/v1/topology", TOPOLOGY))[0] == 503


async def test_a_body_above_the_limit_is_413(service: Service) -> None:
    room = hooks.BODY_BYTES_MAX
    assert (await service.post("/v1/gate", b"x" * (room + 1)))[0] == 413
    assert (await service.post("/v1/ended", b'{"job_id":"7"}'.ljust(room)))[0] == 200


async def test_a_body_that_never_ends_is_408_and_the_connection_is_closed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "BODY_S", 0.1)
    host, port = service.address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    token = make_token(KEY, GATE)
    head = f"POST /v1/gate HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    writer.write(f"{head}Content-Length: 100\r\n\r\nhalf".encode())
    async with asyncio.timeout(60):
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
async def test_other_paths_and_methods_are_404_or_405_and_no_label_of_a_metric(
    service: Service, method: str, path: str, status: int
) -> None:
    async with aiohttp.ClientSession() as session:
        headers = {"Authorization": f"Bearer {make_token(KEY, GATE)}"}
        url = f"http://{service.address}{path}"
        async with session.request(method, url, headers=headers) as answer:
            assert answer.status == status
            assert await answer.json()
        assert {one.call for one in service.called} <= {"gate", "health", "other"}


async def test_before_the_first_listing_a_call_is_503_L9(service: Service) -> None:
    service.not_ready = "not listed yet: slurm"
    answer = await service.post("/v1/gate", GATE_CALL)
    assert answer == (503, {"error": "not listed yet: slurm"})
    assert service.reported == []


async def test_a_gate_call_is_answered_when_every_node_may_go_L7(service: Service) -> None:
    call, fact = await service.gate()
    assert (fact.job_id, fact.slurm_nodes) == ("7", ("n1", "n2"))
    assert fact.until_s - fact.asked_s == 5
    first = AnswerGate(fact.call, "n1", go=True, why="")
    assert await service.hooks.push([first]) == [Done(first)]
    await asyncio.sleep(0.05)
    assert not call.done()
    await service.hooks.push([AnswerGate(fact.call, "n2", go=True, why="")])
    assert await call == (200, {"action": "go"})
    assert JobNotice("7", "starting", fact.asked_s) in service.reported
    assert service.reported[-1] == CallEnded(fact.call)
    assert service.hooks.calls.waiting == 0


async def test_a_go_for_a_node_can_be_withdrawn_before_the_answer_L7(service: Service) -> None:
    call, fact = await service.gate(deadline_s=1.5)
    number = fact.call
    for node, go, why in (("n1", True, ""), ("n1", False, "Pod ns/a"), ("n2", True, "")):
        await service.hooks.push([AnswerGate(number, node, go=go, why=why)])
    assert await call == (200, {"action": "wait", "pods": ["Pod ns/a"]})


async def test_at_the_deadline_of_the_caller_the_answer_names_the_pods_L7(service: Service) -> None:
    call, fact = await service.gate(deadline_s=1.5)
    number = fact.call
    await service.hooks.push(
        [AnswerGate(number, f"n{i}", go=False, why="Pod ns/a ends") for i in (1, 2)]
    )
    assert await call == (200, {"action": "wait", "pods": ["Pod ns/a ends"]})
    assert service.reported[-1] == CallEnded(number)


@pytest.mark.parametrize(
    ("then", "requeueable", "action", "counted"),
    [
        ("ask", True, "wait", "wait"),
        ("requeue", True, "requeue", "requeue"),
        ("requeue", False, "wait", "wait"),
        ("pass", True, "wait", "passed"),
    ],
)
async def test_requeue_is_answered_only_for_a_requeueable_job_that_asks_for_it_L9(
    service: Service, then: str, requeueable: bool, action: str, counted: str
) -> None:
    service.requeueable = requeueable
    body = GATE_CALL | {"deadline_s": 0.05, "then": then}
    status, answer = await service.post("/v1/gate", body)
    assert (status, answer["action"]) == (200, action)
    assert [one.reply and one.reply.outcome for one in service.called] == [counted]


async def test_a_caller_that_disconnects_ends_its_call(service: Service) -> None:
    call, fact = await service.gate()
    number = fact.call
    call.cancel()
    assert await service.seen(CallEnded) == CallEnded(number)
    assert service.hooks.calls.waiting == 0
    late = AnswerGate(number, "n1", go=True, why="")
    assert await service.hooks.push([late]) == [Refused(late, "the caller is gone")]
    assert [one.reply for one in service.called] == [None]


async def test_an_answer_while_the_caller_disconnects_is_accepted() -> None:
    """In seed 1028 it ended the process."""
    heard: list[News] = []

    async def tell(news: Sequence[News]) -> None:
        heard.extend(news)

    calls = PendingCalls(tell, clock=lambda: 0.0)
    call = asyncio.create_task(calls.gate("7", ["n1"], deadline_s=60.0))
    await asyncio.sleep(0.01)
    (number,) = (one.call for one in heard if isinstance(one, GateCall))
    call.cancel()
    answer = AnswerGate(number, "n1", go=True, why="")
    assert await calls.push([answer]) == [Done(answer)]
    await asyncio.wait([call])
    assert call.cancelled()
    assert heard[-1] == CallEnded(number)


@pytest.mark.parametrize("word", ["gone", "drain"])
async def test_a_stop_call_is_answered_with_gone_or_drain_L6(service: Service, word: Any) -> None:
    body = {"job_id": "12", "deadline_s": 5}
    token = make_token(KEY, WORKLOAD)
    call = asyncio.create_task(service.post(STOPPING, body, token=token))
    fact: StopCall = await service.seen(StopCall)
    assert (fact.job_id, fact.until_s - fact.asked_s) == ("12", 5)
    await service.hooks.push([AnswerStop(fact.call, word)])
    assert await call == (200, {"action": word})
    assert service.reported[-1] == CallEnded(fact.call)


async def test_a_call_of_an_unknown_job_is_503_and_has_the_job_read_L6(service: Service) -> None:
    """Not 401: the job or sunk-sync may just have started."""
    body = {"job_id": "99", "deadline_s": 5}
    assert (await service.post(STOPPING, body, token=make_token(KEY, WORKLOAD)))[0] == 503
    assert [type(one) for one in service.reported] == [JobNotice]


async def test_the_end_of_a_job_is_a_fact_at_once_L8(service: Service) -> None:
    answer = await service.post("/v1/ended", {"job_id": "3_1", "state": "COMPLETED"})
    assert answer == (200, {"action": "noted"})
    (reported,) = service.reported
    assert isinstance(reported, JobNotice)
    assert (reported.job_id, reported.what) == ("3_1", "ended")


async def test_shutdown_breaks_every_waiting_call() -> None:
    service = Service()
    async with service.hooks.serve(Address("127.0.0.1", 0)) as service.address:
        call, _ = await service.gate()
    with pytest.raises(aiohttp.ClientError):
        await call
    assert service.hooks.calls.waiting == 0


LOCK_CALL = {"job_id": "7", "node": "n1", "nodes": "n[1-2]", "deadline_s": 5, "waited_s": 20}


@pytest.mark.parametrize("subject", [GATE, LOCK])
async def test_a_lock_call_is_answered_when_its_node_is_locked_L1(
    service: Service, subject: str
) -> None:
    token = make_token(KEY, subject)
    call = asyncio.create_task(service.post("/v1/lock", LOCK_CALL, token=token))
    fact = await service.seen(LockCall)
    assert (fact.job_id, fact.slurm_nodes, fact.strict) == ("7", ("n1",), None)
    assert fact.asked_s - fact.began_s == pytest.approx(20)
    assert fact.until_s - fact.asked_s == pytest.approx(5)
    held = AnswerLock(fact.call, "n1", "", go=False, why="Pods ns/a live there")
    await service.hooks.push([held])
    assert not call.done()
    await service.hooks.push([AnswerLock(fact.call, "n1", "kn1", go=True)])
    assert await call == (200, {"action": "go"})
    assert CallEnded(fact.call) in service.reported
    assert service.called[-1].reply is not None
    assert service.called[-1].reply.outcome == "go"


@pytest.mark.parametrize(("level", "strict"), [("plain", False), ("strict", True), ("auto", None)])
async def test_without_a_node_the_call_is_for_all_nodes_of_the_job_L1_L2(
    service: Service, level: str, strict: bool | None
) -> None:
    body = LOCK_CALL | {"node": "", "level": level}
    call = asyncio.create_task(service.post("/v1/lock", body))
    fact = await service.seen(LockCall)
    assert (fact.slurm_nodes, fact.strict) == (("n1", "n2"), strict)
    await service.hooks.push([AnswerLock(fact.call, "n1", "kn1", go=True)])
    await asyncio.sleep(0.05)
    assert not call.done()
    await service.hooks.push([AnswerLock(fact.call, "n2", "kn2", go=True)])
    assert await call == (200, {"action": "go"})


async def test_a_job_that_starts_without_the_lock_is_told_why_L4a(service: Service) -> None:
    call = asyncio.create_task(service.post("/v1/lock", LOCK_CALL))
    fact = await service.seen(LockCall)
    why = "Pods ns/a live there"
    await service.hooks.push([AnswerLock(fact.call, "n1", "", go=True, why=why)])
    assert await call == (200, {"action": "go", "pods": [why]})
    assert service.called[-1].reply is not None
    assert service.called[-1].reply.outcome == "passed"


async def test_a_lock_that_takes_long_is_answered_wait_with_the_pods_L1(service: Service) -> None:
    call = asyncio.create_task(service.post("/v1/lock", LOCK_CALL | {"deadline_s": 0.2}))
    fact = await service.seen(LockCall)
    why = "Pods ns/a live there"
    await service.hooks.push([AnswerLock(fact.call, "n1", "", go=False, why=why)])
    assert await call == (200, {"action": "wait", "pods": [why]})


async def test_the_token_of_the_lock_opens_nothing_else_L1(service: Service) -> None:
    token = make_token(KEY, LOCK)
    for path, body in (("/v1/gate", GATE_CALL), ("/v1/ended", {"job_id": "7"}), (STARTED, {})):
        assert (await service.post(path, body, token=token))[0] == 401
    assert (await service.post("/v1/lock", LOCK_CALL, token=make_token(KEY, WORKLOAD)))[0] == 401
    assert service.reported == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"node": "", "nodes": ""},
        {"node": "n[1-"},
        {"level": "odd"},
        {"waited_s": -1},
        {"waited_s": 1e9},
        {"deadline_s": 0},
        {"job_id": "x"},
    ],
)
async def test_a_wrong_lock_call_is_400_L1(service: Service, wrong: dict[str, object]) -> None:
    status, body = await service.post("/v1/lock", LOCK_CALL | wrong)
    assert (status, list(body)) == (400, ["error"])
    assert service.reported == []


async def test_without_the_setting_the_job_starts_and_is_told_so_L1() -> None:
    made = Service()
    made.hooks = Hooks(
        KEY,
        made._tell,
        clock=made._clock,
        rest=Rest(
            ready=lambda _path: "",
            subject=made.subjects.get,
            requeueable=made._requeueable,
            called=made.called.append,
        ),
    )
    async with made.hooks.serve(Address("127.0.0.1", 0)) as made.address:
        answer = await made.post("/v1/lock", LOCK_CALL)
    assert answer == (200, {"action": "go", "pods": ["sunk-sync runs without --lock"]})
    assert made.reported == []
