"""What happened in one run: lines for a human, counts, and the promises that were broken."""

import asyncio
import re
from collections import Counter, deque
from typing import Any

_SET = re.compile(r"frozenset\(\{([^}]*)\}\)")
KEPT = 400
"""Lines that are remembered where nobody reads along."""


class BrokenPromiseError(AssertionError):
    """A check failed; the first word of the message names it."""


class History:
    """Lines of one run. `aloud`: they are printed as they come."""

    def __init__(self, *, aloud: bool = False) -> None:
        self.broken: list[str] = []
        """Promises that were broken, first first."""
        self.counts: Counter[str] = Counter()
        """Faults used, acts of people, exemptions."""
        self.steps = 0
        """Things that happened to a world, and calls that were answered."""
        self._aloud = aloud
        self._lines: deque[tuple[float, str, tuple[Any, ...]]] = deque(maxlen=KEPT)

    def note(self, who: str, *what: Any) -> None:
        """One line: who did what."""
        line = (asyncio.get_running_loop().time(), who, what)
        if self._aloud:
            print(_spelled(line))
        self._lines.append(line)

    def count(self, what: str) -> None:
        """One more of these."""
        self.counts[what] += 1

    def break_promise(self, check: str, why: str) -> None:
        """A check failed. The run ends at its next step."""
        self.note("BROKEN", check, why)
        self.broken.append(f"{check}: {why}")

    def raise_broken(self) -> None:
        """BrokenPromiseError where a check failed."""
        if self.broken:
            raise BrokenPromiseError(self.broken[0])

    def tail(self, lines: int = 60) -> str:
        """The last lines."""
        return "\n".join(_spelled(line) for line in list(self._lines)[-lines:])


def _spelled(line: tuple[float, str, tuple[Any, ...]]) -> str:
    at_s, who, what = line
    return f"{at_s:10.3f} {who:<9} " + _SET.sub(_sorted, " ".join(map(str, what)))


def _sorted(found: re.Match[str]) -> str:
    """`frozenset({'IDLE', 'DRAIN'})` → `DRAIN+IDLE`, whatever the order of the set."""
    return "+".join(sorted(part.strip(" '") for part in found.group(1).split(",")))
