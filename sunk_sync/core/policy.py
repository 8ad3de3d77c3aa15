"""The last check before a write. It only holds actions back, and remembers drains and ends."""

from collections import deque
from typing import NamedTuple

from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.actions import (
    Action,
    Bind,
    Drain,
    EndPod,
    RecordEvent,
    SetMetadata,
    SetWeight,
    SubmitJob,
    traits_of,
)
from sunk_sync.core.model.event_kinds import EVENT_END_HELD, EVENT_NOT_REGISTERED, EVENT_PAUSED
from sunk_sync.core.model.keys import Key
from sunk_sync.core.model.names import MANAGER_RETIRE
from sunk_sync.core.model.node_set_actions import Condemn, CreatePod, RemakePod
from sunk_sync.core.model.restraint import Holding
from sunk_sync.core.model.verdict import DRY_RUN, Kept, Screened, Verdict
from sunk_sync.core.tables.claims import pod_key
from sunk_sync.core.translate.counted import counted

NONE_HELD = Holding(0, 0.0)
MINUTE_S = 60.0
HELD_AGAIN_S = 2.0
"""Seconds between two checks of a held drain: a second listing may have ended."""
DRAINS_PER_MINUTE_MIN = 20
DRAINS_SHARE = 0.1
ENDS_PER_MINUTE_MIN = 20
ENDS_SHARE = 0.1
HELD_EVENTS_PER_MINUTE = 100
"""Workloads that get an Event for a held end, in a minute; thousands may be held."""
WEIGHTS_PER_MINUTE_MIN = 60
WEIGHTS_SHARE = 0.1
OWN_PER_MINUTE = 5
"""Times a minute that packing begins on one host: somebody else may set its weight back."""
WEIGHT_AGAIN_S = 5.0
"""Seconds between two checks of a held weight."""
ON_JOBS = (Bind, SubmitJob)
"""Held while jobs cannot be read. A binding needs a job that is known to run (P11, F4). A
submission during an outage may stay in doubt after the outage (F2)."""
ON_NODE_SETS = (CreatePod, Condemn)
"""Held while NodeSets or their Pods cannot be read: the desired number may be an old one (N1)."""


NOTHING_WANTED = Screened(())


class Breaker:
    """Limits drains a minute that rest on an absence or NotReady (S19)."""

    def __init__(self) -> None:
        self._passed: deque[tuple[float, str]] = deque()
        """Drains let through in the last minute, oldest first."""
        self._passing: set[str] = set()
        """Slurm nodes whose drain was let through and is still desired."""
        self.held: dict[str, float] = {}
        """Slurm node → since when its drain is held."""

    def admit(self, slurm_node: str, *, limit: int, listed_s: float, now: float) -> bool:
        """Whether this drain may go. One that had to wait also needs a later listing to agree."""
        if slurm_node in self._passing:
            return True
        self._forget(now)
        held_s = self.held.get(slurm_node)
        waits = held_s is not None and listed_s < held_s
        jumps = held_s is None and bool(self.held)
        if waits or jumps or len(self._passed) >= limit:
            self.held.setdefault(slurm_node, now)
            return False
        self.held.pop(slurm_node, None)
        self._passing.add(slurm_node)
        self._passed.append((now, slurm_node))
        return True

    def withdraw(self, slurm_node: str) -> None:
        """Forget the drain: it is done, or its cause is gone."""
        self._passing.discard(slurm_node)
        self.held.pop(slurm_node, None)

    def again_s(self, now: float) -> float:
        """Return when to check a held drain again."""
        freed = self._passed[0][0] + MINUTE_S if self._passed else now
        return max(freed, now + HELD_AGAIN_S)

    def _forget(self, now: float) -> None:
        while self._passed and self._passed[0][0] <= now - MINUTE_S:
            self._passed.popleft()


class HeldEvents:
    """Limits Events for held workloads a minute (P31); each workload gets one while it is held."""

    def __init__(self) -> None:
        self._begun: deque[float] = deque()
        """The time of each workload's Event in the last minute."""
        self._reported: set[str] = set()

    def admit(self, workload: str, *, now: float) -> bool:
        if workload in self._reported:
            return True
        while self._begun and self._begun[0] <= now - MINUTE_S:
            self._begun.popleft()
        if len(self._begun) >= HELD_EVENTS_PER_MINUTE:
            return False
        self._begun.append(now)
        self._reported.add(workload)
        return True

    def withdraw(self, workload: str) -> None:
        self._reported.discard(workload)


class WeightLimits:
    """Limits new weights a minute (W2): steps of all hosts together, and each host's begin."""

    def __init__(self) -> None:
        self._moved: deque[float] = deque()
        """When steps were let through in the last minute, oldest first."""
        self._begun: dict[str, tuple[float, ...]] = {}
        """Slurm node → when packing began or ended there, if it does so again and again."""
        self._passing: dict[str, SetWeight] = {}
        """Slurm node → the write that was let through and is still desired."""

    def admit(self, action: SetWeight, *, limit: int, now: float) -> bool:
        """Whether this write may go. Small steps leave half of the limit to the others."""
        name = action.slurm_node
        if self._passing.get(name) == action:
            return True
        if action.change == "own":
            may = self._begins(name, now=now)
        else:
            may = self._moves(limit if action.change == "empty" else limit // 2, now=now)
        if may:
            self._passing[name] = action
        return may

    def _begins(self, slurm_node: str, *, now: float) -> bool:
        recent = tuple(one for one in self._begun.get(slurm_node, ()) if one > now - MINUTE_S)
        if len(recent) >= OWN_PER_MINUTE:
            return False
        self._begun[slurm_node] = (*recent, now)
        return True

    def _moves(self, limit: int, *, now: float) -> bool:
        while self._moved and self._moved[0] <= now - MINUTE_S:
            self._moved.popleft()
        if len(self._moved) >= limit:
            return False
        self._moved.append(now)
        return True

    def withdraw(self, slurm_node: str) -> None:
        """Forget the write: it is done, or its cause is gone."""
        self._passing.pop(slurm_node, None)


class Policy:
    def __init__(self) -> None:
        self.breaker = Breaker()
        self._remakes: dict[str, str] = {}
        """Slurm node → its Pod of a NodeSet, whose deletion the breaker holds."""
        self.ends = Breaker()
        """Breaker for workloads whose Pods end for a failed node or a missing job (P31)."""
        self.held_events = HeldEvents()
        self.weights = WeightLimits()

    def screen(self, graph: Graph, key: Key, verdict: Verdict, *, now: float) -> Screened:
        """Divide the actions of a verdict into those to send now and those to hold back."""
        wants = verdict.wants
        if key[0] == "workload":
            return self._screen_workload(graph, key[1], wants, now=now)
        weighs = _sets_weight(wants)
        if not weighs:
            self.weights.withdraw(key[1])
        if not wants:
            self._withdraw(key[1])
            return NOTHING_WANTED
        if not _rests_on_absence(wants):
            self._withdraw(key[1])
            free = key[0] != "nodeset" or graph.sources.node_sets_live
            if free and not weighs and _all_may(graph):
                return Screened(wants)
        kept = [self._keep(graph, action, now) for action in wants]
        if not any(kept):
            return Screened(wants)
        return Screened(
            tuple(action for action, keep in zip(wants, kept, strict=True) if keep is None),
            tuple(keep for keep in kept if keep is not None),
        )

    def _withdraw(self, slurm_node: str) -> None:
        self.breaker.withdraw(slurm_node)
        self._remakes.pop(slurm_node, None)

    def _screen_workload(
        self, graph: Graph, workload: str, wants: tuple[Action, ...], *, now: float
    ) -> Screened:
        weak = bool([action for action in wants if _is_weak(action)])
        if not weak:
            self.ends.withdraw(workload)
            self.held_events.withdraw(workload)
        if not wants:
            return NOTHING_WANTED
        why = _why_not_yet(graph)
        held = "" if why or not weak else self._hold_end(graph, workload, now=now)
        if weak:
            wants = self._limit_events(workload, wants, held=bool(held), now=now)
        unread = "" if graph.jobs.live else "cannot be read now: jobs"
        if not (why or held or unread or graph.paused):
            return Screened(wants)
        again_s = self.ends.again_s(now) if held else None
        reasons = _Reasons(why, graph.paused, held, unread)
        kept = [Kept(one, reason, again_s) for one in wants if (reason := reasons.of(one))]
        taken = {id(one.action) for one in kept}
        return Screened(tuple(one for one in wants if id(one) not in taken), tuple(kept))

    def _limit_events(
        self, workload: str, wants: tuple[Action, ...], *, held: bool, now: float
    ) -> tuple[Action, ...]:
        """Remove the Events of a hold unless the workload is held and within the limit."""
        if held and self.held_events.admit(workload, now=now):
            return wants
        if not held:
            self.held_events.withdraw(workload)
        return tuple(action for action in wants if not _is_held_event(action))

    def _hold_end(self, graph: Graph, workload: str, *, now: float) -> str:
        limit = end_limit(graph)
        if self.ends.admit(workload, limit=limit, listed_s=graph.nodes.agreed_s, now=now):
            return ""
        return (
            f"more than {counted(limit, 'such end')} a minute: held until the Nodes were read again"
        )

    def holding(self) -> Holding:
        """Return how many drains and ends the breakers hold, as a fact for the graph."""
        drains, ends = self.breaker.held, self.ends.held
        if not (drains or ends):
            return NONE_HELD
        pods = tuple(self._remakes.values())
        return Holding(len(drains), _since_s(drains), len(ends), _since_s(ends), pods)

    def _keep(self, graph: Graph, action: Action, now: float) -> Kept | None:
        if traits_of(action).reads:
            return None
        why = _why_not(graph, action)
        if why:
            return Kept(action, why)
        if isinstance(action, Drain) and action.absence:
            return self._break(graph, action, now)
        if isinstance(action, RemakePod):
            return self._break_end(graph, action, now)
        if isinstance(action, SetWeight):
            return self._hold_weight(graph, action, now)
        if isinstance(action, RecordEvent) and action.event is EVENT_NOT_REGISTERED:
            return self._with_its_end(action)
        return None

    def _hold_weight(self, graph: Graph, action: SetWeight, now: float) -> Kept | None:
        limit = weight_limit(graph)
        if self.weights.admit(action, limit=limit, now=now):
            return None
        if action.change == "own":
            why = f"its weight was set back more than {OWN_PER_MINUTE - 1} times in a minute"
        else:
            why = f"more than {counted(limit, 'new weight')} a minute"
        return Kept(action, why, now + WEIGHT_AGAIN_S)

    def _break(self, graph: Graph, action: Drain, now: float) -> Kept | None:
        listed_s = min(graph.nodes.listed_s, graph.slurmd_pods.listed_s)
        limit = drain_limit(graph)
        self._remakes.pop(action.slurm_node, None)
        if self.breaker.admit(action.slurm_node, limit=limit, listed_s=listed_s, now=now):
            return None
        why = (
            f"more than {counted(limit, 'such drain')} a minute: held until a second listing agrees"
        )
        return Kept(action, why, self.breaker.again_s(now))

    def _break_end(self, graph: Graph, action: RemakePod, now: float) -> Kept | None:
        """Limit the deletions of slurmd Pods whose records vanished (N5)."""
        listed_s, limit = graph.slurm_nodes.listed_s, drain_limit(graph)
        of = action.reference
        if self.breaker.admit(of.name, limit=limit, listed_s=listed_s, now=now):
            self._remakes.pop(of.name, None)
            return None
        self._remakes[of.name] = pod_key(of.namespace, of.name)
        pods = counted(limit, "Pod")
        why = f"the records of more than {pods} a minute vanished: held until a second listing"
        return Kept(action, why, self.breaker.again_s(now))

    def _with_its_end(self, action: RecordEvent) -> Kept | None:
        """The Event that a Pod is made anew waits like the deletion, which stands before it."""
        if action.reference.name not in self._remakes:
            return None
        return Kept(action, "held as the deletion of the Pod")


def drain_limit(graph: Graph) -> int:
    """Return drains a minute that may rest on absences: as set, or the greater of 20 and 10 %."""
    chosen = graph.configuration.max_drains_per_minute
    if chosen is not None:
        return chosen
    return max(DRAINS_PER_MINUTE_MIN, int(graph.keys.host_count() * DRAINS_SHARE))


def weight_limit(graph: Graph) -> int:
    """Return how many hosts may get another step a minute (W2)."""
    return max(WEIGHTS_PER_MINUTE_MIN, int(graph.keys.host_count() * WEIGHTS_SHARE))


def end_limit(graph: Graph) -> int:
    """Return the ends a minute that may rest on failed nodes or missing jobs (P31)."""
    chosen = graph.configuration.max_pod_ends_per_minute
    if chosen is not None:
        return chosen
    return max(ENDS_PER_MINUTE_MIN, int(graph.workloads.bound_count() * ENDS_SHARE))


def _since_s(held: dict[str, float]) -> float:
    return min(held.values(), default=0.0)


class _Reasons(NamedTuple):
    """Why writes for a workload are held back; each text may be empty."""

    all: str
    paused: str
    weak: str
    on_jobs: str

    def of(self, action: Action) -> str:
        """Return why this write is held back, or nothing."""
        if traits_of(action).reads:
            return ""
        if self.all or (self.paused and not _goes_on(action)):
            return self.all or self.paused
        if self.weak and _is_weak(action):
            return self.weak
        return self.on_jobs if isinstance(action, ON_JOBS) else ""


def _is_weak(action: Action) -> bool:
    return isinstance(action, EndPod) and action.weak


def _is_held_event(action: Action) -> bool:
    return isinstance(action, RecordEvent) and action.event is EVENT_END_HELD


def _why_not_yet(graph: Graph) -> str:
    """Hold writes for workloads until Pods and jobs are listed, and in a dry run."""
    unlisted = (*graph.sources.unlisted, *graph.sources.workloads_unlisted)
    if unlisted:
        return f"not listed yet: {', '.join(unlisted)}"
    return DRY_RUN if graph.configuration.dry_run else ""


def _rests_on_absence(wants: tuple[Action, ...]) -> bool:
    for action in wants:  # noqa: SIM110 - a generator costs more than the loop
        if _is_by_absence(action):
            return True
    return False


def _sets_weight(wants: tuple[Action, ...]) -> bool:
    for action in wants:  # noqa: SIM110 - a generator costs more than the loop
        if isinstance(action, SetWeight):
            return True
    return False


def _goes_on(action: Action) -> bool:
    """Whether a pause lets it pass: answers to calls, which Slurm waits for, and its own Event."""
    if isinstance(action, RecordEvent):
        return action.event is EVENT_PAUSED
    return traits_of(action).queue == "hooks"


def _is_by_absence(action: Action) -> bool:
    return isinstance(action, RemakePod) or (isinstance(action, Drain) and action.absence)


def _releases_pod(action: Action) -> bool:
    """Whether it sets `drained=true`, upon which a controller deletes the Pod (S6)."""
    return (
        isinstance(action, SetMetadata)
        and action.manager == MANAGER_RETIRE
        and bool(action.annotations)
    )


def _all_may(graph: Graph) -> bool:
    """Whether only the breaker may hold actions back: every source is live, and no dry run."""
    return not (graph.sources.stale or graph.configuration.dry_run or graph.paused)


def _why_not(graph: Graph, action: Action) -> str:
    """Return why to hold an action back: a source was never listed, or a dry run.

    Some actions need every source to be readable. A lift needs the causes to be gone, and the
    release of a Pod needs a drain that still exists.
    """
    if graph.sources.unlisted:
        return f"not listed yet: {', '.join(graph.sources.unlisted)}"
    if graph.sources.stale and (traits_of(action).lifts or _releases_pod(action)):
        return f"cannot be read now: {', '.join(graph.sources.stale)}"
    if isinstance(action, ON_NODE_SETS) and not graph.sources.node_sets_live:
        return "cannot be read now: NodeSets and their Pods"
    if graph.configuration.dry_run:
        return DRY_RUN
    return "" if _goes_on(action) else graph.paused
