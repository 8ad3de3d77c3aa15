"""A fresh clone of the last commit, and commands in it as a newcomer types them."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]
INSTALL_S = 300.0
OURS = ("PYTHON", "PYTEST", "VIRTUAL_ENV", "MAKE", "MFLAGS", "COVERAGE", "SUNK_SYNC", "GIT_")
"""Variables of an activated environment, of pytest and of make begin with these."""


class Newcomer:
    """A person with a clone, an interpreter, and folders for caches and temporary files."""

    def __init__(self, place: Path, python: Path) -> None:
        self.python = python
        self.clone = place / "sunk-sync"
        self.temporary = place / "tmp"
        self._cache = place / "cache"
        self.temporary.mkdir()
        self.run("git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(self.clone), cwd=place)

    @property
    def environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(OURS)}
        path = [one for one in kept["PATH"].split(os.pathsep) if not one.startswith(str(ROOT))]
        return {
            **kept,
            "PATH": os.pathsep.join(path),
            "TMPDIR": str(self.temporary),
            "XDG_CACHE_HOME": str(self._cache),
            "PIP_CACHE_DIR": str(self._cache / "pip"),
        }

    def run(
        self, *argv: str | Path, cwd: Path | None = None, within_s: float = INSTALL_S
    ) -> tuple[int, str]:
        """Run a command to its end; return its exit code, and what it printed."""
        done = subprocess.run(
            [str(one) for one in argv],
            cwd=cwd or self.clone,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=within_s,
        )
        return done.returncode, done.stdout

    @contextmanager
    def started(self, *argv: str | Path) -> Iterator["Command"]:
        """Start a command in the clone, in a session of its own, with its output in a pipe."""
        process = subprocess.Popen(
            [str(one) for one in argv],
            cwd=self.clone,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        command = Command(process)
        try:
            yield command
        finally:
            command.kill()

    def left_behind(self) -> list[str]:
        """Return what the commands left in the temporary folder, and unignored in the clone."""
        _, changed = self.run("git", "status", "--porcelain")
        return [*(path.name for path in self.temporary.iterdir()), *changed.splitlines()]


class Command:
    """A running command of a newcomer, and the processes that it started."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.printed: list[str] = []

    @property
    def _output(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    def read_until(self, words: str, *, within_s: float) -> None:
        """Read lines until one has these words."""
        end = time.monotonic() + within_s
        for line in self._output:
            self.printed.append(line)
            if words in line:
                return
            assert time.monotonic() < end, self.text
        raise AssertionError(f"ended without {words!r}:\n{self.text}")

    def interrupt(self) -> int:
        """Send what Ctrl-C sends, to every process of the command; return the exit code."""
        os.killpg(self._process.pid, signal.SIGINT)
        self.printed += self._output
        return self._process.wait()

    def kill(self) -> None:
        if self.living:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._output.close()

    @property
    def living(self) -> bool:
        """Whether any process of its session still lives."""
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return False
        return True

    @property
    def text(self) -> str:
        return "".join(self.printed)
