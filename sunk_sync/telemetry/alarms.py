"""States that an operator should know of: a figure, and one line whenever one begins or ends."""

from collections.abc import Iterable, Sequence

import structlog
from prometheus_client.metrics_core import Metric

from sunk_sync.telemetry.metrics import counted, gauged

Log = structlog.typing.FilteringBoundLogger
NAMED_MAX = 10
"""Of those that one line tells of."""


class AlarmGauges:
    """What is held back, contested or out of service now."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._drains = self._ends = self._conflicts = self._out_of_service = 0
        self._kept: frozenset[str] = frozenset()
        self._unheard = self._together = 0
        self._together_s = 0.0
        self._reasons_s = 0.0

    def out_of_service(self, count: int) -> None:
        """So many keys are left alone because a rule failed on them."""
        self._out_of_service = count

    def drains_held(self, count: int) -> None:
        """So many drains are held by the breaker (S19)."""
        if count and not self._drains:
            self._log.warning("drains held", count=count, cure="see --max-drains-per-minute")
        elif self._drains and not count:
            self._log.info("drains released", held_before=self._drains)
        self._drains = count

    def ends_held(self, count: int) -> None:
        """The ends of so many workloads' Pods are held (P31)."""
        if count and not self._ends:
            cure = "see --max-pod-ends-per-minute"
            self._log.warning("ends of Pods held", workloads=count, cure=cure)
        elif self._ends and not count:
            self._log.info("ends of Pods released", held_before=self._ends)
        self._ends = count

    def jobs_kept(self, jobs: Sequence[str]) -> None:
        """These stay because nobody knows whether their Pods live (P21).

        No Event says so: where Pods may not be read, none may be written about them either.
        """
        more = [job for job in jobs if job not in self._kept]
        if more:
            level = self._log.info if self._kept else self._log.warning
            cure = "let us read Pods in their namespaces, or scancel them"
            named = ", ".join(more[:NAMED_MAX])
            level("jobs kept: their Pods cannot be read", jobs=len(more), first=named, cure=cure)
        elif self._kept and not jobs:
            self._log.info("no job is kept any more", kept_before=len(self._kept))
        self._kept = frozenset(jobs)

    def unheard(self, jobs: Sequence[str]) -> None:
        """The scripts of these run, and none of them ever reached the hooks server (L6)."""
        if jobs and not self._unheard:
            cure = "--hooks-url must lead from the compute nodes to --hooks-api-bind-address"
            named = ", ".join(jobs[:NAMED_MAX])
            event = "placeholders run that the hooks server never heard"
            self._log.warning(event, jobs=len(jobs), first=named, cure=cure)
        elif self._unheard and not jobs:
            self._log.info("no placeholder runs unheard", unheard_before=self._unheard)
        self._unheard = len(jobs)

    def together(self, hosts: int, *, seconds: float) -> None:
        """On so many hosts another job runs beside a Pod whose job has ended (P25).

        `seconds`: for how long in all, since this process began.
        """
        if hosts and not self._together:
            self._log.warning("jobs run beside Pods that still end", hosts=hosts)
        elif self._together and not hosts:
            self._log.info("no job runs beside a Pod that still ends", seconds=round(seconds, 1))
        self._together, self._together_s = hosts, seconds

    def conflicts(self, count: int) -> None:
        """So many Slurm nodes are claimed more than once (S16)."""
        if count != self._conflicts:
            level = self._log.warning if count > self._conflicts else self._log.info
            level("conflicting claims", slurm_nodes=count, before=self._conflicts)
        self._conflicts = count

    def reasons_age(self, seconds: float) -> None:
        """So old are Slurm's reasons of jobs that wait, at most (P26)."""
        self._reasons_s = seconds

    def figures(self) -> Iterable[Metric]:
        """For a scrape."""
        yield gauged("sunk_sync_drains_held", self._drains)
        yield gauged("sunk_sync_pod_ends_held", self._ends)
        yield gauged("sunk_sync_jobs_kept", len(self._kept))
        yield gauged("sunk_sync_placeholders_unheard", self._unheard)
        yield gauged("sunk_sync_pending_reasons_age_seconds", self._reasons_s)
        yield gauged("sunk_sync_conflicts", self._conflicts)
        yield gauged("sunk_sync_keys_out_of_service", self._out_of_service)
        yield counted("sunk_sync_double_allocation_seconds_total", self._together_s)
