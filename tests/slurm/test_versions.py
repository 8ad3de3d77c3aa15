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
async def test_the_newest_version_of_both_is_found(server: Server, release: str) -> None:
    """Newest first; a version that is not served is a 404 in plain text."""
    version = RELEASES[release]
    server.speak(release, version, "v0.0.40")
    server.answers[f"GET /slurm/{version}/node/n1"] = send(http(recorded(release, "node-dynamic")))
    async with connected(server, version="auto") as client:
        answer = await client.call(get_node("n1"))
        again = await client.call(get_node("n1"))
    assert isinstance(answer, SlurmResponse)
    assert isinstance(again, SlurmResponse)
    assert answer.version == version
    assert server.lines[-3:] == [
        f"GET /slurm/{version}/ping/",
        *[f"GET /slurm/{version}/node/n1"] * 2,
    ]


async def test_calls_that_begin_together_negotiate_once(server: Server) -> None:
    """The others wait for the first."""
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


async def test_a_server_of_other_versions_is_a_value(server: Server) -> None:
    """All were asked for, none is spoken."""
    async with connected(server, version="auto") as client:
        assert kind_of(await client.call(get_node("n1"))) == "unserved"
    assert len(server.lines) == len(DIALECTS)


async def test_an_older_server_is_noticed_and_negotiated_with_anew(server: Server) -> None:
    """The call itself is repeated in the version that is served now."""
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


async def test_a_newer_release_is_noticed_though_the_old_version_is_served(server: Server) -> None:
    """After an upgrade the next call asks for the newest version again."""
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
