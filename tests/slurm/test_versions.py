"""The client and slurmrestd agree on an API version."""

import asyncio

import pytest

from sunk_sync.slurm.api.answers import SlurmResponse
from sunk_sync.slurm.api.requests import get_node
from sunk_sync.slurm.api.versions import DIALECTS, NEWEST
from tests.kit.slurm_client import DENIED, NODE, OK, V45, connected, kind_of
from tests.slurm.recorded import RELEASES, recorded
from tests.slurm.recorded.server import Server, http, in_turn, send


@pytest.mark.parametrize("release", RELEASES)
async def test_the_newest_version_that_both_know_is_chosen(server: Server, release: str) -> None:
    version = RELEASES[release]
    server.speak(release, version, "v0.0.40")
    server.answers[f"GET /slurm/{version}/node/n1"] = send(http(recorded(release, "node-dynamic")))
    async with connected(server, version="auto") as client:
        answer = await client.call(get_node("n1"))
        again = await client.call(get_node("n1"))
    assert isinstance(answer, SlurmResponse)
    assert isinstance(again, SlurmResponse)
    assert answer.version == version
    calls = [f"GET /slurm/{version}/node/n1"] * 2
    assert server.lines[-3:] == [f"GET /slurm/{version}/ping/", *calls]


async def test_calls_that_begin_together_negotiate_once(server: Server) -> None:
    server.speak("26.05", V45)
    server.answers[NODE] = OK
    async with connected(server, version="auto") as client:
        await asyncio.gather(*(client.call(get_node("n1")) for _ in range(5)))
    assert server.lines.count(f"GET /slurm/{V45}/ping/") == 1


async def test_a_server_that_fails_while_negotiating_is_a_value(server: Server) -> None:
    """Only a 404 means another version."""
    server.answers[f"GET /slurm/{NEWEST}/ping/"] = send(DENIED, close=True)
    async with connected(server, version="auto") as client:
        assert kind_of(await client.call(get_node("n1"))) == "auth"
    assert len(server.lines) == 1


async def test_a_server_without_a_common_version_is_a_value(server: Server) -> None:
    async with connected(server, version="auto") as client:
        assert kind_of(await client.call(get_node("n1"))) == "unserved"
    assert len(server.lines) == len(DIALECTS)


async def test_after_a_downgrade_the_version_is_negotiated_again(server: Server) -> None:
    server.speak("26.05", V45)
    server.answers[NODE] = OK
    async with connected(server, version="auto") as client:
        await client.call(get_node("n1"))
        server.answers.clear()
        server.speak("24.11", "v0.0.42")
        server.answers["GET /slurm/v0.0.42/node/n1"] = OK
        answer = await client.call(get_node("n1"))
    assert isinstance(answer, SlurmResponse)
    assert answer.version == "v0.0.42"


async def test_after_an_upgrade_the_next_call_uses_the_newest_version(server: Server) -> None:
    old, new = (send(http(recorded(r, "node-dynamic"))) for r in ("24.11", "26.05"))
    server.speak("24.11", "v0.0.42")
    server.answers["GET /slurm/v0.0.42/node/n1"] = in_turn(old, new)
    async with connected(server, version="auto") as client:
        await client.call(get_node("n1"))
        server.speak("26.05", V45)
        server.answers[NODE] = new
        await client.call(get_node("n1"))
        await client.call(get_node("n1"))
    assert server.lines[-1] == NODE
