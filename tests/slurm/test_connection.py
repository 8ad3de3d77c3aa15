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
    """Every answer that came, also one that is gone by now."""
    kept: Answers = []
    made = connection.Incoming.__init__

    def keep(self: connection.Incoming, transport: asyncio.Transport) -> None:
        made(self, transport)
        kept.append(weakref.ref(self))

    monkeypatch.setattr(connection.Incoming, "__init__", keep)
    return kept


def question(server: Server, target: str = "/x", **headers: str) -> HttpRequest:
    return HttpRequest(
        method="GET", address=server.url, target=target, headers=headers, timeout_s=5
    )


async def ask(
    network: Network, server: Server, *, sink: Sink | None = None, target: str = "/x", **more: str
) -> HttpReply:
    asked = question(server, target, **more)
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
    "after a promise": send(b"HTTP/1.1 103 Early Hints\r\n\r\n" + http(BODY)),
    "after a promise alone": piecemeal(b"HTTP/1.1 100 Continue\r\n\r\n", http(BODY)),
    "of HTTP/1.0": send(b"HTTP/1.0 200 OK\r\nContent-Length: 17\r\n\r\n" + BODY, close=True),
}


@pytest.mark.parametrize("how", WHOLE)
async def test_an_answer_is_whole_however_it_comes_F4(
    server: Server, network: Network, how: str
) -> None:
    """And the next question gets its own."""
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
    "only a promise": send(b"HTTP/1.1 100 Continue\r\n\r\n", close=True),
}


@pytest.mark.parametrize("how", BROKEN)
async def test_half_an_answer_is_broken_and_its_connection_is_left_F4(
    server: Server, network: Network, how: str
) -> None:
    """Nothing of it reaches the next question."""
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
async def test_a_connection_that_may_hold_something_else_is_not_used_again_F4(
    server: Server, network: Network, how: str
) -> None:
    """Bytes that nobody asked for are never the answer to anything."""
    server.answers[LINE] = UNUSABLE[how]
    assert (await ask(network, server)).body == BODY
    await asyncio.sleep(0.05)
    server.answers[LINE] = send(http(b"mine"))
    assert (await ask(network, server)).body == b"mine"
    assert server.accepted == 2


async def test_an_idle_connection_that_died_is_not_used(server: Server, network: Network) -> None:
    """The server closed it while nobody asked."""
    server.answers[LINE] = send(http(BODY), close=True)
    await ask(network, server)
    await asyncio.sleep(0.05)
    assert (await ask(network, server)).body == BODY


async def test_an_idle_connection_is_given_up_after_a_minute(server: Server) -> None:
    """Proxies forget them without a word."""
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


async def test_connections_to_many_addresses_are_bounded() -> None:
    """The ones not used for longest are closed."""
    network = Network(clock=time.monotonic)
    for _ in range(transport.CONNECTIONS_MAX + 3):
        async with serving() as server:
            server.answers[LINE] = send(http(BODY))
            await ask(network, server)
    assert len(network._idle) <= transport.CONNECTIONS_MAX
    await network.aclose()


async def test_a_body_faster_than_its_reader_waits_on_the_other_side(
    server: Server, network: Network, answers: Answers
) -> None:
    """No more of it is held than the bound and what was under way."""
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
async def test_what_may_not_stand_in_a_request_is_refused(
    server: Server, network: Network, bad: dict[str, Any]
) -> None:
    """Nothing is sent."""
    reply = await ask(network, server, **bad)
    assert kind_of(reply) == "refused"
    assert server.requests == []


async def test_a_call_given_up_takes_its_connection_along(server: Server, network: Network) -> None:
    """Its answer would be the next question's."""

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
async def test_an_answer_that_was_read_leaves_nothing_to_the_garbage_collector(
    server: Server, network: Network, answers: Answers, answer: Answer
) -> None:
    """A parser holds who listens to it; such rings, hundreds a second, are pauses of the loop."""
    server.answers[LINE] = answer
    gc.disable()
    try:
        await ask(network, server)
        server.answers[LINE] = send(http(BODY))
        await ask(network, server)
        assert answers[0]() is None
    finally:
        gc.enable()
