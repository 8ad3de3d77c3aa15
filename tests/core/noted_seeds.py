"""Which history notices a break first. A test begins with it, so that it need not search.

After a change of the product another history may be the first. A test then searches, and warns.
SUNK_SYNC_RENEW=1 writes what it finds into the file.
"""

import fcntl
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.core.checks import HistoryError
from tests.core.history import History

FILE = Path(__file__).with_suffix(".txt")
SEEDS = range(400)
Noted = dict[str, tuple[str, int]]


def read() -> Noted:
    """Return kind and seed of the history that notices each break."""
    lines = (line.split(" ", 2) for line in FILE.read_text(encoding="utf-8").splitlines())
    return {what: (kind, int(seed)) for kind, seed, what in lines}


NOTED = read()


def first_failure(what: str, kinds: Sequence[type[History]]) -> str:
    """Run histories until a check fails, and return its name; empty for none."""
    for kind, seed in _in_order(what, kinds):
        try:
            kind(seed).run()
        except HistoryError as error:
            _note(what, kind.__name__, seed)
            return str(error).partition(":")[0]
    return ""


def _in_order(what: str, kinds: Sequence[type[History]]) -> Iterator[tuple[type[History], int]]:
    name, seed = NOTED.get(what, ("", 0))
    yield from ((kind, seed) for kind in kinds if kind.__name__ == name)
    yield from ((kind, seed) for seed in SEEDS for kind in kinds)


def _note(what: str, kind: str, seed: int) -> None:
    if NOTED.get(what) == (kind, seed):
        return
    if "SUNK_SYNC_RENEW" not in os.environ:
        warnings.warn(f"{FILE.name} is out of date: {kind} {seed} {what}", stacklevel=2)
        return
    with FILE.open("r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        rows = read() | {what: (kind, seed)}
        lines = [f"{kind} {seed} {what}\n" for what, (kind, seed) in sorted(rows.items())]
        file.write("".join(lines))
        file.truncate()
