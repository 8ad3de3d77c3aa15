"""The parts of the night: their commands, and how long each takes on two cores."""

import sys
import time
from collections.abc import Mapping, Sequence

from msgspec import Struct

PYTEST = (sys.executable, "-m", "pytest", "-q")
REAL = (*PYTEST, "-m", "real", "-n", "4", "--dist", "loadfile")
SIM = (sys.executable, "-m", "tests.sim")
SEED = "FIRST-SEED"
"""In a command: a number that no run has used."""


class Part(Struct, frozen=True, kw_only=True):
    """One command. `again`: options that run only what failed, once more and alone."""

    command: tuple[str, ...]
    minutes: int
    figures: int = 1
    """How many of the last lines of its output are its figure."""
    again: tuple[str, ...] = ()

    def argv(self) -> list[str]:
        return [fresh_seed() if word == SEED else word for word in self.command]


def fresh_seed() -> str:
    """Return the time in milliseconds: a range of seeds lasts longer than it has numbers."""
    return str(time.time_ns() // 1_000_000)


def _real(name: str, *options: str, minutes: int) -> Part:
    cache = ("-o", f"cache_dir=.pytest_cache/night-{name}")
    last_failed = ("--last-failed", "--last-failed-no-failures", "none", "-n", "0")
    return Part(command=(*REAL, *cache, *options), minutes=minutes, again=last_failed)


def _seeds(*kind: str, count: int, minutes: int) -> Part:
    command = (*SIM, *kind, "--from", SEED, "--seeds", str(count))
    return Part(command=command, minutes=minutes, figures=2)


def _chaos(version: str) -> Part:
    command = (sys.executable, "-m", "tests.chaos", "--seconds", "600", "--slurm", version)
    return Part(command=command, minutes=13)


MUTANTS = 3
"""Parts of the catalogue of mutants."""
PARTS: Mapping[str, Part] = {
    "check": Part(command=("make", "--no-print-directory", "check"), minutes=3),
    "newcomer": Part(command=(*PYTEST, "-n", "2", "tests/newcomer"), minutes=5),
    "fast": Part(
        command=(*PYTEST, "-m", "not real and not e2e and not newcomer", "-n", "2"), minutes=20
    ),
    "real-26.05": _real(
        "new", "-k", "not 24.11", "--ignore=tests/real/permissions", "tests/real", minutes=35
    ),
    "real-24.11": _real("old", "-k", "24.11", "tests/real", minutes=30),
    "chart-image-page": _real("chart", "tests/chart", "tests/image", "tests/page", minutes=15),
    "permissions": _real("permissions", "tests/real/permissions", minutes=10),
    "crash-hosts": Part(command=(*SIM, "crash", "--hosts"), minutes=20),
    "crash-pods": Part(command=(*SIM, "crash", "--workloads"), minutes=20),
    "crash-node-sets": Part(command=(*SIM, "crash", "--node-sets"), minutes=15),
    "crash-pairs": Part(command=(*SIM, "crash", "--pairs"), minutes=40),
    "seeds-hosts": _seeds(count=2000, minutes=15),
    "seeds-pods": _seeds("--workloads", count=2000, minutes=35),
    "seeds-node-sets": _seeds("--node-sets", count=2000, minutes=35),
    "seeds-replicas-hosts": _seeds("--replicas", count=700, minutes=15),
    "seeds-replicas-pods": _seeds("--replicas", "--workloads", count=700, minutes=25),
    "seeds-replicas-node-sets": _seeds("--replicas", "--node-sets", count=600, minutes=25),
    **{
        f"mutants-{part}": Part(
            command=(*SIM, "mutants", "--part", f"{part}/{MUTANTS}"), minutes=30
        )
        for part in range(1, MUTANTS + 1)
    },
    "mutation": Part(command=(sys.executable, "-m", "tests.mutation"), minutes=35),
    "chaos-26.05": _chaos("26.05"),
    "chaos-24.11": _chaos("24.11"),
    "e2e": Part(command=("make", "--no-print-directory", "e2e"), minutes=40),
    "bench": Part(command=(sys.executable, "-m", "tests.bench"), minutes=40),
}


def chosen(words: Sequence[str]) -> list[str]:
    """Return the parts that these words name: each word is a part or the beginning of some."""
    if not words:
        return list(PARTS)
    unknown = [word for word in words if not any(name.startswith(word) for name in PARTS)]
    if unknown:
        raise ValueError(f"no part begins with {', '.join(unknown)}: parts are {', '.join(PARTS)}")
    return [name for name in PARTS if name.startswith(tuple(words))]
