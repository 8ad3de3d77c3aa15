"""Generator of docs/pending.md: `python -m tools.pending_page`.

It reads the tables of the product and the results of the tests on real servers.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from sunk_sync.core.translate.pending import waiting_message
from sunk_sync.core.translate.slurm_errors import ERRORS, FOR_NODES, RANGES
from sunk_sync.core.translate.slurm_reasons import REASONS, Row, limit, more_nodes_help
from tests.kit import slurm_names
from tests.real import limits
from tests.real.refusals import seen_errors
from tests.real.waits import seen_reasons

FILE = Path(__file__).parent.parent / "docs" / "pending.md"
EXAMPLE = waiting_message("Resources", "4711", ahead=123, age_s=130)
BEGIN = f"""\
# Why a Pod waits

`python -m tools.pending_page` generates this page from `slurm_reasons.py` and `slurm_errors.py` in
`sunk_sync/core/translate`.

While Slurm lets a Pod wait, its condition `PodScheduled` is False with a message such as:

> {EXAMPLE}

The condition's reason is `Unschedulable` where the column *nodes* says yes: more or larger nodes
help. Cluster Autoscaler and Karpenter add Nodes for that reason alone. Where they would not help,
the reason is `SlurmJobPending`, or `SlurmRefused` after an error, and autoscalers leave the Pod
alone. For a gang, the message also says what the job asks of each host: as much as the largest Pod
of the gang.

- Slurm's own name or number is in brackets. Find it in the tables below.
- The column *who* says who can act: the **user** who wrote the Pod; the **operator** of Slurm; or
  nobody needs to (**wait**).
- You can edit annotations while the Pod waits. You cannot change its requests: delete the Pod and
  create another.
- Slurm gives one reason for a limit that other jobs fill, and for one that the job alone exceeds.
- Names and numbers are those of the libraries of Slurm 24.11 and 26.05. *Seen on* names the
  versions where `tests/real/test_pending.py` or `tests/real/test_accounting.py` (with slurmdbd)
  read it back from slurmrestd. All other meanings come from the documentation of Slurm.

These cases differ between versions, or are easy to misread:

- **More nodes or CPUs than the partition has.** 24.11 refuses with 2014. 26.05 accepts the job,
  warns with 2015, and lets it wait for ever with `PartitionConfig`.
- **MaxJobCount is reached.** 26.05 answers 2007, and 24.11 answers 11 (EAGAIN).
- **More time than the partition allows.** Slurm answers an allocation at once with a job id, as if
  the job ran. The job waits with `PartitionTimeLimit`.
- **Over a limit of accounting.** Slurm refuses an allocation at once (2050). sunk-sync then submits
  a job, which waits with the limit's reason. Without slurmdbd there are no such limits.
- **The node does not know the user.** A batch job is held within 2 s (`JobHeldAdmin`).
- **Drained, down or reserved nodes.** A job that names them gets `ReqNodeNotAvail`, any other one
  `Resources`.
"""
_PARTS = re.compile(
    r"(QOS|Assoc|)(Grp|Max|Min)(\w+?)(Minutes|RunMinutes|RunMins|)"
    r"(PerJob|PerNode|PerUser|PerAccount|)(Limit|NotSatisfied|)"
)
"""Scope, kind, resource, time, per: names that differ only in the resource share a row."""
_COLUMNS = "meaning | what to do | who | nodes"
Key = TypeVar("Key", str, int)


def renewed() -> str:
    return "\n".join([BEGIN, *_reasons(), *_limits(), *_errors(), *_ranges()]).rstrip() + "\n"


def _reasons() -> Iterable[str]:
    seen = {**limits.seen_reasons(), **seen_reasons()}
    yield "## Reasons of waiting and ended jobs\n"
    yield f"| reason | {_COLUMNS} | seen on |"
    yield "|---|---|---|---|---|---|"
    for name, row in sorted(REASONS.items()):
        yield f"| `{name}` | {_cells(row, nodes=more_nodes_help(name))} | {_versions(seen, name)} |"
    yield ""


def _limits() -> Iterable[str]:
    yield "## Limits of accounting\n"
    yield "The meaning is that of the first name. The others in the row limit another resource.\n"
    yield f"| seen on {' and '.join(sorted(slurm_names.read()))} | not seen | {_COLUMNS} |"
    yield "|---|---|---|---|---|---|"
    seen_on = limits.seen_reasons()
    for group in _alike():
        names = sorted(group, key=lambda name: "cpu" not in name.lower())
        seen = [name for name in names if seen_on.get(name)]
        others = [name for name in names if name not in seen]
        row = limit((*seen, *others)[0])
        assert row is not None
        yield f"| {_names(seen)} | {_names(others)} | {_cells(row, nodes=False)} |"
    yield ""


def _alike() -> Iterable[Sequence[str]]:
    """Return groups of limits that differ only in the resource."""
    groups: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for name in sorted({name for one in slurm_names.read().values() for name in one.reasons}):
        parts, row = _PARTS.fullmatch(name), limit(name)
        if parts and row and name not in REASONS:
            scope, kind, _, time, per, _ = parts.groups()
            groups[(scope, kind, time, per, row[0], row[2])].append(name)
    return groups.values()


def _names(names: Iterable[str]) -> str:
    return " ".join(f"`{name}`" for name in names)


def _errors() -> Iterable[str]:
    seen = {**limits.seen_errors(), **seen_errors()}
    yield "## Errors instead of a job\n"
    yield "Three numbers are not Slurm's own: -1 (unspecified), 0 (none given), 11 (EAGAIN).\n"
    yield f"| number | {_COLUMNS} | seen on |"
    yield "|---|---|---|---|---|---|"
    for number, row in sorted(ERRORS.items()):
        yield f"| {number} | {_cells(row, nodes=number in FOR_NODES)} | {_versions(seen, number)} |"
    yield ""


def _ranges() -> Iterable[str]:
    seen = seen_errors()
    yield "For all other numbers, the first row that contains the number counts:\n"
    yield f"| numbers | {_COLUMNS} | seen |"
    yield "|---|---|---|---|---|---|"
    left = {number for number in seen if number not in ERRORS}
    for numbers, row in RANGES.items():
        here = sorted(number for number in left if number in numbers)
        left.difference_update(here)
        found = ", ".join(f"{number} on {_versions(seen, number)}" for number in here)
        yield f"| {_spelled(numbers)} | {_cells(row, nodes=numbers[0] in FOR_NODES)} | {found} |"


def _spelled(numbers: range) -> str:
    first, last = numbers[0], numbers[-1]
    return f"{first}" if first == last else f"{first}-{last}"


def _cells(row: Row, *, nodes: bool) -> str:
    whose, text, advice = row
    cells = (text, advice, whose, "yes" if nodes else "")
    return " | ".join(cell.replace("|", "\\|") for cell in cells)


def _versions(seen: Mapping[Key, frozenset[str]], key: Key) -> str:
    return ", ".join(sorted(seen.get(key, ())))


if __name__ == "__main__":
    FILE.write_text(renewed(), encoding="utf-8")
