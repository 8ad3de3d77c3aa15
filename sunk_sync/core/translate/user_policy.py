"""The table of --user-policy: which namespaces may run jobs as which users (P5).

```yaml
team-a: 1001
team-b: [1002, 2000-2999]
"*": 65534
```
`*` as a namespace means all others; as a user it means every user. Nothing else is allowed.
"""

import re
from collections.abc import Iterable
from typing import Final

from sunk_sync.core.translate.kube_forms import is_namespace

UID_MAX: Final = 2**31 - 2

_uids = re.compile(r"(\d{1,10})(?:\s*-\s*(\d{1,10}))?", re.ASCII).fullmatch

Range = tuple[int, int]
Table = tuple[tuple[str, tuple[Range, ...]], ...]
"""Namespaces, sorted, and the allowed users: first and last of each range."""


def user_policy_of(rows: Iterable[tuple[str, object, int]]) -> Table:
    """Build the table from rows (namespace, uids, line). ValueError: every problem, one a line."""
    problems: list[str] = []
    table: dict[str, tuple[Range, ...]] = {}
    for namespace, uids, line in rows:
        ranges = _ranges(uids)
        if namespace != "*" and not is_namespace(namespace):
            problems.append(f"line {line}: {namespace[:70]!r} is no name of a namespace, nor '*'")
        elif namespace in table:
            problems.append(f"line {line}: namespace {namespace} is listed twice")
        elif not ranges:
            problems.append(f"line {line}: allowed are uids such as 1001, [1001, 2000-2999] or '*'")
        table[namespace] = ranges
    if problems:
        raise ValueError("\n".join(problems))
    if not table:
        raise ValueError("must be a mapping: `namespace: uids` on each line")
    return tuple(sorted(table.items()))


def _ranges(uids: object) -> tuple[Range, ...]:
    """Return the ranges; empty if one is invalid."""
    parts = uids if isinstance(uids, list) else [uids]
    ranges = [_range(word.strip()) for part in parts for word in str(part).split(",")]
    return () if None in ranges else tuple(sorted(one for one in ranges if one is not None))


def _range(word: str) -> Range | None:
    if word == "*":
        return (0, UID_MAX)
    match = _uids(word)
    if match is None:
        return None
    first, last = int(match.group(1)), int(match.group(2) or match.group(1))
    return (first, last) if first <= last <= UID_MAX else None
