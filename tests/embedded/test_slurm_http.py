"""The embedded Slurm on a socket, with the service's own client and with plain sockets."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence

import pytest

from sunk_sync.core.model.actions import Drain, Undrain
from sunk_sync.core.model.facts import ListingEnded, News
from sunk_sync.core.model.outcomes import Done, Refused
from sunk_sync.embedded.slurm.api.http import SlurmServer
from sunk_sync.embedded.slurm.api.rest import SlurmRest
from sunk_sync.embedded.slurm.model.job import JobRequest
from sunk_sync.slurm.api import controller
from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse
from sunk_sync.slurm.api.client import Access, SlurmClient
from sunk_sync.slurm.api.requests import get_node
from sunk_sync.slurm.api.token import Token
from sunk_sync.slurm.api.transport import Network
from sunk_sync.slurm.read.nodes import NodePoll
from sunk_sync.slurm.read.pacing import PollTiming, Time
from sunk_sync.slurm.write.nodes import SlurmPush
from tests.embedded.slurm_kit import BOTH, Generation, slurm_of

CORDONED = "k8s: node cordoned"


@pytest.fixture
def generation() -> Generation:
    return "26.05"


@pytest.fixture
def clock() -> "Clock":
    return Clock()


class Clock:
    """The real clock, which a test can advance."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s


@pytest.fixture
async def server(generation: Generation, clock: Clock) -> AsyncIterator[SlurmServer]:
    server = SlurmServer(SlurmRest(slurm_of(generation=generation)), clock=clock)
    await server.start()
    yield server
    await server.aclose()


@pytest.fixture
async def client(server: SlurmServer) -> AsyncIterator[SlurmClient]:
    client = SlurmClient(
        Access(addresses=(server.address,)),
        Token(text="any"),
        transport=Network(clock=time.monotonic),
        clock=time.monotonic,
        on_exchange=lambda _: None,
    )
    yield client
    await client.aclose()


@BOTH
async def test_our_client_drains_and_undrains(server: SlurmServer, client: SlurmClient) -> None:
    push = SlurmPush(client, time.monotonic).push
    outcomes = await push([Drain(name, CORDONED) for name in ("n1", "n2", "nosuch")])
    assert [type(outcome) for outcome in outcomes] == [Done, Done, Refused]
    node = server.world.nodes["n1"]
    assert (node.reason, node.flags) == (CORDONED, frozenset({"DRAIN"}))
    assert client.endpoint.version == server.world.setup.release.versions[0]
    await push([Undrain("n1", "lifted")])
    assert "DRAIN" not in server.world.nodes["n1"].flags


@BOTH
async def test_our_client_lists_nodes_and_reads_the_configuration(client: SlurmClient) -> None:
    news: list[News] = []

    async def tell(found: Sequence[News]) -> None:
        news.extend(found)

    when = Time(clock=time.monotonic, sleep=asyncio.sleep, random=lambda: 0.0)
    poll = NodePoll(client, tell, timing=PollTiming(), time=when)
    assert await poll.poll() is None
    assert isinstance(news[-1], ListingEnded)
    assert len(news) == 5
    assert isinstance(await controller.ping(client), list)
    assert not isinstance(await controller.diag(client), SlurmError)
    conf = await controller.read_conf(client)
    assert isinstance(conf, SlurmError) == (client.endpoint.version == "v0.0.42")


async def test_a_stopped_slurmrestd_refuses_connections_until_its_restart(
    server: SlurmServer, client: SlurmClient
) -> None:
    port = int(server.address.rpartition(":")[2])
    await server.stop()
    failure = await client.call(get_node("n1"))
    assert isinstance(failure, SlurmError)
    assert failure.kind == "unreachable"
    await server.start(port)
    assert isinstance(await client.call(get_node("n1")), SlurmResponse)


async def test_a_request_without_slurmctld_fails_after_ten_seconds(
    server: SlurmServer, client: SlurmClient, clock: Clock
) -> None:
    assert isinstance(await client.call(get_node("n1")), SlurmResponse)
    server.world.stop_controller(now_s=server.now_s)
    asking = asyncio.ensure_future(client.call(get_node("n1")))
    await asyncio.sleep(0.1)
    assert not asking.done()
    clock.ahead_s = 11
    failure = await asking
    assert isinstance(failure, SlurmError)
    assert (failure.kind, failure.error_number) == ("controller_down", 1800)


async def test_a_request_is_answered_if_slurmctld_returns_in_time(
    server: SlurmServer, client: SlurmClient
) -> None:
    server.world.stop_controller(now_s=server.now_s)
    asking = asyncio.ensure_future(client.call(get_node("n1")))
    await asyncio.sleep(0.1)
    server.world.start_controller(now_s=server.now_s)
    assert isinstance(await asking, SlurmResponse)


async def test_jobs_start_and_end_without_requests(server: SlurmServer, clock: Clock) -> None:
    server.world.submit(JobRequest(duration_s=1), now_s=server.now_s)
    clock.ahead_s = 30
    await asyncio.sleep(0.3)
    assert server.world.jobs[1].state == "COMPLETED"


async def asked(server: SlurmServer, request: str, *, token: str = "any") -> bytes:
    """Return all bytes until the server closes the connection."""
    host, _, port = server.address.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    line, _, body = request.partition("\n")
    head = f"{line} HTTP/1.1\r\nHost: x\r\nX-SLURM-USER-TOKEN: {token}\r\nConnection: close\r\n"
    kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    writer.write((head + kind).encode())
    async with asyncio.timeout(60):
        everything = await reader.read()
    writer.close()
    return everything


@pytest.mark.parametrize(("generation", "answers"), [("26.05", 2), ("24.11", 1)])
@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ('POST /slurm/v0.0.42/node/nosuch\n{"comment": "x"}', "Invalid node name specified"),
        ("GET /slurm/v0.0.42/nosuch", "find requested URL"),
    ],
)
async def test_26_05_answers_an_error_twice(
    server: SlurmServer, answers: int, request_: str, text: str
) -> None:
    """The second response is plain text, and both close the connection."""
    received = (await asked(server, request_)).decode()
    assert received.count("HTTP/1.1 4") + received.count("HTTP/1.1 5") == answers
    assert text in received.rpartition("HTTP/1.1")[2]


async def test_an_error_without_a_text_is_sent_twice_too(server: SlurmServer) -> None:
    """/partitions/ sends no text."""
    server.rest.tokens.add("good")
    everything = await asked(server, "GET /slurm/v0.0.42/partitions/", token="bad")
    assert everything.count(b"HTTP/1.1 511") == 2
    assert b"Content-Length: 0" in everything


async def test_json_has_line_breaks_and_a_304_no_body(server: SlurmServer) -> None:
    everything = await asked(server, "GET /slurm/v0.0.45/node/n1")
    head, _, body = everything.partition(b"\r\n\r\n")
    assert json.loads(body)["nodes"][0]["name"] == "n1"
    assert body.count(b"\n") > 50
    assert b"application/json" in head
    unchanged = await asked(server, "GET /slurm/v0.0.45/nodes/?update_time=4000000000")
    assert unchanged.startswith(b"HTTP/1.1 304")
    assert unchanged.endswith(b"\r\n\r\n")
