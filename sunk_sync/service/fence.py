"""Whether this replica may write now. Both clients ask it right before each write leaves (F6)."""

import time
from collections.abc import Callable

Clock = Callable[[], float]


def boot_s() -> float:
    """Return monotonic seconds; on Linux they also count while the machine is suspended."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Fence:
    """Open until a second of its clock. A process that was stopped meanwhile finds it closed."""

    def __init__(self, clock: Clock = boot_s) -> None:
        self._clock = clock
        self._until_s = float("-inf")

    def open_until(self, until_s: float) -> None:
        self._until_s = until_s

    def close(self) -> None:
        self._until_s = float("-inf")

    def left_s(self) -> float:
        """Return the seconds that a write may still take; zero or less: none may be sent."""
        return self._until_s - self._clock()
