"""The commands in the documentation: the real command line accepts each of them."""

import os
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from sunk_sync.__main__ import COMMANDS, main
from tests.docs.pages import ROOT, blocks, spans, words

OPERATORS = set("|&;<>()")
STARTS = ("sunk-sync", ".venv/bin/sunk-sync")
IN_THE_POD = {"explain", "diff", "status", "pause", "resume", "doctor"}
"""What `kubectl sunk` passes on."""

MESSAGES = {"can", "gave"}
"""Second words of messages: `sunk-sync gave up its Slurm jobs`, `sunk-sync can read the Pods`."""


def commands() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the arguments of each call of sunk-sync or kubectl sunk in a code block."""
    for block in blocks():
        for line in block.text.replace("\\\n", " ").splitlines():
            try:
                found = list(_calls(line.removeprefix("$ ")))
            except ValueError:  # an output with an odd number of quotes
                continue
            yield from ((block.place, call) for call in found)


def _calls(line: str) -> Iterator[tuple[str, ...]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    for call in _split(list(lexer)):
        if call[:2] == ["kubectl", "sunk"]:
            rest = call[4:] if call[2:3] == ["-n"] else call[2:]
            assert set(rest[:1]) <= IN_THE_POD, line
            yield tuple(rest)
        starts = [index for index, word in enumerate(call) if word in STARTS]
        if starts and (not starts[0] or call[starts[0] - 1] == "--"):
            yield tuple(call[starts[0] + 1 :])


def _split(line: list[str]) -> Iterator[list[str]]:
    """Yield the words of each command of a shell line."""
    part: list[str] = []
    for word in line:
        if set(word) <= OPERATORS:
            yield part
            part = []
        else:
            part.append(word)
    yield part


CALLS = [(place, call) for place, call in commands() if set(call[:1]) <= COMMANDS.keys()]


@pytest.fixture(autouse=True)
def _nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def quiet(*_: Any) -> int:
        return 0

    for name in (
        "cli.convert_nodeset.convert_nodeset",
        "cli.explain.explain",
        "cli.explain.explain_without_service",
        "cli.overview.diff",
        "cli.overview.status",
        "cli.pausing.pause",
        "cli.pausing.resume",
        "demo.show.run",
        "service.app.run",
    ):
        monkeypatch.setattr(f"sunk_sync.{name}", lambda *_, **__: 0)
    monkeypatch.setattr("sunk_sync.cli.doctor.doctor", quiet)
    for variable in [name for name in os.environ if name.startswith("SUNK_SYNC_")]:
        monkeypatch.delenv(variable)


@pytest.mark.parametrize(("place", "call"), CALLS)
def test_the_command_line_accepts_each_command(place: str, call: tuple[str, ...]) -> None:
    assert main(call) == 0, place


def test_the_command_line_refuses_a_wrong_command() -> None:
    assert main(["diff", "--older-then", "1m"]) == 2


def test_each_command_named_in_the_text_exists() -> None:
    named = {
        span.split()[1]
        for _, span in spans()
        if span.startswith("sunk-sync ") and not span.startswith("sunk-sync --")
    }
    assert named <= {*COMMANDS, "COMMAND", *MESSAGES}
    by_kubectl = {span.split()[2] for _, span in spans() if span.startswith("kubectl sunk ")}
    assert by_kubectl <= IN_THE_POD
    print(f"{len(CALLS)} commands in blocks, {len(named | by_kubectl)} names of commands")


def test_each_target_of_make_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = {word for _, word in words(r"(?<![\w-])make [a-z][a-z0-9-]+(?=[`\s,;.)])")}
    called = {word for word in named if in_code(word)}
    wrong = [word for word in called if f"\n{word.removeprefix('make ')}:" not in makefile]
    assert not wrong
    print(f"{len(called)} targets of make")


def in_code(text: str) -> bool:
    """Whether a code span or block begins a line with the text; `make` is also an English word."""
    shown = any(span == text or span.startswith(f"{text} ") for _, span in spans())
    lines = (line for block in blocks() for line in block.text.splitlines())
    return shown or any(line == text or line.startswith(f"{text} ") for line in lines)
