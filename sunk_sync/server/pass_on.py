"""A standby passes calls of the hooks on to the replica that leads (F6).

A call waits there as long as it would wait here. If the leader changes meanwhile, the caller gets
503 and asks again. While nobody leads, or the last leader is gone, a call waits a moment for the
next one: the scripts ask again only after a second.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

import aiohttp
import anyio
import msgspec
from aiohttp import web

from sunk_sync.telemetry.exchange import Reply

PASSED_ON: Final = "X-Sunk-Sync-Passed-On"
"""Header of a call that was passed on: it is not passed on again."""
CONNECT_S: Final = 2.0
HANDOVER_S: Final = 2.0
"""A leader that stops is followed within a second."""
CALL_MAX_S: Final = 3660.0
"""A minute more than the longest deadline of a caller, whose own end cancels the call."""
ANSWER_BYTES_MAX: Final = 1 << 20
_HEADERS: Final = ("Authorization", "Content-Type")


class PassOn:
    """`stands_by` returns whether another replica answers.

    `leader` returns host:port of its hooks server; empty: there is none to be called.
    """

    def __init__(self, stands_by: Callable[[], bool], leader: Callable[[], str]) -> None:
        self.stands_by = stands_by
        self._leader = leader
        self._session: aiohttp.ClientSession | None = None
        self._waiting: set[anyio.CancelScope] = set()
        self._changed = anyio.Event()
        self._closed = False

    async def aclose(self) -> None:
        self._closed = True
        self.let_go()
        if self._session is not None:
            await self._session.close()

    def let_go(self) -> None:
        """Answer 503 to all calls that were passed on: another replica leads now."""
        for scope in self._waiting:
            scope.cancel()
        self._changed.set()
        self._changed = anyio.Event()

    async def answer(self, request: web.BaseRequest, body: bytes) -> Reply | None:
        """Return the leader's answer, or 503; None: this replica leads by now."""
        why = "this replica does not lead"
        if PASSED_ON in request.headers:
            await self._next_leader("")  # it may be about to lead
            return _later(why) if self.stands_by() else None
        last = ""
        while await self._next_leader(last):
            last = self._leader()
            reply = await self._ask(last, request, body)
            if isinstance(reply, Reply):
                return reply
            why = reply
        return _later(why) if self.stands_by() else None

    async def _next_leader(self, last: str) -> bool:
        """Wait until another one than `last` leads, no longer than a handover takes."""
        with anyio.move_on_after(HANDOVER_S):
            while self.stands_by() and not self._closed and self._leader() in ("", last):
                await self._changed.wait()
        return not self._closed and self.stands_by() and self._leader() not in ("", last)

    async def _ask(self, leader: str, request: web.BaseRequest, body: bytes) -> Reply | str:
        """Return the answer, or a text if the leader gives none: it may have just ended."""
        scope = anyio.CancelScope()
        self._waiting.add(scope)
        try:
            with scope:
                return await self._forward(leader, request, body)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return f"the leader at {leader} does not answer: {type(error).__name__}"
        finally:
            self._waiting.discard(scope)
        return _later("another replica leads now")

    async def _forward(self, leader: str, request: web.BaseRequest, body: bytes) -> Reply:
        headers = {name: request.headers[name] for name in _HEADERS if name in request.headers}
        async with self._opened().request(
            request.method,
            f"http://{leader}{request.path}",
            data=body,
            headers={**headers, PASSED_ON: "1"},
            timeout=aiohttp.ClientTimeout(total=CALL_MAX_S, sock_connect=CONNECT_S),
            allow_redirects=False,
        ) as response:
            answer: Any = msgspec.json.decode(await response.content.read(ANSWER_BYTES_MAX))
        if not isinstance(answer, dict):
            return _later("the leader's answer is no JSON object")
        good = response.status == HTTPStatus.OK
        return Reply(response.status, answer, "forwarded" if good else str(response.status))

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, force_close=True),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


def _later(why: str) -> Reply:
    return Reply(503, {"error": why}, "503")
