"""The table of --user-policy: which namespaces may run jobs as which users (P5).

```yaml
team-a: 1001
team-b: [1002, 2000-2999]
"*": 65534
```
`*` as a namespace stands for those not named, as a user for every one. Not named is not allowed.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

import yaml

FILE_BYTES_MAX: Final = 1 << 20
UID_MAX: Final = 2**31 - 2

_namespace = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?|\*", re.ASCII).fullmatch
_uids = re.compile(r"(\d{1,10})(?:\s*-\s*(\d{1,10}))?", re.ASCII).fullmatch

Range = tuple[int, int]
Table = tuple[tuple[str, tuple[Range, ...]], ...]
"""Namespaces, sorted, and the users allowed there, first and last of each range."""


class UserPolicy(NamedTuple):
    """A table that was read, and where."""

    path: str
    table: Table

    def __str__(self) -> str:
        return self.path


def read_user_policy(path: Path) -> UserPolicy:
    """Raises ValueError: all that is wrong, one line each."""
    problems: list[str] = []
    table: dict[str, tuple[Range, ...]] = {}
    for key, value in _rows(path):
        place = f"line {key.start_mark.line + 1}"
        namespace = str(key.value)
        ranges = _ranges(value)
        if not _namespace(namespace):
            problems.append(f"{place}: {namespace[:70]!r} is no name of a namespace, and not '*'")
        elif namespace in table:
            problems.append(f"{place}: namespace {namespace} stands there twice")
        elif not ranges:
            problems.append(f"{place}: allowed are uids such as 1001, [1001, 2000-2999] or '*'")
        table[namespace] = ranges
    if problems:
        raise ValueError("\n".join(problems))
    return UserPolicy(str(path), tuple(sorted(table.items())))


def _rows(path: Path) -> list[tuple[yaml.Node, yaml.Node]]:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or type(error).__name__}") from None
    if len(content) > FILE_BYTES_MAX:
        raise ValueError("larger than 1 MiB")
    try:
        root = yaml.compose(content.decode(), Loader=yaml.SafeLoader)
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 text") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise ValueError(f"line {mark.line + 1 if mark else 1}: not YAML") from None
    except (yaml.YAMLError, RecursionError):
        raise ValueError("not YAML") from None
    if not isinstance(root, yaml.MappingNode) or not root.value:
        raise ValueError("must be a mapping: `namespace: uids` on each line")
    return list(root.value)


def _ranges(node: yaml.Node) -> tuple[Range, ...]:
    """Empty where something is wrong."""
    parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
    words = [
        word.strip()
        for part in parts
        for word in (str(part.value).split(",") if isinstance(part, yaml.ScalarNode) else [""])
    ]
    ranges = [_range(word) for word in words]
    return () if None in ranges else tuple(sorted(r for r in ranges if r is not None))


def _range(word: str) -> Range | None:
    if word == "*":
        return (0, UID_MAX)
    match = _uids(word)
    if match is None:
        return None
    first, last = int(match.group(1)), int(match.group(2) or match.group(1))
    return (first, last) if first <= last <= UID_MAX else None
