"""What `sunk-sync explain` shows: the account from the core, with writes, answers and history.

The structs are the JSON of GET /v1/explain; fields may be added within a version.
"""

import time
from collections.abc import Callable, Iterator

from msgspec import Struct

from sunk_sync.controller.history import Happening
from sunk_sync.controller.loop import Loop
from sunk_sync.controller.outbox import Outbox
from sunk_sync.core.explain.account import Account, Fact, Kind, Unknown
from sunk_sync.core.explain.differences import about
from sunk_sync.core.explain.explain import explain
from sunk_sync.core.explain.queue import Place, place_of
from sunk_sync.core.model.outcomes import Done
from sunk_sync.core.model.verdict import Kept
from sunk_sync.core.translate.job_states import is_waiting
from sunk_sync.service.slurm_metrics import Queue
from sunk_sync.telemetry.action_words import name_of, phrase

VERSION = 1
TEXT_MAX = 2000
"""Characters of one text."""


class Write(Struct, frozen=True):
    """A desired write."""

    write: str
    state: str
    done: bool = False
    """It was answered, and is not repeated until a fact changes."""


class Event(Struct, frozen=True):
    at: str
    """RFC 3339, UTC."""
    ago_s: float
    what: str


class Recent(Struct, frozen=True):
    at: str
    about: str
    what: str


class Explanation(Struct, frozen=True, kw_only=True):
    version: int = VERSION
    at: str
    kind: Kind
    name: str
    decision: str
    facts: tuple[Fact, ...]
    writes: tuple[Write, ...]
    look_again_s: float | None
    """Seconds until time alone may change the decision."""
    cures: tuple[str, ...]
    pages: tuple[str, ...] = ()
    """Where the documentation says what to do."""
    history: tuple[Event, ...]
    """Oldest first, since this process started."""
    see: tuple[str, ...]
    standby: str = ""
    """This replica does not write; who does."""


class Explainer:
    def __init__(
        self,
        loop: Loop,
        outbox: Outbox,
        *,
        clock: Callable[[], float],
        queue: Queue | None = None,
        note: str = "this replica stands by and writes nothing",
    ) -> None:
        """`note`: what the answer says while the loop does not lead."""
        self._note = note
        self._queue = queue
        self._loop = loop
        self._outbox = outbox
        self._clock = clock

    def explain(self, kind: Kind, name: str) -> Explanation | Unknown:
        account = explain(self._loop.reconciler, kind=kind, name=name, now=self._clock())
        return account if isinstance(account, Unknown) else self._completed(account)

    def _completed(self, account: Account) -> Explanation:
        return Explanation(
            at=utc(time.time()),
            kind=account.kind,
            name=account.name,
            decision=account.decision,
            facts=(*account.facts, *self._queue_facts(account)),
            writes=self._writes(account),
            look_again_s=account.look_again_s,
            cures=account.cures,
            pages=tuple(f"docs/troubleshooting.md#{one.lower()}" for one in account.problems),
            history=tuple(map(self._event, self._loop.history.of(account.key))),
            see=account.see,
            standby="" if self._loop.leading else self._note,
        )

    def _queue_facts(self, account: Account) -> Iterator[Fact]:
        """Say where the job of a workload waits, as of the last listing of all jobs."""
        queue = self._queue
        if queue is None or account.key[0] != "workload":
            return
        graph = self._loop.reconciler.graph
        for job_id in graph.workloads.index.job_ids(account.key[1]):
            if not is_waiting(graph.jobs.entries[job_id].row):
                continue
            place = place_of(queue.jobs, int(job_id.partition("_")[0]))
            if place is not None:
                read_s = max(0.0, self._clock() - queue.read_s)
                yield Fact(side="Slurm", what="queue", says=_of_place(place), read_s=read_s)
            return

    def _writes(self, account: Account) -> tuple[Write, ...]:
        sent = {one.action: one for one in self._outbox.states_of(account.key)}
        held = {one.action: f"held back: {one.why}" for one in account.held}
        writes = []
        for action in account.wants:
            state = sent.get(action)
            says = held.get(action) or (state.says if state else "not yet decided")
            done = action not in held and state is not None and state.answered
            writes.append(Write(_short(phrase(action)), says, done))
        return tuple(writes)

    def recent(self) -> tuple[Recent, ...]:
        """Return the last things that happened to any object, the newest first."""
        graph = self._loop.reconciler.graph
        events = [(about(graph, key), self._event(one)) for key, one in self._loop.history.recent]
        return tuple(Recent(one.at, named, one.what) for named, one in reversed(events))

    def _event(self, happening: Happening) -> Event:
        ago_s = max(0.0, self._clock() - happening.at_s)
        return Event(utc(time.time() - ago_s), round(ago_s, 3), _short(_in_words(happening)))


def _of_place(place: Place) -> str:
    says = f"place {place.place} of {place.of} in partition {place.partition}, by priority"
    if place.starts_s is None:
        return f"{says}; Slurm does not say when it starts"
    return f"{says}; Slurm expects its start at {utc(place.starts_s)}"


def _in_words(happening: Happening) -> str:
    what = happening.what
    if isinstance(what, str):
        return f"decided: {what}"
    words = phrase(what.action)
    if isinstance(what, Kept):
        return f"held back: {words} ({what.why})"
    if isinstance(what, Done):
        return f"done: {words}"
    return f"{name_of(what)}: {words} ({what.why})"


def _short(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}…"


def utc(second: float) -> str:
    """Return Unix seconds as RFC 3339."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))
