"""Slurm's reasons and errors, explained to an author of Pods who knows little of Slurm.

Each text keeps Slurm's own spelling or number (P1, P10, P26).
"""

import re
from functools import lru_cache
from typing import Final

from msgspec import Struct

from sunk_sync.core.translate.slurm_errors import FOR_NODES, meaning
from sunk_sync.core.translate.slurm_reasons import REASONS, Whose, limit, more_nodes_help

TEXT_LENGTH_MAX: Final = 300
"""Characters of a text or an advice."""
AHEAD_MAX: Final = 1000
MESSAGE_BYTES_MAX: Final = 1024
"""Limit of Kubernetes for the message of an Event."""

_UNKNOWN: Final = "ask the operator of Slurm what this means"
_REFUSALS: Final = {
    "user": "Slurm refused the job",
    "operator": "Slurm refused the job",
    "wait": "Slurm did not accept the job now",
}
_LEAD_IN: Final = re.compile(
    "(refused: |no such: )?"
    "((Batch job submission|Job allocation request|Job update requested) failed: )?"
)
"""Prefixes that the client and slurmrestd add to the text of Slurm."""
_AGES: Final = (
    (86_400, "more than a day ago"),
    (36_000, "more than 10 hours ago"),
    (3_600, "more than an hour ago"),
    (600, "more than 10 minutes ago"),
    (60, "more than a minute ago"),
)
"""Only a few steps, because each change of the message is a write."""


class Words(Struct, frozen=True, gc=False):
    """One reason or error. `text` and `advice` are clauses of one line, without a full stop."""

    text: str
    advice: str
    whose: Whose
    nodes_help: bool = False
    """The job may start once Slurm has more nodes."""

    def __str__(self) -> str:
        return f"{self.text}; {self.advice}"


@lru_cache(maxsize=1024)
def in_words(reason: str) -> Words:
    """Explain a pending reason in the spelling of `state_reason`.

    The text keeps what squeue or `state_description` add after a comma (`ReqNodeNotAvail,
    UnavailableNodes:n2`).
    """
    spelled = _line(reason).strip("() ")
    name = spelled.partition(",")[0] or "None"
    helps = more_nodes_help(name)
    row = REASONS.get(name) or limit(name)
    if row is None:
        text = _bounded(f"Slurm gives the reason {spelled}")
        return Words(text, _UNKNOWN, "operator", nodes_help=helps)
    whose, text, advice = row
    return Words(_bounded(f"{text} ({spelled or name})"), advice, whose, nodes_help=helps)


def error_in_words(number: int, text: str) -> Words:
    """Explain an error of slurmrestd; `text` is Slurm's own.

    Number 0: Slurm gave none, or sunk-sync itself refused.
    """
    row = meaning(number)
    whose: Whose = row[0] if row else "operator"
    line = _line(text)
    began = _LEAD_IN.match(line)
    said = line[began.end() if began else 0 :].removesuffix(f"({number})").rstrip(" .") or "error"
    # A long text is cut, so that the number fits.
    spelled = _bounded(f"{_REFUSALS[whose]}: {said}", TEXT_LENGTH_MAX - 15)
    if number and f"({number})" not in spelled:
        spelled += f" ({number})"
    advice = f"{row[1]}; {row[2]}" if row else _UNKNOWN
    return Words(spelled, advice, whose, nodes_help=number in FOR_NODES)


def waiting_message(reason: str, job_id: str, *, ahead: int, age_s: float) -> str:
    """Return the message of PodScheduled for a Pod that waits, at most 1 kB (P1, P26).

    Empty `job_id`: not submitted yet. `ahead`: number of Pods before it. `age_s`: seconds since
    sunk-sync read Slurm's reason.
    """
    if job_id:
        waits = _waits(reason, _aged(age_s), ahead)
        said = f"Slurm job {_bounded(_line(job_id), 40)} {waits}"
    else:
        said = f"No Slurm job yet: sunk-sync will submit one. {_ahead(ahead)}."
    return within(said, MESSAGE_BYTES_MAX)


@lru_cache(maxsize=1024)
def _waits(reason: str, aged: str, ahead: int) -> str:
    """Build the part that thousands of Pods with the same reason share."""
    return f"waits: {in_words(reason)}.{aged} {_ahead(ahead)}."


def about(count: int) -> int:
    """Round to 0, 1, 10, 100 or 1,000, so that the shown number seldom changes."""
    return min(10 ** (len(str(count)) - 1), AHEAD_MAX) if count > 0 else 0


def _ahead(count: int) -> str:
    at_least = about(count)
    if not at_least:
        return "No other Pod waits ahead of it"
    pods = "Pod waits" if at_least == 1 else "Pods wait"
    return f"At least {at_least:,} other {pods} ahead of it"


def _aged(age_s: float) -> str:
    """Return the age of the reason; empty below a minute."""
    if age_s < _AGES[-1][0]:
        return ""
    age = next((words for least, words in _AGES if age_s >= least), "")
    return f" Slurm gave this reason {age}." if age else ""


def _line(text: str) -> str:
    """Return the printable characters as one line; read only the beginning of a long text."""
    begin = text[: 4 * TEXT_LENGTH_MAX]
    if begin.isprintable():
        return " ".join(begin.split())
    return " ".join("".join(c if c.isprintable() else " " for c in begin).split())


def _bounded(text: str, length: int = TEXT_LENGTH_MAX) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def within(text: str, size: int) -> str:
    """Cut the text to this many bytes of UTF-8, never within a character."""
    if len(text) * 4 <= size:
        return text
    encoded = text.encode()
    if len(encoded) <= size:
        return text
    return f"{encoded[: size - 3].decode(errors='ignore')}…"
