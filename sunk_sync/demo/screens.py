"""Where scenes go: a live picture on a terminal, plain lines everywhere else."""

import os
from typing import Protocol, TextIO

from rich.console import Console
from rich.live import Live

from sunk_sync.demo.scene import Scene
from sunk_sync.demo.view import MARKS, picture


class Screen(Protocol):
    """Takes a scene now and then."""

    def open(self) -> None:
        """Before the first scene."""
        ...

    def show(self, scene: Scene) -> None:
        """The present one."""
        ...

    def close(self) -> None:
        """What the terminal was before comes back."""
        ...


class Picture:
    """The whole terminal, drawn anew."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, screen=True, auto_refresh=False)

    def open(self) -> None:
        self._live.start()

    def show(self, scene: Scene) -> None:
        width, height = self._console.size
        self._live.update(picture(scene, width=width, height=height), refresh=True)

    def close(self) -> None:
        self._live.stop()


class Lines:
    """What was told since the last scene, a line each."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._told = 0
        self._begun = False

    def open(self) -> None:
        """Nothing to prepare."""

    def show(self, scene: Scene) -> None:
        if scene.reach and not self._begun:
            self._begun = True
            self._write(*scene.reach)
        new = min(scene.told - self._told, len(scene.lines))
        self._told = scene.told
        recent = scene.lines[len(scene.lines) - new :]
        self._write(*(f"{one.at_s:6.2f} s {MARKS[one.sort]} {one.text}" for one in recent))

    def close(self) -> None:
        """Nothing to bring back."""

    def _write(self, *lines: str) -> None:
        if lines:
            self._file.write("\n".join(lines) + "\n")
            self._file.flush()


def screen_for(file: TextIO) -> Screen:
    """A picture where there is a terminal that can be drawn on."""
    if file.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        return Picture(Console(file=file, highlight=False))
    return Lines(file)
