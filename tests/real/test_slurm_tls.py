"""slurmrestd behind TLS, as at most sites: certificates are checked."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse
from sunk_sync.slurm.api.client import Access, SlurmClient
from sunk_sync.slurm.api.requests import get_node
from sunk_sync.slurm.api.token import Token
from sunk_sync.slurm.api.transport import Network
from tests.real.testbed import SlurmServer, certificates

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA that this machine does not trust, and a certificate for 127.0.0.1 and localhost."""
    directory = tmp_path_factory.mktemp("keys")
    certificates.make(directory)
    return directory


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(65536):
        writer.write(piece)
        await writer.drain()
    writer.close()


@asynccontextmanager
async def behind_tls(port: int, keys: Path) -> AsyncIterator[int]:
    """Return a port with TLS in front of this one."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, out = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_relay(reader, out), _relay(back, writer), return_exceptions=True)

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(keys / "apiserver.crt", keys / "apiserver.key")
    listener = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    yield listener.sockets[0].getsockname()[1]
    listener.close()


async def asked(address: str, token: str) -> SlurmResponse | SlurmError:
    """Send GET of n1 twice on one connection; return the results."""
    client = SlurmClient(
        Access(addresses=(address,)),
        Token(text=token),
        transport=Network(clock=time.monotonic),
        clock=time.monotonic,
        on_exchange=lambda _: None,
    )
    await client.call(get_node("n1"))
    answer = await client.call(get_node("n1"))
    await client.aclose()
    return answer


async def test_slurmrestd_behind_tls_is_used_only_with_a_trusted_certificate(
    slurm: SlurmServer, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = slurm.token()
    async with behind_tls(slurm.port, keys) as port:
        unknown = await asked(f"https://localhost:{port}", token)
        assert isinstance(unknown, SlurmError)
        assert (unknown.kind, "certificate" in unknown.text) == ("unreachable", True)
        monkeypatch.setenv("SSL_CERT_FILE", str(keys / "ca.crt"))
        assert isinstance(await asked(f"https://localhost:{port}", token), SlurmResponse)
        foreign = await asked(f"https://127.0.0.2:{port}", token)
        assert isinstance(foreign, SlurmError)
