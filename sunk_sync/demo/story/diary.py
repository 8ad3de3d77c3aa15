"""What was told: what people did, what was promised and kept, what the service wrote."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

KEPT_MAX = 200
_MIRRORS = (
    "set-conditions", "set-metadata", "set-comment", "set-scheduled", "announce",
    "look-job", "answer-gate", "answer-stop",
)  # fmt: skip
_OBJECTS = ("slurm_node", "pod", "node", "job", "job_id", "target")
_WORDS = ("message", "reason")

Sort = Literal["act", "kept", "broken", "write", "mirror", "trouble"]
"""`write` changes what a machine does, `mirror` shows one side on the other."""


class Line(Struct, frozen=True):
    """One thing that happened."""

    at_s: float
    """Since the demo began."""
    sort: Sort
    text: str


class Diary:
    """The last lines, and how it went."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._begun_s = clock()
        self._written_s = clock()
        self.lines: deque[Line] = deque(maxlen=KEPT_MAX)
        self.count = 0
        """Lines ever told."""
        self.writes = 0
        self.broken: list[str] = []
        """The first promises that were not kept."""
        self.now = "Two embedded worlds start, and the service between them"

    @property
    def age_s(self) -> float:
        """Since the demo began."""
        return self._clock() - self._begun_s

    @property
    def quiet_s(self) -> float:
        """Since the last write."""
        return self._clock() - self._written_s

    def tell(self, sort: Sort, text: str) -> None:
        """One line more."""
        if sort == "act":
            self.now = text
        if sort == "broken" and len(self.broken) < KEPT_MAX:
            self.broken.append(text)
        self.count += 1
        self.lines.append(Line(self.age_s, sort, text))

    def hear(self, event: Mapping[str, Any]) -> None:
        """One line of the service's log."""
        if event["event"] == "write":
            self.writes += 1
            self._written_s = self._clock()
            mirror = event["action"] in _MIRRORS and event["outcome"] == "done"
            self.tell("mirror" if mirror else "write", _written(event))
        elif event["level"] in ("warning", "error"):
            self.tell("trouble", f"service: {event['event']} {_rest(event)}".rstrip())

    def last(self, sorts: tuple[Sort, ...], count: int) -> list[Line]:
        """The last lines of these sorts, oldest first."""
        found = [line for line in reversed(self.lines) if line.sort in sorts]
        return found[:count][::-1]


def _written(event: Mapping[str, Any]) -> str:
    target = next((str(event[key]) for key in _OBJECTS if key in event), "")
    came = "" if event["outcome"] == "done" else f" {event['outcome']}: {event.get('why', '')}"
    said = next((event[key] for key in _WORDS if event.get(key)), "")
    reason = f" “{said}”" if said else ""
    what = f"{event['action']} {target}".rstrip()
    return f"{event['seconds'] * 1000:5.0f} ms  {what}{reason}{came}: {event['because']}"


def _rest(event: Mapping[str, Any]) -> str:
    shown = {k: v for k, v in event.items() if k not in ("event", "level", "timestamp")}
    return " ".join(f"{key}={value}" for key, value in shown.items())[:200]
