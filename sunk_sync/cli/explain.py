"""`sunk-sync explain`: ask the running service about one object, and print its answer."""

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Literal, TextIO
from urllib.parse import quote

import anyio
import httpx
import msgspec
from msgspec import Struct

from sunk_sync.cli.service_client import CANNOT, CannotAskError, NotFoundError, ask, connection
from sunk_sync.core.explain.account import Kind, Unknown
from sunk_sync.service.explanation import Explanation
from sunk_sync.service.explanation_text import lines
from sunk_sync.settings.model import Settings
from sunk_sync.settings.types import Address

WATCH_EVERY_S = 1.0
NOT_FOUND = 1


class Question(Struct, frozen=True, kw_only=True):
    kind: Kind
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


def explain_without_service(
    question: Question,
    settings: Settings,
    *,
    out: TextIO = sys.stdout,
    errors: TextIO = sys.stderr,
) -> int:
    """Print the answer from fresh listings; return as `explain` does."""
    # Its clients take a second to import, which a question to the service does not need.
    from sunk_sync.cli.direct import CannotReadError, explain_direct

    ask_both = partial(explain_direct, settings, kind=question.kind, name=question.name)
    try:
        answer = anyio.run(ask_both)
    except CannotReadError as error:
        print(f"sunk-sync explain: cannot read {error}", file=errors)
        return CANNOT
    return _print(answer, question, out=out, errors=errors)


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
