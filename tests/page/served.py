"""The operators' server with hosts of the test, as the browser's page asks it."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from sunk_sync.core.explain.account import Unknown
from sunk_sync.core.explain.overview import HostState, HostTile
from sunk_sync.server.live import Feed
from sunk_sync.server.metrics_server import Check
from sunk_sync.server.operators import Operators, PauseOrder, Questions
from sunk_sync.service.overview import Status
from sunk_sync.settings.types import Address
from sunk_sync.telemetry.latencies import Latency
from tests.page.chromium import Page

SHOWN: Final = "document.querySelectorAll('#grid button').length"
STATES: Final[tuple[HostState, ...]] = (
    *("busy",) * 12,
    *("idle",) * 5,
    *("draining", "drained", "held", "down", "apart", "claims"),
)
"""As in a cluster, most hosts are busy or idle."""


class Served:
    """What the page shows; a test changes it."""

    def __init__(self, hosts: int) -> None:
        self.states: dict[str, HostState] = {
            f"gpu-{number}": STATES[number % len(STATES)] for number in range(hosts)
        }
        self.last = [{"at": "2026-11-26T03:00:01Z", "about": "host gpu-1", "what": "drained"}]
        self.asked: list[tuple[str, str]] = []
        self.address = ""

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator["Served"]:
        questions = Questions(
            explain=self._explain,
            text=lambda answer: str(answer["text"]),
            diff=self._status,
            status=self._status,
            pause=self._pause,
            feed=Feed(self._tiles, self._status, lambda: self.last),
        )
        async with Operators(questions).serve(Address("127.0.0.1", 0)) as self.address:
            yield self

    @property
    def url(self) -> str:
        return f"http://{self.address}/"

    async def open_in(self, page: Page, **looks: int | bool) -> float:
        """Load the page and wait until all hosts are there; return its milliseconds since."""
        await page.look(**looks)  # type: ignore[arg-type]
        await page.call("Page.navigate", url=self.url)
        return float(await page.until(f"{SHOWN} === {len(self.states)} && performance.now()"))

    def _explain(self, kind: str, name: str) -> Any:
        self.asked.append((kind, name))
        if kind == "host" and name not in self.states:
            return Unknown("no such host", ("gpu-1",))
        return {"text": f"{kind} {name}: <b>in sync</b>"}

    async def _tiles(self) -> Mapping[str, HostTile]:
        return {name: HostTile(name, state) for name, state in self.states.items()}

    async def _status(self) -> Status:
        checks = (Check("loop", "ok", "last step 0.1 s ago"), Check("slurm", "ok", "read"))
        return Status(
            at="2026-11-26T03:00:01Z",
            code="0.1.0",
            leads=True,
            checks=checks,
            waiting={"kubernetes": 2, "slurm": 0, "jobs": 1, "in flight": 3},
            hosts={"all": len(self.states)},
            pods={"all": 40, "waiting": 12, "in Slurm's queue": 12, "bound": 28},
            latencies={
                "writes to kubernetes": Latency(31, 0.012, 0.2),
                "writes to slurm": Latency(4, 0.03, 0.4),
                "Pods bound": Latency(6, 0.028, 4.0),
            },
        )

    async def _pause(self, order: PauseOrder | None) -> Any:
        return {"paused": str(order)}
