"""Generator of the pictures of docs/demo.md: `python -m tools.demo_pictures`."""

import asyncio
import io
import re
from pathlib import Path
from tempfile import TemporaryDirectory

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

from sunk_sync.demo.show import Choice, Show
from sunk_sync.demo.snapshot import Snapshot
from sunk_sync.demo.view import render

FOLDER = Path(__file__).parent.parent / "docs"
WIDTH, HEIGHT = 110, 27
MOMENTS = {
    "demo-cordon.svg": "Slurm drains n1",
    "demo-human.svg": "leaves the drain of n8 alone",
    "demo-restart.svg": "and the drain of n9 is lifted",
    "demo-preempted.svg": "The kubelet ends the containers",
    "demo-priority.svg": "high is bound first",
}
"""File → text of the check or action that it shows."""
FORMAT = re.sub(r"@font-face \{\{.*?\n    \}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""Without fonts from the network."""


class Album:
    """A screen that keeps one snapshot for each file."""

    def __init__(self) -> None:
        self.snapshots: dict[str, Snapshot] = {}

    def open(self) -> None:
        """Do nothing."""

    def show(self, snapshot: Snapshot) -> None:
        """Keep the last snapshot of each moment, after the service has written to both sides."""
        shown = [line for line in snapshot.lines if line.sort in ("action", "passed")]
        for file, words in MOMENTS.items():
            if shown and words in shown[-1].text:
                self.snapshots[file] = snapshot

    def close(self) -> None:
        """Do nothing."""


def drawn(snapshot: Snapshot) -> str:
    console = Console(width=WIDTH, height=HEIGHT, file=io.StringIO(), record=True)
    console.print(render(snapshot, width=WIDTH, height=HEIGHT))
    return console.export_svg(title="sunk-sync demo", code_format=FORMAT)


async def main() -> None:
    album = Album()
    with TemporaryDirectory(prefix="sunk-sync-demo-") as folder:
        await Show(Choice(once=True), Path(folder), screen=album).run(asyncio.Event())
    for file in MOMENTS:
        (FOLDER / file).write_text(drawn(album.snapshots[file]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
