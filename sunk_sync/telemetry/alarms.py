"""States that an operator should know of: a figure, and one line whenever one begins or ends."""

from collections.abc import Sequence

import structlog

from sunk_sync.telemetry.metrics import Figures

Log = structlog.typing.FilteringBoundLogger
NAMED_MAX = 10
"""Of those that one line tells of."""


class AlarmGauges:
    """What is held back, contested or out of service now."""

    def __init__(self, log: Log, figures: Figures) -> None:
        self._log = log
        self._figures = figures
        self._kept: frozenset[str] = frozenset()
        self._together = 0

    def _set(self, name: str, count: float) -> int:
        """What it read before."""
        before, self._figures[name] = self._figures[name], count
        return int(before)

    def drains_held(self, count: int) -> None:
        """So many drains are held by the breaker (S19)."""
        before = self._set("sunk_sync_drains_held", count)
        if count and not before:
            self._log.warning("drains held", count=count, cure="see --max-drains-per-minute")
        elif before and not count:
            self._log.info("drains released", held_before=before)

    def ends_held(self, count: int) -> None:
        """The ends of so many workloads' Pods are held (P31)."""
        before = self._set("sunk_sync_pod_ends_held", count)
        if count and not before:
            cure = "see --max-pod-ends-per-minute"
            self._log.warning("ends of Pods held", workloads=count, cure=cure)
        elif before and not count:
            self._log.info("ends of Pods released", held_before=before)

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
        self._set("sunk_sync_jobs_kept", len(self._kept))

    def unheard(self, jobs: Sequence[str]) -> None:
        """The scripts of these run, and none of them ever reached the hooks server (L6)."""
        before = self._set("sunk_sync_placeholders_unheard", len(jobs))
        if jobs and not before:
            cure = "--hooks-url must lead from the compute nodes to --hooks-api-bind-address"
            named = ", ".join(jobs[:NAMED_MAX])
            event = "placeholders run that the hooks server never heard"
            self._log.warning(event, jobs=len(jobs), first=named, cure=cure)
        elif before and not jobs:
            self._log.info("no placeholder runs unheard", unheard_before=before)

    def together(self, hosts: int, *, seconds: float) -> None:
        """On so many hosts another job runs beside a Pod whose job has ended (P25).

        `seconds`: for how long in all, since this process began.
        """
        if hosts and not self._together:
            self._log.warning("jobs run beside Pods that still end", hosts=hosts)
        elif self._together and not hosts:
            self._log.info("no job runs beside a Pod that still ends", seconds=round(seconds, 1))
        self._together = hosts
        self._set("sunk_sync_double_allocation_seconds_total", seconds)

    def conflicts(self, count: int) -> None:
        """So many Slurm nodes are claimed more than once (S16)."""
        before = self._set("sunk_sync_conflicts", count)
        if count != before:
            level = self._log.warning if count > before else self._log.info
            level("conflicting claims", slurm_nodes=count, before=before)
