"""Every crash point of every story: killed there, started again, the same end."""

import multiprocessing
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any

from msgspec import Struct

from tests.sim.history import BrokenPromiseError
from tests.sim.scenarios import IN_PAIRS, SCENARIOS
from tests.sim.stage import play


class Crash(Struct, frozen=True):
    """One play with crashes: the how-manieth moment of the first life, of the second, …"""

    scenario: str
    at: tuple[int, ...]


class Found(Struct, frozen=True):
    """What became of it; `why` empty: the same end."""

    crash: Crash
    why: str
    points: int
    """Moments of the life after the last crash: where the next one could be put."""


def singles(name: str, *, every: int = 1) -> Sequence[Crash]:
    """Each point of a story, or every so-manieth."""
    return [Crash(name, (point.number,)) for point in play(SCENARIOS[name])[1][::every]]


def firsts(name: str) -> Sequence[Crash]:
    """Before and after each write of a story: where the first crash of a pair is put."""
    return [Crash(name, (point.number,)) for point in play(SCENARIOS[name])[1] if point.writes]


def run(crash: Crash) -> Found:
    """Play it."""
    scenario = SCENARIOS[crash.scenario]
    try:
        wanted = _end_of(crash.scenario)
        end, points, _ = play(scenario, crashes=crash.at)
    except BrokenPromiseError as error:
        return Found(crash, str(error), 0)
    differs = [
        f"{name}: {end.get(name)} instead of {wanted.get(name)}"
        for name in {**wanted, **end}
        if wanted.get(name) != end.get(name)
    ]
    return Found(crash, "; ".join(differs), len(points))


@cache
def _end_of(name: str) -> dict[str, Any]:
    """Without any crash."""
    return play(SCENARIOS[name])[0]


def run_pairs(crash: Crash) -> list[Found]:
    """A first crash, and then one at every point of the life after it."""
    first = run(crash)
    return [run(Crash(crash.scenario, (*crash.at, number))) for number in range(first.points)]


def main(*, processes: int) -> int:
    """All points of all stories, and pairs of some; 1 where any end differs."""
    begun_s = time.perf_counter()
    with multiprocessing.Pool(processes) as pool:
        every = [crash for crashes in pool.imap(singles, SCENARIOS) for crash in crashes]
        bad = list(_bad(pool.imap_unordered(run, every, chunksize=8)))
        singles_s = time.perf_counter() - begun_s
        print(
            f"{len(SCENARIOS)} scenarios, {len(every)} crash points in {singles_s:.0f} s:"
            f" {len(bad)} differ",
            flush=True,
        )
        pairs = 0
        for found in pool.imap_unordered(run_pairs, chain.from_iterable(map(firsts, IN_PAIRS))):
            pairs += len(found)
            bad += list(_bad(found))
    took_s = time.perf_counter() - begun_s
    print(f"{len(IN_PAIRS)} scenarios in {pairs} pairs in {took_s - singles_s:.0f} s")
    print(f"{len(bad)} of {len(every) + pairs} plays differ")
    return 1 if bad else 0


def _bad(found: Iterable[Found]) -> Iterator[Found]:
    for one in found:
        if one.why:
            print(f"{one.crash.scenario} {one.crash.at}: {one.why[:500]}", flush=True)
            yield one
