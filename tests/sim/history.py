"""The history of one run: lines for a reader, counters, and broken invariants."""

import asyncio
import re
from collections import Counter, deque
from typing import Any

_SET = re.compile(r"frozenset\(\{([^}]*)\}\)")
KEPT = 400


class BrokenPromiseError(AssertionError):
    """A check failed. The first word of the message names the check."""


class History:
    """The lines of one run. `aloud` prints them at once."""

    def __init__(self, *, aloud: bool = False) -> None:
        self.broken: list[str] = []
        """Broken invariants, oldest first."""
        self.counts: Counter[str] = Counter()
        """Faults, operations of users, exemptions."""
        self.steps = 0
        """Changes on the servers, and answered calls."""
        self._aloud = aloud
        self._lines: deque[tuple[float, str, tuple[Any, ...]]] = deque(maxlen=KEPT)

    def note(self, who: str, *what: Any) -> None:
        line = (asyncio.get_running_loop().time(), who, what)
        if self._aloud:
            print(_spelled(line))
        self._lines.append(line)

    def count(self, what: str) -> None:
        self.counts[what] += 1

    def break_promise(self, check: str, why: str) -> None:
        """Record a failed check. The run stops at its next step."""
        self.note("BROKEN", check, why)
        self.broken.append(f"{check}: {why}")

    def raise_broken(self) -> None:
        if self.broken:
            raise BrokenPromiseError(self.broken[0])

    def tail(self, lines: int = 60) -> str:
        return "\n".join(_spelled(line) for line in list(self._lines)[-lines:])


def _spelled(line: tuple[float, str, tuple[Any, ...]]) -> str:
    at_s, who, what = line
    return f"{at_s:10.3f} {who:<9} " + _SET.sub(_sorted, " ".join(map(str, what)))


def _sorted(found: re.Match[str]) -> str:
    """Print a frozenset in a fixed order: `frozenset({'IDLE', 'DRAIN'})` as `DRAIN+IDLE`."""
    return "+".join(sorted(part.strip(" '") for part in found.group(1).split(",")))
