"""Progress of a long build, one line for each step and every 20 seconds."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

INTERVAL_S = 20
LINE_CHARACTERS = 60


class Step:
    """A step that runs, with its last line of output."""

    def __init__(self, doing: str) -> None:
        self.doing = doing
        self.last_line = ""
        self._start_s = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._start_s

    def see(self, line: str) -> None:
        self.last_line = line.strip()[:LINE_CHARACTERS]


class Progress:
    """Steps can run in several threads. Use it as a context manager."""

    def __init__(self) -> None:
        self._steps: dict[str, Step] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._say_now_and_then, daemon=True)

    def say(self, name: str, text: str) -> None:
        print(f"{name}: {text}", flush=True)

    @contextmanager
    def step(self, name: str, doing: str) -> Iterator[Step]:
        step = self._steps[name] = Step(doing)
        self.say(name, f"{doing} …")
        try:
            yield step
        finally:
            del self._steps[name]
        self.say(name, f"{doing}: done in {step.elapsed_s:.0f} s")

    def _say_now_and_then(self) -> None:
        while not self._done.wait(INTERVAL_S):
            for name, step in list(self._steps.items()):
                self.say(name, f"{step.doing}, {step.elapsed_s:.0f} s: {step.last_line}")

    def __enter__(self) -> "Progress":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
