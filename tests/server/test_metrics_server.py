"""The doors: health by rows, metrics, the status page, and what a rude client gets."""

import asyncio
import socket
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from sunk_sync.server import metrics_server
from sunk_sync.server.bounded import CannotListenError
from sunk_sync.server.metrics_server import Check, Doors, Monitored, heartbeat, serve
from sunk_sync.settings.types import Address

HERE = Address("127.0.0.1", 0)
SLURM_AWAY = Check("slurm", "degraded", "no answer for 12 s")
LOOP = Check("loop", "ok", "last step 0.1 s ago")


class World:
    """What the checks say now; tests change it."""

    def __init__(self) -> None:
        self.live: tuple[Check, ...] = (LOOP,)
        self.ready = True
        self.checks: tuple[Check, ...] = (Check("kubernetes", "ok", "listed"),)
        self.registry = CollectorRegistry()

    def sources(self) -> Monitored:
        return Monitored(live=self._live, ready=self._ready, registry=self.registry)

    def _live(self) -> Sequence[Check]:
        return self.live

    def _ready(self) -> tuple[bool, Sequence[Check]]:
        return self.ready, self.checks

    def open(
        self, metrics: Address | None = HERE, health: Address | None = HERE
    ) -> AbstractAsyncContextManager[Doors]:
        return serve(self.sources(), metrics=metrics, health=health)


async def get(address: str, path: str, method: str = "GET") -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"http://{address}{path}") as answer,
    ):
        return answer.status, await answer.text()


async def test_livez_depends_on_the_loop_alone() -> None:
    """503 when the loop stands still; an outage of Slurm or Kubernetes never counts."""
    world = World()
    world.ready, world.checks = False, (SLURM_AWAY,)
    async with world.open() as doors:
        assert await get(doors.addresses["health"], "/livez") == (200, "ok\n")
        assert await get(doors.addresses["health"], "/healthz") == (200, "ok\n")
        world.live = (heartbeat("loop", 31.0, 30.0),)
        status, text = await get(doors.addresses["health"], "/livez")
        assert status == 503
        assert "loop: failed: no step for 31.0 s, allowed are 30 s" in text


async def test_readyz_is_503_until_both_sides_were_listed_once() -> None:
    """And says what is missing without being asked."""
    world = World()
    world.ready, world.checks = False, (Check("slurm", "failed", "not listed yet"),)
    async with world.open() as doors:
        status, text = await get(doors.addresses["health"], "/readyz")
        assert (status, text) == (503, "not ok\nslurm: failed: not listed yet\n")


async def test_an_outage_of_slurm_is_200_and_degraded() -> None:
    """Else both replicas would leave the Service and the hooks would fail."""
    world = World()
    world.checks = (*world.checks, SLURM_AWAY)
    async with world.open() as doors:
        health = doors.addresses["health"]
        assert await get(health, "/readyz") == (200, "ok\nslurm: degraded: no answer for 12 s\n")


async def test_verbose_names_each_check_with_a_sentence() -> None:
    """`?verbose`, as in Kubernetes."""
    async with World().open() as doors:
        assert await get(doors.addresses["health"], "/readyz?verbose") == (
            200,
            "ok\nkubernetes: ok: listed\n",
        )


async def test_metrics_are_served_in_prometheus_text() -> None:
    """With the content type that was asked for."""
    world = World()
    Counter("sunk_sync_writes", "x", registry=world.registry).inc(3)
    async with world.open() as doors:
        status, text = await get(doors.addresses["metrics"], "/metrics")
        assert status == 200
        assert "sunk_sync_writes_total 3.0" in text


async def test_the_status_page_shows_checks_and_figures_and_escapes_them() -> None:
    """What came from outside must not become markup."""
    world = World()
    world.checks = (Check("slurm", "degraded", "<script>alert(1)</script>"),)
    Counter("sunk_sync_writes", "x", registry=world.registry).inc(3)
    async with world.open() as doors:
        status, text = await get(doors.addresses["metrics"], "/")
    assert status == 200
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "sunk_sync_writes_total<td>3" in text


async def test_two_doors_may_share_one_address() -> None:
    """Then one port answers for both."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    shared = Address("127.0.0.1", port)
    async with World().open(metrics=shared, health=shared) as doors:
        assert doors.addresses == dict.fromkeys(("metrics", "health"), f"127.0.0.1:{port}")
        assert (await get(doors.addresses["metrics"], "/livez"))[0] == 200
        assert (await get(doors.addresses["metrics"], "/metrics"))[0] == 200


async def test_a_door_that_is_off_stays_shut() -> None:
    """Empty address: nothing listens."""
    async with World().open(metrics=None) as doors:
        assert set(doors.addresses) == {"health"}


async def test_without_a_host_every_address_of_the_machine_is_served() -> None:
    """`:8081` of a Pod must answer on its address, of either family."""
    async with World().open(metrics=None, health=Address("", 0)) as doors:
        port = doors.addresses["health"].rpartition(":")[2]
        assert (await get(f"127.0.0.1:{port}", "/livez"))[0] == 200


async def test_an_address_in_use_is_an_error_that_names_the_flag() -> None:
    """And nothing stays open."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(CannotListenError) as caught:
            async with World().open(health=address):
                pass
    assert str(caught.value).startswith("--health-probe-bind-address: cannot listen on 127.0.0.1:")
    assert "in use" in str(caught.value)


async def test_an_address_that_is_not_ours_is_an_error() -> None:
    """TEST-NET-1 belongs to nobody."""
    with pytest.raises(CannotListenError, match="--metrics-bind-address"):
        async with World().open(metrics=Address("192.0.2.1", 0)):
            pass


async def test_unknown_paths_say_what_there_is() -> None:
    """404 with the list; only reading is allowed."""
    async with World().open() as doors:
        status, text = await get(doors.addresses["health"], "/health")
        assert status == 404
        assert "/livez" in text
        assert (await get(doors.addresses["health"], "/livez", "POST"))[0] == 405
        assert await get(doors.addresses["health"], "/livez", "HEAD") == (200, "")


async def raw(address: str, data: bytes) -> bytes:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(), 5)
    finally:
        writer.close()


async def test_a_header_without_end_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """Bounded memory for each connection; a scanner of ports leaves no traceback in the log."""
    async with World().open() as doors:
        head = b"GET /livez HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100_000 + b"\r\n\r\n"
        answer = await raw(doors.addresses["health"], head)
        assert b" 400 " in answer.splitlines()[0]
    assert caplog.records == []


async def test_a_body_is_not_read() -> None:
    """A gigabyte announced is a connection closed."""
    async with World().open() as doors:
        head = b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n" + b"a" * 99
        assert (await raw(doors.addresses["health"], head)).startswith(b"HTTP/1.1 405")


async def test_a_client_that_never_finishes_its_request_is_put_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a few hundred of them would keep the probes away."""
    monkeypatch.setattr(metrics_server, "FIRST_REQUEST_S", 0.05)
    async with World().open() as doors:
        assert await raw(doors.addresses["health"], b"GET /livez HTT") == b""


async def test_a_client_that_spoke_keeps_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prometheus and the kubelet come back on the same one."""
    monkeypatch.setattr(metrics_server, "FIRST_REQUEST_S", 0.05)
    async with World().open() as doors, aiohttp.ClientSession() as session:
        url = f"http://{doors.addresses['health']}/livez"
        for _ in range(2):
            async with session.get(url) as answer:
                assert answer.status == 200
            await asyncio.sleep(0.1)
        assert session.connector is not None
        assert len(session.connector._conns) == 1


async def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more than allowed is closed at once; those before it are served."""
    monkeypatch.setattr(metrics_server, "CONNECTIONS_MAX", 2)
    async with World().open() as doors:
        host, _, port = doors.addresses["health"].rpartition(":")
        first, second, third = [await asyncio.open_connection(host, int(port)) for _ in range(3)]
        assert await asyncio.wait_for(third[0].read(), 5) == b""
        first[1].write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" in await first[0].readline()
        for _, writer in (first, second, third):
            writer.close()


async def test_a_check_that_raises_is_500_and_the_next_request_is_served() -> None:
    """A bug in a check must not take the door down."""
    world = World()
    async with world.open() as doors:
        world.live = None  # type: ignore[assignment]
        assert (await get(doors.addresses["health"], "/livez"))[0] == 500
        world.live = (LOOP,)
        assert (await get(doors.addresses["health"], "/livez"))[0] == 200
