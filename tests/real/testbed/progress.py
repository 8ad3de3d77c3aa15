"""Progress of a long build: live lines on a terminal, plain lines elsewhere."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table

PLAIN_INTERVAL_S = 20
LINE_CHARACTERS = 60


class Progress:
    """Steps can run in several threads; each shows its seconds and its last line of output."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._steps: dict[str, _Step] = {}
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._live = Live(console=self._console, get_renderable=self._table, transient=True)
        self._plain = threading.Thread(target=self._say_now_and_then, daemon=True)

    def say(self, name: str, text: str) -> None:
        self._console.print(f"{name}: {text}", soft_wrap=True, markup=False)

    @contextmanager
    def step(self, name: str, doing: str) -> Iterator["_Step"]:
        step = _Step(doing)
        self.say(name, f"{doing} …")
        with self._lock:
            self._steps[name] = step
        try:
            yield step
        finally:
            with self._lock:
                del self._steps[name]
        self.say(name, f"{doing}: done in {step.elapsed_s:.0f} s")

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 1))
        for _ in range(5):
            table.add_column(no_wrap=True)
        with self._lock:
            for name, step in self._steps.items():
                table.add_row(
                    step.spinner, name, step.doing, f"{step.elapsed_s:.0f} s", step.last_line
                )
        return table

    def _say_now_and_then(self) -> None:
        while not self._done.wait(PLAIN_INTERVAL_S):
            with self._lock:
                steps = list(self._steps.items())
            for name, step in steps:
                self.say(name, f"{step.doing}, {step.elapsed_s:.0f} s: {step.last_line}")

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        else:
            self._plain.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._live.stop()


class _Step:
    def __init__(self, doing: str) -> None:
        self.doing = doing
        self.spinner = Spinner("dots")
        self.last_line = ""
        self._start_s = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._start_s

    def see(self, line: str) -> None:
        self.last_line = line.strip()[:LINE_CHARACTERS]
