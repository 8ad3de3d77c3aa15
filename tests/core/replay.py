"""`python -m tests.core.replay FILE`: what this build of the core says to recorded histories.

A recording holds, for each history, its configuration and what came in when. Each line of the
answer is a digest of one history's decisions, in words: two builds that say the same print the
same.
"""

import hashlib
import pickle
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from sunk_sync import graph
from sunk_sync.configuration import Configuration
from sunk_sync.facts import News
from sunk_sync.graph import Graph
from sunk_sync.policy import Policy
from sunk_sync.reconciler import Reconciler
from sunk_sync.verdict import Decision
from tests.core.history import History
from tests.core.work_history import WorkHistory

LIMIT = 100


class Lived(NamedTuple):
    """One process of the service, in one history."""

    configuration: Configuration
    news: list[tuple[float, Sequence[News]]]
    """(monotonic second, what came in)."""


class Recording(History):
    """Keeps what each of its processes was told."""

    def __init__(self, seed: int) -> None:
        self.lives: list[Lived] = []
        super().__init__(seed)

    def _start(self) -> None:
        super()._start()
        self.lives.append(Lived(self.configuration, []))

    def _told(self, news: Sequence[News]) -> None:
        super()._told(news)
        self.lives[-1].news.append((self.world.now, tuple(news)))


class WorkRecording(Recording, WorkHistory):
    """The same of a history with Pods and jobs."""


def record(seeds: Iterable[int], *, kind: type[Recording]) -> Iterator[Lived]:
    """What each process of these histories was told."""
    for seed in seeds:
        history = kind(seed)
        history.run()
        yield from history.lives


def replay(life: Lived) -> str:
    """Digest of every decision."""
    reconciler = Reconciler(graph=Graph(life.configuration), policy=Policy())
    said = hashlib.sha256()
    for now, news in life.news:
        reconciler.observe(news, now=now)
        for decision in _settled(reconciler, now):
            said.update(f"{now} {in_words(decision)}\n".encode())
    return said.hexdigest()


def _settled(reconciler: Reconciler, now: float) -> Iterator[Decision]:
    while decisions := reconciler.step(now=now, limit=LIMIT):
        yield from decisions


def in_words(told: object) -> str:
    """Sets in order: how they are printed else hangs on the process."""
    if isinstance(told, frozenset | set):
        return "{" + ", ".join(sorted(map(in_words, told))) + "}"
    if isinstance(told, tuple | list):
        return "(" + ", ".join(map(in_words, told)) + ")"
    fields = getattr(told, "__struct_fields__", None)
    if fields is None:
        return repr(told)
    return f"{type(told).__name__}{in_words([getattr(told, name) for name in fields])}"


def main() -> int:
    """Digests of what stands in the file, one a line; the first line tells which build spoke."""
    lives: list[Lived] = pickle.loads(Path(sys.argv[1]).read_bytes())
    print(Path(graph.__file__).suffix)
    for life in lives:
        print(replay(life))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
