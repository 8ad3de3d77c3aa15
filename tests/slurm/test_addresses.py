"""Several addresses of slurmrestd, connections and deadlines."""

import asyncio
from typing import NoReturn

import msgspec
import pytest

from sunk_sync.slurm.api import transport
from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse
from sunk_sync.slurm.api.requests import get_node, post_node
from sunk_sync.slurm.api.transport import CONNECTIONS_MAX
from sunk_sync.telemetry.exchange import Exchange
from tests.kit.slurm_client import NODE, NODES, OK, V45, connected, kind_of, names_of
from tests.slurm.recorded import recorded
from tests.slurm.recorded.server import Server, after, drop, http, in_turn, late, send


async def test_a_dead_address_is_skipped_and_the_working_one_kept(server: Server) -> None:
    server.answers[NODE] = OK
    heard: list[Exchange] = []
    async with connected("http://127.0.0.1:1", server, heard=heard) as client:
        for _ in range(3):
            assert isinstance(await client.call(get_node("n1")), SlurmResponse)
        assert client.endpoint.address == server.url
    assert [exchange.status for exchange in heard] == ["connection", "200", "200", "200"]


async def test_a_failing_address_leads_to_the_other_one(server: Server, second: Server) -> None:
    server.answers[NODE] = in_turn(drop(), drop(), OK)
    second.answers[NODE] = in_turn(OK, drop(), drop())
    async with connected(server, second) as client:
        addresses = []
        for _ in range(3):
            assert isinstance(await client.call(get_node("n1")), SlurmResponse)
            addresses.append(client.endpoint.address)
    assert addresses == [second.url, server.url, server.url]


async def test_after_a_timeout_another_address_is_called(server: Server, second: Server) -> None:
    server.answers[NODE] = late(5, OK)
    second.answers[NODE] = OK
    call = msgspec.structs.replace(get_node("n1"), deadline_s=0.2)
    async with connected(server, second) as client:
        assert kind_of(await client.call(call)) == "timeout"
        assert kind_of(await client.call(call)) == "SlurmResponse"


@pytest.mark.parametrize("answer", [drop(), send(http(b"<html>", status=502))])
async def test_no_unsure_write_is_repeated(server: Server, second: Server, answer: object) -> None:
    """The caller reads first. Only an address that was never reached is skipped."""
    post = f"POST /slurm/{V45}/node/n1"
    server.answers[post] = answer  # type: ignore[assignment]
    second.answers[post] = send(http(b'{"errors":[]}'))
    async with connected(server, second) as client:
        assert kind_of(await client.call(post_node("n1", b"{}"))) in ("broken", "garbage")
    assert (len(server.requests), len(second.requests)) == (1, 0)
    async with connected("http://127.0.0.1:1", second) as client:
        assert isinstance(await client.call(post_node("n1", b"{}")), SlurmResponse)


async def test_eight_connections_and_two_of_them_for_what_is_urgent(server: Server) -> None:
    gate = asyncio.Event()
    server.answers[NODES] = after(gate, send(http(recorded("26.05", "nodes-3-idle"))))
    server.answers[NODE] = OK
    async with connected(server) as client:
        listings = [asyncio.ensure_future(names_of(client)) for _ in range(20)]
        async with asyncio.timeout(60):
            while server.open_now < 6:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        answers = await asyncio.gather(*(client.call(get_node("n1")) for _ in range(10)))
        assert {kind_of(answer) for answer in answers} == {"SlurmResponse"}
        gate.set()
        await asyncio.gather(*listings)
    assert server.open_most <= 8


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:1",
        "http://nosuch.invalid:6820",
        "ftp://127.0.0.1:6820",
        "http://127.0.0.1:99999",
        "http://[bad",
        "not an address",
        "https://127.0.0.1:{port_without_tls}",
    ],
)
async def test_an_unreachable_address_is_a_value_F4(server: Server, address: str) -> None:
    async with connected(address.format(port_without_tls=server.port)) as client:
        assert kind_of(await client.call(get_node("n1"))) == "unreachable"


async def test_an_address_that_hangs_is_left_early(monkeypatch: pytest.MonkeyPatch) -> None:

    async def swallow(*_: object, **__: object) -> NoReturn:
        await asyncio.sleep(3600)
        raise AssertionError

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", swallow)
    monkeypatch.setattr(transport, "CONNECT_S", 0.05)
    heard: list[Exchange] = []
    async with connected("http://a.invalid", "http://b.invalid", heard=heard) as client:
        failure = await client.call(post_node("n1", b"{}"))
    assert failure == SlurmError("unreachable", "no connection within 0.05 s")
    assert [exchange.status for exchange in heard] == ["connection", "connection"]


async def test_waiting_for_a_connection_counts_into_the_deadline(server: Server) -> None:
    server.answers[NODE] = late(0.6, OK)
    call = msgspec.structs.replace(get_node("n1"), deadline_s=0.8)
    async with connected(server) as client:
        answers = await asyncio.gather(*(client.call(call) for _ in range(2 * CONNECTIONS_MAX)))
    unanswered = [answer for answer in answers if isinstance(answer, SlurmError)]
    assert len(unanswered) >= CONNECTIONS_MAX
    assert {kind_of(answer) for answer in unanswered} == {"timeout"}
