"""Build the parts of the service and run them until SIGTERM."""

import asyncio
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio

from sunk_sync import __version__
from sunk_sync.core.alarms import DoubleAllocation, SilentPlaceholders, kept_jobs, overwritten_jobs
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.reconciler import Reconciler
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.backoff import Ambient, Backoff
from sunk_sync.kube.api.client import KubeClient
from sunk_sync.server.live import Feed
from sunk_sync.server.metrics_server import Monitored, serve
from sunk_sync.server.operators import Operators, Questions
from sunk_sync.server.tokens import KeyFileError, read_key
from sunk_sync.service import gc_pauses
from sunk_sync.service.drift import DriftWatch
from sunk_sync.service.explanation import Explainer
from sunk_sync.service.explanation_text import lines
from sunk_sync.service.health import Health
from sunk_sync.service.hooks_key import kept_key
from sunk_sync.service.leadership import Leadership, own_address
from sunk_sync.service.overview import Overview
from sunk_sync.service.pausing import Pausing
from sunk_sync.service.slurm_metrics import Queue, metrics_poll
from sunk_sync.service.tracing import tracing
from sunk_sync.service.user_policy import PolicyWatch
from sunk_sync.service.wiring import (
    ALONE,
    UNKNOWN,
    Authorities,
    HooksSetup,
    Parts,
    Replica,
    Slurmctld,
    sources_of,
)
from sunk_sync.settings.model import Settings
from sunk_sync.slurm.api.answers import SlurmError
from sunk_sync.slurm.api.client import Access, SlurmClient
from sunk_sync.slurm.api.controller import read_conf
from sunk_sync.slurm.api.token import Token
from sunk_sync.slurm.api.transport import Network
from sunk_sync.telemetry.logs import Logs
from sunk_sync.telemetry.metrics import count_slurm_nodes
from sunk_sync.telemetry.telemetry import Telemetry

LOST = 1
"""Exit code after the loss of the Lease."""
GAUGES_EVERY_S = 5.0
OVERLAP_EVERY_S = 0.5
LISTED_WITHIN_S = 0.1


def run(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT. Return 0; 1 if it lost the Lease, 2 if it could not start."""
    logs = Logs(settings.log_level, settings.log_format, sys.stderr)
    try:
        with gc_pauses.in_pieces():
            return asyncio.run(_run_until_signal(Service(settings, logs)))
    finally:
        logs.close()
        gc_pauses.leave_it()


async def _run_until_signal(service: "Service") -> int:
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, service.stop)
    return await service.run()


class Service:
    def __init__(self, settings: Settings, logs: Logs) -> None:
        self.settings = settings
        self.log = logs.log
        self.telemetry = Telemetry(
            logs.log,
            cluster_name=settings.cluster_name,
            sources=sources_of(settings),
            dropped_lines=lambda: logs.writer.dropped,
        )
        self.clock = time.monotonic
        self.health = Health(clock=self.clock)
        self._stop = asyncio.Event()
        self._leadership: Leadership | None = None
        self._pausing: Pausing | None = None
        self._queue = Queue(self.clock)

    async def run(self) -> int:
        """Open the metrics server, then work until `stop`. A cancellation ends it like a kill."""
        self.log.info("starting", version=__version__)
        async with AsyncExitStack() as stack:
            servers = await stack.enter_async_context(self._servers())
            self.log.info("metrics server open", **servers.addresses)
            self._log_settings()
            await stack.enter_async_context(tracing(self.settings, self.telemetry))
            try:
                key = self._key_in_file()
            except KeyFileError as error:
                self.log.error("--hooks-key-file cannot be used", why=str(error))
                return 2
            kube = await self._connect()
            if kube is None:
                return 2
            stack.push_async_callback(kube.aclose)
            slurm = self._slurm_client()
            stack.push_async_callback(slurm.aclose)
            self._join_election(kube, slurm)
            return await self._work(kube, slurm, key)

    def _join_election(self, kube: KubeClient, slurm: SlurmClient) -> None:
        """From here on both clients send no write unless this replica leads (F6).

        A dry run writes nothing, not even the Lease.
        """
        if not self.settings.leader_elect or self.settings.dry_run:
            return
        self._leadership = Leadership(self.settings, kube, self.telemetry)
        kube.left_s = slurm.left_s = self._leadership.fence.left_s
        self.health.leader = self._leadership.check

    def stop(self) -> None:
        """Let `run` wait for the writes in flight and then return."""
        self._stop.set()

    def _servers(self) -> Any:
        return serve(
            Monitored(
                live=self.health.live,
                ready=self.health.ready,
                registry=self.telemetry.registry,
                labelled=self.telemetry.slurm_gauges.labelled,
                title=f"sunk-sync {self.settings.cluster_name}",
            ),
            metrics=self.settings.metrics_bind_address,
            health=self.settings.health_probe_bind_address,
        )

    def _log_settings(self) -> None:
        if self.settings.without_effect:
            names = list(self.settings.without_effect)
            self.log.warning("these settings have no effect yet", settings=names)
        if "scheduler" in self.settings.components:
            name, where = self.settings.scheduler_name, list(self.settings.watch_namespace)
            self.log.info("schedules pods", scheduler_name=name, namespaces=where)
        if self.settings.dry_run:
            self.log.warning("dry run: sunk-sync writes nothing")

    async def _connect(self) -> KubeClient | None:
        kubeconfig = self.settings.kubeconfig
        client = await KubeClient.connect(
            kubeconfig=str(kubeconfig) if kubeconfig else None,
            context=self.settings.context,
            on_exchange=self.telemetry.exchange,
            clock=self.clock,
        )
        if isinstance(client, KubeError):
            self.log.error("cannot reach Kubernetes", why=client.why)
            return None
        self.log.info("kubernetes", address=client.address)
        return client

    def _slurm_client(self) -> SlurmClient:
        chosen = self.settings
        secret, path = chosen.slurm_auth_token, chosen.slurm_auth_token_file
        return SlurmClient(
            Access(
                addresses=chosen.slurm_api_base,
                version=chosen.slurm_api_version,
                user_name=chosen.slurm_user_name or "",
            ),
            Token(
                text=secret.get_secret_value() if secret else "",
                path=str(Path(path)) if path else "",
            ),
            transport=Network(clock=self.clock),
            clock=self.clock,
            on_exchange=self.telemetry.exchange,
        )

    async def _work(self, kube: KubeClient, slurm: SlurmClient, key: bytes | None) -> int:
        """Read the UID of the cluster, then read, decide and write until stopped.

        key: the key in --hooks-key-file; None: use the one in the Secret.
        """
        uid = await self._unless_stopped(self._cluster_uid(kube))
        if uid is None:
            return 0
        key = key or await kept_key(
            kube, self.settings, log=self.log, namespace=kube.namespace, ambient=Ambient()
        )
        callers = HooksSetup(key, self.settings.hooks_url, self.telemetry.hooks.called)
        parts = Parts(
            self.settings,
            Authorities(
                kube=kube,
                slurm=slurm,
                cluster_uid=uid,
                callers=callers,
                slurmctld=await self._slurmctld(slurm),
                replica=self._replica(),
                operator=lambda: slurm.user,
            ),
            journal=self.telemetry,
            on_bad=self._on_bad,
            ambient=Ambient(clock=self.clock),
        )
        self.health.loop, self.health.reconciler = parts.loop, parts.reconciler
        async with AsyncExitStack() as hooks:
            address = await self._open_hooks(hooks, parts, kube)
            self._pausing = self._make_pausing(parts)
            await self._open_operators(hooks, parts, self._pausing)
            async with anyio.create_task_group() as election:
                if self._leadership is not None:
                    election.start_soon(self._take_part, self._leadership, parts, address)
                await self._write_until_stopped(parts, slurm, hooks)
                election.cancel_scope.cancel()
        if self._leadership is not None:
            await self._leadership.release()
        self.log.info("stopped")
        return LOST if self._leadership is not None and self._leadership.lost else 0

    async def _write_until_stopped(
        self, parts: Parts, slurm: SlurmClient, hooks: AsyncExitStack
    ) -> None:
        async with anyio.create_task_group() as writers:
            writers.start_soon(parts.outbox.run)
            await self._unless_stopped(self._run_parts(parts, slurm))
            self.health.stopping = True
            self.log.info("stopping", in_flight=parts.outbox.in_flight)
            await parts.stop_answering()
            await hooks.aclose()
            await parts.finish()
            writers.cancel_scope.cancel()

    def _replica(self) -> Replica:
        leadership = self._leadership
        if leadership is None:
            return ALONE
        return Replica(leadership.fence.left_s, lambda: leadership.leader_address)

    async def _take_part(self, leadership: Leadership, parts: Parts, address: str) -> None:
        """Stand by, lead, and stop this process if the Lease is lost: it then starts afresh."""
        leadership.on_change = lambda: self._lease_changed(parts)
        await leadership.run(address)
        self.stop()

    def _lease_changed(self, parts: Parts) -> None:
        parts.leader_changed()
        if self._pausing is not None:
            self._pausing.look_now()

    async def _open_hooks(self, stack: AsyncExitStack, parts: Parts, kube: KubeClient) -> str:
        """Return host:port at which other replicas reach the server; empty: it is off."""
        address = self.settings.hooks_api_bind_address
        if not self.settings.hooks_open or address is None:
            return ""
        bound = await stack.enter_async_context(parts.hooks.serve(address))
        self.telemetry.hooks.waiting(lambda: parts.hooks.calls.waiting)
        self.log.info("hooks server open", address=bound, url=self.settings.hooks_url)
        return own_address(bound, address, kubernetes=kube.address)

    def _make_pausing(self, parts: Parts) -> Pausing:
        return Pausing(
            self._leadership,
            parts.loop.tell,
            alarms=self.telemetry.alarm_gauges,
            wall_clock=Ambient().wall_clock,
        )

    async def _open_operators(self, stack: AsyncExitStack, parts: Parts, pausing: Pausing) -> None:
        address = self.settings.operators_bind_address
        if address is None:
            return
        explainer = Explainer(parts.loop, parts.outbox, clock=self.clock, queue=self._queue)
        overview = self._overview(parts)
        questions = Questions(
            explain=explainer.explain,
            text=lambda answer: "\n".join(lines(answer)),
            diff=overview.differences,
            status=overview.status,
            pause=pausing.order,
            feed=Feed(overview.tiles, overview.status, explainer.recent),
        )
        bound = await stack.enter_async_context(Operators(questions).serve(address))
        self.log.info("operators server open", address=bound)

    def _overview(self, parts: Parts) -> Overview:
        recent = self.telemetry.latencies.recent
        return Overview(parts.loop, parts.outbox, self.health, latencies=recent, clock=self.clock)

    async def _run_parts(self, parts: Parts, slurm: SlurmClient) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(parts.run)
            tasks.start_soon(self._set_gauges, parts, slurm)
            tasks.start_soon(gc_pauses.walk_everything_now_and_then)
            assert self._pausing is not None
            tasks.start_soon(self._pausing.run)
            if self._leadership is not None:
                await self._leadership.elected.wait()
                await self._pausing.look()
                await parts.take_over()
                self.log.info("writes from now on")
            if self.settings.slurm_metrics_interval_s:
                telemetry, queue = self.telemetry, self._queue
                poll = metrics_poll(self.settings, slurm, telemetry=telemetry, queue=queue)
                tasks.start_soon(self._count, "slurm", poll.run)
            tasks.start_soon(self._count, "differences", self._drift_watch(parts).run)
            if parts.schedules:
                tasks.start_soon(self._watch_overlap, parts.reconciler.graph)
            if parts.schedules and self.settings.hooks_api_bind_address is not None:
                tasks.start_soon(self._watch_unheard, parts.reconciler.graph)
            if parts.schedules and self.settings.user_policy is not None:
                journal = self.telemetry.alarm_gauges
                file = self.settings.user_policy
                tasks.start_soon(PolicyWatch(file, tell=parts.loop.tell, journal=journal).run)

    async def _count(self, what: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run it; a defect there ends these metrics, not the service."""
        try:
            await run()
        except Exception as error:
            self.log.error("metrics stopped until a restart", metrics=what, exc_info=error)

    def _drift_watch(self, parts: Parts) -> DriftWatch:
        find = self._overview(parts).all_differences
        return DriftWatch(
            find, self.telemetry.drift_gauges.show, clock=self.clock, sleep=anyio.sleep
        )

    async def _set_gauges(self, parts: Parts, slurm: SlurmClient) -> None:
        """Set the gauges that are too costly to update at every change."""
        told = {"kubernetes": 0, "slurm": 0}
        while True:
            for authority, work_queue in (
                ("kubernetes", parts.outbox.kube),
                ("slurm", parts.outbox.slurm),
            ):
                self.telemetry.depth(authority, work_queue.depth())
                self.telemetry.added(authority, work_queue.added - told[authority])
                told[authority] = work_queue.added
            if parts.leading.is_set():
                self._set_alarms(parts.reconciler)
            age_s = parts.reasons.age_s()
            self.telemetry.figures["sunk_sync_pending_reasons_age_seconds"] = age_s
            self.telemetry.token_expires(slurm.token.expires_at_s)
            await asyncio.sleep(GAUGES_EVERY_S)

    async def _watch_overlap(self, graph: Graph) -> None:
        """Sample often: a double allocation is short."""
        overlap = DoubleAllocation()
        while True:
            overlap.sample(graph, now=self.clock())
            self.telemetry.alarm_gauges.together(overlap.hosts, seconds=overlap.seconds)
            await asyncio.sleep(OVERLAP_EVERY_S)

    async def _watch_unheard(self, graph: Graph) -> None:
        unheard = SilentPlaceholders()
        while True:
            jobs = unheard.sample(graph, now=self.clock())
            self.telemetry.alarm_gauges.unheard([f"{job.job_id} {job.name}" for job in jobs])
            await asyncio.sleep(GAUGES_EVERY_S if graph.jobs.listed else LISTED_WITHIN_S)

    def _set_alarms(self, reconciler: Reconciler) -> None:
        graph, telemetry = reconciler.graph, self.telemetry
        alarm_gauges = telemetry.alarm_gauges
        telemetry.figures["sunk_sync_keys_out_of_service"] = len(reconciler.failures)
        alarm_gauges.drains_held(graph.holding.count if graph.holding else 0)
        alarm_gauges.ends_held(len(reconciler.policy.ends.held))
        alarm_gauges.jobs_kept([f"{job.job_id} {job.name}" for job in kept_jobs(graph)])
        unproven = graph.workloads.memory.unproven.values()
        alarm_gauges.jobs_unproven([f"{claim.job_id} {claim.name}" for claim, _ in unproven])
        overwritten = overwritten_jobs(graph)
        alarm_gauges.comments_overwritten([f"{job.job_id} {job.name}" for job in overwritten])
        alarm_gauges.conflicts(reconciler.contested())
        telemetry.node_set_gauges.show(graph.node_sets.complete())
        if graph.slurm_nodes.listed:
            states = [row.state for row in graph.slurm_nodes.rows()]
            telemetry.figures.update(count_slurm_nodes(states))

    def _key_in_file(self) -> bytes | None:
        path = self.settings.hooks_key_file
        return None if path is None else read_key(Path(path))

    async def _slurmctld(self, slurm: SlurmClient) -> Slurmctld:
        """Read slurmctld's configuration; return the defaults if that fails."""
        conf = await read_conf(slurm)
        if isinstance(conf, SlurmError):
            self.log.info(
                "cannot read slurm.conf: KillWait and MessageTimeout are settings or defaults",
                why=str(conf),
            )
            return UNKNOWN
        self.health.kill_wait = self._kill_wait_mistake(conf.kill_wait_s)
        return Slurmctld(conf.kill_wait_s, conf.message_timeout_s)

    def _kill_wait_mistake(self, kill_wait_s: float | None) -> str:
        """With a wrong KillWait, Pods are refused for nothing, or end after their job."""
        chosen_s = self.settings.slurm_kill_wait_s
        if None in (chosen_s, kill_wait_s) or chosen_s == kill_wait_s:
            return ""
        why = f"--slurm-kill-wait is {chosen_s:g} s, Slurm's KillWait is {kill_wait_s:g} s"
        self.log.warning("kill wait differs", why=why, cure="leave --slurm-kill-wait out")
        return why

    def _on_bad(self, kind: str, name: str, why: str) -> None:
        self.log.warning("ignoring an object that cannot be read", kind=kind, name=name, why=why)

    async def _cluster_uid(self, kube: KubeClient) -> str:
        """Ask for the UID of kube-system until Kubernetes answers: job identities contain it."""
        backoff = Backoff(Ambient())
        told = ""
        while isinstance(uid := await kube.cluster_uid(), KubeError):
            self.health.starting = f"waiting for Kubernetes: {uid.why}"
            if uid.why != told:
                told = uid.why
                self.log.warning("waiting for Kubernetes", address=kube.address, why=uid.why)
            await backoff.wait(uid.retry_after_s)
        return uid

    async def _unless_stopped(self, work: Awaitable[str | None]) -> str | None:
        """Return the result of the work, or None if the service is stopped first."""
        result: str | None = None

        async def cancel_when_stopped() -> None:
            await self._stop.wait()
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_when_stopped)
            result = await work
            tasks.cancel_scope.cancel()
        return result
