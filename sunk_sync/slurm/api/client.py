"""Client of slurmrestd: connections, addresses, deadlines. It returns errors as values.

There are at most eight connections. Bulk calls (listings, submissions, many comments) use at most
six of them, so that two are always free for urgent calls.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, Protocol

import anyio
from msgspec import Struct

from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse
from sunk_sync.slurm.api.endpoint import (
    Endpoint,
    EndpointContext,
    LeftSeconds,
    RoutedCall,
    unlimited,
)
from sunk_sync.slurm.api.http import Clock
from sunk_sync.slurm.api.requests import RecordStream, SlurmCall, Take
from sunk_sync.slurm.api.token import Token
from sunk_sync.slurm.api.transport import CONNECTIONS_MAX, Transport
from sunk_sync.telemetry.exchange import OnExchange

BULK_MAX: Final = CONNECTIONS_MAX - 2

_LEAVE: Final = frozenset({"unreachable", "unserved", "broken", "garbage", "timeout"})
"""After these errors the next call goes to another address."""


class Access(Struct, frozen=True, kw_only=True):
    addresses: tuple[str, ...]
    """Base addresses in order of preference, `http://host:port`."""
    version: str = "auto"
    """API version, or auto: the newest that both sides support."""
    user_name: str = ""
    """X-SLURM-USER-NAME; empty: the token names the user."""


class Slurm(Protocol):
    """The part of SlurmClient that readers and writers need."""

    async def call(self, call: SlurmCall) -> SlurmResponse | SlurmError:
        """Send a request. Never raise."""

    async def read_records(
        self, call: SlurmCall, key: str, take: Take
    ) -> SlurmResponse | SlurmError:
        """Request a listing; pass the elements of its array `key` to `take` as they arrive."""


class SlurmClient:
    def __init__(
        self,
        access: Access,
        token: Token,
        *,
        transport: Transport,
        clock: Clock,
        on_exchange: OnExchange,
    ) -> None:
        self.token = token
        self._user_name = access.user_name
        self.left_s: LeftSeconds = unlimited
        """Asked right before each write is sent."""
        context = EndpointContext(
            transport=transport,
            token=token,
            user_name=access.user_name,
            clock=clock,
            on_exchange=on_exchange,
            left_s=lambda: self.left_s(),
        )
        pinned = "" if access.version == "auto" else access.version
        self._context = context
        self._endpoints = [
            Endpoint(address.rstrip("/"), context, pinned=pinned) for address in access.addresses
        ]
        self._current = self._endpoints[0]
        self._all = asyncio.Semaphore(CONNECTIONS_MAX)
        self._bulk = asyncio.Semaphore(BULK_MAX)

    @property
    def user(self) -> str:
        """Return the name of Slurm's user that sends the calls; empty: unknown."""
        return self._user_name or self.token.user

    @property
    def endpoint(self) -> Endpoint:
        return self._current

    async def aclose(self) -> None:
        await self._context.transport.aclose()

    async def call(self, call: SlurmCall) -> SlurmResponse | SlurmError:
        """Send a request. Never raise. Repeat a write only if slurmctld did nothing."""
        return await self._run(call, None)

    async def read_records(
        self, call: SlurmCall, key: str, take: Take
    ) -> SlurmResponse | SlurmError:
        """Request a listing; pass the elements of the array `key` to `take`. Never raise.

        The answer has the envelope. After an error, `take` has got valid elements, but not all.
        """
        return await self._run(call, RecordStream(key, take))

    async def _run(
        self, call: SlurmCall, listing: RecordStream | None
    ) -> SlurmResponse | SlurmError:
        routed = RoutedCall(call, self._context.clock() + call.deadline_s, listing)
        try:
            async with self._connection(call):
                return await self._ask(routed)
        except TimeoutError:
            why = f"no connection was free within {call.deadline_s:g} s"
            return SlurmError("timeout", why, sent=False)

    @asynccontextmanager
    async def _connection(self, call: SlurmCall) -> AsyncIterator[None]:
        """Wait for a connection. Raise TimeoutError at the deadline."""
        async with AsyncExitStack() as held:
            with anyio.fail_after(call.deadline_s):
                if call.bulk:
                    await held.enter_async_context(self._bulk)
                await held.enter_async_context(self._all)
            yield

    async def _ask(self, routed: RoutedCall) -> SlurmResponse | SlurmError:
        answer: SlurmResponse | SlurmError = SlurmError("unreachable", "no address is configured")
        for endpoint in self._order():
            answer = await endpoint.ask(routed)
            if isinstance(answer, SlurmResponse) or answer.kind not in _LEAVE:
                self._current = endpoint
                return answer
            self._leave(endpoint)
            safe = routed.call.repeatable or answer.nothing_done
            if not safe or routed.begun or answer.kind == "timeout":
                return answer
        return answer

    def _order(self) -> list[Endpoint]:
        """Return the current address, then the others in their order."""
        return [self._current, *(each for each in self._endpoints if each is not self._current)]

    def _leave(self, endpoint: Endpoint) -> None:
        """Prefer the next address, and negotiate the version here again."""
        endpoint.forget()
        if endpoint is self._current:
            following = self._endpoints.index(endpoint) + 1
            self._current = self._endpoints[following % len(self._endpoints)]
