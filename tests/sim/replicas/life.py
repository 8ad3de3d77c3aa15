"""A life that takes part in the leader election. It can be paused, as SIGSTOP does."""

import asyncio
from collections.abc import Callable
from typing import Any

from sunk_sync.kube.api.backoff import Ambient
from sunk_sync.kube.write.lease import LeasePlace, LeaseStore
from sunk_sync.service.election import ElectionTiming, Elector
from sunk_sync.service.fence import Fence
from sunk_sync.service.wiring import Replica
from tests.kit.clock import VirtualLoop
from tests.sim.life import Life, unbegun

PLACE = LeasePlace("default", "sunk-sync-slurm")


def nobody() -> str:
    """Return no address: callers of the hooks reach the leader themselves."""
    return ""


class ReplicaLife(Life):
    """`on_leads` is called when it becomes the leader, `on_ended` when it lost the Lease."""

    on_leads: Callable[["ReplicaLife"], None]
    on_ended: Callable[["ReplicaLife"], None]

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._election = self.create_task(self._take_part())

    def _replica(self) -> Replica:
        loop = asyncio.get_running_loop()
        self.fence = Fence(loop.time)
        self.kube.left_s = self.slurm.left_s = self.fence.left_s
        self.elector = Elector(
            LeaseStore(self.kube, PLACE),
            f"life-{self.process.number}",
            fence=self.fence,
            timing=ElectionTiming(),
            ambient=Ambient(
                clock=loop.time,
                sleep=asyncio.sleep,
                random=self._rng.random,
                wall_clock=self._wire.worlds.wall_clock,
            ),
        )
        return Replica(self.fence.left_s, nobody)

    async def _take_part(self) -> None:
        """Do the same as app.Service: stand by, take over, and end with the Lease."""
        await self.elector.acquire()
        self.history.note("service", f"life {self.process.number} leads")
        self.on_leads(self)
        self.create_task(self.parts.take_over())
        why = await self.elector.hold()
        self.history.note("service", f"life {self.process.number} lost the Lease: {why}")
        self.on_ended(self)

    @property
    def leads(self) -> bool:
        return self.elector.leads

    @property
    def paused(self) -> bool:
        return self.machine.held is not None

    def pause(self) -> None:
        """Let all its tasks stand still. What it has sent goes on its way."""
        self.history.note("service", f"life {self.process.number} is paused")
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.pauses = True
        self.machine.pause()

    def wake(self) -> None:
        self.history.note("service", f"life {self.process.number} wakes up")
        self.machine.wake()

    def cut_off(self, *, cut: bool) -> None:
        """Cut its way to the API server, and only its own; or mend it."""
        self.history.note("service", f"life {self.process.number} cut off: {cut}")
        self.process.cut_off = cut
        for stream in self._wire.streams if cut else ():
            if stream.process is self.process:
                stream.freeze()

    def check(self) -> None:
        """See Life.check."""
        super().check()
        if self._election.done() and not self._election.cancelled():
            error = self._election.exception()
            if error is not None:
                self.history.break_promise("died", repr(error))

    async def stop(self) -> None:
        """See Life.stop: at the end it gives the Lease back."""
        self.history.note("service", f"life {self.process.number} gets SIGTERM")
        await self._cancel(self._running)
        await self.parts.stop_answering()
        await self.parts.finish()
        await self._cancel(self._writers)
        await self._cancel(self._election)
        await self.elector.release()
        self._wire.crash(self.process, lambda: True)
        await self._bury()

    async def _cancel(self, task: asyncio.Task[Any]) -> None:
        task.cancel()
        with unbegun():
            await asyncio.wait((task,))
