"""HTTP as it comes over a socket: in pieces, chunked, unasked, without end (F4)."""

import asyncio
import gc
import time
import weakref
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sunk_sync.slurm.api import connection, transport
from sunk_sync.slurm.api.answers import SlurmError
from sunk_sync.slurm.api.http import HttpReply, Sink, exchange
from sunk_sync.slurm.api.transport import HttpRequest, Network
from tests.slurm.recorded.server import Answer, Request, Server, http, send, serving

LINE = "GET /x"
BODY = b'{"nodes":[1,2,3]}'
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
async def network() -> AsyncIterator[Network]:
    made = Network(clock=time.monotonic)
    yield made
    await made.aclose()


Answers = list[weakref.ref[connection.Incoming]]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Keep a weak reference to every answer."""
    kept: Answers = []
    made = connection.Incoming.__init__

    def keep(self: connection.Incoming, transport: asyncio.Transport) -> None:
        made(self, transport)
        kept.append(weakref.ref(self))

    monkeypatch.setattr(connection.Incoming, "__init__", keep)
    return kept


def request_to(server: Server, target: str = "/x", **headers: str) -> HttpRequest:
    return HttpRequest(
        method="GET", address=server.url, target=target, headers=headers, timeout_s=5
    )


async def ask(
    network: Network, server: Server, *, sink: Sink | None = None, target: str = "/x", **more: str
) -> HttpReply:
    asked = request_to(server, target, **more)
    return await exchange(network, asked, clock=time.monotonic, sink=sink)


def kind_of(reply: HttpReply) -> str:
    return reply.failure.kind if reply.failure else "answer"


def piecemeal(*pieces: bytes, close: bool = False) -> Answer:
    """Each piece a segment of its own."""

    async def answer(_: Request, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.002)
        if close:
            writer.close()

    return answer


WHOLE = {
    "byte by byte": piecemeal(*(bytes([byte]) for byte in http(BODY))),
    "chunked": piecemeal(CHUNKED, b"5\r\n" + BODY[:5], b"\r\nc\r\n" + BODY[5:], b"\r\n0\r\n\r\n"),
    "ended by the connection": send(b"HTTP/1.1 200 OK\r\n\r\n" + BODY, close=True),
    "after an interim answer": send(b"HTTP/1.1 103 Early Hints\r\n\r\n" + http(BODY)),
    "in a later segment": piecemeal(b"HTTP/1.1 100 Continue\r\n\r\n", http(BODY)),
    "of HTTP/1.0": send(b"HTTP/1.0 200 OK\r\nContent-Length: 17\r\n\r\n" + BODY, close=True),
}


@pytest.mark.parametrize("how", WHOLE)
async def test_answers_in_any_form_are_whole_F4(server: Server, network: Network, how: str) -> None:
    server.answers[LINE] = WHOLE[how]
    for _ in range(2):
        reply = await ask(network, server)
        assert (reply.status, reply.body, reply.failure) == (200, BODY, None)


BROKEN = {
    "half a body": send(http(BODY, length=99), close=True),
    "half a chunk": send(CHUNKED + b"ff\r\n" + BODY, close=True),
    "half of the headers": send(b"HTTP/1.1 200 OK\r\nContent-Le", close=True),
    "no HTTP": send(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "a bad length": send(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"),
    "a bad chunk": send(CHUNKED + b"zz\r\n"),
    "headers without end": send(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000),
    "only an interim answer": send(b"HTTP/1.1 100 Continue\r\n\r\n", close=True),
}


@pytest.mark.parametrize("how", BROKEN)
async def test_bad_answers_end_a_connection_F4(server: Server, network: Network, how: str) -> None:
    server.answers[LINE] = BROKEN[how]
    assert kind_of(await ask(network, server)) == "broken"
    server.answers[LINE] = send(http(BODY))
    assert (await ask(network, server)).body == BODY
    assert server.accepted == 2


UNUSABLE = {
    "says so": send(http(BODY, close=True)),
    "an error": send(http(BODY, status=500)),
    "a second answer": send(http(BODY) + http(b"not yours")),
    "a second answer, later": piecemeal(http(BODY), http(b"not yours")),
}


@pytest.mark.parametrize("how", UNUSABLE)
async def test_a_connection_that_may_hold_another_answer_is_not_used_again_F4(
    server: Server, network: Network, how: str
) -> None:
    server.answers[LINE] = UNUSABLE[how]
    assert (await ask(network, server)).body == BODY
    await asyncio.sleep(0.05)
    server.answers[LINE] = send(http(b"mine"))
    assert (await ask(network, server)).body == b"mine"
    assert server.accepted == 2


async def test_a_closed_connection_is_not_used(server: Server, network: Network) -> None:
    server.answers[LINE] = send(http(BODY), close=True)
    await ask(network, server)
    await asyncio.sleep(0.05)
    assert (await ask(network, server)).body == BODY


async def test_a_connection_is_not_used_after_it_was_idle_for_a_minute(server: Server) -> None:
    """Proxies drop idle connections without notice."""
    now = 0.0
    network = Network(clock=lambda: now)
    server.answers[LINE] = send(http(BODY))
    await ask(network, server)
    now += transport.IDLE_S - 1
    await ask(network, server)
    assert server.accepted == 1
    now += transport.IDLE_S + 1
    await ask(network, server)
    assert server.accepted == 2
    await network.aclose()


async def test_idle_connections_to_many_addresses_are_bounded() -> None:
    network = Network(clock=time.monotonic)
    for _ in range(transport.CONNECTIONS_MAX + 3):
        async with serving() as server:
            server.answers[LINE] = send(http(BODY))
            await ask(network, server)
    assert len(network._idle) <= transport.CONNECTIONS_MAX
    await network.aclose()


async def test_a_slow_reader_is_awaited(server: Server, network: Network, answers: Answers) -> None:
    body = b"x" * (32 << 20)
    server.answers[LINE] = send(http(body))
    most = 0

    async def slow(_: bytes, __: float) -> SlurmError | None:
        nonlocal most
        await asyncio.sleep(0)
        answer = answers[0]()
        assert answer is not None
        most = max(most, answer._waiting_bytes)
        return None

    reply = await ask(network, server, sink=slow)
    assert reply.failure is None
    assert reply.received_bytes == len(body)
    assert 0 < most < 3 * connection.WAITING_BYTES_MAX


@pytest.mark.parametrize("bad", [{"target": "/x y"}, {"target": "/é"}, {"token": "a\r\nX: y"}])
async def test_a_request_with_forbidden_characters_is_not_sent(
    server: Server, network: Network, bad: dict[str, Any]
) -> None:
    reply = await ask(network, server, **bad)
    assert kind_of(reply) == "refused"
    assert server.requests == []


async def test_a_cancelled_call_closes_its_connection(server: Server, network: Network) -> None:
    async def never(_: Request, __: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3600)

    server.answers[LINE] = never
    asking = asyncio.create_task(ask(network, server))
    await asyncio.sleep(0.05)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    server.answers[LINE] = send(http(BODY))
    assert (await ask(network, server)).body == BODY
    assert server.accepted == 2


@pytest.mark.parametrize(
    "answer",
    [send(http(BODY)), send(b"HTTP/1.1 200 OK\r\n\r\n", close=True), send(b"nonsense\r\n\r\n")],
    ids=["whole", "ended by the connection", "no HTTP"],
)
async def test_an_answer_that_was_read_leaves_no_reference_cycles(
    server: Server, network: Network, answers: Answers, answer: Answer
) -> None:
    """Hundreds of cycles each second would pause the event loop."""
    server.answers[LINE] = answer
    gc.disable()
    try:
        await ask(network, server)
        server.answers[LINE] = send(http(BODY))
        await ask(network, server)
        assert answers[0]() is None
    finally:
        gc.enable()
