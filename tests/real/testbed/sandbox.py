"""A folder and a pair of namespaces (mounts, PIDs) that live exactly as long as their owner.

When the sandbox is closed or its owner dies, all its processes, its mounts (they exist only inside)
and its folder are gone.
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

from tests.real.testbed.errors import BedError

PREFIX = "sunk-sync-bed-"
MIN_SHARED_MEMORY_BYTES = 2 << 30
CLOSE_DEADLINE_S = 30
PAUSE_MIN_S, PAUSE_MAX_S = 0.02, 0.2
PAUSE_SHARE = 0.05
"""Of the time waited so far."""
# A PID namespace takes in only children. The fork of nsenter stops together with a stopped child. A
# stopped parent that reaps nothing would keep the whole namespace from ending.
FORK = ["sh", "-c", '"$@"; exit $?', "sh"]


def base() -> Path:
    """Return the directory of sandboxes: in memory if there is enough, else in /tmp."""
    shared = Path("/dev/shm")
    if shared.is_dir() and shutil.disk_usage(shared).free >= MIN_SHARED_MEMORY_BYTES:
        return shared
    return Path(tempfile.gettempdir())


def sweep() -> list[Path]:
    """Remove the folders of sandboxes whose supervisor was killed; return them.

    Nothing runs in them and nothing is mounted in them: both ended with their supervisor.
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
    while True:
        directory = base() / f"{PREFIX}{name}-{secrets.token_hex(4)}"
        directory.mkdir(mode=0o755)
        lock_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(lock_fd, fcntl.LOCK_EX)
        if directory.exists():  # otherwise a sweep came between mkdir and the lock
            return directory, lock_fd
        os.close(lock_fd)


class Daemon:
    """One server process in a sandbox. `pid` is its PID outside of it."""

    def __init__(self, name: str, enter: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.log = log
        self._enter = enter
        self.pid = self._find_pid()

    def _find_pid(self) -> int:
        # Its one child is the server; a server that failed at once leaves no child.
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

    def stop(self, a_signal: signal.Signals = signal.SIGTERM, *, deadline_s: float = 10) -> None:
        """Send the signal and wait; SIGKILL after the deadline. No effect if it is gone."""
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
        """Stop the process: it accepts connections and answers nothing."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    def _send(self, a_signal: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, a_signal)

    def reap(self) -> int:
        """Wait for its end; return its exit code."""
        return self._enter.wait()

    def failed(self, what: str) -> BedError:
        lines = self.log.read_text(errors="replace").splitlines()[-15:]
        return BedError("\n  ".join([f"{self.name} {what}. The end of its log:", *lines]))


class Sandbox:
    """A sandbox. `directory` is its folder; `name` is part of the path.

    `setup` is a shell script. It runs first, as PID 1 of the namespaces, in `directory`. `prepare`
    is called with `directory` before that.
    """

    def __init__(
        self, name: str, *, setup: str = "", prepare: Callable[[Path], None] | None = None
    ) -> None:
        self.daemons: list[Daemon] = []
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
            raise BedError(f"the namespaces could not be created: {errors.strip()}")
        self.init_pid = int(words[1])

    @property
    def supervisor_pid(self) -> int:
        return self._supervisor.pid

    def inside(self, path: str | Path) -> Path:
        """Return the outside path of a file as the sandbox sees it, with its mounts."""
        return Path(f"/proc/{self.init_pid}/root{path}")

    def enter(self, argv: Sequence[str | Path]) -> list[str]:
        """Return the command that runs argv in the namespaces from outside."""
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
        self.daemons.append(daemon)
        return daemon

    def close(self) -> None:
        """Kill everything in it and remove the folder. Safe to call twice."""
        assert self._supervisor.stdin is not None
        self._supervisor.stdin.close()
        self._supervisor.wait(CLOSE_DEADLINE_S)
        for daemon in self.daemons:
            daemon.reap()
        for pipe in (self._supervisor.stdout, self._supervisor.stderr):
            if pipe is not None:
                pipe.close()


def run(argv: Sequence[str | Path], *, deadline_s: float = 60) -> str:
    """Run a command on the host; return its output. BedError with its output if it fails."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=deadline_s, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise BedError(f"{' '.join(words)}: still running after {deadline_s:.0f} s") from error
    if done.returncode:
        said = (done.stderr + done.stdout).strip()
        raise BedError(f"{' '.join(words)}: exit {done.returncode}: {said}")
    return done.stdout


def wait_until(
    condition: Callable[[], bool], what: str, *, deadline_s: float, daemons: Sequence[Daemon] = ()
) -> None:
    """Poll until true. BedError at the deadline, or at once if one of the daemons ended.

    The pause grows with the time waited so far, within bounds: the tests share two cores, and each
    look costs both servers some milliseconds.
    """
    begun = time.monotonic()
    end = begun + deadline_s
    while not condition():
        for daemon in daemons:
            if not daemon.running:
                raise daemon.failed("ended")
        if time.monotonic() > end:
            raise (
                daemons[0].failed(f"timeout: {what}") if daemons else BedError(f"timeout: {what}")
            )
        waited_s = time.monotonic() - begun
        time.sleep(min(max(waited_s * PAUSE_SHARE, PAUSE_MIN_S), PAUSE_MAX_S))
