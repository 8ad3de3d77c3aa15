"""A client of slurmrestd for tests with servers that answer as written."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from sunk_sync.slurm.api.answers import SlurmError
from sunk_sync.slurm.api.client import Access, SlurmClient
from sunk_sync.slurm.api.requests import SlurmCall, list_nodes
from sunk_sync.slurm.api.token import Token
from sunk_sync.slurm.api.transport import Network
from sunk_sync.telemetry.exchange import Exchange
from tests.slurm.recorded import recorded
from tests.slurm.recorded.server import Server, http, send

V45 = "v0.0.45"

NODE = f"GET /slurm/{V45}/node/n1"
NODES = f"GET /slurm/{V45}/nodes/"
OK = send(http(recorded("26.05", "node-dynamic")))
DENIED = http(recorded("26.05", "error-bad-token"), status=511, close=True)


@asynccontextmanager
async def connected(
    *servers: Server | str,
    token: Token | None = None,
    version: str = V45,
    heard: list[Exchange] | None = None,
) -> AsyncIterator[SlurmClient]:
    addresses = tuple(each if isinstance(each, str) else each.url for each in servers)
    client = SlurmClient(
        Access(addresses=addresses, version=version),
        token or Token(text="secret"),
        transport=Network(clock=time.monotonic),
        clock=time.monotonic,
        on_exchange=(heard if heard is not None else []).append,
    )
    try:
        yield client
    finally:
        await client.aclose()


async def names_of(client: SlurmClient, call: SlurmCall | None = None) -> tuple[list[str], object]:
    """The names that a listing handed over, and what came of it."""
    names: list[str] = []

    async def take(records: Sequence[bytes], asked_s: float) -> SlurmError | None:
        assert asked_s <= time.monotonic()
        names.extend(msgspec.json.decode(record)["name"] for record in records)
        return None

    return names, await client.read_records(call or list_nodes(), "nodes", take)


def kind_of(answer: object) -> str:
    return answer.kind if isinstance(answer, SlurmError) else type(answer).__name__
