"""`python -m tests.sim SEED [-v]`, `--seeds N [--from M]`, `crash`, `mutants`.

`--workloads` selects the seeds and scenarios of Pods and jobs, `--node-sets` those of NodeSets.
`--replicas` runs seeds with two replicas.
"""

import argparse
import gc
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable

from tests.sim import crashes, mutation
from tests.sim.node_sets.run import run_seed as run_node_set_seed
from tests.sim.outcome import Outcome
from tests.sim.replicas import run as replicas
from tests.sim.run import run_seed
from tests.sim.workloads.run import run_seed as run_workload_seed

PLAYS = {
    (False, ""): run_seed,
    (False, "workloads"): run_workload_seed,
    (False, "node sets"): run_node_set_seed,
    (True, ""): replicas.run_seed,
    (True, "workloads"): replicas.run_workload_seed,
    (True, "node sets"): replicas.run_node_set_seed,
}
"""Whether there are two replicas, and what the seed is about → how it is played."""
HEADS = (
    "fault: ", "exempt: ", "hosts", "gates: ", "overlap", "late", "changes of", "groups: ",
    "teams: ",
)  # fmt: skip
"""Counters that are printed."""
SHOWN = 12
REPORT_EVERY = 500
"""Seeds between two progress reports."""


Play = Callable[..., Outcome]


def one(seed: int, *, aloud: bool, play: Play) -> int:
    outcome = play(seed, aloud=aloud)
    if outcome.broken:
        print("" if aloud else outcome.tail)
        print(f"seed {seed}: BROKEN {outcome.broken}")
        return 1
    print(
        f"seed {seed}: {outcome.steps} steps in {outcome.virtual_s:.0f} virtual seconds, converged"
    )
    for name, count in sorted(outcome.counts.items()):
        print(f"  {count:6} {name}")
    return 0


def many(seeds: range, *, processes: int, play: Play) -> int:
    """Run all seeds; return 1 if any invariant was broken."""
    begun_s = time.perf_counter()
    with multiprocessing.Pool(processes, gc.freeze) as pool:
        outcomes = pool.imap_unordered(play, seeds, chunksize=4)
        broken, counts, steps, least = _gather(outcomes)
    took_s = time.perf_counter() - begun_s
    _print_counts(counts)
    print(
        f"{len(seeds)} seeds from {seeds.start} in {took_s:.1f} s on {processes} cores:"
        f" {len(seeds) / took_s:.1f} seeds/s, {steps / took_s:.0f} steps/s,"
        f" {steps} steps, at least {least} a seed"
    )
    print(f"{len(broken)} violations" + (f", seeds {sorted(broken)[:50]}" if broken else ""))
    return 1 if broken else 0


def _gather(outcomes: Iterable[Outcome]) -> tuple[list[int], Counter[str], int, int]:
    broken: list[int] = []
    counts: Counter[str] = Counter()
    steps, least = 0, sys.maxsize
    for done, outcome in enumerate(outcomes, start=1):
        counts.update(outcome.counts)
        steps += outcome.steps
        if outcome.broken:
            broken.append(outcome.seed)
            if len(broken) <= SHOWN:
                print(f"seed {outcome.seed}: {outcome.broken[:600]}", flush=True)
        else:
            least = min(least, outcome.steps)
        if done % REPORT_EVERY == 0:
            print(f"{done} seeds, {len(broken)} violations so far", flush=True)
    return broken, counts, steps, least


def _print_counts(counts: Counter[str]) -> None:
    for head in HEADS:
        found = sorted(item for item in counts.items() if item[0].startswith(head))
        print("; ".join(f"{name.removeprefix('fault: ')} {count}" for name, count in found))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("what", nargs="?", default="", help="a seed, `crash` or `mutants`")
    parser.add_argument("--workloads", action="store_true", help="seeds of Pods and jobs")
    parser.add_argument("--node-sets", action="store_true", help="seeds of NodeSets")
    parser.add_argument("--hosts", action="store_true", help="crash points of hosts alone")
    parser.add_argument("--pairs", action="store_true", help="pairs of crash points alone")
    parser.add_argument("--replicas", action="store_true", help="seeds with two replicas")
    parser.add_argument("-v", action="store_true", dest="aloud", help="print the whole history")
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--only", default="", help="mutants whose name contains this")
    parser.add_argument("--part", default="", help="`2/3`: the second third of the mutants")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    what = "workloads" if chosen.workloads else "node sets" if chosen.node_sets else ""
    play = PLAYS[chosen.replicas, what]
    if chosen.what == "":
        seeds = range(chosen.first, chosen.first + (chosen.seeds or 100))
        return many(seeds, processes=chosen.processes, play=play)
    if chosen.what == "crash":
        points = what or ("hosts" if chosen.hosts else "pairs" if chosen.pairs else "")
        return crashes.main(processes=chosen.processes, only=points)
    if chosen.what == "mutants":
        return mutation.main(processes=chosen.processes, only=chosen.only, part=chosen.part)
    return one(int(chosen.what), aloud=chosen.aloud, play=play)


if __name__ == "__main__":
    sys.exit(main())
