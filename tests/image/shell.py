"""The terminal of a user: each command with its output and its time, as a transcript."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.chart.helm import helm_command
from tests.real.testbed import Bed
from tests.real.testbed.kube import REPOSITORY
from tests.real.testbed.up import write_commands, write_script

DEADLINE_S = 180


class CommandFailedError(Exception):
    """The command ended with another code than 0; the text is what it said."""


class Shell:
    """Has kubectl, helm and Slurm's commands of one test bed; `home` is its working directory."""

    def __init__(self, bed: Bed, home: Path) -> None:
        self.home = home
        folder = write_commands(bed, home / "bin")
        write_script(folder / "helm", helm_command(home, bed.kube.admin_kubeconfig))
        (home / "deploy").symlink_to(REPOSITORY / "deploy")
        self._environment = {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(home)}

    def __call__(self, command: str) -> str:
        """Run a command line and show it; return its output."""
        return self.show(command, lambda: self._run(command))

    def refused(self, command: str) -> str:
        """As a call, but the command must fail; return what it said."""
        said = ""

        def run() -> str:
            nonlocal said
            try:
                unexpected = self._run(command)
            except CommandFailedError as error:
                said = str(error)
                return said
            raise AssertionError(f"{command} succeeded: {unexpected}")

        self.show(command, run)
        return said

    def show(self, command: str, run: Callable[[], str]) -> str:
        """Show a command line that `run` does; return its output."""
        began_s = time.monotonic()
        said = run()
        seconds = time.monotonic() - began_s
        print(f"\n$ {command}", said.rstrip(), f"# {seconds:.2f} s", sep="\n")
        return said

    def say(self, text: str) -> None:
        print(f"# {text}")

    def write(self, name: str, text: str) -> None:
        """Write a file of the user, and show it."""
        (self.home / name).write_text(text)
        self.show(f"cat {name}", lambda: text)

    def _run(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self.home,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_S,
        )
        if done.returncode:
            raise CommandFailedError(done.stdout)
        return done.stdout
