"""20,000 Pods wait and 5,000 are bound: CPU time of one event, and of a start."""

import gc
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from sunk_sync.controller.loop import KEYS_PER_STEP
from sunk_sync.core.model.facts import Node, Observed, Row
from sunk_sync.service import gc_pauses
from tests.bench.crowd import IDLE, MIXED, NOW_S, PENDING, RUNNING, Crowd
from tests.bench.figures import Figure

MANY, FEW = (20_000, 5_000), (2_000, 500)
EVENTS = 400
ROUNDS = 60
LIMIT_US = 30.0
GROWTH_MAX_US = 7.0
"""Limit of the growth from a tenth of the Pods to all.

The caches of the processor hold less of them; valgrind counts the same instructions within 1 %. A
ratio would rise when the event gets cheaper.
"""
START_GROWTH_MAX = 13.0
STARTS = 5
RSS_MAX_MIB = 300.0

Made = Callable[[Crowd, int, bool], Row]
Count = Callable[[Crowd], int]


class Kind(Struct, frozen=True):
    """One kind of event: how to make the event of object `number`, and how many there are."""

    made: Made
    count: Count


def many() -> Iterator[Figure]:
    """Observe and decide each kind of event among 25,000 Pods: CPU time, best of 60 rounds."""
    crowds = {counts: Crowd(*counts) for counts in (FEW, MANY)}
    with gc_pauses.in_pieces():  # as the service runs
        for what, kind in KINDS.items():
            cost_us = _costs_us(crowds, kind)
            yield Figure(f"{what}, {MANY[0]:,} wait", cost_us[MANY], "µs", LIMIT_US)
            more_us = cost_us[MANY] - cost_us[FEW]
            yield Figure(f"{what}, more than among {FEW[0]:,}", more_us, "µs", GROWTH_MAX_US)
    crowds.clear()
    starts = {counts: _start(*counts) for counts in (FEW, MANY)}
    (few_s, _), (many_s, peak_mib) = starts[FEW], starts[MANY]
    yield Figure(f"start into {sum(MANY):,}: CPU", many_s, "s")
    yield Figure(f"start into {sum(MANY):,}: peak RSS", peak_mib, "MiB", RSS_MAX_MIB)
    yield Figure("start, ten times as many", many_s / few_s, "x", START_GROWTH_MAX)


def _start(waiting: int, bound: int) -> tuple[float, float]:
    """Return CPU seconds and peak RSS in MiB of a process of its own: the best of five."""
    argv = [sys.executable, "-m", "tests.bench.crowd", str(waiting), str(bound)]
    runs = [subprocess.run(argv, check=True, capture_output=True, text=True) for _ in range(STARTS)]
    spent_s, peak_mib = min(tuple(map(float, run.stdout.split())) for run in runs)
    return spent_s, peak_mib


def _costs_us(crowds: Mapping[tuple[int, int], Crowd], kind: Kind) -> dict[tuple[int, int], float]:
    """Return the best round of the more expensive direction; measured in turns."""
    rounds: dict[tuple[int, int], list[float]] = {counts: [] for counts in crowds}
    for turn in range(ROUNDS):
        for counts, crowd in crowds.items():
            rounds[counts].append(_round_us(crowd, kind, turn))
    return {counts: max(min(spent[::2]), min(spent[1::2])) for counts, spent in rounds.items()}


def _round_us(crowd: Crowd, kind: Kind, turn: int) -> float:
    """Measure changes only: even turns undo what odd turns did.

    With fewer objects than events, each object changes several times.
    """
    count = kind.count(crowd)
    numbers = random.Random(turn // 2).sample(range(count), min(count, EVENTS))
    rounds = EVENTS // len(numbers)
    flips = [(turn * rounds + nth) % 2 == 0 for nth in range(rounds)]
    events = [kind.made(crowd, number, flip) for flip in flips for number in numbers]
    news = [Observed(row, next(crowd.orders)) for row in events]
    gc.collect()
    begun_s = time.process_time()
    for one in news:
        crowd.reconciler.observe((one,), now=NOW_S)
        crowd.reconciler.step(now=NOW_S, limit=KEYS_PER_STEP)
    spent_s = time.process_time() - begun_s
    crowd.settle()
    return spent_s / EVENTS * 1e6


def _waiting_pod(crowd: Crowd, number: int, flip: bool) -> Row:
    pod = crowd.pod(crowd.bound + number)
    return replace(pod, job_id="1") if flip else pod


def _bound_pod(crowd: Crowd, number: int, flip: bool) -> Row:
    pod = crowd.pod(number)
    return replace(pod, phase="Pending") if flip else pod


def _ending_pod(crowd: Crowd, number: int, flip: bool) -> Row:
    """Set the deletion timestamp, or remove it."""
    return replace(crowd.pod(number), terminating=flip)


def _waiting_job(crowd: Crowd, number: int, flip: bool) -> Row:
    job = crowd.job(crowd.bound + number)
    return replace(job, reason="Priority") if flip else job


def _starting_job(crowd: Crowd, number: int, flip: bool) -> Row:
    """Give the job a host, so that its Pod has to be bound; or take it back."""
    job = crowd.job(crowd.bound + number)
    assert job.state == PENDING
    host = f"host-{number % crowd.hosts:05d}"
    return replace(job, state=RUNNING, slurm_nodes=(host,), started=True) if flip else job


def _slurm_node(crowd: Crowd, number: int, flip: bool) -> Row:
    return crowd.slurm_node(number, state=IDLE if flip else MIXED)


def _node(crowd: Crowd, number: int, flip: bool) -> Row:
    node: Node = crowd.node(number)
    return replace(node, unschedulable=flip)


def _waiting(crowd: Crowd) -> int:
    return crowd.waiting


def _bound(crowd: Crowd) -> int:
    return crowd.bound


def _hosts(crowd: Crowd) -> int:
    return crowd.hosts


KINDS: Mapping[str, Kind] = {
    "Pod that waits, its annotation": Kind(_waiting_pod, _waiting),
    "Pod that is bound, its phase": Kind(_bound_pod, _bound),
    "Pod that is bound, to end or not": Kind(_ending_pod, _bound),
    "job that waits, its reason": Kind(_waiting_job, _waiting),
    "job that starts, Pod to be bound": Kind(_starting_job, _waiting),
    "Slurm node, its state": Kind(_slurm_node, _hosts),
    "Node, cordoned or not": Kind(_node, _hosts),
}
