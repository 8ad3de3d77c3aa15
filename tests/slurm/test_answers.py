"""Each answer of slurmrestd becomes a value; a broken listing is never complete."""

import asyncio
import json

import msgspec
import pytest

from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse
from sunk_sync.slurm.api.requests import get_node, list_nodes, post_node
from sunk_sync.telemetry.exchange import Exchange
from tests.kit.slurm_client import DENIED, NODE, NODES, OK, V45, connected, kind_of, names_of
from tests.slurm.recorded import recorded
from tests.slurm.recorded.server import UNSERVED, Server, drop, http, in_turn, late, send


def big_listing(count: int) -> bytes:
    whole = json.loads(recorded("26.05", "nodes-3-idle"))
    whole["nodes"] = [{**whole["nodes"][0], "name": f"n{i}"} for i in range(count)]
    return json.dumps(whole, indent=1).encode()


HALF = recorded("26.05", "nodes-3-idle")[:3000]
SMALL = recorded("26.05", "node-dynamic")


async def test_the_first_of_two_answers_counts_F4(server: Server) -> None:
    """slurmrestd 26.05 sends a second answer, in plain text, after every error."""
    error = http(recorded("26.05", "error-node-unknown"), status=422, close=True)
    server.answers[f"POST /slurm/{V45}/node/n1"] = send(
        error, http(b"Invalid node name specified", status=422, close=True), close=True
    )
    async with connected(server) as client:
        answer = await client.call(post_node("n1", b"{}"))
    assert isinstance(answer, SlurmError)
    assert (answer.kind, answer.error_number) == ("no_such", 2018)


async def test_a_second_answer_is_never_that_of_the_next_call_F4(server: Server) -> None:
    """Also where the first answer does not announce that the connection ends."""
    error = http(recorded("26.05", "error-node-unknown"), status=422)
    server.answers[f"POST /slurm/{V45}/node/n1"] = send(error, http(b"second", status=422))
    server.answers[NODE] = OK
    async with connected(server) as client:
        for _ in range(3):
            assert kind_of(await client.call(post_node("n1", b"{}"))) == "no_such"
            assert kind_of(await client.call(get_node("n1"))) == "SlurmResponse"


async def test_a_hundred_calls_in_turn_use_one_connection(server: Server) -> None:
    server.answers[NODE] = OK
    async with connected(server) as client:
        for _ in range(100):
            assert isinstance(await client.call(get_node("n1")), SlurmResponse)
    assert server.accepted == 1


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        *[
            (send(http(body)), "garbage")
            for body in (b"<html>busy</html>", b"", b"{}", SMALL[:900])
        ],
        (send(http(b"<html>busy</html>", status=502)), "garbage"),
        (send(http(b"", status=302)), "garbage"),
        (send(http(SMALL, status=500)), "garbage"),
        (send(http(SMALL[:900], length=len(SMALL)), close=True), "broken"),
        (send(b"no http at all\r\n\r\n", close=True), "broken"),
        (send(b"HTTP/1.1 200 OK\r\nContent-Le", close=True), "broken"),
        (drop(), "broken"),
        (late(5, OK), "timeout"),
        (UNSERVED, "unserved"),
        (send(http(b"Authentication failure", status=401, close=True), close=True), "auth"),
        (send(DENIED, close=True), "auth"),
        (send(http(recorded("26.05", "error-ctld-down-nodes"), status=502)), "controller_down"),
        (send(http(recorded("26.05", "error-get-node-unknown"))), "no_such"),
        (send(http(b'"' + b"x" * 5_000_000 + b'"')), "too_large"),
        (send(http(b"", status=304)), "SlurmResponse"),
        (OK, "SlurmResponse"),
    ],
)
async def test_every_answer_is_a_value_F4(server: Server, answer: object, kind: str) -> None:
    server.answers[NODE] = answer  # type: ignore[assignment]
    heard: list[Exchange] = []
    async with connected(server, heard=heard) as client:
        call = msgspec.structs.replace(get_node("n1"), deadline_s=0.5)
        assert kind_of(await client.call(call)) == kind
    assert heard
    assert {exchange.path for exchange in heard} == {"/slurm/node/{name}"}


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (send(http(HALF)), "garbage"),
        (send(http(HALF, length=9000), close=True), "broken"),
        (send(http(recorded("26.05", "error-ctld-down-nodes"), status=502)), "controller_down"),
        (send(http(recorded("26.05", "error-ctld-down-nodes"))), "controller_down"),
        (send(http(b'{"nodes":null,"errors":[],"meta":{}}')), "garbage"),
        (send(http(b'{"nodes":[{"name":"n1"}],"errors":[{"error_number":2002}]}')), "refused"),
        (send(http(b'{"nodes":[{"name":"n1"}]}')), "garbage"),
        (send(http(b"<html>")), "garbage"),
        (send(http(b'{"nodes":[], "errors":[],"meta":{}}')), "SlurmResponse"),
        (send(http(recorded("26.05", "nodes-3-idle"))), "SlurmResponse"),
    ],
)
async def test_no_listing_with_an_error_ends_F4(server: Server, answer: object, kind: str) -> None:
    server.answers[NODES] = answer  # type: ignore[assignment]
    async with connected(server) as client:
        _, outcome = await names_of(client)
    assert kind_of(outcome) == kind


async def test_the_client_does_not_repeat_a_broken_listing(server: Server) -> None:
    whole = big_listing(200)
    broken = send(http(whole[:200_000], length=len(whole)), close=True)
    server.answers[NODES] = in_turn(broken, send(http(whole)))
    async with connected(server) as client:
        names, outcome = await names_of(client)
        assert kind_of(outcome) == "broken"
        assert 0 < len(names) < 200
        names, outcome = await names_of(client)
    assert names == [f"n{i}" for i in range(200)]
    assert isinstance(outcome, SlurmResponse)


async def test_reading_a_big_listing_lets_others_run(server: Server) -> None:
    server.answers[NODES] = send(http(big_listing(10_000)))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with connected(server) as client:
        running = asyncio.ensure_future(others())
        names, outcome = await names_of(client)
        running.cancel()
    assert len(names) == 10_000
    assert isinstance(outcome, SlurmResponse)
    assert len(outcome.body) < 2_000
    assert turns > 200


async def test_304_to_update_time_means_unchanged(server: Server) -> None:
    server.answers[f"{NODES}?update_time=17"] = send(http(b"", status=304))
    async with connected(server) as client:
        names, outcome = await names_of(client, list_nodes(changed_since_s=17))
    assert isinstance(outcome, SlurmResponse)
    assert outcome.unchanged
    assert names == []


async def test_a_name_cannot_reach_another_path(server: Server) -> None:
    """Users write annotations."""
    async with connected(server) as client:
        await client.call(get_node("../jobs/?x=1#y"))
    assert server.lines == [f"GET /slurm/{V45}/node/..%2Fjobs%2F%3Fx%3D1%23y"]
