"""Worlds, service, story and screen together, from the first picture to the last file removed."""

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

from sunk_sync.demo.scene import scene_of
from sunk_sync.demo.screens import Screen, screen_for
from sunk_sync.demo.stage.worlds import HOOKS_KEY, TOKEN, Worlds
from sunk_sync.demo.story.diary import Diary
from sunk_sync.demo.story.endless import submit_job, told
from sunk_sync.demo.story.once import STORY
from sunk_sync.demo.story.stage import Stage
from sunk_sync.demo.story.teller import Pace, Teller

if TYPE_CHECKING:
    from sunk_sync.demo.stage.syncer import Syncer
    from sunk_sync.settings.model import Settings

FRAME_S = 0.15
JOB_EVERY_S = (1.0, 5.0)
LEISURELY = Pace(rest_s=2.5)
FINE, BROKEN, CANNOT = 0, 1, 2


class Choice(Struct, frozen=True, kw_only=True):
    """What the user asked for."""

    once: bool = False
    """The fixed story, then an end."""
    seed: int = 0
    """Of the endless one."""
    pace: Pace = Pace()
    """Of the fixed one."""


def run(choice: Choice) -> int:
    """Exit code: 0 ended as asked; 1 a promise of the fixed story was broken; 2 it was stopped."""
    return asyncio.run(_run(choice))


async def _run(choice: Choice) -> int:
    stopped = asyncio.Event()
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        asyncio.get_running_loop().add_signal_handler(getattr(signal, name), stopped.set)
    with TemporaryDirectory(prefix="sunk-sync-demo-") as folder:
        show = Show(choice, Path(folder), screen=screen_for(sys.stdout))
        return await show.run(stopped)


class Show:
    """One run of the demo."""

    def __init__(self, choice: Choice, folder: Path, *, screen: Screen) -> None:
        self._choice = choice
        self._kubeconfig = folder / "kubeconfig"
        self._key_file = folder / "hooks-key"
        self._screen = screen
        self._worlds = Worlds()
        self._diary = Diary(time.monotonic)
        self._syncer: Syncer | None = None
        self._reach: list[str] = []

    async def run(self, stopped: asyncio.Event) -> int:
        """Until the story ends, or is stopped."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._worlds.aclose)
            await self._worlds.start()
            self._kubeconfig.write_text(self._worlds.kubeconfig, encoding="utf-8")
            self._key_file.write_bytes(HOOKS_KEY)
            self._screen.open()
            stack.callback(self._screen.close)
            code = await self._until(stopped)
        self._say_goodbye(code)
        return code

    async def _until(self, stopped: asyncio.Event) -> int:
        """The story, beside the screen; whichever ends first ends both."""
        waiting = asyncio.create_task(stopped.wait())
        tasks = {
            asyncio.create_task(self._play()),
            asyncio.create_task(self._draw()),
        }
        try:
            await asyncio.wait({*tasks, waiting}, return_when=asyncio.FIRST_COMPLETED)
            codes = [task.result() for task in tasks if task.done()]
            self._show()
            return codes[0] if codes else CANNOT if self._choice.once else FINE
        finally:
            for task in (*tasks, waiting):
                task.cancel()
            await asyncio.wait({*tasks, waiting})
            await self._worlds.close_gate()
            if self._syncer is not None:
                await self._syncer.aclose()

    async def _draw(self) -> int:
        while True:
            self._show()
            await asyncio.sleep(FRAME_S)

    def _show(self) -> None:
        scene = scene_of(self._worlds, self._syncer, diary=self._diary, reach=self._reach)
        self._screen.show(scene)

    async def _play(self) -> int:
        stage = await self._set_up()
        if not self._choice.once:
            return await self._go_on(stage)
        kept = await Teller(stage, self._choice.pace).tell(STORY)
        if kept and not await stage.syncer.stop():
            self._diary.tell("broken", "the service does not end when told to")
        return FINE if kept and not self._diary.broken else BROKEN

    async def _go_on(self, stage: Stage) -> int:
        users = asyncio.create_task(self._submit(stage))
        try:
            story = told(Random(self._choice.seed))
            await Teller(stage, LEISURELY).tell(story, to_the_end=True)
        finally:
            users.cancel()
        return FINE

    async def _submit(self, stage: Stage) -> None:
        random = Random(self._choice.seed)
        while True:
            await asyncio.sleep(random.uniform(*JOB_EVERY_S))
            submit_job(stage, random)

    async def _set_up(self) -> Stage:
        """The first picture stands already: what the service needs is loaded meanwhile."""
        module = await asyncio.to_thread(importlib.import_module, "sunk_sync.demo.stage.syncer")
        settings = module.settings_for(
            kubeconfig=str(self._kubeconfig),
            slurm_address=self._worlds.slurm_address,
            key_file=str(self._key_file),
        )
        self._worlds.open_gate(settings.hooks_url)
        syncer: Syncer = module.Syncer(settings)
        self._syncer = syncer
        self._reach = self._commands(settings)
        syncer.start()
        return Stage(self._worlds, syncer, self._diary)

    def _commands(self, settings: "Settings") -> list[str]:
        return [
            "In a second terminal:",
            f"kubectl --kubeconfig {self._kubeconfig} get nodes",
            f"curl -H X-SLURM-USER-TOKEN:{TOKEN} {self._worlds.slurm_address}/slurm/v0.0.45/nodes/",
            f"curl {settings.metrics_bind_address}/metrics",
            f"curl {settings.health_probe_bind_address}/readyz?verbose",
        ]

    def _say_goodbye(self, code: int) -> None:
        """One last line where the picture was."""
        told = f"{self._diary.writes} writes in {self._diary.age_s:.1f} s"
        ends = {
            FINE: "every promise was kept" if self._choice.once else "ended",
            BROKEN: "broken: " + "; ".join(self._diary.broken),
            CANNOT: "stopped before the story's end",
        }
        sys.stdout.write(f"sunk-sync demo: {ends[code]}; {told}\n")
        sys.stdout.flush()
