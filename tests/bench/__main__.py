"""`python -m tests.bench [--write] [NAME …]`: exit code 1 if a figure misses its limit."""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence

from tests.bench import page
from tests.bench.apart import apart
from tests.bench.arrays import arrays
from tests.bench.burst import burst
from tests.bench.cancelled import cancelled
from tests.bench.cordon import cordon
from tests.bench.event import event
from tests.bench.everything import everything
from tests.bench.figures import Bench, Figure
from tests.bench.fitness import fitness
from tests.bench.fleet import fleet
from tests.bench.flood import flood
from tests.bench.life import life
from tests.bench.many import many
from tests.bench.mirror import mirror
from tests.bench.nodesets import nodesets
from tests.bench.packing import packing
from tests.bench.pods import pods
from tests.bench.quiet import quiet
from tests.bench.replicas import replicas
from tests.bench.running import BenchError
from tests.bench.scale import scale
from tests.bench.script import script
from tests.bench.seen import seen
from tests.bench.slurm_metrics import slurm_metrics
from tests.bench.waiting import waiting
from tests.bench.watched import watched
from tests.real.testbed import BedError, RestError

ALL: Sequence[Bench] = (
    event, everything, fitness, scale, cordon, mirror, burst, many, life, pods, script, flood,
    arrays, cancelled, waiting, quiet, replicas, nodesets, fleet, slurm_metrics,
    watched, seen, packing, apart,
)  # fmt: skip
BENCHES: Mapping[str, Bench] = {bench.__name__: bench for bench in ALL}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHES))
    parser.add_argument("--write", action="store_true", help="update docs/benchmarks.md")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.names if name not in BENCHES]
    if unknown:
        parser.error(f"unknown benchmark: {', '.join(unknown)}; known are {', '.join(BENCHES)}")
    figures = {name: _run(name) for name in chosen.names or BENCHES}
    if chosen.write:
        page.write(figures, {name: _title(name) for name in BENCHES})
    return _sum_up(figures)


def _run(name: str) -> list[Figure]:
    """Run one benchmark and print its figures; a benchmark that fails counts as missed."""
    begun_s = time.monotonic()
    print(f"\n{name}: {_title(name)}", flush=True)
    figures = []
    try:
        for one in BENCHES[name]():
            figures.append(one)
            print(f"  {one.what:58}{one.shown:>11}{one.limit_shown:>12}  {one.verdict}", flush=True)
    except (AssertionError, BenchError, BedError, RestError) as error:
        print(f"  failed: {error}", flush=True)
        figures.append(Figure("failed", 1, "", 0))
    print(f"  ({time.monotonic() - begun_s:.0f} s)", flush=True)
    return figures


def _title(name: str) -> str:
    return (BENCHES[name].__doc__ or "").partition("\n")[0]


def _sum_up(figures: Mapping[str, Sequence[Figure]]) -> int:
    missed = [f"{name}: {one.what}" for name, some in figures.items() for one in some if one.missed]
    print("\nall within their limits" if not missed else f"\n{len(missed)} missed:")
    for line in missed:
        print(f"  {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
