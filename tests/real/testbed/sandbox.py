"""A folder and a pair of namespaces (mounts, PIDs) that live exactly as long as their owner.

Every process started in a sandbox is gone when the sandbox is closed or its owner dies, however
it dies, and so are its mounts (they exist only inside) and its folder.
"""

import contextlib
import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.real.testbed.errors import BedError

PREFIX = "sunk-sync-bed-"
MIN_SHARED_MEMORY_BYTES = 2 << 30
CLOSE_DEADLINE_S = 30
# A PID namespace takes in only children. nsenter's own fork stops with a stopped child, and a
# stopped parent that reaps nobody would keep the whole namespace from ending.
FORK = ["sh", "-c", '"$@"; exit $?', "sh"]


def base() -> Path:
    """Where sandboxes live: memory where there is enough (no disk in the figures), else /tmp."""
    shared = Path("/dev/shm")
    if shared.is_dir() and shutil.disk_usage(shared).free >= MIN_SHARED_MEMORY_BYTES:
        return shared
    return Path(tempfile.gettempdir())


def sweep() -> list[Path]:
    """Remove what sandboxes left whose supervisor was killed as well; returns what was removed.

    Nothing runs in them and nothing is mounted in them: both died with their supervisor.
    """
    removed = []
    for directory in sorted(base().glob(PREFIX + "*")):
        with contextlib.suppress(OSError):
            lock_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
                removed.append(directory)
            finally:
                os.close(lock_fd)
    return removed


def _new_directory(name: str) -> tuple[Path, int]:
    """A fresh folder and a locked descriptor of it."""
    while True:
        directory = base() / f"{PREFIX}{name}-{secrets.token_hex(4)}"
        directory.mkdir(mode=0o755)
        lock_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(lock_fd, fcntl.LOCK_EX)
        if directory.exists():  # else a sweep came between mkdir and the lock
            return directory, lock_fd
        os.close(lock_fd)


class Daemon:
    """One server process in a sandbox. `pid` is its PID as the owner sees it."""

    def __init__(self, name: str, enter: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.log = log
        self._enter = enter
        self.pid = self._find_pid()

    def _find_pid(self) -> int:
        # Its one child is the server; a server that failed at once leaves neither.
        children = Path(f"/proc/{self._enter.pid}/task/{self._enter.pid}/children")
        while self._enter.poll() is None:
            with contextlib.suppress(OSError):
                if found := children.read_text().split():
                    return int(found[0])
            time.sleep(0.001)
        raise self.failed("did not start")

    @property
    def running(self) -> bool:
        return self._enter.poll() is None

    @property
    def rss_mib(self) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return 0.0

    def stop(self, a_signal: signal.Signals = signal.SIGTERM, *, deadline_s: float = 10) -> None:
        """Send the signal and wait; SIGKILL after the deadline. Nothing to do if it is gone."""
        if not self.running:
            return
        self._send(a_signal)
        self.resume()
        try:
            self._enter.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self._send(signal.SIGKILL)
            self._enter.wait()

    def pause(self) -> None:
        """It hangs: takes connections, answers nothing."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    def _send(self, a_signal: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, a_signal)

    def reap(self) -> None:
        """After its sandbox has ended."""
        self._enter.wait()

    def failed(self, what: str) -> BedError:
        lines = self.log.read_text(errors="replace").splitlines()[-15:]
        return BedError("\n  ".join([f"{self.name} {what}. The end of its log:", *lines]))


class Sandbox:
    """`directory` is the folder; `name` shows in its path. `setup` is a shell script that runs as
    PID 1 of the namespaces with `directory` as working directory, before anything else;
    `prepare` is called with `directory` before that.
    """

    def __init__(
        self, name: str, *, setup: str = "", prepare: Callable[[Path], None] | None = None
    ) -> None:
        self._daemons: list[Daemon] = []
        self.directory, lock_fd = _new_directory(name)
        try:
            if prepare:
                prepare(self.directory)
            self._start(setup, lock_fd)
        except BaseException:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise
        finally:
            os.close(lock_fd)

    def _start(self, setup: str, lock_fd: int) -> None:
        (self.directory / "setup.sh").write_text(setup)
        supervisor = str(Path(__file__).with_name("supervisor.py"))
        self._supervisor = subprocess.Popen(
            [sys.executable, "-I", "-S", supervisor, str(self.directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(lock_fd,),
            start_new_session=True,
            text=True,
        )
        assert self._supervisor.stdout is not None
        words = self._supervisor.stdout.readline().split()
        if words[:1] != ["ready"]:
            _, errors = self._supervisor.communicate()
            raise BedError(f"the namespaces could not be made: {errors.strip()}")
        self.init_pid = int(words[1])

    @property
    def supervisor_pid(self) -> int:
        return self._supervisor.pid

    def inside(self, path: str | Path) -> Path:
        """A path as the processes in the sandbox see it (with their mounts), usable from here."""
        return Path(f"/proc/{self.init_pid}/root{path}")

    def enter(self, argv: Sequence[str | Path]) -> list[str]:
        """The command that runs argv in the namespaces, for use from outside."""
        namespaces = ["--target", str(self.init_pid), "--mount", "--pid", "--no-fork"]
        return ["nsenter", *namespaces, "--", *FORK, *map(str, argv)]

    def spawn(
        self, name: str, argv: Sequence[str | Path], *, env: dict[str, str] | None = None
    ) -> Daemon:
        """Start a server; its output goes to `directory`/NAME.log."""
        log = self.directory / f"{name}.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                self.enter(argv),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        daemon = Daemon(name, process, log)
        self._daemons.append(daemon)
        return daemon

    def run(self, argv: Sequence[str | Path], *, deadline_s: float = 60) -> str:
        """Run a command to its end; returns its output. BedError with its errors if it fails."""
        return run(self.enter(argv), deadline_s=deadline_s)

    def close(self) -> None:
        """Kill everything in it and remove the folder. Safe to call twice."""
        assert self._supervisor.stdin is not None
        self._supervisor.stdin.close()
        self._supervisor.wait(CLOSE_DEADLINE_S)
        for daemon in self._daemons:
            daemon.reap()
        for pipe in (self._supervisor.stdout, self._supervisor.stderr):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def run(argv: Sequence[str | Path], *, deadline_s: float = 60) -> str:
    """Run a command on the host; returns its output. BedError with what it said if it fails."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=deadline_s, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise BedError(f"{' '.join(words)}: no end after {deadline_s:.0f} s") from error
    if done.returncode:
        said = (done.stderr + done.stdout).strip()
        raise BedError(f"{' '.join(words)}: exit {done.returncode}: {said}")
    return done.stdout


def wait_until(
    condition: Callable[[], bool], what: str, *, deadline_s: float, daemons: Sequence[Daemon] = ()
) -> None:
    """Poll until true. BedError at the deadline, or at once when one of the daemons ended."""
    end = time.monotonic() + deadline_s
    while not condition():
        for daemon in daemons:
            if not daemon.running:
                raise daemon.failed("ended")
        if time.monotonic() > end:
            raise (
                daemons[0].failed(f"not in time: {what}")
                if daemons
                else BedError(f"not in time: {what}")
            )
        time.sleep(0.01)
