"""25,000 Pods with the service as a process: jobs for all, 5,000 bound, all ended."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.figures import Figure
from tests.bench.life_worlds import TOKEN
from tests.bench.running import BenchError, Running

HOSTS = 500
WAITING, BOUND = 20_000, 5_000
STEPS = {
    "submit": f"{WAITING + BOUND:,} created, all have jobs",
    "bind": f"{BOUND:,} of them bound",
    "end": "all deleted, no job lives",
}
STEP_MAX_S = 180
RSS_MAX_MIB = 300.0
NOWHERE = "http://127.0.0.1:1"
"""The scripts do not call the hooks; the `extra` of their job says that they started."""


def life() -> Iterator[Figure]:
    """Submit, bind and end 25,000 Pods on 500 embedded hosts, kind script, in one run."""
    with _worlds() as worlds, _service(*json.loads(_line(worlds))) as service:
        service.wait_ready()
        service.wait_for_rest()
        begun_s = service.cpu_s()
        for step, what in STEPS.items():
            cpu_s = service.cpu_s()
            yield Figure(f"{what}: time", _step_s(worlds, step), "s")
            yield Figure(f"{what}: our CPU", service.cpu_s() - cpu_s, "s")
        yield Figure("all together: our CPU", service.cpu_s() - begun_s, "s")
        yield Figure("all together: peak RSS", service.peak_mib(), "MiB", RSS_MAX_MIB)
        longest_s = service.metrics().total("sunk_sync_loop_longest_step_seconds")
        yield Figure("longest recent step of the loop", longest_s * 1e3, "ms")


def _step_s(worlds: "subprocess.Popen[str]", step: str) -> float:
    assert worlds.stdin is not None
    worlds.stdin.write(f"{step}\n")
    worlds.stdin.flush()
    told = _line(worlds)
    try:
        return float(told)
    except ValueError as error:
        raise BenchError(f"{step}: not within {STEP_MAX_S} s: {told}") from error


def _line(worlds: "subprocess.Popen[str]") -> str:
    assert worlds.stdout is not None
    told = worlds.stdout.readline().strip()
    if not told:
        raise BenchError("the process of the embedded worlds has ended")
    return told


@contextmanager
def _worlds() -> Iterator["subprocess.Popen[str]"]:
    """Start both worlds; they end with their input."""
    counts = map(str, (HOSTS, WAITING + BOUND, BOUND, STEP_MAX_S))
    argv = [sys.executable, "-m", "tests.bench.life_worlds", *counts]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worlds:
        try:
            yield worlds
        finally:
            worlds.terminate()


@contextmanager
def _service(kubeconfig: str, slurm: str) -> Iterator[Running]:
    with tempfile.TemporaryDirectory(prefix="sunk-sync-bench-") as folder:
        path = Path(folder) / "kubeconfig"
        path.write_text(kubeconfig)
        flags = ["--placeholder", "script", "--hooks-url", NOWHERE]
        with Running(kubeconfig=path, slurm_url=slurm, token=TOKEN, flags=flags) as service:
            try:
                yield service
            except BenchError as error:
                raise BenchError(f"{error}\n{service.tail()}") from error
