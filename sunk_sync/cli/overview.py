"""`sunk-sync diff` and `sunk-sync status`: ask the running service for an overview."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, TextIO, TypeVar

import msgspec

from sunk_sync.cli.service_client import CANNOT, CannotAskError, ask, connection
from sunk_sync.core.translate.counted import counted
from sunk_sync.server.operators import DIFF, STATUS
from sunk_sync.service.explanation_text import ago
from sunk_sync.service.overview import Differences, Status
from sunk_sync.settings.types import Address

FOUND = 1
Form = Literal["text", "json"]
AnswerT = TypeVar("AnswerT", Differences, Status)


def diff(
    address: Address | None,
    *,
    older_than_s: float,
    form: Form = "text",
    out: TextIO = sys.stdout,
    errors: TextIO = sys.stderr,
) -> int:
    """Print the differences. Return 1 if one is older than the bound, 2 if nobody answers."""
    answer = _asked(address, DIFF, Differences, errors=errors)
    if answer is None:
        return CANNOT
    _print(answer, _diff_lines, form=form, out=out)
    return FOUND if any(one.age_s > older_than_s for one in answer.differences) else 0


def status(
    address: Address | None,
    *,
    form: Form = "text",
    out: TextIO = sys.stdout,
    errors: TextIO = sys.stderr,
) -> int:
    """Print the status. Return 1 if a check is not ok, 2 if nobody answers."""
    answer = _asked(address, STATUS, Status, errors=errors)
    if answer is None:
        return CANNOT
    _print(answer, _status_lines, form=form, out=out)
    return FOUND if any(check.ok != "ok" for check in answer.checks) else 0


def _asked(
    address: Address | None, path: str, wanted: type[AnswerT], *, errors: TextIO
) -> AnswerT | None:
    try:
        with connection() as client:
            return ask(client, address, path=path, wanted=wanted)
    except CannotAskError as error:
        print(f"sunk-sync: {error}", file=errors)
        return None


def _print(
    answer: AnswerT, lines: Callable[[AnswerT], Iterator[str]], *, form: Form, out: TextIO
) -> None:
    if form == "json":
        print(msgspec.json.encode(answer).decode(), file=out)
        return
    for line in lines(answer):
        print(line, file=out)


def _diff_lines(answer: Differences) -> Iterator[str]:
    kinds = Counter(one.kind for one in answer.differences)
    of_each = ", ".join(
        counted(count, kind, kind if kind == "held" else "")
        for kind, count in sorted(kinds.items())
    )
    total = counted(answer.total, "difference")
    yield f"{total}: {of_each}" if of_each else total
    for one in answer.differences:
        yield f"  {one.kind:<7}{ago(one.age_s):>8}  {one.about}: {one.what}"
    if answer.total > len(answer.differences):
        yield f"  and {answer.total - len(answer.differences)} more"
    if answer.standby:
        yield f"note: {answer.standby}"


def _status_lines(answer: Status) -> Iterator[str]:
    role = "leads" if answer.leads else "stands by"
    yield f"sunk-sync {answer.code}, {role}, {answer.at}"
    for check in answer.checks:
        yield f"  {check.ok:<9}{check.name}: {check.text}"
    for name, counts in (
        ("hosts", answer.hosts),
        ("workload Pods", answer.pods),
        ("writes that wait", answer.waiting),
    ):
        yield f"  {name}: {_counted(counts)}"
    took = [
        f"{kind} {one.count} (median {one.median_s:.3g} s, at most {one.most_s:.3g} s)"
        for kind, one in answer.latencies.items()
    ]
    yield f"  last minute: {', '.join(took) or 'nothing'}"


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"
