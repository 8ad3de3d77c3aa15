"""Annotations of a workload Pod that set options of its job (P4): their forms and bounds.

An empty annotation counts as absent. The bounds are those of slurmctld 24.11 and 26.05.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from sunk_sync.core.model.job_description import SETTINGS, Form
from sunk_sync.core.model.names import PREFIX
from sunk_sync.core.translate.hostlist import HostlistError, expand
from sunk_sync.core.translate.kube_forms import is_subdomain

Value = str | int
Settings = tuple[tuple[str, str], ...]
"""Annotations without prefix, and their values."""

TEXT_BYTES_MAX: Final = 1024
"""slurmctld refuses longer texts (2012)."""
PATH_BYTES_MAX: Final = 4095
NODES_BYTES_MAX: Final = 64 << 10
PRIORITY_MAX: Final = 2**32 - 3
"""Slurm uses the two numbers above it for unset and unlimited."""
ID_MAX: Final = 2**31 - 2
"""24.11 refuses groups above it; 26.05 reads user 4294967295 as -1."""
TIMEOUT_MAX_MIN: Final = 100 * 365 * 24 * 60
SHOWN_MAX: Final = 60

SHARING: Final = {
    "none": "none",
    "ok": "oversubscribe",
    "user": "user",
    "mcs": "mcs",
    "topo": "topo",
    "true": "none",
    "false": "",
}
"""SUNK's value (`true` and `false` before its 5.7) → Slurm's; empty: not set."""

_CLASS_MAY_SAY: Final = ("qos", "partition", "priority")

_days = re.compile(r"(\d{1,6})-(\d{1,2})(?::(\d{1,2})(?::(\d{1,2}))?)?", re.ASCII).fullmatch
_clock = re.compile(r"(\d{1,6}):(\d{1,2}):(\d{1,2})", re.ASCII).fullmatch
_units = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,8})m)?(?:(\d{1,9})s)?", re.ASCII)
_DAY_HOUR_MINUTE_S: Final = (86_400, 3_600, 60, 1)


class Asked(Struct, frozen=True, gc=False):
    """Values of annotations, and their problems."""

    values: Mapping[str, Value]
    """Annotation, without prefix, and its value for JobDescription."""
    problems: tuple[str, ...] = ()
    """One sentence for each annotation with a wrong form."""


@lru_cache(maxsize=1024)
def read_settings(settings: Settings) -> Asked:
    """Read these annotations; never raises, but lists problems."""
    values: dict[str, Value] = {}
    problems: list[str] = []
    for name, text in settings:
        if name not in SETTINGS or not text.strip():
            continue
        try:
            values[name] = FORMS[SETTINGS[name].form](text)
        except ValueError as error:
            problems.append(f"annotation {PREFIX}{name}: {quoted(text)}: {error}")
    return Asked(values, tuple(problems))


def read_priority_class(entry: tuple[str, str]) -> tuple[str, str, Value]:
    """Read one entry of --priority-map: the class, and the annotation and value that it sets (P9).

    The ValueError says which form is allowed.
    """
    priority_class, said = entry
    name, _, text = map(str.strip, said.partition("="))
    asked = read_settings(((name, text),)).values if name in _CLASS_MAY_SAY else {}
    if name not in asked or not is_subdomain(priority_class):
        raise ValueError(
            "allowed is PRIORITYCLASS=qos=NAME, PRIORITYCLASS=partition=NAME or "
            "PRIORITYCLASS=priority=NUMBER"
        )
    return priority_class, name, asked[name]


def read_minutes(text: str) -> int:
    """Return minutes, rounded up.

    `123` (minutes), `90s`, `2h`, `1h30m`, `02:30:00`, `1-00:00:00`. Raises ValueError.
    """
    word = text.strip().lower()
    minutes = int(word) if _is_number(word) else -(-_seconds(word) // 60)
    if not 0 < minutes <= TIMEOUT_MAX_MIN:
        raise ValueError(
            "allowed are whole minutes above 0, or a time such as 90s, 2h, 1h30m, 02:30:00, "
            "1-00:00:00 (at most 100 years)"
        )
    return minutes


def _seconds(word: str) -> int:
    if match := _days(word) or _units.fullmatch(word):
        parts: Sequence[str | None] = match.groups()
    elif match := _clock(word):
        parts = (None, *match.groups())
    else:
        return 0
    return sum(int(n or 0) * unit for n, unit in zip(parts, _DAY_HOUR_MINUTE_S, strict=True))


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= 12


def _number(text: str, most: int) -> int:
    word = text.strip()
    if not _is_number(word) or int(word) > most:
        raise ValueError(f"allowed is a whole number from 0 to {most}")
    return int(word)


def _priority(text: str) -> int:
    return _number(text, PRIORITY_MAX)


def _id(text: str) -> int:
    return _number(text, ID_MAX)


def _sharing(text: str) -> str:
    word = text.strip().lower()
    if word not in SHARING:
        raise ValueError("allowed is none, ok, user, mcs, topo, true or false")
    return SHARING[word]


def _bounded(text: str, bytes_max: int = TEXT_BYTES_MAX) -> str:
    if len(text.encode()) > bytes_max:
        raise ValueError(f"allowed are at most {bytes_max} bytes")
    return text


def _comment(text: str) -> str:
    if not all(letter.isprintable() or letter in "\n\t" for letter in text):
        raise ValueError("allowed are printable characters, tabs and line ends")
    return _bounded(text)


def _line(text: str) -> str:
    """Accept one line; Slurm checks its meaning."""
    word = text.strip()
    if not word.isprintable():
        raise ValueError("allowed are printable characters")
    return _bounded(word)


def _names(text: str) -> str:
    """Accept names, or a comma list of them."""
    word = _line(text)
    if " " in word:
        raise ValueError("allowed is a name, or names with commas between and no spaces")
    return word


def _nodes(text: str) -> str:
    """Accept a hostlist, checked here because Slurm uses half of an invalid one."""
    word = ",".join(part.strip() for part in text.strip().split(","))
    if not word.isprintable():
        raise ValueError("allowed are printable characters")
    try:
        names = expand(_bounded(word, NODES_BYTES_MAX))
    except HostlistError as error:
        raise ValueError(f"allowed are names of Slurm nodes or a hostlist: {error}") from None
    if not names:
        raise ValueError("allowed are names of Slurm nodes or a hostlist")
    return word


def _directory(text: str) -> str:
    word = text.strip()
    if not word.startswith("/") or not word.isprintable():
        raise ValueError("allowed is an absolute path")
    return _bounded(word, PATH_BYTES_MAX)


def quoted(text: str) -> str:
    """Return the text quoted, on one line, cut if it is long."""
    bare = "".join(letter if letter.isprintable() else "?" for letter in text[:SHOWN_MAX])
    return f"'{bare}{'…' if len(text) > SHOWN_MAX else ''}'"


FORMS: Final[Mapping[Form, Callable[[str], Value]]] = {
    "comment": _comment,
    "directory": _directory,
    "id": _id,
    "line": _line,
    "minutes": read_minutes,
    "names": _names,
    "nodes": _nodes,
    "priority": _priority,
    "sharing": _sharing,
}
