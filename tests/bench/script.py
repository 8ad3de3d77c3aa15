"""From the start of a placeholder script to the binding of its Pod, and for a floor.

The script calls the floor in the same way.
"""

import itertools
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.bench.figures import Figure, percentile
from tests.bench.release_all import ReleaseAll
from tests.bench.running import BenchError, Measured
from tests.bench.scheduled import FLOOR, OURS, Site, floor, scheduled
from tests.real.testbed import SlurmConf
from tests.real.testbed.ports import Ports

HOSTS = 4
PODS = 100
BLOCK = 10
RATIO_MAX = 1.5
POLLED_MAX_MS = 1200.0
PAUSE_S = (0.05, 0.5)
"""Random pause between two Pods, so that they do not follow Slurm's tick of a second."""
SCRIPT = """#!/bin/sh
curl -s -H 'Expect:' -d "{\\"job_id\\":\\"$SLURM_JOB_ID\\"}" http://127.0.0.1:PORT/ &
exec sleep 3600
"""


def script() -> Iterator[Figure]:
    """Wait from the gate's call of a job to the binding: 100 Pods, in turns of 10, kind script."""
    took: dict[str, list[float]] = {"gate": [], "polled": [], "floor": []}
    with (
        scheduled(SlurmConf(slurmds=HOSTS), flags=["--placeholder", "script"]) as here,
        ReleaseAll() as gate,
        ExitStack() as stack,
    ):
        bare = stack.enter_context(_called_floor(here, stack))
        bare.pause()
        numbers = itertools.count()
        for _ in range(PODS // BLOCK):
            took["floor"] += _of_floor(here, bare, gate, numbers)
            took["gate"] += _of_ours(here, numbers, lambda: _own_gate_s(here), here.hooks.url)
            took["polled"] += _of_ours(here, numbers, lambda: gate.gates_s, gate.url)
    yield from _told(took)


def _told(took: dict[str, list[float]]) -> Iterator[Figure]:
    for percent, most in ((50, None), (95, RATIO_MAX)):
        own, bare = (percentile(took[how], percent) for how in ("gate", "floor"))
        yield Figure(f"gate's call → bound, p{percent}", own, "ms")
        yield Figure(f"the floor, p{percent}", bare, "ms")
        yield Figure(f"gate's call → bound, p{percent}, of the floor", own / bare, "x", most)
    for percent in (50, 95):
        polled = percentile(took["polled"], percent)
        yield Figure(f"no call of the gate, job starts → bound, p{percent}", polled, "ms")
    most_ms = max(took["polled"])
    yield Figure("no call of the gate, job starts → bound, longest", most_ms, "ms", POLLED_MAX_MS)


def _called_floor(here: Site, stack: ExitStack) -> Any:
    """Start a floor whose script calls once, then sleeps."""
    ports = Ports()
    stack.callback(ports.close)
    port = ports.take()
    path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "script"
    path.write_text(SCRIPT.replace("PORT", str(port)))
    return floor(here, str(path), str(port))


def _of_floor(here: Site, bare: Measured, gate: ReleaseAll, numbers: Iterator[int]) -> list[float]:
    here.point_gate(gate.url)
    bare.resume()
    took = _block(here, FLOOR, numbers, lambda: gate.gates_s)
    bare.pause()
    here.end_jobs(of=FLOOR)
    return took


def _of_ours(
    here: Site, numbers: Iterator[int], asked_s: Callable[[], list[float]], url: str
) -> list[float]:
    here.point_gate(url)
    took = _block(here, OURS, numbers, asked_s)
    here.wait_no_jobs()
    return took


def _own_gate_s(here: Site) -> list[float]:
    return [one.asked_s for one in here.hooks.seen() if b"/v1/gate " in one.request]


def _block(
    here: Site, scheduler: str, numbers: Iterator[int], asked_s: Callable[[], list[float]]
) -> list[float]:
    names = [f"{scheduler}-{next(numbers)}" for _ in range(BLOCK)]
    took = []
    for name in names:
        time.sleep(random.uniform(*PAUSE_S))
        begun_s = here.create(name, scheduler=scheduler)
        bound_s = here.watch.wait_bound([name])
        calls = [one for one in asked_s() if one >= begun_s]
        if len(calls) != 1:
            raise BenchError(f"{len(calls)} calls of the gate for one job")
        took.append((bound_s - calls[0]) * 1e3)
    here.delete(*names)
    return took
