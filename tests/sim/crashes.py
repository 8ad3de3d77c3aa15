"""Crash points: sunk-sync is killed at each point of a scenario. The end must be the same."""

import asyncio
import multiprocessing
import os
import time
from asyncio.events import _set_running_loop
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, NoReturn

from msgspec import Struct

from tests.sim.history import BrokenPromiseError
from tests.sim.node_sets.scenarios import SCENARIOS as OF_NODE_SETS
from tests.sim.scenarios import IN_PAIRS
from tests.sim.scenarios import SCENARIOS as OF_HOSTS
from tests.sim.stage import Branch, Point, Scenario, play
from tests.sim.workloads.scenarios import SCENARIOS as OF_WORKS

SCENARIOS = {**OF_HOSTS, **OF_WORKS, **OF_NODE_SETS}
PAIRS = "pairs"
CHOICES: Mapping[str, Mapping[str, Scenario]] = {
    "": SCENARIOS,
    "hosts": OF_HOSTS,
    "workloads": OF_WORKS,
    "node sets": OF_NODE_SETS,
    PAIRS: {},
}
"""What may be chosen → its scenarios with single crashes."""
ALIVE = "played: "
TOLD_MAX = 4000
"""Longest reason, in characters. A pipe holds more."""


class Crash(Struct, frozen=True):
    """One play with crashes: the number of the crash point in the first life, the second, …"""

    scenario: str
    at: tuple[int, ...]


class Found(Struct, frozen=True):
    """Result of a crash. An empty `why` means the same end."""

    crash: Crash
    why: str
    points: int
    """Possible crash points of the life after the last crash."""


@cache
def whole(name: str) -> tuple[dict[str, Any], Sequence[Point]]:
    """Play a scenario without a crash, and return its end and its crash points."""
    return play(SCENARIOS[name])[:2]


def singles(name: str, *, every: int = 1) -> Sequence[Crash]:
    """Return each `every`th point of a scenario, with the one in the middle."""
    points = whole(name)[1]
    return [Crash(name, (point.number,)) for point in points[len(points) // 2 % every :: every]]


def firsts(name: str) -> Sequence[Crash]:
    return [Crash(name, (point.number,)) for point in whole(name)[1] if point.writes]


def run(crash: Crash, *, branch: Branch | None = None) -> Found:
    scenario = SCENARIOS[crash.scenario]
    try:
        wanted = whole(crash.scenario)[0]
        end, points, _ = play(scenario, crashes=crash.at, branch=branch)
    except BrokenPromiseError as error:
        return Found(crash, str(error), 0)
    differs = [
        f"{name}: {end.get(name)} instead of {wanted.get(name)}"
        for name in {**wanted, **end}
        if wanted.get(name) != end.get(name)
    ]
    return Found(crash, "; ".join(differs), len(points))


class Fork:
    """Forks the process at each point: the child crashes there, and the parent continues.

    So the part before the second crash is played only once.
    """

    def __init__(self, first: Crash) -> None:
        self._first = first
        self.found: list[Found] = []
        """In the parent: the result of each child."""
        self._told = -1
        """In a child: the pipe to the parent."""

    def branch(self, point: Point) -> bool:
        loop = asyncio.get_running_loop()
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.close(reader)
            self._told = writer
            _set_running_loop(loop)  # asyncio stores it per process
            return True
        os.close(writer)
        with os.fdopen(reader) as pipe:
            told = pipe.read()
        os.wait()
        why = told.removeprefix(ALIVE) if told.startswith(ALIVE) else "the child died"
        crash = Crash(self._first.scenario, (*self._first.at, point.number))
        self.found.append(Found(crash, why, 0))
        return False

    @property
    def is_child(self) -> bool:
        return self._told >= 0

    def end(self, why: str) -> NoReturn:
        os.write(self._told, (ALIVE + why)[:TOLD_MAX].encode())
        os._exit(0)


def run_pairs(crash: Crash) -> list[Found]:
    """Play the first crash, then a second one at each point of the life after it."""
    whole(crash.scenario)
    fork = Fork(crash)
    try:
        why = run(crash, branch=fork.branch).why
    except Exception as error:
        if not fork.is_child:
            raise
        why = repr(error)
    if fork.is_child:
        fork.end(why)
    return fork.found


def main(*, processes: int, only: str = "") -> int:
    """Play all points of all scenarios, and pairs of some. Return 1 if any end differs.

    `only`: one of CHOICES.
    """
    begun_s = time.perf_counter()
    stories = CHOICES[only]
    with multiprocessing.Pool(processes) as pool:
        every = [crash for crashes in pool.imap(singles, stories) for crash in crashes]
        bad = list(_bad(pool.imap_unordered(run, every, chunksize=8)))
        singles_s = time.perf_counter() - begun_s
        print(
            f"{len(stories)} scenarios, {len(every)} crash points in {singles_s:.0f} s:"
            f" {len(bad)} differ",
            flush=True,
        )
        pairs, pairing = 0, IN_PAIRS if only in ("", PAIRS) else ()
        for found in pool.imap_unordered(run_pairs, chain.from_iterable(map(firsts, pairing))):
            pairs += len(found)
            bad += list(_bad(found))
    took_s = time.perf_counter() - begun_s
    print(f"{len(pairing)} scenarios in {pairs} pairs in {took_s - singles_s:.0f} s")
    print(f"{len(bad)} of {len(every) + pairs} plays differ")
    return 1 if bad else 0


def _bad(found: Iterable[Found]) -> Iterator[Found]:
    for one in found:
        if one.why:
            print(f"{one.crash.scenario} {one.crash.at}: {one.why[:500]}", flush=True)
            yield one
