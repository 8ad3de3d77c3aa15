"""`sunk-sync explain`: ask the running service about one object, and print its answer."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TextIO
from urllib.parse import quote

import httpx
import msgspec
from msgspec import Struct

from sunk_sync.cli.service_client import CANNOT, CannotAskError, NotFoundError, ago, ask, connection
from sunk_sync.core.explain.account import Fact, Unknown
from sunk_sync.service.explanation import Explanation
from sunk_sync.settings.types import Address

WATCH_EVERY_S = 1.0
WIDTH = 12
"""Of the column with the names of the parts."""
NOT_FOUND = 1


class Question(Struct, frozen=True, kw_only=True):
    kind: str
    name: str
    address: Address | None
    """Of the service; None: it does not listen for operators."""
    form: Literal["text", "json"] = "text"
    watch: bool = False
    """Ask every second, and print each answer that differs."""


def explain(
    question: Question,
    *,
    out: TextIO = sys.stdout,
    errors: TextIO = sys.stderr,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Print the answer. Return 0; 1: no such object; 2: the service cannot be asked."""
    try:
        with connection() as client:
            answer = _ask(client, question)
            code = _print(answer, question, out=out, errors=errors)
            while question.watch and code == 0:
                sleep(WATCH_EVERY_S)
                before, answer = answer, _ask(client, question)
                if _said(before) != _said(answer):
                    code = _print(answer, question, out=out, errors=errors)
            return code
    except CannotAskError as error:
        print(f"sunk-sync explain: {error}", file=errors)
        return CANNOT


def _ask(client: httpx.Client, question: Question) -> Explanation | Unknown:
    path = f"/v1/explain/{question.kind}/{quote(question.name, safe='/')}"
    try:
        return ask(client, question.address, path=path, wanted=Explanation)
    except NotFoundError as error:
        try:
            return msgspec.json.decode(error.content, type=Unknown)
        except msgspec.DecodeError:
            raise error from None


def _said(answer: Explanation | Unknown) -> object:
    """Return what a watch compares: without ages."""
    if isinstance(answer, Unknown):
        return answer
    facts = [(fact.what, fact.says) for fact in answer.facts]
    writes = [one.write for one in answer.writes]
    return (answer.decision, facts, writes, answer.cures, len(answer.history), answer.standby)


def _print(
    answer: Explanation | Unknown, question: Question, *, out: TextIO, errors: TextIO
) -> int:
    if isinstance(answer, Unknown):
        similar = f". Similar names: {', '.join(answer.similar)}" if answer.similar else ""
        print(f"sunk-sync explain: {answer.why}{similar}", file=errors)
        return NOT_FOUND
    if question.form == "json":
        print(msgspec.json.encode(answer).decode(), file=out, flush=True)
    else:
        print("\n".join(lines(answer)), file=out, flush=True)
    return 0


def lines(answer: Explanation) -> Iterator[str]:
    yield f"{answer.kind} {answer.name}, {answer.at}"
    again = "" if answer.look_again_s is None else f" (looks again in {answer.look_again_s:.0f} s)"
    yield from _part("decision", [f"{answer.decision}{again}"])
    for side in ("Kubernetes", "Slurm", "sunk-sync"):
        yield from _part(side, [_fact(fact) for fact in answer.facts if fact.side == side])
    yield from _part("writes", [f"{one.write}: {one.state}" for one in answer.writes] or ["none"])
    yield from _part("to change", answer.cures)
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
