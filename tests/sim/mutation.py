"""Runner of the seeded defects: applies each to a copy. A test suite must fail there."""

import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import Struct

from tests.sim.mutants import deciding, doing, keeping, leading, placing, working
from tests.sim.mutants.mutant import Mutant

ROOT = Path(__file__).parent.parent.parent
CATALOGUE = (
    *deciding.MUTANTS,
    *doing.MUTANTS,
    *working.MUTANTS,
    *leading.MUTANTS,
    *keeping.MUTANTS,
    *placing.MUTANTS,
)
LIMIT_S = 1200.0
"""A suite that takes longer has failed: a defect can end in an endless loop."""
NO_HISTORIES = ("--ignore-glob=tests/core/test_histories*.py",)
SUITES = (
    ("rules", ("tests/core/rules",)),
    ("core", ("tests/core", "tests/controller", "--ignore=tests/core/rules", *NO_HISTORIES)),
    ("stories", ("tests/sim/test_crash_points.py", "-k", "ends_as")),
    ("stories of Pods", ("tests/sim/workloads/test_stories.py", "-k", "ends_as")),
    ("stories of NodeSets", ("tests/sim/node_sets/test_stories.py", "-k", "ends_as")),
    ("hooks", ("tests/server/test_hooks.py", "tests/server/test_tokens.py")),
    ("election", ("tests/service/test_election.py",)),
    ("seeds of Pods", ("tests/sim/workloads/test_stories.py", "-k", "every_seed")),
    ("seeds", ("tests/sim/test_seeds.py", "-k", "every_seed")),
    ("seeds of replicas", ("tests/sim/replicas/test_replicas.py", "-k", "every_seed")),
    ("wire", ("tests/kube", "tests/slurm")),
    ("seeds of NodeSets", ("tests/sim/node_sets/test_stories.py", "-k", "every_seed")),
    (
        "crash points of NodeSets",
        ("tests/sim/node_sets/test_stories.py", "-k", "after_a_kill"),
    ),
    ("crash points", ("tests/sim/test_crash_points.py",)),
    ("histories", ("tests/core/test_histories.py",)),
)
"""Suites in the order of their use. The last one takes longer than all others together."""
NEAREST = {"kube": "wire", "slurm": "wire", "server": "hooks", "service": "election"}
"""Package of a mutant → the suite that runs before the others."""


class Killed(Struct, frozen=True):
    """The suite that failed, or an empty text, and the total time."""

    mutant: Mutant
    by: str
    seconds: float


def kill(mutant: Mutant) -> Killed:
    begun_s = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place)
        _copy(copy)
        mutant.apply(copy / "sunk_sync")
        nearest = NEAREST.get(mutant.path.partition("/")[0])
        for name, arguments in sorted(SUITES, key=lambda suite: suite[0] != nearest):
            if not _passes(copy, arguments):
                return Killed(mutant, name, time.perf_counter() - begun_s)
    return Killed(mutant, "", time.perf_counter() - begun_s)


def unsound() -> str:
    """Return the suite that fails without a defect, or an empty text."""
    with tempfile.TemporaryDirectory() as place:
        _copy(Path(place))
        failing = (name for name, arguments in SUITES if not _passes(Path(place), arguments))
        return next(failing, "")


def _copy(place: Path) -> None:
    """Copy with what Python compiled: files of the same time and size are not compiled again."""
    ignored = shutil.ignore_patterns("bench")
    for name in ("sunk_sync", "tests", "docs", "deploy", "tools"):
        shutil.copytree(ROOT / name, place / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", place)


def _passes(place: Path, arguments: tuple[str, ...]) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=place, env=environment, capture_output=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    if done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED:
        raise RuntimeError(f"no test matches {' '.join(arguments)}")
    return done.returncode == pytest.ExitCode.OK


def share(part: str) -> Sequence[Mutant]:
    """Return every third mutant from the second one for `2/3`; all for an empty text."""
    number, _, parts = part.partition("/")
    return CATALOGUE[int(number) - 1 :: int(parts)] if part else CATALOGUE


def main(*, processes: int, only: str = "", part: str = "") -> int:
    """Print the table. Return 1 if a mutant survives, 2 if a suite fails without a defect."""
    chosen = [mutant for mutant in share(part) if only in mutant.name]
    begun_s = time.perf_counter()
    survivors = 0
    with multiprocessing.Pool(processes) as pool:
        whole = pool.apply_async(unsound)
        for killed in pool.imap(kill, chosen, chunksize=1):
            survivors += not killed.by
            by = killed.by or "SURVIVED"
            print(f"{killed.mutant.name:<46} {by:<14} {killed.seconds:6.1f} s", flush=True)
        failing = whole.get()
    if failing:
        print(f"{failing} fails without any defect: the table is not valid")
        return 2
    took_s = time.perf_counter() - begun_s
    print(f"{len(chosen)} mutants, {survivors} survived, {took_s:.0f} s")
    return 1 if survivors else 0
