"""The real service as a process of its own, and measurements of it."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self, TypeVar

from prometheus_client.parser import text_string_to_metric_families

DEADLINE_S = 180.0
IDLE_S = 3.0
"""Time without a write after which the service counts as idle.

Conditions of one object are written a second apart.
"""
T = TypeVar("T")
_TICKS = os.sysconf("SC_CLK_TCK")


class BenchError(Exception):
    """The measurement failed."""


def peak_mib(status: Path) -> float:
    """Return the peak RSS of a process; getrusage includes the process that started it."""
    for line in status.read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise BenchError("no VmHWM in /proc")


class Measured:
    """A child process that runs this module: its CPU time, its memory, stop and continue."""

    def __init__(self, module: str, *argv: str, stderr: int | None = None) -> None:
        self.module = module
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            preexec_fn=_end_with_parent,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        if line := self.process.stdout.readline().decode().strip():
            return line
        raise BenchError(f"{self.module} has ended")

    def ask(self, line: str) -> str:
        """Write a line to its input; return its answer, a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()
        return self.line()

    def cpu_s(self) -> float:
        """User and system time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def peak_mib(self) -> float:
        return peak_mib(Path(f"/proc/{self.process.pid}/status"))

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.resume()
            self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.stop()


class Running(Measured):
    """`python -m sunk_sync run` against these two servers; slurmd Pods in namespace slurm.

    `kubeconfig` is a file, or the content of one.
    """

    def __init__(
        self, kubeconfig: Path | str, slurm_url: str, token: str, *, flags: Sequence[str] = ()
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sunk-sync-bench-")
        folder = Path(self._folder.name)
        if isinstance(kubeconfig, str):
            (folder / "kubeconfig").write_text(kubeconfig)
            kubeconfig = folder / "kubeconfig"
        (folder / "token").write_text(token)
        self.log = folder / "log"
        with self.log.open("wb") as log:
            super().__init__(
                *("sunk_sync", "run"),
                *("--kubeconfig", str(kubeconfig), "--log-format", "json"),
                *("--slurm-api-base", slurm_url, "--slurm-auth-token-file", str(folder / "token")),
                *("--slurmd-namespace", "slurm", "--watch-namespace", "default"),
                *("--metrics-bind-address", "127.0.0.1:0"),
                *("--health-probe-bind-address", "127.0.0.1:0"),
                *("--hooks-api-bind-address", "127.0.0.1:0"),
                *("--operators-bind-address", "127.0.0.1:0"),
                *flags,
                stderr=log.fileno(),
            )
        try:
            self._servers = self._until(self._listening, "its servers listen")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        super().stop()
        self._folder.cleanup()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Stop; add the end of the log to an error of the benchmark."""
        tail = "\n".join(self.log.read_text().splitlines()[-10:])
        self.stop()
        if isinstance(error, BenchError):
            raise BenchError(f"{error}\n{tail}") from error

    def _listening(self) -> dict[str, str] | None:
        for line in self.log.read_text().splitlines():
            if '"metrics server open"' in line:
                servers: dict[str, str] = json.loads(line)
                return servers
        return None

    def ready(self) -> bool:
        try:
            return self._get("health", "/readyz").startswith("ok")
        except urllib.error.HTTPError:
            return False

    def address(self, server: str) -> str:
        """Return host:port of `metrics`, `health` or `operators`."""
        if server in self._servers:
            return self._servers[server]
        for line in self.log.read_text().splitlines():
            if f'"{server} server open"' in line:
                return str(json.loads(line)["address"])
        raise BenchError(f"the {server} server is not open")

    def metrics(self) -> "Metrics":
        return Metrics(self.text_of_metrics())

    def text_of_metrics(self) -> str:
        return self._get("metrics", "/metrics")

    def longest_step_ms(self) -> float:
        return self.metrics().total("sunk_sync_loop_longest_step_seconds") * 1e3

    def _get(self, server: str, path: str) -> str:
        with urllib.request.urlopen(f"http://{self._servers[server]}{path}", timeout=30) as answer:
            body: bytes = answer.read()
            return body.decode()

    def wait_ready(self) -> None:
        self._until(self.ready, "it is ready")

    def settle(self) -> None:
        self.wait_ready()
        self.wait_idle()

    def wait_idle(self, *, idle_s: float = IDLE_S, deadline_s: float = DEADLINE_S) -> float:
        """Wait until no write comes for a while; return the CPU seconds up to the last one."""
        last = (-1.0, self.cpu_s(), time.monotonic())
        by = time.monotonic() + deadline_s
        while time.monotonic() < by:
            metrics, cpu_s, now = self.metrics(), self.cpu_s(), time.monotonic()
            writes = metrics.total("sunk_sync_writes_total")
            if writes != last[0] or metrics.total("workqueue_depth"):
                last = (writes, cpu_s, now)
            elif now - last[2] >= idle_s:
                return last[1]
            time.sleep(0.25)
        raise BenchError(f"the service has not converged within {deadline_s:.0f} s")

    def _until(self, ask: Callable[[], T | None], what: str) -> T:
        by = time.monotonic() + DEADLINE_S
        while time.monotonic() < by:
            if self.process.poll() is not None:
                raise BenchError(f"the service has ended: {self.log.read_text()[-1000:]}")
            if answer := ask():
                return answer
            time.sleep(0.05)
        raise BenchError(f"not within {DEADLINE_S:.0f} s: {what}")


class Metrics:
    def __init__(self, text: str) -> None:
        self._samples = [
            sample for family in text_string_to_metric_families(text) for sample in family.samples
        ]

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of all series of this name with these labels."""
        return sum(
            sample.value
            for sample in self._samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )


def _end_with_parent() -> None:
    """Ask the kernel to end the child when this process ends."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
