"""The way to slurmrestd: connections, addresses, deadlines; every answer is a value.

At most eight connections, and calls in bulk (listings, submits, a burst of comments) never use
more than six of them, so that two are always free for what is urgent.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, Protocol

import anyio
from msgspec import Struct

from sunk_sync.slurm.api.answers import SlurmAnswer, SlurmError
from sunk_sync.slurm.api.endpoint import Endpoint, EndpointContext, RoutedCall
from sunk_sync.slurm.api.http import Clock
from sunk_sync.slurm.api.requests import RecordStream, SlurmCall, Take
from sunk_sync.slurm.api.token import Token
from sunk_sync.slurm.api.transport import CONNECTIONS_MAX, Transport
from sunk_sync.telemetry.exchange import OnExchange

BULK_MAX: Final = CONNECTIONS_MAX - 2

_LEAVE: Final = frozenset({"unreachable", "unserved", "broken", "garbage", "timeout"})
"""After these another address is asked next time."""


class Access(Struct, frozen=True, kw_only=True):
    """Where slurmrestd is and how we speak to it."""

    addresses: tuple[str, ...]
    """Base addresses in order of preference, `http://host:port`."""
    version: str = "auto"
    """API version, or auto: the newest that both sides speak."""
    user_name: str = ""
    """X-SLURM-USER-NAME; empty: the identity is the token's."""


class Slurm(Protocol):
    """What readers and writers of Slurm need of a client."""

    async def call(self, call: SlurmCall) -> SlurmAnswer | SlurmError:
        """Ask; never raises."""

    async def read_records(self, call: SlurmCall, key: str, take: Take) -> SlurmAnswer | SlurmError:
        """Ask for a listing and hand over the elements of its array `key` as they arrive."""


class SlurmClient:
    """Calls of one process to the slurmrestd of one Slurm cluster."""

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
        context = EndpointContext(
            transport=transport,
            token=token,
            user_name=access.user_name,
            clock=clock,
            on_exchange=on_exchange,
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
    def endpoint(self) -> Endpoint:
        """The address in use, with its versions."""
        return self._current

    async def aclose(self) -> None:
        """Close all connections."""
        await self._context.transport.aclose()

    async def call(self, call: SlurmCall) -> SlurmAnswer | SlurmError:
        """Ask; never raises. Writes are repeated only where nothing was done."""
        return await self._run(call, None)

    async def read_records(self, call: SlurmCall, key: str, take: Take) -> SlurmAnswer | SlurmError:
        """Ask for a listing; never raises. Elements of the array `key` go to `take` meanwhile.

        The answer holds the envelope. On a failure, what was handed over is true but not all.
        """
        return await self._run(call, RecordStream(key, take))

    async def _run(self, call: SlurmCall, listing: RecordStream | None) -> SlurmAnswer | SlurmError:
        routed = RoutedCall(call, self._context.clock() + call.deadline_s, listing)
        try:
            async with self._connection(call):
                return await self._ask(routed)
        except TimeoutError:
            why = f"no free connection within {call.deadline_s:g} s"
            return SlurmError("timeout", why, sent=False)

    @asynccontextmanager
    async def _connection(self, call: SlurmCall) -> AsyncIterator[None]:
        """Wait for a connection. Raises TimeoutError at the deadline."""
        async with AsyncExitStack() as held:
            with anyio.fail_after(call.deadline_s):
                if call.bulk:
                    await held.enter_async_context(self._bulk)
                await held.enter_async_context(self._all)
            yield

    async def _ask(self, routed: RoutedCall) -> SlurmAnswer | SlurmError:
        answer: SlurmAnswer | SlurmError = SlurmError("unreachable", "no address")
        for endpoint in self._order():
            answer = await endpoint.ask(routed)
            if isinstance(answer, SlurmAnswer) or answer.kind not in _LEAVE:
                self._current = endpoint
                return answer
            self._leave(endpoint)
            safe = routed.call.repeatable or answer.nothing_done
            if not safe or routed.begun or answer.kind == "timeout":
                return answer
        return answer

    def _order(self) -> list[Endpoint]:
        """The address that works, then the others from the first on."""
        return [self._current, *(each for each in self._endpoints if each is not self._current)]

    def _leave(self, endpoint: Endpoint) -> None:
        """Next time ask another one first, and learn anew what this one speaks."""
        endpoint.forget()
        if endpoint is self._current:
            following = self._endpoints.index(endpoint) + 1
            self._current = self._endpoints[following % len(self._endpoints)]
