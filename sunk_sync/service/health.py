"""The checks of /livez and /readyz, each with one sentence.

An outage of Slurm or Kubernetes never fails /livez. It fails /readyz only until the first listing.
"""

from collections.abc import Callable, Sequence

from sunk_sync.controller.loop import Loop
from sunk_sync.core.alarms import kept_jobs
from sunk_sync.core.model.facts import (
    NEEDED,
    NODE_SETS,
    OTHER_PODS,
    VOLUME_SOURCES,
    Source,
)
from sunk_sync.core.reconciler import Reconciler
from sunk_sync.core.rules.cluster.selector import selects_too_little
from sunk_sync.core.translate.counted import counted
from sunk_sync.kube.read.selection import COLLECTIONS
from sunk_sync.server.metrics_server import Check, heartbeat

BEAT_LIMIT_S = 30.0
WORLD_OF: dict[Source, str] = {
    "slurm_nodes": "slurm",
    "jobs": "slurm: jobs",
    **{source: f"kubernetes: {one.title}" for source, one in COLLECTIONS.items()},
}


class Health:
    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.starting = "starting"
        self.stopping = False
        self.loop: Loop | None = None
        self.reconciler: Reconciler | None = None
        self.kill_wait = ""
        """Why --slurm-kill-wait is wrong; empty: it is not, or Slurm does not report KillWait."""
        self.leader: Callable[[], Check] | None = None
        """Says which replica leads; None: there is no election."""

    def live(self) -> Sequence[Check]:
        """Check only that the loop runs."""
        if self.loop is None:
            return [Check("loop", "ok", self.starting)]
        return [heartbeat("loop", self._clock() - self.loop.beat_s, BEAT_LIMIT_S)]

    def ready(self) -> tuple[bool, Sequence[Check]]:
        """Check that both sides were listed once and the process is not stopping."""
        if self.reconciler is None:
            return False, [Check("start", "failed", self.starting)]
        checks = [self._source(source) for source in self._sources()]
        listed = not any(check.ok == "failed" for check in checks)
        checks += [
            self._paused(),
            self._selector(),
            self._claims(),
            *self._kill_wait(),
            self._holding(),
            *self._workloads(),
            self._service(),
        ]
        if self.leader is not None:
            checks.append(self.leader())
        if self.stopping:
            checks.append(Check("shutdown", "failed", "stopping"))
        return listed and not self.stopping, checks

    def _sources(self) -> Sequence[Source]:
        """Return the sources that sunk-sync reads: volumes only while a Pod has a claim."""
        assert self.reconciler is not None
        graph = self.reconciler.graph
        volumes = VOLUME_SOURCES if graph.workloads.volumes.active else ()
        return [*graph.sources.from_start, *volumes]

    def _source(self, source: Source) -> Check:
        assert self.reconciler is not None
        graph = self.reconciler.graph
        table = graph.sources.tables[source]
        name = WORLD_OF[source]
        if not table.listed:
            needed = source in NEEDED or bool(graph.configuration.scheduler)
            needed = needed and source not in (NODE_SETS, *VOLUME_SOURCES)
            return Check(name, "failed" if needed else "degraded", f"not listed yet: {table.why}")
        rows = len(table.entries)
        if source == OTHER_PODS:
            rows = self.reconciler.graph.workloads.feasible_hosts.counted
        if table.live:
            age_s = self._clock() - table.agreed_s
            return Check(name, "ok", f"{counted(rows, 'row')}, last proved whole {age_s:.0f} s ago")
        seen = f"{counted(rows, 'row')} as last seen"
        return Check(name, "degraded", f"cannot be read: {table.why}; {seen}")

    def _paused(self) -> Check:
        assert self.reconciler is not None
        why = self.reconciler.graph.paused
        return Check("pause", "degraded" if why else "ok", why or "not paused")

    def _selector(self) -> Check:
        assert self.reconciler is not None
        if selects_too_little(self.reconciler.graph.cluster()):
            return Check("selector", "degraded", "selector: most marked Pods match no listing")
        return Check("selector", "ok", "slurmd Pods are found where our marks say")

    def _claims(self) -> Check:
        assert self.reconciler is not None
        contested = self.reconciler.contested()
        if contested:
            text = f"{contested} claimed more than once: sunk-sync diff names them"
            return Check("claims", "degraded", text)
        return Check("claims", "ok", "no Slurm node is claimed twice")

    def _kill_wait(self) -> Sequence[Check]:
        return (Check("kill wait", "degraded", self.kill_wait),) if self.kill_wait else ()

    def _holding(self) -> Check:
        assert self.reconciler is not None
        holding = self.reconciler.graph.holding
        if holding is None or not holding.count:
            return Check("drains", "ok", "none held")
        return Check("drains", "degraded", f"{holding.count} held until a second listing agrees")

    def _workloads(self) -> Sequence[Check]:
        """Check held deletions of Pods (P31) and kept jobs (P21)."""
        assert self.reconciler is not None
        if not self.reconciler.graph.configuration.scheduler:
            return ()
        held = len(self.reconciler.policy.ends.held)
        kept = len(kept_jobs(self.reconciler.graph))
        ends, jobs = Check("ends of pods", "ok", "none held"), Check("kept jobs", "ok", "none")
        if held:
            ends = Check(ends.name, "degraded", f"{held} held until the Nodes were read again")
        if kept:
            jobs = Check(jobs.name, "degraded", f"{kept}: nobody knows whether their Pods live")
        return ends, jobs

    def _service(self) -> Check:
        assert self.reconciler is not None
        failures = self.reconciler.failures
        if not failures:
            return Check("rules", "ok", "every key is served")
        named = ", ".join(key[1] or key[0] for key in list(failures)[:5])
        return Check(
            "rules", "degraded", f"{counted(len(failures), 'key')} out of service: {named}"
        )
