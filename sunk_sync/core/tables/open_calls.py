"""Calls that wait at the hooks server, with their hosts and jobs (L1, L6, L7)."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import TypeVar

from sunk_sync.core.model.calls import CallEnded, GateCall, LockCall, StopCall
from sunk_sync.core.model.topology_file import TopologyReport

CallFact = GateCall | LockCall | StopCall | TopologyReport | CallEnded


class OpenCalls:
    def __init__(self) -> None:
        self.gates: dict[int, GateCall] = {}
        self.stops: dict[int, StopCall] = {}
        self.until_s: dict[str, float] = {}
        """Job id → when Slurm kills its script, which waits for its Pods. Kept after the call,
        which is answered long before the Pods are gone."""
        self.by_host: defaultdict[str, dict[int, GateCall]] = defaultdict(dict)

        self.topologies: dict[int, TopologyReport] = {}
        self.locks: dict[int, LockCall] = {}
        self.locks_by_host: defaultdict[str, dict[int, LockCall]] = defaultdict(dict)

    def locks_at(self, slurm_node: str) -> tuple[LockCall, ...]:
        there = self.locks_by_host.get(slurm_node)
        return tuple(there.values()) if there else ()

    def gates_at(self, slurm_node: str) -> tuple[GateCall, ...]:
        there = self.by_host.get(slurm_node)
        return tuple(there.values()) if there else ()

    def stops_of(self, job_ids: Collection[str]) -> tuple[StopCall, ...]:
        if not self.stops:
            return ()
        return tuple(call for call in self.stops.values() if call.job_id in job_ids)

    def stop_until_s(self, job_ids: Sequence[str]) -> float | None:
        """Return when Slurm kills the first script of these jobs that waits for its Pods."""
        if not self.until_s:
            return None
        return min((self.until_s[one] for one in job_ids if one in self.until_s), default=None)

    def waits_at(self, slurm_node: str) -> bool:
        return slurm_node in self.by_host

    def observe(self, fact: CallFact) -> set[str]:
        """A call started or ended; return its Slurm nodes."""
        match fact:
            case GateCall():
                self.gates[fact.call] = fact
                for name in fact.slurm_nodes:
                    self.by_host[name][fact.call] = fact
                return set(fact.slurm_nodes)
            case LockCall():
                self.locks[fact.call] = fact
                for name in fact.slurm_nodes:
                    self.locks_by_host[name][fact.call] = fact
                return set(fact.slurm_nodes)
            case StopCall():
                self.stops[fact.call] = fact
                return set()
            case TopologyReport():
                self.topologies[fact.call] = fact
                return set()
            case _:
                self.topologies.pop(fact.call, None)
                self.stops.pop(fact.call, None)
                gate = self.gates.pop(fact.call, None)
                lock = self.locks.pop(fact.call, None)
                return _forget(gate, self.by_host) | _forget(lock, self.locks_by_host)


CallT = TypeVar("CallT", GateCall, LockCall)


def _forget(call: CallT | None, table: dict[str, dict[int, CallT]]) -> set[str]:
    if call is None:
        return set()
    for name in call.slurm_nodes:
        table[name].pop(call.call, None)
        if not table[name]:
            del table[name]
    return set(call.slurm_nodes)
