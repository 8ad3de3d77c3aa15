"""What must hold after every step of a history, whatever happened."""

from collections.abc import Iterable, Mapping
from typing import Any

from sunk_sync.core.decide import decide
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.actions import (
    Action,
    Drain,
    GetGang,
    GetJob,
    GetObject,
    RecordEvent,
    Relist,
    RewriteReason,
    Undrain,
)
from sunk_sync.core.model.facts import NEEDED, GetResult, Job, Node, SlurmdPod, Source
from sunk_sync.core.model.keys import Key
from sunk_sync.core.model.lock_actions import GetNodePods
from sunk_sync.core.model.verdict import Decision
from sunk_sync.core.model.volume_actions import GetProvisioning
from sunk_sync.core.reconciler import Reconciler
from sunk_sync.core.tables.claims import same_claim, same_own_claim
from sunk_sync.core.translate.node_states import (
    is_drained,
    is_foreign_drain,
    is_frozen,
    is_under_power,
    keeps_drain,
    wakes_for_jobs,
)
from tests.core.world import World

Read = tuple[str, str]
ALL_ROWS = "*"
FOR_WORKLOADS = ("k8s: pod without job", "k8s: pod still terminating", "k8s: pod deletion timeout")
"""Drains that workload Pods cause (P25, P30, L6)."""
READS = (GetObject, GetGang, GetJob, Relist, GetNodePods, GetProvisioning)


class HistoryError(AssertionError):
    """A check failed; the first word of the message names it."""


class Log:
    """Reads of one decision; nothing is recorded while `reads` is None."""

    def __init__(self) -> None:
        self.reads: set[Read] | None = None


class Recorded(dict[Any, Any]):
    """A table that records which rows were read, also missing ones."""

    def __init__(self, log: Log, name: str, rows: Mapping[Any, Any]) -> None:
        super().__init__(rows)
        self._log = log
        self._name = name

    def _note(self, key: object) -> None:
        if self._log.reads is not None:
            self._log.reads.add((self._name, str(key)))

    def __getitem__(self, key: str) -> Any:
        self._note(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._note(key)
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._note(key)
        return super().get(key, default)

    def values(self) -> Any:
        self._note(ALL_ROWS)
        return super().values()


class ReadSet:
    """Records what each decision read, and checks that a change of it marks the key."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._log = Log()
        self._reads: dict[Key, set[Read]] = {}
        places = graph.last_seen
        for name, table in graph.sources.tables.items():
            table.entries = Recorded(self._log, name, table.entries)
        places.seen = Recorded(self._log, "seen", places.seen)
        places.marks = Recorded(self._log, "marks", places.marks)
        places._get_results = Recorded(self._log, "sightings", places._get_results)

    def rows(self) -> dict[Read, object]:
        """Return every row as it is now."""
        rows: dict[Read, object] = {}
        for source, table in self._graph.sources.tables.items():
            rows |= {(source, key): entry.row for key, entry in table.entries.items()}
        places = self._graph.last_seen
        for name, marks in (("seen", places.seen), ("marks", places.marks)):
            rows |= {(name, key): mark for key, mark in marks.items()}
        return rows | {("sightings", str(key)): one for key, one in places._get_results.items()}

    def decided(self, key: Key, now: float) -> None:
        """Record what a decision of this key reads now."""
        self._graph.claims.forget(key[1])
        self._graph.workloads.feasible_hosts.forget()
        self._graph.workloads.residents.forget_all()
        self._log.reads = set()
        decide(self._graph, key, now)
        self._reads[key] = self._log.reads
        self._log.reads = None

    def check(self, before: dict[Read, object], pending: Mapping[Key, None]) -> None:
        """Each row that changed was read by marked keys only."""
        after = self.rows()
        changed = {read for read in before | after if before.get(read) is not after.get(read)}
        changed = {read for read in changed if before.get(read) != after.get(read)}
        whole = {(name, ALL_ROWS) for name, _ in changed}
        for key, reads in self._reads.items():
            missed = reads & (changed | whole)
            missed = {
                read
                for read in missed
                if not self._concerns_not(key, before.get(read), after.get(read))
            }
            if missed and key not in pending and self._graph.keys.knows(key):
                raise HistoryError(f"read-set: {key} read {missed}, which changed unmarked")

    def _concerns_not(self, key: Key, before: object, after: object) -> bool:
        """Return whether the change does not matter for the key, though it read the row.

        Of a job, hosts and other workloads use identity, state, hosts and kind. Of Pods and Nodes
        of other hosts, a key uses the claims; workloads also use the requests of such a Pod.
        """
        if isinstance(before, SlurmdPod) and isinstance(after, SlurmdPod):
            own = key[1] == after.slurm_node or self._moves_in(key, after.slurm_node)
            same = key[0] == "host" or before.requests == after.requests
            return same and not own and same_claim(before, after)
        if key[0] == "host" and isinstance(before, Node) and isinstance(after, Node):
            beside = key[1] not in self._graph.claims.hosts_on_node(after.name)
            return beside and same_own_claim(before, after)
        if not isinstance(before, Job) or not isinstance(after, Job):
            return False
        if key[0] == "workload" and key[1] in self._graph.workloads.index.keys_named_by(after):
            return False
        return _seen(before) == _seen(after)

    def _moves_in(self, key: Key, slurm_node: str) -> bool:
        return key[0] == "workload" and key[1] in self._graph.workloads.index.moving_in(slurm_node)


def _seen(job: Job) -> object:
    return job.identity, job.state, job.slurm_nodes, job.script


def check_oracle(reconciler: Reconciler, now: float) -> None:
    """The current verdicts equal those of a full pass."""
    graph = reconciler.graph
    keys = set(graph.keys.all())
    ghosts = set(reconciler.standing) - keys
    if ghosts:
        raise HistoryError(f"oracle: verdicts of unknown keys: {ghosts}")
    forgotten = graph.workloads.memory.ran_s.keys() - graph.jobs.entries.keys()
    if forgotten:
        raise HistoryError(f"memory: unknown jobs have run: {forgotten}")
    graph.workloads.feasible_hosts.forget()
    graph.workloads.residents.forget_all()
    for key in keys:
        kept = graph.claims.claim_of(key[1])
        graph.claims.forget(key[1])
        if kept != graph.claims.claim_of(key[1]):
            raise HistoryError(f"claims: {key} is kept as {kept}")
        standing = reconciler.standing.get(key)
        fresh = decide(graph, key, now)
        if standing is None or standing.verdict != fresh:
            current = standing and standing.verdict
            raise HistoryError(f"oracle: {key}\n  current {current}\n  right   {fresh}")


class Evidence:
    """What this process has read of absent objects."""

    def __init__(self) -> None:
        self.missing: set[tuple[str, str]] = set()
        """Kind and name of each object with a read by name that had a result."""
        self.node_uids: dict[str, str] = {}
        """The last known UIDs, by name."""

    def shown(self, get_result: GetResult) -> None:
        """Record the result of a read by name."""
        if get_result.found != "unknown":
            self.missing.add((get_result.kind, get_result.name))

    def remember_nodes(self, graph: Graph) -> None:
        """Remember the UIDs of the known Nodes."""
        self.node_uids |= {row.name: row.uid for row in graph.nodes.rows()}


def check_listed(actions: Iterable[Action], needed: Iterable[Source], graph: Graph) -> None:
    """Nothing is written before these sources were listed."""
    unlisted = [source for source in needed if not graph.sources.tables[source].listed]
    for action in actions:
        if unlisted and not isinstance(action, READS):
            raise HistoryError(f"unlisted: {action} before {unlisted}")


def check_safety(
    decision: Decision, reconciler: Reconciler, world: World, evidence: Evidence
) -> None:
    """Allowed writes change no foreign drain and no frozen node, and need evidence."""
    graph = reconciler.graph
    check_listed(decision.allowed, NEEDED, graph)
    for action in decision.allowed:
        if isinstance(action, Drain | Undrain | RewriteReason):
            _check_ownership(action, graph)
        if isinstance(action, Drain):
            _check_evidence(action, graph, world, evidence)


def _check_ownership(action: Drain | Undrain | RewriteReason, graph: Graph) -> None:
    row = graph.slurm_nodes.get(action.slurm_node)
    if row is None or is_foreign_drain(row):
        raise HistoryError(f"ownership: {action} over {row}")
    if keeps_drain(row.state):
        raise HistoryError(f"frozen: {action} over {row}")
    if isinstance(action, Drain) and not is_drained(row.state) and wakes_for_jobs(row.state):
        raise HistoryError(f"waking: {action} over {row}")


def _check_evidence(drain: Drain, graph: Graph, world: World, evidence: Evidence) -> None:
    host = graph.host(drain.slurm_node)
    last = host.traces.last
    if drain.reason == "k8s: pod terminated":
        there = world.pods.get(last.pod) if last else None
        if last is None or ("Pod", last.pod) not in evidence.missing:
            raise HistoryError(f"evidence: {drain} without a read of {last}")
        if there is not None and there.uid == last.uid:
            raise HistoryError(f"evidence: {drain} though {there} exists")
    if drain.reason == "k8s: node gone":
        name = last.node if last else ""
        node = world.nodes.get(name)
        if ("Node", name) not in evidence.missing:
            raise HistoryError(f"evidence: {drain} without a read of {name}")
        if node is not None and node.uid == evidence.node_uids.get(node.name):
            raise HistoryError(f"evidence: {drain} though {node} exists")


def is_write(action: Action) -> bool:
    """Return whether the action changes an object; Events and reads do not."""
    return not isinstance(action, (RecordEvent, *READS))


def check_rest(reconciler: Reconciler, world: World) -> None:
    """After convergence the objects are as the rows of behaviour.md require."""
    for key, one in reconciler.standing.items():
        wants = one.verdict.wants
        reads = [want for want in wants if isinstance(want, GetObject) and not want.after_s]
        if reads:
            raise HistoryError(f"unanswered: {key} still wants {reads}")
        writes = [want for want in wants if is_write(want)]
        if writes:
            raise HistoryError(f"rest: {key} still wants {writes}")
    for row in world.slurm_nodes.values():
        ours = row.reason.startswith("k8s:")
        known = reconciler.graph.host(row.name)
        is_known = known.pod or known.node or known.traces.last
        if ours and not is_drained(row.state) and not is_frozen(row.state) and is_known:
            if known.rivals:
                continue
            raise HistoryError(f"text: our reason on a node without drain: {row}")
        _check_drained(row.name, world)
    _check_strays(reconciler.graph, world)


def _check_strays(graph: Graph, world: World) -> None:
    """M6: only Nodes that stand for a Slurm node show its state."""
    hosts = [graph.host(key[1]) for key in list(graph.keys.all()) if key[1]]
    if any(host.rivals for host in hosts):
        return
    used = {host.node.name for host in hosts if host.node and host.owns_node and host.slurm_node}
    for node in world.nodes.values():
        pods = [pod for pod in world.pods.values() if pod.node_name == node.name]
        if len(pods) > 1 or any(pod.terminating for pod in pods):
            continue
        if (node.conditions or any(node.labels)) and node.name not in used:
            raise HistoryError(f"stray: {node} shows the state of no Slurm node of its own")


def _check_drained(name: str, world: World) -> None:
    """A host with one Pod, its Node and no neighbour is drained exactly when a cause exists."""
    row = world.slurm_nodes[name]
    claims = [pod for pod in world.pods.values() if pod.slurm_node == name]
    if len(claims) != 1 or keeps_drain(row.state) or is_foreign_drain(row) or claims[0].finished:
        return
    if not is_drained(row.state) and wakes_for_jobs(row.state):
        return
    if row.reason in FOR_WORKLOADS:
        return
    pod = claims[0]
    neighbours = [one for one in world.pods.values() if one.node_name == pod.node_name]
    node = world.nodes.get(pod.node_name)
    if len(neighbours) != 1 or node is None:
        return
    if any(one.slurm_node == name and one is not node for one in world.nodes.values()):
        return
    powered = is_under_power(row.state)
    cause = (
        (node.ready != "True" and not powered)
        or (node.unschedulable and not node.cordoned_for_drain)
        or (pod.terminating and not powered)
        or pod.pending_deletion is not None
        or bool(pod.cordon)
        or not (pod.ready or powered)
    )
    if cause != is_drained(row.state):
        raise HistoryError(f"wrong: {row} though {pod} on {node}")
