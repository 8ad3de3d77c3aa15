"""HTTP for operators, on an address of this machine alone: /v1/explain.

It listens on a loopback address. `kubectl exec` and `kubectl port-forward` reach it, so Kubernetes
decides who may ask.
"""

import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from aiohttp import web

from sunk_sync.server.bounded import Bounds, HostPort, listen

FIRST_REQUEST_S: Final = 10.0
CONNECTIONS_MAX: Final = 50
KINDS: Final = ("host", "pod", "job", "gang", "nodeset")
EXPLAIN: Final = "/v1/explain/"
is_local: Final = re.compile(r"(127\.[0-9.]+|localhost|\[::1\])(:[0-9]+)?").fullmatch
NAME_MAX: Final = 600
"""Two names of Kubernetes and a slash are shorter."""

Explain = Callable[[Any, str], Any]
"""Takes kind and name; returns a struct for JSON, with a field `why` if there is no such object."""


class Operators:
    def __init__(self, explain: Explain) -> None:
        self._explain = explain

    @contextlib.asynccontextmanager
    async def serve(self, address: HostPort) -> AsyncIterator[str]:
        """Serve until exit; yield host:port as bound. Raises CannotListenError."""
        bounds = Bounds(connections=CONNECTIONS_MAX, first_request_s=FIRST_REQUEST_S)
        flags = "--operators-bind-address"
        async with listen(self._answer, address, flags=flags, bounds=bounds) as bound:
            yield bound

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        response = self._respond(request)
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    def _respond(self, request: web.BaseRequest) -> web.Response:
        if request.method != "GET":
            return _problem(405, "only GET")
        # A browser sends its page's host here: a page of another site must not read the answers.
        if not is_local(request.host):
            return _problem(403, "the Host of the request must be an address of this machine")
        if not request.rel_url.raw_path.startswith(EXPLAIN):
            return _problem(404, f"there is: {EXPLAIN}KIND/NAME")
        kind, _, name = request.rel_url.raw_path.removeprefix(EXPLAIN).partition("/")
        name = unquote(name)
        if kind not in KINDS or not name or len(name) > NAME_MAX:
            return _problem(400, f"ask for {EXPLAIN}KIND/NAME, KIND one of {', '.join(KINDS)}")
        answer = self._explain(kind, name)
        status = 404 if hasattr(answer, "similar") else 200
        return web.Response(
            status=status, body=msgspec.json.encode(answer), content_type="application/json"
        )


def _problem(status: int, why: str) -> web.Response:
    body: Mapping[str, str] = {"why": why}
    return web.Response(status=status, text=json.dumps(body), content_type="application/json")
