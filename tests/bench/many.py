"""20,000 Pods wait and 5,000 are bound: CPU time of one event, and of a start."""

import gc
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from msgspec.structs import replace

from sunk_sync.controller.loop import KEYS_PER_STEP
from sunk_sync.core.model.facts import Observed, Row
from sunk_sync.service import gc_pauses
from tests.bench.core import NOW_S
from tests.bench.figures import Figure
from tests.bench.pod_core import IDLE, MIXED, PENDING, RUNNING, PodCore

MANY, FEW = (20_000, 5_000), (2_000, 500)
EVENTS = 400
ROUNDS = 60
LIMIT_US = 60.0
GROWTH_MAX_US = 7.0
"""Limit of the growth from a tenth of the Pods to all.

The caches of the processor hold less of them; valgrind counts the same instructions within 1 %. A
ratio would rise when the event gets cheaper.
"""
START_GROWTH_MAX = 13.0
STARTS = 5
RSS_MAX_MIB = 300.0

Counts = tuple[int, int]
Which = TypeVar("Which")
"""What tells the cores apart that are compared."""
Make = Callable[[PodCore, int, bool], Row]
"""Makes the event of object `number`: the change, or its reverse."""


def many() -> Iterator[Figure]:
    """Observe and decide each kind of event among 25,000 Pods: CPU time, best of 60 rounds."""
    cores = {counts: PodCore(*counts) for counts in (FEW, MANY)}
    with gc_pauses.in_pieces():  # as the service runs
        for what, (objects, make) in KINDS.items():
            cost_us = costs_us(cores, objects, make)
            yield Figure(f"{what}, {MANY[0]:,} wait", cost_us[MANY], "µs", LIMIT_US)
            more_us = cost_us[MANY] - cost_us[FEW]
            yield Figure(f"{what}, more than among {FEW[0]:,}", more_us, "µs", GROWTH_MAX_US)
    cores.clear()
    (few_s, _), (many_s, peak_mib) = _start(*FEW), _start(*MANY)
    yield Figure(f"start into {sum(MANY):,}: CPU", many_s, "s")
    yield Figure(f"start into {sum(MANY):,}: peak RSS", peak_mib, "MiB", RSS_MAX_MIB)
    yield Figure("start, ten times as many", many_s / few_s, "x", START_GROWTH_MAX)


def _start(waiting: int, bound: int) -> tuple[float, float]:
    """Return CPU seconds and peak RSS in MiB of a process of its own: the best of five."""
    argv = [sys.executable, "-m", "tests.bench.pod_core", str(waiting), str(bound)]
    runs = [subprocess.run(argv, check=True, capture_output=True, text=True) for _ in range(STARTS)]
    spent_s, peak_mib = min(tuple(map(float, run.stdout.split())) for run in runs)
    return spent_s, peak_mib


def costs_us(cores: Mapping[Which, PodCore], objects: str, make: Make) -> dict[Which, float]:
    """Return the best round of the more expensive direction; measured in turns."""
    rounds: dict[Which, list[float]] = {which: [] for which in cores}
    for turn in range(ROUNDS):
        for which, core in cores.items():
            rounds[which].append(_round_us(core, objects, make, turn=turn))
    return {which: max(min(spent[::2]), min(spent[1::2])) for which, spent in rounds.items()}


def _round_us(core: PodCore, objects: str, make: Make, *, turn: int) -> float:
    """Measure changes only: even turns undo what odd turns did.

    With fewer objects than events, each object changes several times.
    """
    count = {"waiting": core.waiting, "bound": core.bound, "hosts": core.hosts}[objects]
    numbers = random.Random(turn // 2).sample(range(count), min(count, EVENTS))
    rounds = EVENTS // len(numbers)
    changes = [(turn * rounds + nth) % 2 == 0 for nth in range(rounds)]
    events = [make(core, number, change) for change in changes for number in numbers]
    news = [Observed(row, next(core.orders)) for row in events]
    gc.collect()
    begun_s = time.process_time()
    for one in news:
        core.reconciler.observe((one,), now=NOW_S)
        core.reconciler.step(now=NOW_S, limit=KEYS_PER_STEP)
    spent_s = time.process_time() - begun_s
    core.settle()
    return spent_s / EVENTS * 1e6


def _waiting_pod(core: PodCore, number: int, change: bool) -> Row:
    pod = core.pod(core.bound + number)
    return replace(pod, job_id="1") if change else pod


def _bound_pod(core: PodCore, number: int, change: bool) -> Row:
    pod = core.pod(number)
    return replace(pod, phase="Pending") if change else pod


def _ending_pod(core: PodCore, number: int, change: bool) -> Row:
    return replace(core.pod(number), terminating=change)


def _waiting_job(core: PodCore, number: int, change: bool) -> Row:
    job = core.job(core.bound + number)
    return replace(job, reason="Priority") if change else job


def _starting_job(core: PodCore, number: int, change: bool) -> Row:
    """Give the job a host, so that its Pod has to be bound; or remove it."""
    job = core.job(core.bound + number)
    assert job.state == PENDING
    host = core.host(number)
    return replace(job, state=RUNNING, slurm_nodes=(host,), started=True) if change else job


def _slurm_node(core: PodCore, number: int, change: bool) -> Row:
    return core.slurm_node(number, state=IDLE if change else MIXED)


def _node(core: PodCore, number: int, change: bool) -> Row:
    return replace(core.node(number), unschedulable=change)


KINDS: Mapping[str, tuple[str, Make]] = {
    "Pod that waits, its annotation": ("waiting", _waiting_pod),
    "Pod that is bound, its phase": ("bound", _bound_pod),
    "Pod that is bound, to end or not": ("bound", _ending_pod),
    "job that waits, its reason": ("waiting", _waiting_job),
    "job that starts, Pod to be bound": ("waiting", _starting_job),
    "Slurm node, its state": ("hosts", _slurm_node),
    "Node, cordoned or not": ("hosts", _node),
}
