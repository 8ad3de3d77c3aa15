"""Screens: a live display on a terminal, plain lines everywhere else."""

import os
from typing import Protocol, TextIO

from rich.console import Console
from rich.live import Live

from sunk_sync.demo.snapshot import Snapshot
from sunk_sync.demo.view import MARKS, render


class Screen(Protocol):
    def open(self) -> None: ...

    def show(self, snapshot: Snapshot) -> None: ...

    def close(self) -> None: ...


class LiveScreen:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, screen=True, auto_refresh=False)

    def open(self) -> None:
        self._live.start()

    def show(self, snapshot: Snapshot) -> None:
        width, height = self._console.size
        self._live.update(render(snapshot, width=width, height=height), refresh=True)

    def close(self) -> None:
        self._live.stop()


class LineScreen:
    """Prints the lines added since the last snapshot."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._shown = 0
        self._started = False

    def open(self) -> None:
        """Nothing to prepare."""

    def show(self, snapshot: Snapshot) -> None:
        if snapshot.commands and not self._started:
            self._started = True
            self._write(*snapshot.commands)
        new = min(snapshot.line_count - self._shown, len(snapshot.lines))
        self._shown = snapshot.line_count
        recent = snapshot.lines[len(snapshot.lines) - new :]
        self._write(*(f"{one.at_s:6.2f} s {MARKS[one.sort]} {one.text}" for one in recent))

    def close(self) -> None:
        """Nothing to restore."""

    def _write(self, *lines: str) -> None:
        if lines:
            self._file.write("\n".join(lines) + "\n")
            self._file.flush()


def screen_for(file: TextIO) -> Screen:
    """Choose the live display if the file is a terminal that supports it."""
    if file.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        return LiveScreen(Console(file=file, highlight=False))
    return LineScreen(file)
