"""One address of slurmrestd: negotiate the version, send requests, read answers."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import replace

from sunk_sync.slurm.api.answers import (
    Envelope,
    SlurmError,
    SlurmResponse,
    printable,
    read_envelope,
)
from sunk_sync.slurm.api.http import FENCED, Clock, HttpReply, exchange
from sunk_sync.slurm.api.json_stream import CutError, TooLargeError
from sunk_sync.slurm.api.requests import PING, PROBE, RecordStream, SlurmCall
from sunk_sync.slurm.api.token import Token
from sunk_sync.slurm.api.transport import HttpRequest, Transport
from sunk_sync.slurm.api.versions import DIALECTS
from sunk_sync.telemetry.exchange import Exchange, OnExchange

_LABELS: Final = {
    "unreachable": "connection",
    "broken": "connection",
    "timeout": "timeout",
    "garbage": "garbage",
    "too_large": "too-large",
}


LeftSeconds = Callable[[], float]
"""Seconds that a write may still take; zero or less: it must not be sent."""


def unlimited() -> float:
    """Return the time for a write of a service that has no second replica."""
    return float("inf")


class EndpointContext(Struct, frozen=True, kw_only=True):
    """The objects that all addresses share."""

    transport: Transport
    token: Token
    user_name: str = ""
    clock: Clock
    on_exchange: OnExchange
    left_s: LeftSeconds


class RoutedCall(Struct, frozen=True):
    """One call that may try several addresses, versions and tokens."""

    call: SlurmCall
    by_s: float
    """The deadline, in monotonic seconds."""
    listing: RecordStream | None = None

    @property
    def begun(self) -> bool:
        """Whether elements were passed on, so that the call cannot be repeated."""
        return self.listing is not None and self.listing.begun


class Endpoint:
    """One base address. `pinned` is an API version; empty: the newest that both sides support."""

    def __init__(self, address: str, context: EndpointContext, *, pinned: str = "") -> None:
        self.address = address
        self.version = pinned
        """API version in use; empty: not negotiated yet."""
        self.release = ""
        self._pinned = pinned
        self._context = context
        self._negotiating = asyncio.Lock()
        self._answered_s = float("-inf")
        """When slurmctld last answered through this address."""

    def forget(self) -> None:
        """Negotiate the version again, after a failure or an upgrade."""
        self.version = self._pinned
        self._answered_s = float("-inf")

    async def ask(self, routed: RoutedCall) -> SlurmResponse | SlurmError:
        """Send here; once more if the version has changed or an idle connection was dead."""
        answer = await self._ask_once(routed)
        if isinstance(answer, SlurmResponse) or routed.begun:
            return answer
        changed = answer.kind == "unserved" and not self._pinned and self.version != ""
        if changed:
            self.forget()
        repeatable = routed.call.repeatable or not answer.sent
        if changed or (answer.kind == "broken" and repeatable):
            return await self._ask_once(routed)
        return answer

    async def _ask_once(self, routed: RoutedCall) -> SlurmResponse | SlurmError:
        failure = None if self.version else await self._negotiate(routed.by_s)
        if failure is None and routed.call.answered_since_s is not None:
            failure = await self._probe(routed.call.answered_since_s, routed.by_s)
        if failure is not None:
            return replace(failure, sent=False)
        return await self._ask_in(self.version, routed)

    async def _probe(self, since_s: float, by_s: float) -> SlurmError | None:
        """Make sure that slurmctld has answered here since then. Concurrent calls share a probe."""
        async with self._negotiating:
            if self._answered_s > since_s:
                return None
            answer = await self._ask_in(self.version, RoutedCall(PROBE, by_s))
        return None if isinstance(answer, SlurmResponse) or answer.final else answer

    async def _negotiate(self, by_s: float) -> SlurmError | None:
        """Try versions, newest first: an unserved one costs a 404 of 0.5 ms."""
        async with self._negotiating:
            if self.version:
                return None
            for version in DIALECTS:
                answer = await self._ask_in(version, RoutedCall(PING, by_s))
                if isinstance(answer, SlurmResponse):
                    self.version = version
                    return None
                if answer.kind != "unserved":
                    return answer
        return SlurmError("unserved", f"no API version of {', '.join(DIALECTS)} is served")

    async def _ask_in(self, version: str, routed: RoutedCall) -> SlurmResponse | SlurmError:
        """Send in this version; once more if the token is refused and the file has another."""
        token = self._context.token.current()
        answer = await self._exchange(version, token, routed)
        if isinstance(answer, SlurmError) and answer.kind == "auth":
            newer = self._context.token.reread()
            if newer != token:
                return await self._exchange(version, newer, routed)
        return answer

    async def _exchange(
        self, version: str, token: str, routed: RoutedCall
    ) -> SlurmResponse | SlurmError:
        if not routed.call.wanted():
            return SlurmError("unwanted", "not sent: the request became obsolete")
        if not self._may_go(routed.call):
            return FENCED
        question = self._question(version, token, routed)
        listing = routed.listing
        if listing:
            listing.restart()
        reply = await exchange(
            self._context.transport,
            question,
            clock=self._context.clock,
            sink=listing.feed if listing else None,
        )
        answer = await self._judge(version, reply, listing)
        if isinstance(answer, SlurmResponse) and routed.call is not PING:
            self._answered_s = reply.answered_s
        self._report(routed.call, reply, answer)
        return answer

    def _may_go(self, call: SlurmCall) -> bool:
        """Whether it is a read, or this replica leads (F6)."""
        return call.repeatable or self._context.left_s() > 0

    def _question(self, version: str, token: str, routed: RoutedCall) -> HttpRequest:
        call = routed.call
        query = f"?{urlencode(call.query)}" if call.query else ""
        timeout_s = routed.by_s - self._context.clock()
        return HttpRequest(
            method=call.method,
            address=self.address,
            target=f"/slurm/{version}/{call.path}{query}",
            headers=self._headers(token),
            body=call.body,
            timeout_s=timeout_s if call.repeatable else min(timeout_s, self._context.left_s()),
            may_go=partial(self._may_go, call),
        )

    def _headers(self, token: str) -> Mapping[str, str]:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if token:
            headers["X-SLURM-USER-TOKEN"] = token
        if self._context.user_name:
            headers["X-SLURM-USER-NAME"] = self._context.user_name
        return headers

    async def _judge(
        self, version: str, reply: HttpReply, listing: RecordStream | None
    ) -> SlurmResponse | SlurmError:
        if reply.failure:
            return reply.failure
        if reply.status == HTTPStatus.NOT_MODIFIED:
            return _answer(version, reply, b"")
        body: bytes | SlurmError = reply.body
        if listing and reply.status == HTTPStatus.OK:
            body = await _finish(listing, reply.asked_s)
        if isinstance(body, SlurmError):
            return body
        envelope = _read(reply.status, body)
        if isinstance(envelope, SlurmError):
            return envelope
        self._learn(envelope)
        return _answer(version, reply, body)

    def _learn(self, envelope: Envelope) -> None:
        """Negotiate again after an upgrade: the server may support a newer version."""
        if self.release and envelope.release and envelope.release != self.release:
            self.forget()
        self.release = envelope.release or self.release

    def _report(
        self, call: SlurmCall, reply: HttpReply, answer: SlurmResponse | SlurmError
    ) -> None:
        label = _LABELS.get(answer.kind) if isinstance(answer, SlurmError) else None
        self._context.on_exchange(
            Exchange(
                authority="slurm",
                method=call.method,
                path=f"/slurm/{call.kind}",
                status=label or str(reply.status),
                seconds=reply.answered_s - reply.asked_s,
                received_bytes=reply.received_bytes,
            )
        )


async def _finish(listing: RecordStream, asked_s: float) -> bytes | SlurmError:
    try:
        return await listing.finish(asked_s)
    except TooLargeError as error:
        return SlurmError("too_large", printable(str(error)))
    except CutError as error:
        return SlurmError("garbage", printable(str(error)))


def _answer(version: str, reply: HttpReply, body: bytes) -> SlurmResponse:
    return SlurmResponse(
        body=body,
        version=version,
        asked_s=reply.asked_s,
        answered_s=reply.answered_s,
        unchanged=reply.status == HTTPStatus.NOT_MODIFIED,
    )


def _read(status: int, body: bytes) -> Envelope | SlurmError:
    """Read Slurm's errors first; the HTTP status only matters without them."""
    envelope = read_envelope(body)
    garbage = isinstance(envelope, SlurmError) and envelope.kind == "garbage"
    if status == HTTPStatus.OK or (isinstance(envelope, SlurmError) and not garbage):
        return envelope
    start = printable(body[:200].decode(errors="replace"))
    if status == HTTPStatus.UNAUTHORIZED:
        return SlurmError("auth", start)
    if status == HTTPStatus.NOT_FOUND and garbage:
        return SlurmError("unserved", start)
    return SlurmError("garbage", f"HTTP {status} without an error of Slurm: {start}")
