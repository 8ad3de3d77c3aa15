"""From the start of a placeholder script to the binding of its Pod, and for a floor.

The script calls the floor in the same way.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.bench.figures import Figure, beside_floor, percentile
from tests.bench.floors import FLOOR
from tests.bench.pod_site import OURS, PodSite, pod_site
from tests.bench.post_server import ReleaseAll
from tests.bench.running import BenchError, Measured
from tests.bench.site import floor, only
from tests.real.testbed import SlurmConf
from tests.real.testbed.ports import Ports

HOSTS = 4
PODS = 100
BLOCK = 10
LIMITS = {50: None, 95: 1.5}
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
        pod_site(SlurmConf(slurmds=HOSTS), flags=["--placeholder", "script"]) as here,
        ReleaseAll() as gate,
        ExitStack() as stack,
    ):
        bare = _called_floor(here, stack)
        bare.pause()
        for _ in range(PODS // BLOCK):
            here.point_gate(gate.url)
            with only(bare):
                took["floor"] += _block_ms(here, FLOOR, lambda: gate.gates_s)
            here.end_floor_jobs()
            here.point_gate(here.hooks.url)
            took["gate"] += _block_ms(here, OURS, lambda: _own_gates_s(here))
            here.wait_no_jobs()
            here.point_gate(gate.url)
            took["polled"] += _block_ms(here, OURS, lambda: gate.gates_s)
            here.wait_no_jobs()
    yield from _figures(took)


def _figures(took: dict[str, list[float]]) -> Iterator[Figure]:
    yield from beside_floor("gate's call → bound", took["gate"], took["floor"], limits=LIMITS)
    for percent in (50, 95):
        polled = percentile(took["polled"], percent)
        yield Figure(f"no call of the gate, job starts → bound, p{percent}", polled, "ms")
    most_ms = max(took["polled"])
    yield Figure("no call of the gate, job starts → bound, longest", most_ms, "ms", POLLED_MAX_MS)


def _called_floor(here: PodSite, stack: ExitStack) -> Measured:
    """Start a floor whose script calls once, then sleeps."""
    ports = Ports()
    stack.callback(ports.close)
    port = str(ports.take())
    path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "script"
    path.write_text(SCRIPT.replace("PORT", port))
    return stack.enter_context(floor(here, "bind", str(path), port))


def _own_gates_s(here: PodSite) -> list[float]:
    return [one.asked_s for one in here.hooks.seen() if b"/v1/gate " in one.request]


def _block_ms(here: PodSite, scheduler: str, gates_s: Callable[[], Sequence[float]]) -> list[float]:
    took_ms = []
    for begun_s, bound_s in here.one_by_one(BLOCK, scheduler, pause_s=PAUSE_S):
        calls = [one for one in gates_s() if one >= begun_s]
        if len(calls) != 1:
            raise BenchError(f"{len(calls)} calls of the gate for one job")
        took_ms.append((bound_s - calls[0]) * 1e3)
    return took_ms
