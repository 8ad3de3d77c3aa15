"""Pending reasons and error numbers of each Slurm version, from slurm_names.ini.

`python -m tests.real.slurm_names` reads them again from the libraries of the test bed.
"""

from collections.abc import Iterable, Iterator
from configparser import ConfigParser
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from textwrap import wrap

FILE = Path(__file__).parent / "slurm_names.ini"


@dataclass(frozen=True)
class SlurmNames:
    """Names of one version, sorted."""

    reasons: tuple[str, ...]
    errors: tuple[int, ...]


def read() -> dict[str, SlurmNames]:
    """Return the names by version of Slurm."""
    parser = ConfigParser()
    parser.read(FILE, encoding="utf-8")
    return {version: _read(**parser[version]) for version in parser.sections()}


def _read(reasons: str, errors: str) -> SlurmNames:
    return SlurmNames(tuple(reasons.split()), tuple(_numbers(errors.split())))


def write(names: dict[str, SlurmNames]) -> None:
    lines = [line for version, one in names.items() for line in _lines(version, one)]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _lines(version: str, names: SlurmNames) -> Iterator[str]:
    yield f"[{version}]"
    for key, words in (("reasons", names.reasons), ("errors", _runs(names.errors))):
        yield f"{key} ="
        yield from wrap(" ".join(words), 110, initial_indent="  ", subsequent_indent="  ")


def _runs(numbers: Iterable[int]) -> list[str]:
    """Spell 1, 2, 3, 7 as 1-3, 7."""
    ordered = sorted(numbers)
    gaps = [after for before, after in pairwise(ordered) if after > before + 1]
    ends = [before for before, after in pairwise(ordered) if after > before + 1]
    pairs = zip([*ordered[:1], *gaps], [*ends, *ordered[-1:]], strict=True)
    return [f"{first}-{last}" if last > first else f"{first}" for first, last in pairs]


def _numbers(runs: Iterable[str]) -> Iterator[int]:
    for run in runs:
        first, _, last = run.partition("-")
        yield from range(int(first), int(last or first) + 1)
