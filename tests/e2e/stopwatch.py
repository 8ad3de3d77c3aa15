"""Wall times of the steps of a test, printed as they end (`-rP`)."""

import time
from collections.abc import Callable
from typing import Any

from tests.real.slurmd_pods import wait_for


class Stopwatch:
    """Prints each step with its seconds, after the version of Slurm."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._begun = time.monotonic()

    def say(self, text: str) -> None:
        print(f"{self._version}: {text}", flush=True)

    def begin(self) -> None:
        self._begun = time.monotonic()

    def until(self, what: Callable[[], Any], text: str, *, within_s: float = 60) -> float:
        """Wait until `what()` is true; print the seconds since the last step."""
        wait_for(what, text, deadline_s=within_s)
        took_s = time.monotonic() - self._begun
        self.say(f"{text}: {took_s:.1f} s")
        self.begin()
        return took_s
