"""A fake OpenTelemetry collector on 127.0.0.1 that decodes what it gets."""

import asyncio
from typing import Any, NamedTuple

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class CollectedSpan(NamedTuple):
    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start_ns: int
    end_ns: int
    attributes: dict[str, str]
    failure: str
    failed: bool
    service: dict[str, str]


class Collector:
    """Keeps each span it took; `status` and `delay_s` make it fail."""

    def __init__(self) -> None:
        self.spans: list[CollectedSpan] = []
        self.headers: list[dict[str, str]] = []
        self.requests = 0
        self.status = 200
        self.delay_s = 0.0
        self.address = ""
        self._runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> None:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/traces", self._take)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        self.address = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def aclose(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def of(self, uid: str) -> list[CollectedSpan]:
        """Return the spans of a Pod's trace in their order of arrival."""
        return [one for one in self.spans if one.trace_id == uid.replace("-", "")]

    def names_of(self, uid: str) -> list[str]:
        return [one.name for one in self.of(uid)]

    async def _take(self, request: web.Request) -> web.Response:
        self.requests += 1
        body = await request.read()
        await asyncio.sleep(self.delay_s)
        if self.status == 200:
            self.headers.append(dict(request.headers))
            self.spans += _decoded(ExportTraceServiceRequest.FromString(body))
        return web.Response(status=self.status)


def _decoded(request: Any) -> list[CollectedSpan]:
    return [
        CollectedSpan(
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.name,
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            _texts(span.attributes),
            span.status.message,
            span.status.code == 2,
            _texts(of_resource.resource.attributes),
        )
        for of_resource in request.resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]


def _texts(attributes: Any) -> dict[str, str]:
    return {one.key: str(getattr(one.value, one.value.WhichOneof("value"))) for one in attributes}
