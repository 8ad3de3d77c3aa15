"""The slurmrestd API of the minimal server: any number of idle nodes, no jobs."""

import asyncio
import re
import time
from collections.abc import Iterable, Sequence

import msgspec
from aiohttp import web

from tests.bench.shapes import SlurmShape, recorded

VERSION = "v0.0.45"
LISTING_MS_PER_NODE = 0.12
"""slurmrestd 26.05 takes 230 ms for 2,003 nodes."""
_LAST_UPDATE = re.compile(rb'("last_update": \{[^}]*"number": )\d+')


class Slurm:
    """Idle nodes; writes are stored and counted."""

    def __init__(self, hosts: Sequence[bytes]) -> None:
        self.writes = 0
        shape = SlurmShape("cold")
        self._records = {host.decode(): shape.made(host) for host in hosts}
        head, _, tail = recorded("slurm-node-cold").partition(shape.record)
        self._head, self._tail = head, tail
        self._updated = int(time.time())

    def routes(self) -> Iterable[web.RouteDef]:
        root = f"/slurm/{VERSION}"
        return (
            web.get(f"{root}/ping/", self._ping),
            web.get(f"{root}/nodes/", self._list),
            web.get(f"{root}/node/{{name}}", self._get),
            web.post(f"{root}/node/{{name}}", self._post),
        )

    def _answer(self, records: Iterable[bytes]) -> web.Response:
        tail = _LAST_UPDATE.sub(rb"\g<1>%d" % int(time.time()), self._tail)
        body = self._head + b",\n".join(records) + tail
        return web.Response(body=body, content_type="application/json")

    async def _ping(self, _: web.Request) -> web.Response:
        return self._answer(())

    async def _list(self, request: web.Request) -> web.Response:
        since = request.query.get("update_time")
        if since is not None and int(since) - 1 >= self._updated:
            return web.Response(status=304)
        await asyncio.sleep(len(self._records) * LISTING_MS_PER_NODE / 1e3)
        return self._answer(self._records.values())

    async def _get(self, request: web.Request) -> web.Response:
        return self._answer([self._records[request.match_info["name"]]])

    async def _post(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        change = msgspec.json.decode(await request.read())
        record = msgspec.json.decode(self._records[name])
        self._records[name] = msgspec.json.format(msgspec.json.encode({**record, **change}))
        self._updated = int(time.time())
        self.writes += 1
        return self._answer(())
