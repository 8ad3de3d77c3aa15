"""Renews docs/pending.md from the tables and the real tests: `python -m tools.pending_page`."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from sunk_sync.core.translate.pending import waiting_message
from sunk_sync.core.translate.slurm_errors import ERRORS, RANGES
from sunk_sync.core.translate.slurm_reasons import REASONS, Row, limit
from tests.kit import slurm_names
from tests.real import limits
from tests.real.refusals import seen_errors
from tests.real.waits import seen_reasons

FILE = Path(__file__).parent.parent / "docs" / "pending.md"
EXAMPLE = waiting_message("Resources", "4711", ahead=123, age_s=130)
BEGIN = f"""\
# Why a Pod waits: Slurm's words in plain ones

Made by `python -m tools.pending_page` from `slurm_reasons.py` and `slurm_errors.py` of
`sunk_sync/core/translate`.

A Pod that Slurm lets wait has condition `PodScheduled=False`, reason `Unschedulable`, with

> {EXAMPLE}

- Slurm's own name or number always stands in brackets.
- Whose: **user**, who wrote the Pod, can change something; **operator**, who runs Slurm, can;
  **wait**, nobody needs to.
- Names and numbers are those of the libraries of Slurm 24.11 and 26.05.
- Seen on: there `tests/real/test_pending.py` or, with slurmdbd, `tests/real/test_accounting.py`
  brings it about and reads it back from slurmrestd.
  Where nothing stands, the meaning is the one of Slurm's documentation.
- Without slurmdbd no job meets a limit of accounting. With it, an allocation at once over a limit
  is refused (2050) where a submission waits for the limit's reason: sunk-sync then submits.
- Slurm has one reason for a limit that others fill and for one that the job alone is over.
- Annotations may be edited while the Pod waits; what it asks for cannot: delete it, make another.

What the two versions do differently, and what surprises:

- More nodes or CPUs than the partition has: 24.11 refuses with 2014. 26.05 takes the job, warns
  with 2015, and lets it wait with `PartitionConfig` for good.
- As many jobs as MaxJobCount allows: 2007 on 26.05, 11 (EAGAIN) on 24.11.
- `POST /job/allocate` with `immediate` and more time than the partition allows is answered with a
  job id as if it ran; the job waits with `PartitionTimeLimit`.
- A batch job of a user whom its node does not know is held within 2 s (`JobHeldAdmin`).
- Drained, down and reserved nodes: `ReqNodeNotAvail` for who names them, else `Resources`.
"""
Key = TypeVar("Key", str, int)


def renewed() -> str:
    """The page made anew."""
    return "\n".join([BEGIN, *_reasons(), *_limits(), *_errors(), *_ranges()]).rstrip() + "\n"


def _reasons() -> Iterable[str]:
    seen = {**limits.seen_reasons(), **seen_reasons()}
    yield "## Reasons of a job that waits, or has ended\n"
    yield "| reason | what it means | what to do | whose | seen on |"
    yield "|---|---|---|---|---|"
    for name, row in sorted(REASONS.items()):
        yield f"| `{name}` | {_cells(row)} | {_versions(seen, name)} |"
    yield ""


def _limits() -> Iterable[str]:
    seen = limits.seen_reasons()
    names = {name for one in slurm_names.read().values() for name in one.reasons}
    yield "## Limits of accounting\n"
    yield "| reason | what it means | what to do | whose | seen on |"
    yield "|---|---|---|---|---|"
    for name in sorted(names):
        row = limit(name)
        if row and name not in REASONS:
            yield f"| `{name}` | {_cells(row)} | {_versions(seen, name)} |"
    yield ""


def _errors() -> Iterable[str]:
    seen = {**limits.seen_errors(), **seen_errors()}
    yield "## Errors in place of a job\n"
    yield "-1, 0 and 11 are no numbers of Slurm: unspecified, none given, and EAGAIN.\n"
    yield "| number | what it means | what to do | whose | seen on |"
    yield "|---|---|---|---|---|"
    for number, row in sorted(ERRORS.items()):
        yield f"| {number} | {_cells(row)} | {_versions(seen, number)} |"
    yield ""


def _ranges() -> Iterable[str]:
    seen = seen_errors()
    yield "All others, the first line that holds the number:\n"
    yield "| numbers | what they mean | what to do | whose | seen |"
    yield "|---|---|---|---|---|"
    left = {number for number in seen if number not in ERRORS}
    for numbers, row in RANGES.items():
        here = sorted(number for number in left if number in numbers)
        left.difference_update(here)
        told = ", ".join(f"{number} on {_versions(seen, number)}" for number in here)
        yield f"| {_spelled(numbers)} | {_cells(row)} | {told} |"


def _spelled(numbers: range) -> str:
    first, last = numbers[0], numbers[-1]
    return f"{first}" if first == last else f"{first}-{last}"


def _cells(row: Row) -> str:
    whose, text, advice = row
    return " | ".join(cell.replace("|", "\\|") for cell in (text, advice, whose))


def _versions(seen: Mapping[Key, frozenset[str]], key: Key) -> str:
    return ", ".join(sorted(seen.get(key, ())))


if __name__ == "__main__":
    FILE.write_text(renewed(), encoding="utf-8")
