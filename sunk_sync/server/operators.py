"""HTTP for operators, on an address of this machine alone: explain, diff, status, pause.

It listens on a loopback address. `kubectl exec` and `kubectl port-forward` reach it, so Kubernetes
decides who may ask.
"""

import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import resources
from typing import Annotated, Any, Final
from urllib.parse import unquote

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from sunk_sync.server.bounded import Bounds, HostPort, listen
from sunk_sync.server.live import Feed, Live

FIRST_REQUEST_S: Final = 10.0
CONNECTIONS_MAX: Final = 50
KINDS: Final = ("host", "pod", "job", "gang", "nodeset")
PAGE: Final = "/"
LIVE: Final = "/v1/live"
EXPLAIN: Final = "/v1/explain/"
DIFF: Final = "/v1/diff"
STATUS: Final = "/v1/status"
PAUSE: Final = "/v1/pause"
RESUME: Final = "/v1/resume"
JSON: Final = "application/json"
is_local: Final = re.compile(r"(127\.[0-9.]+|localhost|\[::1\])(:[0-9]+)?").fullmatch
PAUSE_MAX_S: Final = 7 * 86_400.0
NAME_MAX: Final = 600
"""Two names of Kubernetes and a slash are shorter."""


class Problem(Struct, frozen=True):
    status: int
    why: str


class PauseOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a POST to /v1/pause."""

    for_s: Annotated[float, Meta(gt=0, le=PAUSE_MAX_S)] | None = None
    """None: until /v1/resume."""
    why: Annotated[str, Meta(max_length=300)] = ""


class PauseState(Struct, frozen=True, kw_only=True):
    """The answer to an order."""

    version: int = 1
    paused: str
    """The sentence; empty: not paused."""


class Questions(Struct, frozen=True, kw_only=True):
    """Who answers. Each returns a struct for JSON."""

    explain: Callable[[Any, str], Any]
    """Takes kind and name. A struct with a field `similar`: there is no such object."""
    diff: Callable[[], Awaitable[Any]]
    status: Callable[[], Awaitable[Any]]
    text: Callable[[Any], str]
    """The answer of `explain` as text."""
    feed: Feed
    """For the status page."""
    pause: Callable[[PauseOrder | None], Awaitable[Any]]
    """None: resume."""


class Operators:
    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._live = Live(questions.feed)

    @contextlib.asynccontextmanager
    async def serve(self, address: HostPort) -> AsyncIterator[str]:
        """Serve until exit; yield host:port as bound. Raises CannotListenError."""
        bounds = Bounds(connections=CONNECTIONS_MAX, first_request_s=FIRST_REQUEST_S)
        flags = "--operators-bind-address"
        async with listen(self._respond, address, flags=flags, bounds=bounds) as bound:
            yield bound

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        answer = await self._answer(request)
        if answer == PAGE:
            return _page()
        if answer == LIVE:
            return await self._live.stream(request)
        status = 404 if hasattr(answer, "similar") else 200
        if isinstance(answer, Problem):
            status = answer.status
        return web.Response(
            status=status,
            body=msgspec.json.encode(answer),
            content_type=JSON,
            headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"},
        )

    async def _answer(self, request: web.BaseRequest) -> Any:
        # A browser sends the host of its page here: a page of another site gets no answer.
        if not is_local(request.host):
            return Problem(403, "the Host of the request must be an address of this machine")
        path = request.rel_url.raw_path
        if path in (PAUSE, RESUME):
            return await self._order(request)
        if request.method != "GET":
            return Problem(405, "only GET")
        if path in (PAGE, LIVE):
            return Problem(503, "too many pages are open") if self._live.full else path
        if path == DIFF:
            return await self._questions.diff()
        if path == STATUS:
            return await self._questions.status()
        if path.startswith(EXPLAIN):
            return self._explain(path.removeprefix(EXPLAIN), text="text" in request.query)
        return Problem(404, f"there is: {EXPLAIN}KIND/NAME {DIFF} {STATUS} {PAUSE} {RESUME}")

    async def _order(self, request: web.BaseRequest) -> Any:
        """Pause or resume. A page of another site cannot send JSON without a leave to do so."""
        if request.method != "POST" or request.content_type != JSON:
            return Problem(405, f"only POST with {JSON}")
        if request.rel_url.raw_path == RESUME:
            return await self._questions.pause(None)
        try:
            order = msgspec.json.decode(await request.read(), type=PauseOrder)
        except msgspec.DecodeError as error:
            return Problem(400, str(error))
        return await self._questions.pause(order)

    def _explain(self, asked: str, *, text: bool) -> Any:
        kind, _, name = asked.partition("/")
        name = unquote(name)
        if kind not in KINDS or not name or len(name) > NAME_MAX:
            return Problem(400, f"ask for {EXPLAIN}KIND/NAME, KIND one of {', '.join(KINDS)}")
        answer = self._questions.explain(kind, name)
        if text and not hasattr(answer, "similar"):
            return {"text": self._questions.text(answer)}
        return answer


def _page() -> web.Response:
    """Return the status page, which needs nothing from elsewhere."""
    text = resources.files(__package__).joinpath("page.html").read_text()
    inline = ("style-src 'unsafe-inline'", "script-src 'unsafe-inline'", "img-src data:")
    policy = "; ".join(("default-src 'self'", *inline))
    headers = {"Cache-Control": "no-store", "Content-Security-Policy": policy}
    return web.Response(text=text, content_type="text/html", headers=headers)
