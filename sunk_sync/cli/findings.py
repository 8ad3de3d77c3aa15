"""What doctor found: one line each, with the cure, and the exit code of them all."""

from collections.abc import Iterable, Sequence
from typing import Literal, TextIO

from msgspec import Struct
from rich.console import Console
from rich.text import Text

from sunk_sync.telemetry.logs import clean

FINE, FOUND, CANNOT_LOOK = 0, 1, 2
NAMES_SHOWN = 10
_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}
_TEXT_LENGTH_MAX = 1000


class Finding(Struct, frozen=True):
    """One thing that was looked at."""

    level: Literal["ok", "warn", "fail"]
    topic: str
    text: str
    cure: str = ""
    blind: bool = False
    """Because of this, other things could not be looked at."""


def ok(topic: str, text: str) -> Finding:
    """As it should be."""
    return Finding("ok", topic, text)


def warn(topic: str, text: str, cure: str) -> Finding:
    """It works, but somebody should know."""
    return Finding("warn", topic, text, cure)


def fail(topic: str, text: str, cure: str) -> Finding:
    """It does not work."""
    return Finding("fail", topic, text, cure)


def blind(topic: str, text: str, cure: str) -> Finding:
    """It could not be read, nor anything behind it."""
    return Finding("fail", topic, text, cure, blind=True)


def some_of(names: Sequence[str]) -> str:
    """`3: n1, n2, n3`; of many the first ten."""
    rest = len(names) - NAMES_SHOWN
    more = f" and {rest} more" if rest > 0 else ""
    return f"{len(names)}: {', '.join(sorted(names)[:NAMES_SHOWN])}{more}"


class Report:
    """Prints findings as they come and remembers the worst."""

    def __init__(self, file: TextIO) -> None:
        self._console = Console(file=file, highlight=False, soft_wrap=True)
        self.findings: list[Finding] = []

    def tell(self, findings: Iterable[Finding]) -> None:
        """Print them."""
        for finding in findings:
            self.findings.append(finding)
            line = Text(f"{finding.level:<5}", style=_COLOURS[finding.level])
            text = clean(finding.text, _TEXT_LENGTH_MAX)
            self._console.print(line.append(f"{finding.topic:<13}{text}", style="default"))
            if finding.cure:
                self._console.print(Text(f"{'':<18}cure: {finding.cure}"))

    def end(self) -> int:
        """The last line, and the exit code: 0 fine, 1 found something, 2 could not look."""
        levels = [finding.level for finding in self.findings]
        wrong, doubtful = levels.count("fail"), levels.count("warn")
        self._console.print(f"{wrong} wrong, {doubtful} doubtful, {levels.count('ok')} fine")
        if any(finding.blind for finding in self.findings):
            return CANNOT_LOOK
        return FOUND if wrong else FINE
