"""F6: the client of Kubernetes sends a write only while this replica leads."""

import asyncio
import json
import time
from typing import Any

from aiohttp import web

from sunk_sync.kube.api.client import DEADLINE_S, Request
from sunk_sync.kube.api.fencing import FENCED
from tests.kube.recorded.server import answers, serving

POD = "/api/v1/namespaces/slurm/pods/a"
WRITE = Request(method="PATCH", path=POD, body=b"{}")
OPEN_S = 5.0


def text(body: bytes) -> Any:
    return json.loads(body)


async def test_a_standby_sends_no_write_and_all_its_reads_F6() -> None:
    async with serving(answers({})) as (server, client):
        client.left_s = lambda: 0.0
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert await client.call(Request(method=method, path=POD, body=b"{}"), text) == FENCED
        assert await client.call(Request(method="DELETE", path=POD), text) == FENCED
        assert server.requests == []
        assert await client.call(Request(path=POD), text) == {}


async def test_the_lease_itself_is_written_by_a_standby_F6() -> None:
    async with serving(answers({})) as (_, client):
        client.left_s = lambda: 0.0
        lease = Request(method="PATCH", path=POD, body=b"{}", by_anyone=True)
        assert await client.call(lease, text) == {}


async def test_a_fence_that_closes_while_a_connection_is_opened_stops_the_write_F6() -> None:
    """A frozen machine wakes up there."""
    async with serving(answers({})) as (server, client):
        left = iter((OPEN_S, 0.0))
        client.left_s = lambda: next(left)
        assert await client.call(WRITE, text) == FENCED
        assert server.requests == []
        client.left_s = lambda: OPEN_S
        assert await client.call(WRITE, text) == {}
        assert len(server.requests) == 1


async def test_a_write_waits_no_longer_than_the_fence_is_open_F6() -> None:
    async def never(_: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    async with serving(never) as (_, client):
        client.left_s = lambda: 0.2
        began_s = time.monotonic()
        failure = await client.call(WRITE, text)
        assert getattr(failure, "kind", "") == "timeout"
        assert time.monotonic() - began_s < DEADLINE_S / 2
