"""Readers, loop, outbox and hooks around one graph: all parts but connections and servers."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import anyio
from msgspec import Struct, convert
from msgspec.structs import replace

from sunk_sync.controller.loop import Journal, Loop, TakeOver
from sunk_sync.controller.outbox import Outbox, Writers
from sunk_sync.controller.workqueue import Limits, Writer
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.actions import Action, SubmitJob
from sunk_sync.core.model.calls import GateCall, JobNotice, LockCall
from sunk_sync.core.model.claims import Claim, Vouched
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import (
    OTHER_PODS,
    VOLUME_SOURCES,
    News,
    Source,
    Tell,
)
from sunk_sync.core.model.job_identity import given_name
from sunk_sync.core.model.node_set_actions import (
    DeleteNode,
    GetJobEnds,
    OfNodeSets,
    RequeueJobs,
    SetReservation,
)
from sunk_sync.core.model.outcomes import Done, Outcome, Unsure
from sunk_sync.core.model.placeholder import QUEUED
from sunk_sync.core.policy import Policy
from sunk_sync.core.reconciler import Reconciler
from sunk_sync.core.tables.sources import sources_from_start
from sunk_sync.core.workloads.vouching import vouched
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.backoff import Ambient
from sunk_sync.kube.api.fencing import unlimited
from sunk_sync.kube.read.first_claim import FirstClaim
from sunk_sync.kube.read.listing import OnBad
from sunk_sync.kube.read.other_pods import OtherPods
from sunk_sync.kube.read.selection import COLLECTIONS, Selection, SelectionScope
from sunk_sync.kube.read.watch import Watch, WatchClient
from sunk_sync.kube.write.push import KubePush, RelistOne
from sunk_sync.server.hooks import FOR_WORKLOADS, Hooks, Rest
from sunk_sync.server.pass_on import PassOn
from sunk_sync.server.placeholder import script_of
from sunk_sync.server.tokens import make_token
from sunk_sync.settings.model import Settings
from sunk_sync.slurm.api.client import Slurm
from sunk_sync.slurm.read.job_ends import JobEndsRead
from sunk_sync.slurm.read.job_owners import JobOwners
from sunk_sync.slurm.read.jobs import JobPoll, JobPollTiming
from sunk_sync.slurm.read.nodes import AlsoRead, NodePoll
from sunk_sync.slurm.read.pacing import PollTiming, Time
from sunk_sync.slurm.read.pending_reasons import JobReasons
from sunk_sync.slurm.write.jobs import JobPush
from sunk_sync.slurm.write.nodes import SlurmPush
from sunk_sync.slurm.write.records import RecordPush
from sunk_sync.slurm.write.requeue import RequeuePush, is_requeueable
from sunk_sync.slurm.write.reservations import ReservationPush
from sunk_sync.slurm.write.submit import SubmitContext
from sunk_sync.telemetry.exchange import Called

SLURM_LIMITS = Limits(concurrency=6, batch=500, leisurely=2, leisurely_batch=16)
KUBE_LIMITS = Limits(concurrency=16, batch=1, leisurely=12)
JOB_LIMITS = Limits(concurrency=8, batch=64, leisurely=4, leisurely_batch=256)
HOOK_LIMITS = Limits(concurrency=1, batch=1000, leisurely=1, leisurely_batch=1000)
NODESETS: Final = "nodesets"
"""The component that makes slurmd Pods."""
FINISH_S = 8.0
"""Time for writes in flight at SIGTERM; less than Kubernetes' default grace period of 30 s."""
KILL_WAIT_S: Final = 30.0
"""Slurm's default."""
MESSAGE_TIMEOUT_S: Final = 10.0
"""Slurm's default."""
SETTLE_MARGIN_S: Final = 2.0
"""Only a listing this long after MessageTimeout proves that a submission did not happen (F2)."""


class Slurmctld(Struct, frozen=True):
    """Values of slurm.conf; None: unknown, so the defaults apply."""

    kill_wait_s: float | None = None
    message_timeout_s: float | None = None


UNKNOWN: Final = Slurmctld()


class HooksSetup(Struct, frozen=True):
    """The key and address of the hooks server, and the journal of its calls."""

    key: bytes
    url: str
    """URL at which compute nodes reach the hooks server."""
    called: Callable[[Called], None]


class Replica(Struct, frozen=True):
    """The place of one process among several that share an election (F6)."""

    left_s: Callable[[], float] = unlimited
    """Seconds that a write may still take; zero or less: it must not be sent."""
    leader: Callable[[], str] | None = None
    """Returns host:port of the leader's hooks server, or an empty text. None: no election, so this
    process leads."""


ALONE: Final = Replica()


class Authorities(Struct, frozen=True):
    """Kubernetes and Slurm, as readers and writers need them."""

    kube: WatchClient
    slurm: Slurm
    cluster_uid: str
    """UID of the namespace kube-system, which identifies this Kubernetes cluster."""
    callers: HooksSetup
    slurmctld: Slurmctld = UNKNOWN
    replica: Replica = ALONE
    operator: Callable[[], str] = str
    """Returns the name of Slurm's user whose token sunk-sync has; empty: unknown."""


class Parts:
    def __init__(
        self,
        settings: Settings,
        authorities: Authorities,
        *,
        journal: Journal,
        on_bad: OnBad,
        ambient: Ambient,
    ) -> None:
        kube, slurm = authorities.kube, authorities.slurm
        self._slurm = slurm
        self.configuration = configuration_of(
            settings, cluster_uid=authorities.cluster_uid, slurmctld=authorities.slurmctld
        )
        self.graph = Graph(self.configuration)
        self.reconciler = Reconciler(graph=self.graph, policy=Policy())
        self._callers, self._replica = authorities.callers, authorities.replica
        self.leading = asyncio.Event()
        """Set once this replica decides what to write."""
        self._pass_on = self._standby_calls(authorities.replica)
        selections = selections_of(settings)
        self._first_claim = FirstClaim(self._tell, kube, selections=selections, ambient=ambient)
        self._watches = {
            source: Watch(kube, each, tell=self._tell_of(source), on_bad=on_bad, ambient=ambient)
            for source, each in selections.items()
        }
        self._nodes = selections["nodes"].decoder
        self._poll = self._poll_of_nodes(settings, ambient)
        job_owners = self._owners_of_jobs(authorities)
        self._job_poll = self._poll_of_jobs(settings, job_owners, ambient)
        self.reasons = JobReasons(slurm, job_owners=job_owners, time=_time(ambient))
        self.hooks = Hooks(self._callers.key, self._hear, clock=ambient.clock, rest=self._rest())
        self.outbox = Outbox(
            self._writers(kube, job_owners, ambient), clock=ambient.clock, random=ambient.random
        )
        self.loop = Loop(
            reconciler=self.reconciler, outbox=self.outbox, journal=journal, clock=ambient.clock
        )
        self.loop.leading = not self._stands_by()
        self._clock = ambient.clock

    def _owners_of_jobs(self, authorities: Authorities) -> JobOwners:
        ours = self.configuration
        return JobOwners(ours.owns, operator=authorities.operator, vouch=self._vouch)

    def _tell_of(self, source: Source) -> Tell:
        """Return the receiver of its news: Pods of other schedulers reach the graph as sums."""
        if source == "pods":
            return self._first_claim.tell
        return OtherPods(self._tell).tell if source == OTHER_PODS else self._tell

    def _timing(self, settings: Settings) -> PollTiming:
        return PollTiming(interval_s=settings.slurm_poll_interval_s, stands_by=self._stands_by)

    def _stands_by(self) -> bool:
        return not self.leading.is_set()

    def _standby_calls(self, replica: Replica) -> PassOn | None:
        if replica.leader is None:
            self.leading.set()
            return None
        return PassOn(self._stands_by, replica.leader)

    def _poll_of_nodes(self, settings: Settings, ambient: Ambient) -> NodePoll:
        return NodePoll(
            self._slurm,
            self._tell,
            timing=self._timing(settings),
            time=_time(ambient),
            also=AlsoRead(
                asks_age=self.graph.node_sets.registrations.is_ready_pod_without_record,
                usage=settings.pack != "off",
            ),
        )

    def _poll_of_jobs(self, settings: Settings, job_owners: JobOwners, ambient: Ambient) -> JobPoll:
        timing = self._timing(settings)
        return JobPoll(
            self._slurm,
            self._tell,
            job_owners=job_owners,
            timing=JobPollTiming(busy=self._awaits_jobs, while_busy=timing),
            time=_time(ambient),
        )

    def _writers(self, kube: WatchClient, job_owners: JobOwners, ambient: Ambient) -> Writers:
        clock = ambient.clock
        context = SubmitContext(self._script, self._is_wanted)
        self._job_push = JobPush(self._slurm, clock, job_owners=job_owners, context=context)
        self._record_push = RecordPush(self._slurm, clock)
        self._requeue_push = RequeuePush(self._slurm, clock)
        self._job_ends = JobEndsRead(self._slurm, clock)
        self._reservation_push = ReservationPush(self._slurm, clock, ambient.wall_clock)
        usage = self.graph.configuration.pack != "off"
        self._node_push = SlurmPush(
            self._slurm, clock=clock, tell=self._tell_node_reads, usage=usage
        )
        return Writers(
            slurm=Writer(self._push_nodes, SLURM_LIMITS),
            jobs=Writer(self._push_jobs, JOB_LIMITS, self._job_push.split),
            kube=Writer(self._kube_push(kube, ambient).push, KUBE_LIMITS),
            hooks=Writer(self._answer_calls, HOOK_LIMITS),
        )

    async def _tell_node_reads(self, news: Sequence[News]) -> None:
        """Take the reads of single nodes before their writes."""
        self._poll.touched()
        await self._tell(news)

    async def _push_nodes(self, actions: Sequence[Action]) -> Sequence[Outcome]:
        """Push, then notify the poll: these answers may be newer than a listing in progress."""
        ends = [action for action in actions if isinstance(action, DeleteNode)]
        jobs = [action for action in actions if isinstance(action, RequeueJobs)]
        ends_of_jobs = [action for action in actions if isinstance(action, GetJobEnds)]
        reservations = [action for action in actions if isinstance(action, SetReservation)]
        others = [action for action in actions if not isinstance(action, OfNodeSets)]
        outcomes = [
            *await self._node_push.push(others),
            *await self._record_push.push(ends),
            *await self._requeue_push.push(jobs),
            *await self._reservation_push.push(reservations),
            *await self._job_ends.push(ends_of_jobs),
        ]
        self._poll.touched()
        place = {id(one.action): one for one in outcomes}
        return [place[id(action)] for action in actions]

    async def _answer_calls(self, actions: Sequence[Action]) -> Sequence[Outcome]:
        """An answer is a write too: it lets a job start."""
        if self._replica.left_s() <= 0:
            return [Unsure(action, "not sent: this replica does not lead") for action in actions]
        return await self.hooks.push(actions)

    async def _push_jobs(self, actions: Sequence[Action]) -> Sequence[Outcome]:
        """Push, then list jobs at once: a submitted job may run immediately."""
        outcomes = await self._job_push.push(actions)
        if any(isinstance(one, Done) and _is_to_start(one.action) for one in outcomes):
            self._job_poll.poll_now()
        return outcomes

    def _kube_push(self, kube: WatchClient, ambient: Ambient) -> KubePush:
        relist: dict[Source, RelistOne] = {
            source: watch.relist for source, watch in self._watches.items()
        }
        return KubePush(
            kube,
            relist=relist | {"jobs": self._relist_jobs},
            clock=ambient.clock,
            wall_clock=ambient.wall_clock,
            nodes=self._nodes,
        )

    @property
    def schedules(self) -> bool:
        return bool(self.configuration.scheduler)

    def _vouch(self, claim: Claim) -> Vouched:
        return vouched(self.graph.workloads, claim)

    def _awaits_jobs(self) -> bool:
        return self.graph.workloads.awaits_jobs()

    async def _relist_jobs(self, after_s: float) -> KubeError | None:
        failure = await self._job_poll.relist(after_s)
        return None if failure is None else KubeError(kind="connection", why=str(failure))

    def _script(self, action: SubmitJob) -> str:
        return script_of(
            url=self._callers.url,
            token=make_token(self._callers.key, action.name),
            kill_wait_s=self.configuration.kill_wait_s,
        )

    def _is_wanted(self, action: SubmitJob) -> bool:
        return self.outbox.stands(action)

    def _rest(self) -> Rest:
        return Rest(
            ready=self._why_not_ready,
            subject=self._subject,
            requeueable=self._is_requeueable,
            called=self._callers.called,
            locks=self.configuration.lock,
            pass_on=self._pass_on,
        )

    def _why_not_ready(self, path: str) -> str:
        if self._stands_by() or self._replica.left_s() <= 0:
            return "this replica does not lead"
        if path in FOR_WORKLOADS and not self.schedules:
            return "sunk-sync runs without component scheduler"
        sources = self.graph.sources
        missing = sources.unlisted
        if self.schedules:
            missing = (*missing, *sources.workloads_unlisted)
        return f"not listed yet: {', '.join(missing)}" if missing else ""

    def _subject(self, job_id: str) -> str | None:
        job = self.graph.jobs.get(job_id)
        return None if job is None else given_name(job.name, job.identity)

    async def _is_requeueable(self, job_id: str) -> bool:
        return await is_requeueable(self._slurm, job_id)

    async def _hear(self, news: Sequence[News]) -> None:
        """Take news of calls; a call shows a change in Slurm, so list the jobs now."""
        if any(isinstance(one, GateCall | LockCall | JobNotice) for one in news):
            self._job_poll.poll_now()
        await self._tell(news)

    async def run(self) -> None:
        """Read and decide until cancelled. The outbox runs separately, because it ends later."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.loop.run)
            tasks.start_soon(self._poll.run)
            if self.schedules:
                tasks.start_soon(self._job_poll.run)
                tasks.start_soon(self._read_reasons)
                tasks.start_soon(self._first_claim.find_selected)
            for source, watch in self._watches.items():
                tasks.start_soon(self._follow, source, watch)

    async def _follow(self, source: Source, watch: Watch) -> None:
        """Read one source; volumes only once a Pod has a claim."""
        if source in VOLUME_SOURCES:
            await self._first_claim.seen.wait()
        await watch.run()

    async def _read_reasons(self) -> None:
        await self.leading.wait()
        await self.reasons.run()

    async def take_over(self) -> None:
        """Become the leader: read all of Slurm anew, then decide and write.

        What the last leader wrote just before is in these listings. If Slurm cannot be read, policy
        holds back what needs it, as in any outage.
        """
        now = self._clock()
        async with anyio.create_task_group() as polls:
            polls.start_soon(self._poll.poll_after, now)
            if self.schedules:
                polls.start_soon(self._job_poll.relist, now)
        await self.loop.tell([TakeOver()])
        self.leading.set()
        self.leader_changed()

    def leader_changed(self) -> None:
        """Let the callers ask again that wait for an answer of the last leader."""
        if self._pass_on is not None:
            self._pass_on.let_go()

    async def stop_answering(self) -> None:
        """End all calls of the hooks with 503: their callers ask again."""
        self.hooks.calls.end()
        if self._pass_on is not None:
            await self._pass_on.aclose()

    async def finish(self) -> None:
        """Wait at most FINISH_S for the answers to the writes in flight."""
        await self.outbox.finish(FINISH_S)
        self.loop.flush()

    async def _tell(self, news: Sequence[News]) -> None:
        await self.loop.tell(news)


def _is_to_start(action: Action) -> bool:
    return isinstance(action, SubmitJob) and action.kind in QUEUED


def _time(ambient: Ambient) -> Time:
    return Time(clock=ambient.clock, sleep=ambient.sleep, random=ambient.random)


def configuration_of(
    settings: Settings, *, cluster_uid: str, slurmctld: Slurmctld = UNKNOWN
) -> Configuration:
    """Return the settings that rules and policy read, with the values of slurm.conf.

    A field of Configuration takes the setting of the same name.
    """
    schedules = "scheduler" in settings.components
    return replace(
        convert(settings, Configuration, from_attributes=True),
        cluster_uid=cluster_uid,
        namespace=settings.own_namespace,
        scheduler=settings.scheduler_name if schedules else "",
        watch_namespaces=settings.watch_namespace,
        slurmd_namespaces=settings.slurmd_namespace,
        namespace_rules=settings.user_policy.policy if settings.user_policy else None,
        watch_all_pods=watches_all_pods(settings),
        node_sets=NODESETS in settings.components,
        kill_wait_s=settings.slurm_kill_wait_s or slurmctld.kill_wait_s or KILL_WAIT_S,
        settle_s=(slurmctld.message_timeout_s or MESSAGE_TIMEOUT_S) + SETTLE_MARGIN_S,
    )


def selections_of(settings: Settings) -> Mapping[Source, Selection]:
    scope = SelectionScope(
        slurmd_namespace=settings.slurmd_namespace,
        slurmd_selector=settings.slurmd_selector,
        watch_namespace=settings.watch_namespace,
        scheduler_name=settings.scheduler_name,
        schedules="scheduler" in settings.components,
        watch_all_pods=watches_all_pods(settings),
        node_sets=NODESETS in settings.components,
    )
    read = {source: one for source, one in COLLECTIONS.items() if one.is_read(scope)}
    return {source: one.selection(scope) for source, one in read.items()}


def sources_of(settings: Settings) -> Sequence[Source]:
    return sources_from_start(
        scheduler="scheduler" in settings.components,
        all_pods=watches_all_pods(settings),
        node_sets=NODESETS in settings.components,
    )


def watches_all_pods(settings: Settings) -> bool:
    """Return whether to read Pods of other schedulers, which only the scheduler needs."""
    return settings.watch_all_pods and "scheduler" in settings.components
