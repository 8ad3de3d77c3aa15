"""Traces of Pods while the service runs: on with --traces-endpoint."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from sunk_sync import __version__
from sunk_sync.settings.model import Settings
from sunk_sync.telemetry.telemetry import Telemetry
from sunk_sync.telemetry.traces import PodTraces

if TYPE_CHECKING:
    from sunk_sync.telemetry.otlp import Outlet

FLUSH_S = 3.0
"""Time for the last spans at SIGTERM, after the last writes."""


@asynccontextmanager
async def tracing(settings: Settings, telemetry: Telemetry) -> AsyncIterator[None]:
    """Let the journal feed traces; at the end, send those that wait."""
    outlet = None if settings.traces_endpoint is None else _outlet(settings, telemetry)
    if outlet is None:
        yield
        return
    telemetry.at_scrape.append(outlet.tell)
    telemetry.traces = PodTraces(
        outlet.send,
        telemetry.log,
        share=settings.traces_sample,
        clock=time.monotonic,
        wall_ns=time.time_ns,
    )
    try:
        yield
        await _flush(outlet, telemetry)
    finally:
        telemetry.traces = None
        outlet.give_up()


def _outlet(settings: Settings, telemetry: Telemetry) -> "Outlet | None":
    from sunk_sync.telemetry.otlp import Outlet  # nothing else imports the SDK

    endpoint, share = settings.traces_endpoint or "", settings.traces_sample
    about = {
        "service.name": "sunk-sync",
        "service.version": __version__,
        "service.instance.id": socket.gethostname(),
        "k8s.namespace.name": settings.own_namespace,
        "slurm.cluster.name": settings.cluster_name,
    }
    try:
        outlet = Outlet(endpoint, about, log=telemetry.log)
    except ValueError as error:
        telemetry.log.error("traces cannot start", why=f"an OTEL_… variable is wrong: {error}")
        return None
    telemetry.log.info("traces pods", endpoint=endpoint, share=share)
    return outlet


async def _flush(outlet: "Outlet", telemetry: Telemetry) -> None:
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    outlet.close(lambda: loop.call_soon_threadsafe(ended.set))
    with anyio.move_on_after(FLUSH_S):
        await ended.wait()
    left = outlet.waiting
    if left:
        telemetry.log.warning("traces are lost at the end", spans=left, waited_s=FLUSH_S)
