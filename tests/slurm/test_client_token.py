"""The token and the user name that each request carries."""

import asyncio
import time
from pathlib import Path

from msgspec.structs import replace

from sunk_sync.slurm.api.answers import SlurmResponse
from sunk_sync.slurm.api.client import Access, SlurmClient
from sunk_sync.slurm.api.requests import get_node, post_node
from sunk_sync.slurm.api.token import Token
from sunk_sync.slurm.api.transport import Network
from tests.kit.slurm_client import DENIED, NODE, OK, V45, connected, kind_of
from tests.slurm.recorded.server import Server, after, in_turn, send


def old_token(folder: Path) -> Path:
    path = folder / "token"
    path.write_text("old")
    return path


async def asks(server: Server) -> None:
    """Wait until the server has a request."""
    async with asyncio.timeout(60):
        while not server.requests:  # noqa: ASYNC110 -- the server has no event for it
            await asyncio.sleep(0.01)


async def test_after_a_refusal_the_rotated_token_is_sent_F5(server: Server, tmp_path: Path) -> None:
    path = old_token(tmp_path)
    gate = asyncio.Event()
    server.answers[NODE] = in_turn(after(gate, send(DENIED, close=True)), OK)
    async with connected(server, token=Token(path=str(path))) as client:
        asked = asyncio.ensure_future(client.call(get_node("n1")))
        await asks(server)
        path.write_text("new")
        gate.set()
        assert isinstance(await asked, SlurmResponse)
    assert [each.headers["x-slurm-user-token"] for each in server.requests] == ["old", "new"]


async def test_a_refused_token_is_not_sent_twice_F5(server: Server, tmp_path: Path) -> None:
    server.answers[NODE] = send(DENIED, close=True)
    async with connected(server, token=Token(path=str(old_token(tmp_path)))) as client:
        assert kind_of(await client.call(get_node("n1"))) == "auth"
    assert len(server.requests) == 1


async def test_an_unwanted_call_is_not_repeated_F2(server: Server, tmp_path: Path) -> None:
    """A submission was refused for its token; its job has been read since then (seed 541931)."""
    path = old_token(tmp_path)
    gate = asyncio.Event()
    server.answers[f"POST /slurm/{V45}/node/n1"] = after(gate, send(DENIED, close=True))
    wanted = True
    async with connected(server, token=Token(path=str(path))) as client:
        call = replace(post_node("n1", b"{}"), wanted=lambda: wanted)
        asked = asyncio.ensure_future(client.call(call))
        await asks(server)
        path.write_text("new")
        wanted = False
        gate.set()
        assert kind_of(await asked) == "unwanted"
        assert kind_of(await client.call(call)) == "unwanted"
    assert len(server.requests) == 1


async def test_the_user_name_is_sent_only_where_one_is_given(server: Server) -> None:
    server.answers[NODE] = OK
    async with connected(server) as client:
        await client.call(get_node("n1"))
    named = SlurmClient(
        Access(addresses=(f"{server.url}/",), version=V45, user_name="slurm"),
        Token(),
        transport=Network(clock=time.monotonic),
        clock=time.monotonic,
        on_exchange=lambda _: None,
    )
    await named.call(get_node("n1"))
    await named.aclose()
    first, last = server.requests
    assert "x-slurm-user-name" not in first.headers
    assert last.headers["x-slurm-user-name"] == "slurm"
    assert "x-slurm-user-token" not in last.headers
