"""An explanation as text, for the command and the status page."""

from collections.abc import Iterator, Sequence

from sunk_sync.core.explain.account import Fact
from sunk_sync.service.explanation import Explanation

WIDTH = 12
"""Of the column with the names of the parts."""


def lines(answer: Explanation) -> Iterator[str]:
    yield f"{answer.kind} {answer.name}, {answer.at}"
    again = "" if answer.look_again_s is None else f" (looks again in {answer.look_again_s:.0f} s)"
    not_yet = "" if all(one.done for one in answer.writes) else " (not done yet: see writes)"
    yield from _part("decision", [f"{answer.decision}{not_yet}{again}"])
    for side in ("Kubernetes", "Slurm", "sunk-sync"):
        yield from _part(side, [_fact(fact) for fact in answer.facts if fact.side == side])
    yield from _part("writes", [f"{one.write}: {one.state}" for one in answer.writes] or ["none"])
    yield from _part("to change", answer.cures)
    yield from _part("docs", answer.pages)
    yield from _part(
        "history", [f"{one.at[11:19]} ({ago(one.ago_s)} ago) {one.what}" for one in answer.history]
    )
    yield from _part("see also", [", ".join(answer.see)] if answer.see else [])
    yield from _part("note", [answer.standby] if answer.standby else [])


def _part(name: str, texts: Sequence[str]) -> Iterator[str]:
    for number, text in enumerate(texts):
        yield f"  {'' if number else name:<{WIDTH}}{text}"


def _fact(fact: Fact) -> str:
    return f"{fact.what}: {fact.says}{_ages(fact)}"


def _ages(fact: Fact) -> str:
    if fact.read_s is None:
        return ""
    read = "watched" if fact.read_s == 0 else f"read {ago(fact.read_s)} ago"
    same = "" if fact.unchanged_s is None else f", the same for {ago(fact.unchanged_s)}"
    return f"  [{read}{same}]"


def ago(seconds: float) -> str:
    for unit_s, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{seconds:.1f} s"
