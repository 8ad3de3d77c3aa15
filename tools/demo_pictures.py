"""Renews the pictures of docs/demo.md from the fixed story: `python -m tools.demo_pictures`."""

import asyncio
import io
import re
from pathlib import Path
from tempfile import TemporaryDirectory

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

from sunk_sync.demo.scene import Scene
from sunk_sync.demo.show import Choice, Show
from sunk_sync.demo.view import picture

FOLDER = Path(__file__).parent.parent / "docs"
WIDTH, HEIGHT = 110, 27
MOMENTS = {
    "demo-cordon.svg": "Slurm drains n1",
    "demo-human.svg": "n8 is theirs now",
    "demo-restart.svg": "it ends right",
    "demo-preempted.svg": "The kubelet ends the containers",
    "demo-priority.svg": "high goes first",
}
"""File → the kept promise, or the act, that it shows."""
FORMAT = re.sub(r"@font-face \{\{.*?\n    \}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""Nothing in it is fetched."""


class Album:
    """A screen that keeps the scenes of the moments."""

    def __init__(self) -> None:
        self.scenes: dict[str, Scene] = {}

    def open(self) -> None:
        """Nothing to prepare."""

    def show(self, scene: Scene) -> None:
        """The last scene before the story goes on shows what the service wrote on both sides."""
        told = [line for line in scene.lines if line.sort in ("act", "kept")]
        for file, words in MOMENTS.items():
            if told and words in told[-1].text:
                self.scenes[file] = scene

    def close(self) -> None:
        """Nothing to bring back."""


def drawn(scene: Scene) -> str:
    console = Console(width=WIDTH, height=HEIGHT, file=io.StringIO(), record=True)
    console.print(picture(scene, width=WIDTH, height=HEIGHT))
    return console.export_svg(title="sunk-sync demo", code_format=FORMAT)


async def main() -> None:
    album = Album()
    with TemporaryDirectory(prefix="sunk-sync-demo-") as folder:
        await Show(Choice(once=True), Path(folder), screen=album).run(asyncio.Event())
    for file in MOMENTS:
        (FOLDER / file).write_text(drawn(album.scenes[file]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
