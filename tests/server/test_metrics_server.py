"""The servers of health, metrics and the status page; slow and malformed clients."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge

from sunk_sync.server import metrics_server
from sunk_sync.server.bounded import CannotListenError
from sunk_sync.server.metrics_server import Check, Doors, Monitored, heartbeat, serve
from sunk_sync.settings.types import Address

HERE = Address("127.0.0.1", 0)
SLURM_AWAY = Check("slurm", "degraded", "no answer for 12 s")
LOOP = Check("loop", "ok", "last step 0.1 s ago")


class Service:
    """The servers with checks that the test sets."""

    def __init__(self) -> None:
        self.live: tuple[Check, ...] = (LOOP,)
        self.ready = True
        self.checks: tuple[Check, ...] = (Check("kubernetes", "ok", "listed"),)
        self.registry = CollectorRegistry()
        self.labelled: CollectorRegistry | None = None
        self.addresses: dict[str, str] = {}

    def open(
        self, metrics: Address | None = HERE, health: Address | None = HERE
    ) -> AbstractAsyncContextManager[Doors]:
        sources = Monitored(
            live=lambda: self.live,
            ready=lambda: (self.ready, self.checks),
            registry=self.registry,
            labelled=lambda: self.labelled,
        )
        return serve(sources, metrics=metrics, health=health)

    async def health(self, path: str, method: str = "GET") -> tuple[int, str]:
        return await get(self.addresses["health"], path, method)

    async def metrics(self, path: str) -> tuple[int, str]:
        return await get(self.addresses["metrics"], path)


async def get(address: str, path: str, method: str = "GET") -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"http://{address}{path}") as answer,
    ):
        return answer.status, await answer.text()


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    made = Service()
    async with made.open() as doors:
        made.addresses = dict(doors.addresses)
        yield made


async def test_livez_depends_on_the_loop_alone(service: Service) -> None:
    service.ready, service.checks = False, (SLURM_AWAY,)
    assert await service.health("/livez") == (200, "ok\n")
    assert await service.health("/healthz") == (200, "ok\n")
    service.live = (heartbeat("loop", 31.0, 30.0),)
    status, text = await service.health("/livez")
    assert status == 503
    assert "loop: failed: no step for 31.0 s, allowed are 30 s" in text


async def test_readyz_is_503_until_both_sides_were_listed(service: Service) -> None:
    service.ready, service.checks = False, (Check("slurm", "failed", "not listed yet"),)
    answer = await service.health("/readyz")
    assert answer == (503, "not ok\nslurm: failed: not listed yet\n")


async def test_an_outage_of_slurm_is_200_and_degraded(service: Service) -> None:
    """Otherwise no replica would be left in the Service of the hooks."""
    service.checks = (*service.checks, SLURM_AWAY)
    answer = await service.health("/readyz")
    assert answer == (200, "ok\nslurm: degraded: no answer for 12 s\n")


async def test_verbose_names_each_check_with_a_sentence(service: Service) -> None:
    assert await service.health("/readyz?verbose") == (200, "ok\nkubernetes: ok: listed\n")


async def test_metrics_are_served_in_prometheus_text(service: Service) -> None:
    Counter("sunk_sync_writes", "x", registry=service.registry).inc(3)
    status, text = await service.metrics("/metrics")
    assert status == 200
    assert "sunk_sync_writes_total 3.0" in text


TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@pytest.mark.parametrize(
    ("accept", "content_type", "end"),
    [
        ("", TEXT, "waiting 3.0\n"),
        ("text/plain", TEXT, "waiting 3.0\n"),
        ("application/openmetrics-text;version=1.0.0", OPEN_METRICS, "waiting 3.0\n# EOF\n"),
    ],
)
@pytest.mark.parametrize("labelled", [False, True])
async def test_the_format_of_metrics_is_what_the_scrape_asks_for(
    service: Service, *, accept: str, content_type: str, end: str, labelled: bool
) -> None:
    """Also of the series that a thread encodes."""
    more = CollectorRegistry()
    Gauge("waiting", "x", registry=more if labelled else service.registry).set(3)
    service.labelled = more if labelled else None
    url, headers = f"http://{service.addresses['metrics']}/metrics", {"Accept": accept}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        text = await answer.text()
        assert answer.headers["Content-Type"].startswith(content_type)
    assert text.endswith(end)


async def test_the_status_page_shows_checks_and_metrics_and_escapes_them(service: Service) -> None:
    service.checks = (Check("slurm", "degraded", "<script>alert(1)</script>"),)
    Counter("sunk_sync_writes", "x", registry=service.registry).inc(3)
    status, text = await service.metrics("/")
    assert status == 200
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "sunk_sync_writes_total<td>3" in text


async def test_metrics_and_health_may_share_one_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    shared = Address("127.0.0.1", port)
    async with Service().open(metrics=shared, health=shared) as doors:
        assert doors.addresses == dict.fromkeys(("metrics", "health"), f"127.0.0.1:{port}")
        assert (await get(doors.addresses["metrics"], "/livez"))[0] == 200
        assert (await get(doors.addresses["metrics"], "/metrics"))[0] == 200


async def test_without_an_address_nothing_listens() -> None:
    async with Service().open(metrics=None) as doors:
        assert set(doors.addresses) == {"health"}


async def test_without_a_host_every_address_of_the_machine_is_served() -> None:
    """`:8081` of a Pod must answer on its address of either family."""
    async with Service().open(metrics=None, health=Address("", 0)) as doors:
        port = doors.addresses["health"].rpartition(":")[2]
        assert (await get(f"127.0.0.1:{port}", "/livez"))[0] == 200


async def test_an_address_in_use_is_an_error_with_the_flag() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(CannotListenError) as caught:
            async with Service().open(health=address):
                pass
    assert str(caught.value).startswith("--health-probe-bind-address: cannot listen on 127.0.0.1:")
    assert "in use" in str(caught.value)


async def test_an_address_of_another_machine_is_an_error_with_the_flag() -> None:
    with pytest.raises(CannotListenError, match="--metrics-bind-address"):
        async with Service().open(metrics=Address("192.0.2.1", 0)):
            pass


async def test_other_paths_and_methods_are_404_and_405(service: Service) -> None:
    status, text = await service.health("/health")
    assert status == 404
    assert "/livez" in text
    assert (await service.health("/livez", "POST"))[0] == 405
    assert await service.health("/livez", "HEAD") == (200, "")


async def raw(address: str, data: bytes) -> bytes:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(), 60)
    finally:
        writer.close()


async def test_a_long_header_is_400(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    """A scanner of ports must not fill the log."""
    head = b"GET /livez HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100_000 + b"\r\n\r\n"
    answer = await raw(service.addresses["health"], head)
    assert b" 400 " in answer.splitlines()[0]
    assert caplog.records == []


async def test_a_body_is_not_read(service: Service) -> None:
    head = b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n" + b"a" * 99
    assert (await raw(service.addresses["health"], head)).startswith(b"HTTP/1.1 405")


async def test_an_unfinished_request_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "FIRST_REQUEST_S", 0.05)
    async with Service().open() as doors:
        assert await raw(doors.addresses["health"], b"GET /livez HTT") == b""


async def test_a_client_keeps_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "FIRST_REQUEST_S", 0.05)
    async with Service().open() as doors, aiohttp.ClientSession() as session:
        url = f"http://{doors.addresses['health']}/livez"
        for _ in range(2):
            async with session.get(url) as answer:
                assert answer.status == 200
            await asyncio.sleep(0.1)
        assert session.connector is not None
        assert len(session.connector._conns) == 1


async def test_a_connection_above_the_limit_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "CONNECTIONS_MAX", 2)
    async with Service().open() as doors:
        host, _, port = doors.addresses["health"].rpartition(":")
        first, second, third = [await asyncio.open_connection(host, int(port)) for _ in range(3)]
        assert await asyncio.wait_for(third[0].read(), 60) == b""
        first[1].write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" in await first[0].readline()
        for _, writer in (first, second, third):
            writer.close()


async def test_a_check_that_raises_is_500_and_the_next_request_is_served(service: Service) -> None:
    service.live = None  # type: ignore[assignment]
    assert (await service.health("/livez"))[0] == 500
    service.live = (LOOP,)
    assert (await service.health("/livez"))[0] == 200
