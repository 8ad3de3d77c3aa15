"""The tutorial docs/first-pod.md: every command of it runs, in its order, on real servers.

`make testbed` has run before. Each command may be repeated until it shows what the page says: the
page has a person between two commands.
"""

import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.real.conftest import require
from tests.real.stage import eventually
from tests.real.testbed.bed import SLURM_DEFAULT
from tests.real.testbed.cache import KUBE_DEFAULT
from tests.real.testbed.kube import REPOSITORY

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

PAGE = REPOSITORY / "docs" / "first-pod.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXPORT = re.compile(r"^\s*export .+$", re.MULTILINE)
UP_WITHIN_S = 120.0
OURS = "k8s: node cordoned"


class Block(NamedTuple):
    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        return self.text.replace("\\\n", " ").splitlines()


class Terminal(NamedTuple):
    """A shell in the repository, with the exports of the test bed."""

    exports: str
    folder: Path

    def start(self, command: str, out: Path) -> subprocess.Popen[bytes]:
        folder = Path(sys.executable).parent
        line = f"{self.exports}\nexec {command.replace('.venv/bin/', f'{folder}/')}"
        with out.open("wb") as file:
            return subprocess.Popen(
                ["bash", "-c", line],
                cwd=self.folder,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def says(self, command: str) -> str:
        out = self.folder / "out"
        self.start(f"bash -c {shlex.quote(command)}", out).wait(timeout=60)
        return out.read_text()

    def shows(self, command: str, text: str) -> None:
        """Repeat the command until it shows the text; for an empty one, until it shows nothing."""
        eventually(
            lambda: text in (said := self.says(command)) and (bool(text) or not said.strip()),
            f"{command}: {text!r}",
            show=lambda: self.says(command),
        )


def blocks() -> list[Block]:
    return [Block(*found) for found in BLOCK.findall(PAGE.read_text())]


def ended(process: subprocess.Popen[bytes]) -> int:
    process.send_signal(signal.SIGINT)
    return process.wait(timeout=60)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """Start the test bed as step 1 says; return a terminal with its exports."""
    require(kube=KUBE_DEFAULT, slurm=SLURM_DEFAULT)
    testbed, up = blocks()[0].commands
    assert testbed == "make testbed"
    out = tmp_path / "up"
    process = Terminal("", REPOSITORY).start(up, out)
    try:
        eventually(lambda: "Ctrl-C" in out.read_text(), "it is up", within_s=UP_WITHIN_S)
        yield Terminal("\n".join(EXPORT.findall(out.read_text())), tmp_path)
    finally:
        ended(process)


def test_each_command_of_the_tutorial_shows_what_the_page_says(terminal: Terminal) -> None:
    _, run_it, cordon, human, lift, manifest, look, end = blocks()
    doctor, run = run_it.commands
    begun_s = time.monotonic()
    terminal.shows(doctor, "0 wrong")
    service = terminal.start(run, terminal.folder / "run")
    try:
        _expect(terminal, cordon.commands, ("", OURS, "", ""))
        _expect(terminal, human.commands, ("", "condition met", "fan broken", "", "", "fan broken"))
        _expect(terminal, lift.commands, ("",))
        (terminal.folder / "pod.yaml").write_text(manifest.text)
        _expect(terminal, look.commands, ("created", "n", "k8s/default/evaluation/", "Scheduled"))
        _expect(terminal, end.commands, ("deleted", ""))
        terminal.shows("squeue -h", "")
    finally:
        assert ended(service) == 0
    print(f"the tutorial after `up`: {time.monotonic() - begun_s:.1f} s")


def _expect(terminal: Terminal, commands: Sequence[str], texts: Sequence[str]) -> None:
    """Run each command; those that only read are repeated until they show their text."""
    for command, text in zip(commands, texts, strict=True):
        if command.startswith(("sinfo", "squeue", "kubectl get")) and text:
            terminal.shows(command, text)
        else:
            said = terminal.says(command)
            print(f"$ {command}\n{said}")
            assert text in said
