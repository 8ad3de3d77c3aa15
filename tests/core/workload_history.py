"""Random histories with workload Pods, placeholder jobs and calls at the hooks server."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from sunk_sync.core.model.actions import AnswerGate, AnswerStop, Bind, SubmitJob
from sunk_sync.core.model.calls import GateCall, JobNotice, StopCall
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import (
    Attempt,
    BindTried,
    News,
    Node,
    Pod,
    SlurmdPod,
    SlurmNode,
)
from sunk_sync.core.model.outcomes import Outcome, Unsure
from sunk_sync.core.model.pod_spec import Gang, GangKind, Offer, PodSpec
from sunk_sync.core.model.user_policy import PolicyRead, Rules, UserPolicy
from sunk_sync.core.model.verdict import Decision
from tests.core.checks import ReadSet
from tests.core.history import History
from tests.core.workload_checks import JobEvidence, WorkloadSafety, check_workload_rest
from tests.core.workload_reads import WorkloadReads, check_indexes
from tests.core.workload_world import WorkloadWorld
from tests.core.world_changes import NODES, SLURM_NODES
from tests.kit.build import CLUSTER_UID, OFFER, SCHEDULER, SMALL, node, pod, slurm_node, slurmd_pod

SINGLES = ("w1", "w2", "w3")
MEMBERS = ("g1", "g2", "g3")
PICKY = PodSpec(requests=SMALL.requests, grace_s=5, node_selector=(("zone", "x"),))
HUNGRY = PodSpec(requests=(("cpu", 15_500), ("memory", 1 << 30)), grace_s=5)
BROKEN = PodSpec(requests=SMALL.requests, grace_s=600)
SETTINGS = (
    (),
    (("constraints", "a"),),
    (("constraints", "b"),),
    (("partition", "a"),),
    (("timeout", "soon"),),
)
OPEN = Rules(users=((0, 0),), partitions=None)
POLICIES = (
    UserPolicy((("*", OPEN),)),
    UserPolicy((("*", Rules(users=((0, 0),))),)),
    UserPolicy((("*", Rules(users=((5, 5),), default_user=5, partitions=None)),)),
    UserPolicy((("other", OPEN),)),
)


class WorkloadHistory(History):
    """Run one seed. HistoryError carries the last steps in its notes."""

    world: WorkloadWorld

    def _world(self) -> WorkloadWorld:
        return WorkloadWorld(self.rng)

    def _configuration(self) -> Configuration:
        choose = self.rng.choice
        return Configuration(
            cluster_uid=CLUSTER_UID,
            scheduler=SCHEDULER,
            gate=choose(("auto", "on", "off")),
            placeholder=choose(("auto", "auto", "script", "allocation")),
            lost_job=choose(("keep", "readopt", "end")),
            resubmit_cancelled=self.rng.random() < 0.2,
            max_pod_ends_per_minute=choose((None, None, 1)),
        )

    def _kinds(self) -> tuple[Callable[[], None], ...]:
        mine = (self._change_workload, self._change_jobs, self._call, self._change_policy)
        return (*super()._kinds(), *dict.fromkeys(mine))

    def _prepare(self) -> None:
        """Make hosts that can take Pods, then a few changes."""
        self.gangs = self.rng.random() < 0.5
        self.calls = 0
        for number in "123":
            self.world.put_node(node(f"k{number}", uid=self._uid(), offer=self._offer(number)))
            self.world.put_pod(
                slurmd_pod(f"n{number}", name=f"p{number}", uid=self._uid(), node_name=f"k{number}")
            )
            self.world.put_slurm_node(slurm_node(f"n{number}"))
        for _ in range(4):
            self._change_workload()

    def _start(self) -> None:
        super()._start()
        self.evidence_of_jobs = JobEvidence()
        self.safety = WorkloadSafety(self.graph, self.world, self.evidence_of_jobs)
        self.world.calls.clear()

    def _read_set(self) -> ReadSet:
        return WorkloadReads(self.graph)

    def _before_observing(self, news: Sequence[News]) -> None:
        for one in news:
            self.evidence_of_jobs.observe(one)

    def _check(self, decision: Decision) -> None:
        super()._check(decision)
        self.safety.check(decision)

    def _check_graph(self) -> None:
        super()._check_graph()
        check_indexes(self.graph)

    # Changes

    def _changed_node(self, row: Node) -> Node:
        if self.rng.random() < 0.15:
            given = bool(row.offer.allocatable)
            return replace(row, offer=node().offer if given else self._offer(row.name[1:]))
        return super()._changed_node(row)

    def _changed_slurm_node(self, row: SlurmNode) -> SlurmNode:
        if self.rng.random() < 0.1:
            return replace(row, state=row.state ^ {"EXTERNAL"})
        return super()._changed_slurm_node(row)

    def _changed_pod(self, row: SlurmdPod) -> SlurmdPod:
        if self.rng.random() < 0.1:
            cpu = self.rng.choice((1000, 15_500))
            return replace(row, requests=(("cpu", cpu), ("memory", 1 << 30)))
        return super()._changed_pod(row)

    def _offer(self, number: str) -> Offer:  # noqa: ARG002
        """Return what Node k1, k2 or k3 offers."""
        return OFFER

    def _change_workload(self) -> None:
        names = (*SINGLES, *MEMBERS) if self.gangs else SINGLES
        name, world = self.rng.choice(names), self.world
        row = world.workload.get(name)
        if row is not None and (row.terminating or self.rng.random() < 0.12):
            self._note("drop", row)
            if row.node_name and not row.terminating:
                world.put_workload(replace(row, terminating=True))
            else:
                world.drop_workload(name)
            return
        row = self._new_workload(name) if row is None else self._changed_workload(row)
        self._note("put", row)
        world.put_workload(row)

    def _new_workload(self, name: str) -> Pod:
        rng = self.rng
        gang = None
        if name in MEMBERS:
            kind: GangKind = (
                "group" if self.world.gang_sizes or rng.random() < 0.3 else "annotation"
            )
            if kind == "group":
                self.world.gang_sizes["g"] = 2
            gang = Gang(kind, "g", 0 if kind == "group" else 2)
        return pod(
            name,
            uid=self._uid(),
            gang=gang,
            created_s=self.uid,
            gated=rng.random() < 0.15,
            spec=self._spec(),
        )

    def _spec(self) -> PodSpec:
        return self.rng.choice((SMALL, SMALL, SMALL, SMALL, PICKY, BROKEN))

    def _changed_workload(self, row: Pod) -> Pod:
        rng = self.rng
        match rng.randrange(12):
            case 0:
                return replace(row, terminating=True)
            case 1 | 2:
                return replace(row, settings=rng.choice(SETTINGS))
            case 3 if row.node_name:
                return replace(row, ended=True, phase="Succeeded")
            case 4 if not (row.node_name or row.gated) and rng.random() < 0.4:
                return replace(row, node_name=rng.choice(NODES))
            case 7 | 8:
                return replace(row, resubmit=rng.choice(("", "1", "2")))
            case 5 if rng.random() < 0.3:
                return replace(row, spec=HUNGRY)
            case 6 if row.gang is not None and rng.random() < 0.2:
                return replace(row, gang=None)
            case _:
                return replace(row, gated=False)

    def _change_policy(self) -> None:
        """The file of --user-policy changes, so other requests are refused (P5)."""
        if self.rng.random() < 0.3:
            self._observe((PolicyRead(self.rng.choice(POLICIES)),))

    def _change_jobs(self) -> None:
        jobs = self.world.jobs
        what = jobs.duplicate() if self.rng.random() < 0.04 else jobs.happen()
        self._note("slurm:", what)

    def _call(self) -> None:
        """The hooks server is called, or a call ends."""
        rng, world = self.rng, self.world
        if world.calls and rng.random() < 0.3:
            self._observe(world.end_call(rng.choice(list(world.calls))))
            return
        jobs = list(world.jobs.rows.values())
        job = rng.choice(jobs) if jobs else None
        job_id = "999" if job is None or rng.random() < 0.3 else job.job_id
        now = world.now
        self.calls += 1
        call: GateCall | StopCall | JobNotice
        match rng.randrange(4):
            case 0:
                held = job.slurm_nodes if job is not None else ()
                names = held or (rng.choice(SLURM_NODES),)
                call = GateCall(self.calls, job_id, names, now, now + 60)
            case 1:
                call = StopCall(self.calls, job_id, now, now + rng.choice((5.0, 30.0)))
            case 2:
                call = JobNotice(job_id, "ended", now)
            case _:
                started = job is not None and "RUNNING" in job.state
                call = JobNotice(job_id, "started" if started else "starting", now)
        if not isinstance(call, JobNotice):
            world.calls[call.call] = call
        self._observe([call])

    # Answers

    def _answer(self, *, lost: bool = False) -> None:
        """A lost answer is Unsure; that of a submission contains the attempt (F2)."""
        if lost:
            key, outcome, sent_s = self.answers[0]
            self.answers[0] = (key, _unsure(outcome, self.world.now), sent_s)
        _, outcome, _ = self.answers[0]
        super()._answer()
        match outcome.action:
            case _ if isinstance(outcome, Unsure):
                pass
            case AnswerStop(call=call) | AnswerGate(call=call, go=True):
                self._observe(self.world.end_call(call))

    # Convergence

    def _heal(self) -> None:
        world = self.world
        world.faulty = False
        world.jobs.late.clear()
        for number in list(world.calls):
            self._observe(world.end_call(number))
        super()._heal()
        world.tick(301.0)
        self._settle()
        self._relist()

    def _round(self) -> bool:
        self.world.kubelets()
        self.world.jobs.calm()
        return super()._round()

    def _rests_s(self) -> Sequence[float]:
        """Where Slurm counts more room than Kubernetes, a job is tried again after a pause."""
        histories = self.graph.workloads.memory.submissions.of.values()
        again = any(history.given_up > 1 or history.hosts for history in histories)
        return super()._rests_s()[: 3 if again else 4]

    def _check_rest(self) -> None:
        super()._check_rest()
        check_workload_rest(self.reconciler, self.world)


def _unsure(outcome: Outcome, now: float) -> Unsure:
    action = outcome.action
    sent: tuple[News, ...] = ()
    if isinstance(action, SubmitJob):
        sent = (Attempt(action.identity.workload, now),)
    elif isinstance(action, Bind):
        sent = (BindTried(action.reference.uid, action.job_id, now, action.slurm_node),)
    return Unsure(action, "the connection broke", seen=sent)
