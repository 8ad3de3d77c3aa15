"""The findings of doctor: one line each with its remedy, and one exit code."""

from collections.abc import Iterable, Sequence
from typing import Literal, TextIO

from msgspec import Struct
from rich.console import Console
from rich.text import Text

from sunk_sync import __version__
from sunk_sync.telemetry.logs import clean

FINE, FOUND, CANNOT_LOOK = 0, 1, 2
NAMES_SHOWN = 10
_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}
_TEXT_LENGTH_MAX = 1000


class Finding(Struct, frozen=True):
    level: Literal["ok", "warn", "fail"]
    topic: str
    text: str
    cure: str = ""
    blind: bool = False
    """This problem made other checks impossible."""

    @property
    def page(self) -> str:
        """Return where the documentation describes the topic."""
        return f"docs/doctor.md#{self.topic.replace(' ', '-')}"


def ok(topic: str, text: str) -> Finding:
    return Finding("ok", topic, text)


def warn(topic: str, text: str, cure: str) -> Finding:
    return Finding("warn", topic, text, cure)


def fail(topic: str, text: str, cure: str) -> Finding:
    return Finding("fail", topic, text, cure)


def blind(topic: str, text: str, cure: str) -> Finding:
    return Finding("fail", topic, text, cure, blind=True)


def some_of(names: Sequence[str]) -> str:
    """Return `3: n1, n2, n3`; at most ten names."""
    rest = len(names) - NAMES_SHOWN
    more = f" and {rest} more" if rest > 0 else ""
    return f"{len(names)}: {', '.join(sorted(names)[:NAMES_SHOWN])}{more}"


class _Console(Console):
    """Leaves a closed pipe to the command line: rich would exit with 1, "problem found"."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class Report:
    """Prints findings as they come and remembers the worst."""

    def __init__(self, file: TextIO) -> None:
        self._console = _Console(file=file, highlight=False, soft_wrap=True)
        self.findings: list[Finding] = []

    def tell(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self.findings.append(finding)
            line = Text(f"{finding.level:<5}", style=_COLOURS[finding.level])
            text = clean(finding.text, _TEXT_LENGTH_MAX)
            self._console.print(line.append(f"{finding.topic:<13}{text}", style="default"))
            if finding.cure:
                self._console.print(Text(f"{'':<18}cure: {finding.cure}"))
            if finding.level != "ok":
                self._console.print(Text(f"{'':<18}see: {finding.page}"))

    def end(self) -> int:
        """Print the last line. Return 0: no problem, 1: problem found, 2: could not check."""
        levels = [finding.level for finding in self.findings]
        wrong, doubtful = levels.count("fail"), levels.count("warn")
        if wrong or doubtful:
            self._console.print(
                f"docs/ and deploy/ are in the repository of sunk-sync {__version__}"
            )
        self._console.print(f"{wrong} wrong, {doubtful} doubtful, {levels.count('ok')} fine")
        if any(finding.blind for finding in self.findings):
            return CANNOT_LOOK
        return FOUND if wrong else FINE
