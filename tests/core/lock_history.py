"""Random histories in which prologs ask for the locks of Nodes (L1-L4a)."""

import random
from collections.abc import Callable

from msgspec.structs import replace

from sunk_sync.core.model.actions import Action
from sunk_sync.core.model.calls import CallEnded, LockCall
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import Node, SlurmdPod
from sunk_sync.core.model.lock_actions import AnswerLock, GetNodePods, Lock, Unlock
from sunk_sync.core.model.node_lock import NodePods
from sunk_sync.core.model.outcomes import Done, Outcome, Refused
from sunk_sync.core.model.verdict import Decision
from sunk_sync.core.translate.node_states import is_busy, may_run_jobs
from tests.core.checks import HistoryError
from tests.core.history import History
from tests.core.world import World
from tests.core.world_changes import NODES, SLURM_NODES

FOREIGN = ("team/a", "team/b", "team/c")


class LockWorld(World):
    """Its Nodes also have Pods of other schedulers, which leave while people add new ones."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.foreign: dict[str, tuple[str, ...]] = {}
        self.asking: dict[int, LockCall] = {}

    def perform(self, action: Action) -> Outcome:
        match action:
            case Lock():
                self.tick()
                return self._write(
                    action, lambda row: replace(row, lock=action.state, tainted=True)
                )
            case Unlock():
                self.tick()
                return self._write(action, lambda row: replace(row, lock="", tainted=False))
            case GetNodePods():
                self.tick()
                pods = self.foreign.get(action.reference.name, ())
                return Done(
                    action, (NodePods(action.reference.name, self.now, pods[1:], pods[:1]),)
                )
            case AnswerLock():
                known = action.call in self.asking
                return Done(action) if known else Refused(action, "the caller is gone")
            case _:
                return super().perform(action)


class LockHistory(History):
    """Run one seed. HistoryError carries the last steps in its notes."""

    world: LockWorld

    def _world(self) -> LockWorld:
        return LockWorld(self.rng)

    def _configuration(self) -> Configuration:
        late = self.rng.choice(("pass", "hold"))
        return replace(super()._configuration(), lock=True, lock_late=late, lock_wait_s=20.0)

    def _kinds(self) -> tuple[Callable[[], None], ...]:
        mine = (self._ask, self._change_foreign, self._change_lock)
        return (*super()._kinds(), *mine, *mine)

    def _prepare(self) -> None:
        self.calls = 0
        super()._prepare()

    def _start(self) -> None:
        super()._start()
        self.world.asking.clear()

    def _changed_pod(self, row: SlurmdPod) -> SlurmdPod:
        if self.rng.random() < 0.3:
            return replace(row, tolerates_lock=self.rng.random() < 0.8)
        return super()._changed_pod(row)

    def _change_foreign(self) -> None:
        name = self.rng.choice(NODES)
        self.world.foreign[name] = FOREIGN[: self.rng.choice((0, 0, 0, 1, 2, 3))]

    def _change_lock(self) -> None:
        """People take a taint away, or leave one of their own."""
        row = self.world.nodes.get(self.rng.choice(NODES))
        if row is not None and self.rng.random() < 0.3:
            self.world.put_node(replace(row, tainted=not row.tainted))

    def _ask(self) -> None:
        """A prolog asks, or goes away."""
        rng, world = self.rng, self.world
        if world.asking and rng.random() < 0.4:
            self._end_call(rng.choice(list(world.asking)))
            return
        self.calls += 1
        names = tuple(rng.sample(SLURM_NODES, rng.choice((1, 1, 2))))
        call = LockCall(
            call=self.calls,
            job_id="999",
            slurm_nodes=names,
            asked_s=world.now,
            began_s=world.now - rng.choice((0.0, 15.0)),
            until_s=world.now + 15,
            strict=rng.choice((None, True, False)),
        )
        world.asking[call.call] = call
        self._note("asked", call)
        self._observe([call])

    def _end_call(self, number: int) -> None:
        del self.world.asking[number]
        self._observe([CallEnded(number)])

    def _answer(self, *, lost: bool = False) -> None:
        _, outcome, _ = self.answers[0]
        super()._answer(lost=lost)
        action = outcome.action
        if isinstance(action, AnswerLock) and action.go and isinstance(outcome, Done) and not lost:
            call = self.world.asking.get(action.call)
            if call is not None and len(call.slurm_nodes) == 1:
                self._end_call(action.call)

    def _check(self, decision: Decision) -> None:
        super()._check(decision)
        for action in decision.allowed:
            match action:
                case Unlock():
                    self._check_unlock(decision.key[1])
                case AnswerLock(go=True) if action.node_name:
                    self._check_go(action)
                case Lock() if action.state != "pending":
                    self._check_locked(action)

    def _check_unlock(self, name: str) -> None:
        graph, locks = self.graph, self.graph.workloads.hosts.locks
        record = graph.slurm_nodes.get(name)
        asked_s = locks.asked_s.get(name, 0.0)
        if record is not None and is_busy(record.state):
            raise HistoryError(f"unlock: {name} is busy")
        if graph.calls.locks_at(name) or graph.slurm_nodes.agreed_s < asked_s + 10:
            raise HistoryError(f"unlock: {name} was asked for at {asked_s}")

    def _check_go(self, action: AnswerLock) -> None:
        row = self.graph.nodes.get(action.node_name)
        if row is None or not row.tainted or row.lock not in ("locked", "locked_strict"):
            raise HistoryError(f"lock: {action} on {row}")

    def _check_locked(self, action: Lock) -> None:
        name, locks = action.reference.name, self.graph.workloads.hosts.locks
        pods = locks.pods.get(name)
        if pods is None or pods.asked_s < locks.tainted_s[name] or pods.intolerant:
            raise HistoryError(f"lock: {action} after {pods}")
        if action.state == "locked_strict" and pods.tolerant:
            raise HistoryError(f"lock: {action} after {pods}")

    def _heal(self) -> None:
        self.world.foreign.clear()
        for number in list(self.world.asking):
            self._end_call(number)
        super()._heal()

    def _check_rest(self) -> None:
        """No lock is left where no job runs and one Slurm node owns the Node."""
        super()._check_rest()
        for name in self.world.slurm_nodes:
            host = self.graph.host(name)
            busy = host.slurm_node is not None and may_run_jobs(host.slurm_node.state)
            node: Node | None = host.node
            if node is None or not host.owns_node or host.rivals or busy:
                continue
            if node.lock:
                raise HistoryError(f"lock: left on {node} of {host.slurm_node}")
