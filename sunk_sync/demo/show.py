"""One run of the demo: clusters, service, story and screen, and their clean-up."""

import asyncio
import importlib
import signal
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec import Struct

from sunk_sync.core.translate.counted import counted
from sunk_sync.demo.screens import Screen, screen_for
from sunk_sync.demo.snapshot import snapshot_of
from sunk_sync.demo.stage.slurmds import Slurmds
from sunk_sync.demo.stage.worlds import HOOKS_KEY, TOKEN, Worlds
from sunk_sync.demo.story.context import Context
from sunk_sync.demo.story.endless import endless_steps, submit_job
from sunk_sync.demo.story.history import History
from sunk_sync.demo.story.once import STORY
from sunk_sync.demo.story.runner import Pace, Runner

if TYPE_CHECKING:
    from sunk_sync.demo.stage.syncer import Syncer
    from sunk_sync.settings.model import Settings

FRAME_S = 0.15
JOB_EVERY_S = (1.0, 5.0)
ENDLESS_PACE = Pace(pause_s=2.5)
PASSED, FAILED, STOPPED = 0, 1, 2


class Choice(Struct, frozen=True, kw_only=True):
    once: bool = False
    """Run the fixed story, then exit."""
    seed: int = 0
    pace: Pace = Pace()


def run(choice: Choice) -> int:
    """Run the demo. Exit code: 0 ended, 1 a check of the fixed story failed, 2 stopped early."""
    return asyncio.run(_run(choice))


async def _run(choice: Choice) -> int:
    stopped = asyncio.Event()
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        asyncio.get_running_loop().add_signal_handler(getattr(signal, name), stopped.set)
    with TemporaryDirectory(prefix="sunk-sync-demo-") as folder:
        show = Show(choice, Path(folder), screen=screen_for(sys.stdout))
        return await show.run(stopped)


class Show:
    def __init__(self, choice: Choice, folder: Path, *, screen: Screen) -> None:
        self._choice = choice
        self._kubeconfig = folder / "kubeconfig"
        self._key_file = folder / "hooks-key"
        self._screen = screen
        self._worlds = Worlds()
        self._history = History(time.monotonic)
        self._syncer: Syncer | None = None
        self._slurmds: Slurmds | None = None
        self._commands: list[str] = []

    async def run(self, stopped: asyncio.Event) -> int:
        """Run until the story ends or `stopped` is set; return the exit code."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._worlds.aclose)
            await self._worlds.start()
            self._kubeconfig.write_text(self._worlds.kubeconfig, encoding="utf-8")
            self._key_file.write_bytes(HOOKS_KEY)
            self._screen.open()
            stack.callback(self._screen.close)
            code = await self._until(stopped)
        self._print_result(code)
        return code

    async def _until(self, stopped: asyncio.Event) -> int:
        """Run the story and the screen; the first one that ends stops the other."""
        waiting = asyncio.create_task(stopped.wait())
        tasks = {
            asyncio.create_task(self._run_story()),
            asyncio.create_task(self._draw()),
        }
        try:
            await asyncio.wait({*tasks, waiting}, return_when=asyncio.FIRST_COMPLETED)
            codes = [task.result() for task in tasks if task.done()]
            self._show()
            return codes[0] if codes else STOPPED if self._choice.once else PASSED
        finally:
            for task in (*tasks, waiting):
                task.cancel()
            await asyncio.wait({*tasks, waiting})
            await self._worlds.stop_callers()
            if self._slurmds is not None:
                await self._slurmds.aclose()
            if self._syncer is not None:
                await self._syncer.aclose()

    async def _draw(self) -> int:
        while True:
            self._show()
            await asyncio.sleep(FRAME_S)

    def _show(self) -> None:
        snapshot = snapshot_of(
            self._worlds, self._syncer, history=self._history, commands=self._commands
        )
        self._screen.show(snapshot)

    async def _run_story(self) -> int:
        context = await self._set_up()
        if not self._choice.once:
            return await self._run_endless(context)
        passed = await Runner(context, self._choice.pace).run(STORY)
        if passed and not await context.syncer.stop():
            self._history.record("failed", "the service does not end on SIGTERM")
        return PASSED if passed and not self._history.failed else FAILED

    async def _run_endless(self, context: Context) -> int:
        users = asyncio.create_task(self._submit(context))
        try:
            story = endless_steps(Random(self._choice.seed))
            await Runner(context, ENDLESS_PACE).run(story, to_the_end=True)
        finally:
            users.cancel()
        return PASSED

    async def _submit(self, context: Context) -> None:
        random = Random(self._choice.seed)
        while True:
            await asyncio.sleep(random.uniform(*JOB_EVERY_S))
            submit_job(context, random)

    async def _set_up(self) -> Context:
        """Start the service; its modules load in a thread, while the screen is shown already."""
        module = await asyncio.to_thread(importlib.import_module, "sunk_sync.demo.stage.syncer")
        settings = module.settings_for(
            kubeconfig=str(self._kubeconfig),
            slurm_address=self._worlds.slurm_address,
            key_file=str(self._key_file),
        )
        self._worlds.start_callers(settings.hooks_url)
        self._slurmds = Slurmds(self._worlds)
        syncer: Syncer = module.Syncer(settings)
        self._syncer = syncer
        self._commands = self._commands_for(settings)
        syncer.start()
        return Context(self._worlds, syncer, self._history)

    def _commands_for(self, settings: "Settings") -> list[str]:
        return [
            "In a second terminal:",
            f"kubectl --kubeconfig {self._kubeconfig} get nodes",
            f"curl -H X-SLURM-USER-TOKEN:{TOKEN} {self._worlds.slurm_address}/slurm/v0.0.45/nodes/",
            f"curl {settings.metrics_bind_address}/metrics",
            f"curl {settings.health_probe_bind_address}/readyz?verbose",
            f"the status page: http://{settings.operators_bind_address}/",
        ]

    def _print_result(self, code: int) -> None:
        totals = f"{counted(self._history.writes, 'write')} in {self._history.age_s:.1f} s"
        results = {
            PASSED: "every check passed" if self._choice.once else "ended",
            FAILED: "failed: " + "; ".join(self._history.failed),
            STOPPED: "stopped before the last step",
        }
        sys.stdout.write(f"sunk-sync demo: {results[code]}; {totals}\n")
        sys.stdout.flush()
