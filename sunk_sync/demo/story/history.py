"""History of a run: actions, checks, and writes of the service."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

KEPT_MAX = 200
_MIRRORS = (
    "set-conditions", "set-metadata", "set-comment", "set-scheduled", "record-event",
    "answer-gate", "answer-stop",
)  # fmt: skip
_OBJECTS = ("slurm_node", "pod", "node", "job", "job_id", "target")
_WORDS = ("message", "reason")

Sort = Literal["action", "passed", "failed", "write", "mirror", "warning"]
"""`write` changes what a machine does; `mirror` shows the state of one side on the other."""


class Line(Struct, frozen=True):
    at_s: float
    sort: Sort
    text: str


class History:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._begun_s = clock()
        self._written_s = clock()
        self.lines: deque[Line] = deque(maxlen=KEPT_MAX)
        self.count = 0
        """Lines recorded so far, also those no longer held."""
        self.writes = 0
        self.failed: list[str] = []
        """The first checks that failed."""
        self.now = "Kubernetes, Slurm and the service start"

    @property
    def age_s(self) -> float:
        return self._clock() - self._begun_s

    @property
    def quiet_s(self) -> float:
        return self._clock() - self._written_s

    def record(self, sort: Sort, text: str) -> None:
        if sort == "action":
            self.now = text
        if sort == "failed" and len(self.failed) < KEPT_MAX:
            self.failed.append(text)
        self.count += 1
        self.lines.append(Line(self.age_s, sort, text))

    def record_log(self, event: Mapping[str, Any]) -> None:
        """Add a line of the service's log, if it is a write or a warning."""
        if event["event"] == "write":
            self.writes += 1
            self._written_s = self._clock()
            mirror = event["action"] in _MIRRORS and event["outcome"] == "done"
            self.record("mirror" if mirror else "write", _written(event))
        elif event["level"] in ("warning", "error"):
            self.record("warning", f"service: {event['event']} {_rest(event)}".rstrip())


def _written(event: Mapping[str, Any]) -> str:
    target = next((str(event[key]) for key in _OBJECTS if key in event), "")
    outcome = "" if event["outcome"] == "done" else f" {event['outcome']}: {event.get('why', '')}"
    text = next((event[key] for key in _WORDS if event.get(key)), "")
    reason = f" “{text}”" if text else ""
    what = f"{event['action']} {target}".rstrip()
    return f"{event['seconds'] * 1000:5.0f} ms  {what}{reason}{outcome}: {event['because']}"


def _rest(event: Mapping[str, Any]) -> str:
    shown = {k: v for k, v in event.items() if k not in ("event", "level", "timestamp")}
    return " ".join(f"{key}={value}" for key, value in shown.items())[:200]
