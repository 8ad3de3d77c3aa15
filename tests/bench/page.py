"""Generator of docs/benchmarks.md: the last figures of each benchmark, and the machine."""

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from tests.bench.figures import Figure
from tests.real.testbed.bed import SLURM_DEFAULT
from tests.real.testbed.cache import KUBE_DEFAULT

PAGE = Path(__file__).parents[2] / "docs/benchmarks.md"
HEAD = """# Benchmarks

`python -m tests.bench --write` generates this page. Each section is one bench. A limit exists to
notice a regression, and `MISSED` marks one that was missed in that run.

- A *floor* is the same work by bare requests, without sunk-sync, in the same run. `x` is the ratio
  to the floor, or to a smaller cluster. Compare ratios between machines, and not times.
- *Our CPU* and *RSS* are those of the service. *Idle* means that nothing is left to write.
- [development/testing.md](development/testing.md#benches) describes the method.
"""


def write(figures: Mapping[str, Sequence[Figure]], titles: Mapping[str, str]) -> None:
    """Replace the sections of these benchmarks; keep the others, in the order of `titles`."""
    sections = _sections()
    for name, some in figures.items():
        sections[name] = _section(name, titles[name], some)
    PAGE.write_text(HEAD + "".join(sections[name] for name in titles if name in sections))


def _sections() -> dict[str, str]:
    if not PAGE.exists():
        return {}
    _, *parts = PAGE.read_text().split("\n## ")
    return {part.split("\n", 1)[0]: f"\n## {part.rstrip()}\n" for part in parts}


def _section(name: str, title: str, figures: Sequence[Figure]) -> str:
    rows = [f"| {one.what} | {one.shown} | {one.limit_shown} | {one.verdict} |" for one in figures]
    return "\n".join(["", f"## {name}", "", title, "", f"{_taken_on()}", "", *TABLE, *rows, ""])


TABLE = ("| what | measured | limit | |", "|---|---|---|---|")


def _taken_on() -> str:
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    machine = f"{os.cpu_count()} cores {_processor()}, load {os.getloadavg()[1]:.1f}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    libraries = ", ".join(f"{name} {version(name)}" for name in ("msgspec", "aiohttp", "httptools"))
    servers = f"Kubernetes {KUBE_DEFAULT}, Slurm {SLURM_DEFAULT}"
    return f"{when}; {machine}; {python}, {libraries}; {servers}."


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
