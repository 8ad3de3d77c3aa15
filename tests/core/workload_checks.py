"""What must hold of workloads after every step, and once everything has converged.

Stated from the rows of the graph and the objects of the model, without any rule or view.
"""

from collections.abc import Iterable

from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.actions import Action, AnswerGate, Bind, CancelJob, EndPod, SubmitJob
from sunk_sync.core.model.calls import GateCall
from sunk_sync.core.model.facts import (
    NEEDED,
    WORKLOADS_NEED,
    Attempt,
    BindTried,
    Job,
    News,
    Observed,
    Pod,
)
from sunk_sync.core.model.job_identity import hosts_digest
from sunk_sync.core.model.keys import workload_key, workload_key_of
from sunk_sync.core.model.names import SCHEDULED_CONDITION
from sunk_sync.core.model.pod_spec import OtherPod, PodSpec, PodTerm
from sunk_sync.core.model.verdict import Decision
from sunk_sync.core.reconciler import Reconciler
from sunk_sync.core.translate.job_states import is_waiting
from tests.core.checks import HistoryError, check_listed
from tests.core.workload_world import WorkloadWorld

LIVE = frozenset({"PENDING", "RUNNING", "SUSPENDED"})


class JobEvidence:
    """What this process has learnt of submissions, bindings and ended jobs."""

    def __init__(self) -> None:
        self.sent_s: dict[str, float] = {}
        """When each submission without an answer was sent, by workload."""
        self.ended: set[tuple[str, str]] = set()
        """UID of a Pod and id of its ended job."""
        self.tried: set[tuple[str, str]] = set()
        """UID of a Pod and id of the job of a binding without an answer."""

    def observe(self, one: News) -> None:
        match one:
            case Attempt():
                self.sent_s[one.workload] = one.sent_s
            case BindTried():
                self.tried.add((one.uid, one.job_id))
            case Observed(row=Job() as job) if is_live(job):
                self.sent_s.pop(job.identity.workload, None)  # this is the submitted job
            case Observed(row=Job() as job):
                self.ended |= {(uid, job.job_id) for uid in uids(job)}


class WorkloadSafety:
    """Checks the writes that are allowed for workloads and hosts."""

    def __init__(self, graph: Graph, world: WorkloadWorld, evidence: JobEvidence) -> None:
        self._graph = graph
        self._world = world
        self._evidence = evidence
        self._configuration = graph.configuration

    def check(self, decision: Decision) -> None:
        """Raise HistoryError if an action is not safe."""
        if decision.key[0] == "workload":
            check_listed(decision.allowed, (*NEEDED, *WORKLOADS_NEED), self._graph)
            self._check_binds(decision.allowed)
        for action in decision.allowed:
            match action:
                case Bind():
                    self._check_bind(action)
                case CancelJob():
                    self._check_cancel(action)
                case EndPod():
                    self._check_end(action)
                case SubmitJob():
                    self._check_submit(action)
                case AnswerGate() if action.go:
                    self._check_gate(action)
                case _:
                    pass

    # Rows of the graph

    def _pods(self) -> dict[str, Pod]:
        return {row.uid: row for row in self._graph.pods.rows()}

    def _live(self, uid: str) -> list[Job]:
        return [job for job in self._graph.jobs.rows() if is_live(job) and uid in uids(job)]

    def _confirmed(self, pod: Pod, slurm_node: str, *, since_s: float = float("-inf")) -> bool:
        """A job of the Pod was read as RUNNING there, by a read begun since then."""
        return any(
            is_live(entry.row)
            and "RUNNING" in entry.row.state
            and slurm_node in entry.row.slurm_nodes
            and pod.uid in uids(entry.row)
            and entry.order >= since_s
            for entry in self._graph.jobs.entries.values()
        )

    # P11, G1

    def _check_binds(self, actions: Iterable[Action]) -> None:
        binds = [action for action in actions if isinstance(action, Bind)]
        if len({bind.node_name for bind in binds}) < len(binds):
            raise HistoryError(f"bind: two Pods of one workload to one Node: {binds}")
        if len({bind.job_id for bind in binds}) > 1:
            raise HistoryError(f"bind: by two jobs: {binds}")

    def _check_bind(self, bind: Bind) -> None:
        graph = self._graph
        job = graph.jobs.get(bind.job_id)
        host = graph.claims.host_of_node(bind.node_name)
        pod = self._pods().get(bind.reference.uid)
        if job is None or "RUNNING" not in job.state or host not in job.slurm_nodes:
            raise HistoryError(f"bind: {bind} to {host} though its job is {job}")
        if pod is None or pod.uid not in uids(job):
            raise HistoryError(f"bind: {bind} by a job of others: {job}")
        if job.script and not job.started and bind.job_id not in graph.workloads.memory.started:
            raise HistoryError(f"bind: {bind} before its script started")
        others = [one for one in self._live(pod.uid) if "RUNNING" in one.state]
        if len(others) > 1:
            raise HistoryError(f"bind: {bind} while several jobs of it run: {others}")
        for other in graph.pods.rows():
            stands = other.node_name == bind.node_name and not other.ended
            if stands and other.uid not in uids(job) and not self._confirmed(other, host):
                raise HistoryError(f"bind: {bind} beside {other}, whose job is not confirmed")
            if other.node_name and not other.ended and other.uid not in uids(job):
                self._check_beside(bind, pod, other)
        for taken in self._world.others.values():
            for foreign, _ in taken.pods:
                self._check_beside(bind, pod, _as_pod(foreign, taken.node_name))

    # P8

    def _check_beside(self, bind: Bind, pod: Pod, other: Pod) -> None:
        """No rule of the two forbids that they run on these Nodes."""
        for one, another in ((pod, other), (other, pod)):
            for term in one.spec.rules.apart:
                wanted = {(line.key, line.values[0]) for line in term.selector or ()}
                same = self._domain(bind.node_name, term) == self._domain(other.node_name, term)
                reads = wanted <= set(another.labels) and self._selects(term, another.namespace)
                if reads and same and self._domain(bind.node_name, term):
                    raise HistoryError(f"rules: {bind} beside {other}: {term}")
        ports = set(pod.spec.rules.ports) & set(other.spec.rules.ports)
        if ports and bind.node_name == other.node_name:
            raise HistoryError(f"rules: {bind} beside {other}: {ports}")

    def _selects(self, term: PodTerm, namespace: str) -> bool:
        """Whether the term reads this namespace, which is that of all Pods with rules."""
        row = self._graph.sources.tables["namespaces"].get(namespace)
        labels = set(row.labels) if row is not None else set()
        wanted = {(line.key, line.values[0]) for line in term.namespace_selector or ()}
        return wanted <= labels

    def _domain(self, node_name: str, term: PodTerm) -> str:
        row = self._graph.nodes.get(node_name)
        return dict(row.offer.labels).get(term.topology_key, "") if row is not None else ""

    # P13-P21, P29, G3

    def _check_cancel(self, cancel: CancelJob) -> None:
        job = self._graph.jobs.get(cancel.job_id)
        if job is None or job.name != cancel.name or not is_live(job):
            raise HistoryError(f"cancel: {cancel} though it is {job}")
        if not cancel.replaced:
            for uid in uids(job):
                self._check_over(cancel, uid)
            return
        self._check_doubt(cancel)
        pods = [pod for uid, pod in self._pods().items() if uid in uids(job)]
        if "RUNNING" in job.state and all(map(self._stands_well, pods)) and self._whole(job, pods):
            raise HistoryError(f"cancel: {cancel} though all its Pods live on its hosts: {pods}")

    def _check_doubt(self, cancel: CancelJob) -> None:
        """No Pod is really bound by a binding whose answer was lost (P14, P29)."""
        known = {pod.uid for pod in self._pods().values() if pod.node_name}
        for pod in self._world.workload.values():
            lost = (pod.uid, cancel.job_id) in self._evidence.tried and pod.uid not in known
            if lost and pod.node_name and pod.job_id == cancel.job_id and not pod.terminating:
                raise HistoryError(f"doubt: {cancel} though {pod} was bound by it")

    def _whole(self, job: Job, pods: list[Pod]) -> bool:
        return len(pods) == len(uids(job)) == len(job.slurm_nodes)

    def _stands_well(self, pod: Pod) -> bool:
        """The Pod is bound where its only live job runs, and is not about to end."""
        host = self._graph.claims.host_of_node(pod.node_name) if pod.node_name else ""
        live = self._live(pod.uid)
        alone = len(live) == 1 and host in live[0].slurm_nodes
        return bool(host) and alone and not (pod.terminating or pod.ended)

    def _check_over(self, cancel: CancelJob, uid: str) -> None:
        """The Pod does not exist, has ended, or will never start."""
        pod = self._pods().get(uid)
        if pod is None:
            truth = [one for one in self._world.workload.values() if one.uid == uid]
            if truth:
                raise HistoryError(f"orphan: {cancel} though {truth} exists")
        elif not (pod.ended or (pod.terminating and not pod.node_name) or self._is_stranded(pod)):
            raise HistoryError(f"cancel: {cancel} though {pod} lives")

    def _is_stranded(self, pod: Pod) -> bool:
        """The Pod terminates and its Node is gone: nobody else ever reports its end (P25b)."""
        return pod.terminating and pod.node_name not in self._world.nodes

    # P16, P19, P30, G3, G4

    def _check_end(self, end: EndPod) -> None:
        pod = self._pods().get(end.reference.uid)
        if pod is None or not pod.node_name:
            raise HistoryError(f"end: {end} of {pod}")
        live = self._live(pod.uid)
        host = self._graph.claims.host_of_node(pod.node_name)
        well = [one for one in live if "RUNNING" in one.state and host in ("", *one.slurm_nodes)]
        unbound = "a member cannot be bound" in end.message
        if any(self._unbroken(job, but_unbound=unbound) for job in well):
            raise HistoryError(f"end: {end} though a job of it runs: {well}")
        ended = [job for job in self._graph.jobs.rows() if pod.uid in uids(job)]
        was_read = (pod.uid, pod.job_id) in self._evidence.ended
        lost = end.weak and (self._configuration.lost_job == "end" or self._lacks_member(pod))
        if not (ended or was_read or lost):
            raise HistoryError(f"end: {end} though no job of it was read")

    def _lacks_member(self, pod: Pod) -> bool:
        """Fewer members of the gang are bound than its size (G3)."""
        if pod.gang is None:
            return False
        members = [
            one
            for one in self._pods().values()
            if (one.gang, one.namespace) == (pod.gang, pod.namespace)
            if one.node_name and not one.terminating
        ]
        return len(members) < (pod.gang.size or self._world.gang_sizes.get(pod.gang.name, 0))

    def _unbroken(self, job: Job, *, but_unbound: bool) -> bool:
        """No member of the gang is gone, terminates, was refused its Node, or is elsewhere.

        `but_unbound`: each member is bound, too.
        """
        pods = self._pods()
        members = [pods.get(uid) for uid in uids(job)]
        refused = self._graph.workloads.memory.bind_refusals
        return all(
            pod is not None
            and not pod.terminating
            and pod.uid not in refused
            and bool(pod.node_name or not but_unbound)
            and self._graph.claims.host_of_node(pod.node_name) in ("", *job.slurm_nodes)
            for pod in members
        )

    # P1, P17, F2

    def _check_submit(self, submit: SubmitJob) -> None:
        graph, identity = self._graph, submit.identity
        named = {pod.rpartition("/")[2] for pod in identity.pods}
        live = [job for uid in named for job in self._live(uid)]
        if live:
            raise HistoryError(f"submit: {submit} though {live} live")
        sent_s = self._evidence.sent_s.get(identity.workload)
        settle_s = self._configuration.settle_s
        if sent_s is not None and graph.jobs.listed_s < sent_s + settle_s:
            raise HistoryError(f"attempt: {submit} while one of {sent_s} may still happen")
        pods = self._pods()
        members = [pods[uid] for uid in named if uid in pods]
        if len(members) != len(named) or submit.description.slurm_nodes != len(named):
            raise HistoryError(f"submit: {submit} though its Pods are {members}")
        readopts = self._configuration.lost_job == "readopt" and submit.kind == "allocation"
        for pod in members:
            unfit = pod.ended or pod.terminating or pod.gated
            if unfit or (pod.node_name and not readopts):
                raise HistoryError(f"submit: {submit} for {pod}")
        self._check_cancelled(submit, members)

    def _check_cancelled(self, submit: SubmitJob, members: list[Pod]) -> None:
        if self._configuration.resubmit_cancelled or any(pod.node_name for pod in members):
            return
        named = {pod.uid for pod in members}
        ended = [job for job in self._graph.jobs.rows() if named & set(uids(job))]
        last = max(ended, key=lambda job: job.submitted_at, default=None)
        # Without a trace of its script on its hosts, Slurm itself may have ended it.
        began = last is not None and (last.started or last.signalled or not last.slurm_nodes)
        human = last is not None and "CANCELLED" in last.state and not last.identity.replaced
        if human and last is not None and last.script and not began and "COMPLETING" in last.state:
            raise HistoryError(f"human: {submit}, and the script of {last} may still run")
        human = human and (began or (last is not None and not last.script))
        for pod in members:
            job_id, _, resubmit = pod.cancelled.partition("/")
            stands = bool(pod.cancelled) and resubmit == pod.resubmit
            unmarked = human and last is not None and job_id != last.job_id
            if stands or unmarked:
                raise HistoryError(f"human: {submit} though cancelled: {pod}, {last}")

    # L7

    def _check_gate(self, answer: AnswerGate) -> None:
        call = self._graph.calls.gates.get(answer.call)
        if not isinstance(call, GateCall):
            return
        for pod in self._graph.pods.rows():
            over = pod.ended or self._is_stranded(pod)
            if not pod.node_name or over or self._its_own(pod, call):
                continue
            claims, name = self._graph.claims, answer.slurm_node
            claimed = claims.claim_of(name).node
            near = {claimed.row.name} if claimed is not None else claims.nodes_near(name)
            if pod.node_name in near and not self._confirmed(pod, name, since_s=call.asked_s):
                raise HistoryError(f"gate: {answer} beside {pod}")

    def _its_own(self, pod: Pod, call: GateCall) -> bool:
        job = self._graph.jobs.get(call.job_id)
        return job is not None and pod.uid in uids(job)


def is_live(job: Job) -> bool:
    return not LIVE.isdisjoint(job.state)


def uids(job: Job) -> list[str]:
    """Return the UIDs of the Pods that the job names."""
    return [pod.rpartition("/")[2] for pod in job.identity.pods]


def check_workload_rest(reconciler: Reconciler, world: WorkloadWorld) -> None:
    """Each Pod has at most one live job, gone Pods have none, and an unbound Pod says why."""
    pods = {row.uid: row for row in world.workload.values()}
    for job in world.jobs.rows.values():
        named = [pods[uid] for uid in uids(job) if uid in pods]
        if is_live(job) and not any(not pod.ended for pod in named):
            raise HistoryError(f"orphan: finally {job} lives, its Pods are {named}")
    for pod in pods.values():
        _check_pod(pod, reconciler, world)


def _check_exclusions(pod: Pod, live: list[Job], reconciler: Reconciler) -> None:
    """A waiting job excludes exactly the hosts that cannot take its Pod now (P7, P32)."""
    reach = reconciler.graph.workloads.reach(workload_key_of(pod), [pod])
    workload = reconciler.graph.workload(workload_key_of(pod))
    told = workload.request.description is not None
    full = [one.slurm_node for one in workload.history.hosts if one.full]
    excluded = tuple(sorted({*reach.excluded, *full}))
    fine = ("", reach.hosts, hosts_digest(excluded, required=reach.required))
    for job in live if pod.gang is None and told and not reach.unfit else ():
        if is_waiting(job) and job.identity.hosts not in fine:
            raise HistoryError(f"exclusions: {job} waits, and is to exclude {reach.excluded}")


def _check_pod(pod: Pod, reconciler: Reconciler, world: WorkloadWorld) -> None:
    live = world.jobs.live_for(pod.uid)
    if len(live) > 1:
        raise HistoryError(f"double: finally {pod} has {live}")
    if pod.terminating:
        raise HistoryError(f"rest: {pod} still ends")
    if pod.ended:
        return
    if pod.node_name:
        host = reconciler.graph.claims.host_of_node(pod.node_name)
        known = host in reconciler.graph.slurm_nodes.entries
        if live and known and host not in live[0].slurm_nodes:
            raise HistoryError(f"wrong: {pod} stands beside its job {live}")
        return
    _check_exclusions(pod, live, reconciler)
    standing = reconciler.standing.get(workload_key(workload_key_of(pod)))
    because = standing.verdict.because if standing is not None else ""
    shown = any(one.type == SCHEDULED_CONDITION and one.status == "False" for one in pod.conditions)
    if not shown and not pod.gated and because in ("", "in sync"):
        raise HistoryError(f"silent: {pod} waits, and nobody says why: {live}")


def _as_pod(other: OtherPod, node_name: str) -> Pod:
    spec = PodSpec(rules=other.rules)
    return Pod(
        namespace=other.namespace,
        name="other",
        uid="",
        labels=other.labels,
        spec=spec,
        node_name=node_name,
    )
