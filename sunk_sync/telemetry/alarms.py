"""Alarms: one gauge each, and one log line when the condition starts or ends."""

from collections.abc import Sequence

import structlog

from sunk_sync.core.model.user_policy import UserPolicy
from sunk_sync.core.translate.user_policy import restricted_in_users_alone
from sunk_sync.telemetry.metrics import Figures

Log = structlog.typing.FilteringBoundLogger
NAMED_MAX = 10
"""Names in one log line."""
PROBLEM_MAX = 300


class AlarmGauges:
    def __init__(self, log: Log, figures: Figures) -> None:
        self._log = log
        self._figures = figures
        self._kept: frozenset[str] = frozenset()
        self._unproven: frozenset[str] = frozenset()
        self._overwritten: frozenset[str] = frozenset()
        self._together = 0
        self._policy_wrong = ""

    def _set(self, name: str, count: float) -> int:
        """Set the gauge; return its value before."""
        before, self._figures[name] = self._figures[name], count
        return int(before)

    def drains_held(self, count: int) -> None:
        before = self._set("sunk_sync_drains_held", count)
        if count and not before:
            self._log.warning("drains held", count=count, cure="see --max-drains-per-minute")
        elif before and not count:
            self._log.info("drains released", held_before=before)

    def paused(self, why: str) -> None:
        """Report that an operator paused sunk-sync, or let it go on (empty)."""
        self._set("sunk_sync_paused", bool(why))
        if why:
            self._log.warning("paused: nothing is written", why=why, cure="sunk-sync resume")
        else:
            self._log.info("resumed")

    def ends_held(self, count: int) -> None:
        """Report the number of workloads whose Pods the breaker keeps (P31)."""
        before = self._set("sunk_sync_pod_ends_held", count)
        if count and not before:
            cure = "see --max-pod-ends-per-minute"
            self._log.warning("deletions of Pods held", workloads=count, cure=cure)
        elif before and not count:
            self._log.info("deletions of Pods released", held_before=before)

    def jobs_kept(self, jobs: Sequence[str]) -> None:
        """Report the jobs that stay because sunk-sync cannot read their Pods (P21).

        There is no Event: without permission to read Pods there is none to write Events.
        """
        more = [job for job in jobs if job not in self._kept]
        if more:
            level = self._log.info if self._kept else self._log.warning
            cure = "allow sunk-sync to read Pods in these namespaces, or scancel the jobs"
            named = ", ".join(more[:NAMED_MAX])
            level(
                "jobs not cancelled: sunk-sync cannot read their Pods",
                jobs=len(more),
                first=named,
                cure=cure,
            )
        elif self._kept and not jobs:
            self._log.info(
                "sunk-sync can read the Pods of all jobs again", kept_before=len(self._kept)
            )
        self._kept = frozenset(jobs)
        self._set("sunk_sync_jobs_kept", len(self._kept))

    def jobs_unproven(self, jobs: Sequence[str]) -> None:
        """Report live jobs that look like ours, while nothing proves whose they are (P23)."""
        more = [job for job in jobs if job not in self._unproven]
        if more:
            cure = "scancel them if their Pods are gone; sunk-sync does not touch them"
            named = ", ".join(more[:NAMED_MAX])
            event = "jobs look like ours, but nothing proves it"
            self._log.warning(event, jobs=len(more), first=named, cure=cure)
        elif self._unproven and not jobs:
            self._log.info("no job without a proof is left", unproven_before=len(self._unproven))
        self._unproven = frozenset(jobs)
        self._set("sunk_sync_jobs_unproven", len(self._unproven))

    def comments_overwritten(self, jobs: Sequence[str]) -> None:
        """Report live jobs whose admin_comment somebody overwrote (P23)."""
        more = [job for job in jobs if job not in self._overwritten]
        if more:
            cure = "let prologs and people write into comment instead"
            named = ", ".join(more[:NAMED_MAX])
            event = "somebody overwrote the admin_comment of our jobs"
            level = self._log.info if self._overwritten else self._log.warning
            level(event, jobs=len(more), first=named, cure=cure)
        self._overwritten = frozenset(jobs)
        self._set("sunk_sync_jobs_comment_overwritten", len(self._overwritten))

    def policy_wrong(self, why: str) -> None:
        """Report what is wrong with the file of --user-policy; empty: nothing is (P5)."""
        if why and why != self._policy_wrong:
            first, *more = why.splitlines()
            cure = "correct the file; until then its last good version applies"
            event = "the file of --user-policy is wrong"
            self._log.error(event, why=first[:PROBLEM_MAX], more=len(more), cure=cure)
        elif self._policy_wrong and not why:
            self._log.info("the file of --user-policy is right again")
        self._policy_wrong = why
        self._set("sunk_sync_user_policy_wrong", int(bool(why)))

    def policy_applied(self, policy: UserPolicy) -> None:
        """Report a policy that applies from now on, and which namespaces it leaves open."""
        users_alone = restricted_in_users_alone(policy)
        named = ", ".join(users_alone[:NAMED_MAX])
        self._log.info(
            "user policy applies", namespaces=len(policy.namespaces), users_alone=named or None
        )

    def unheard(self, jobs: Sequence[str]) -> None:
        """Report the jobs whose script runs but never reached the hooks server (L6)."""
        before = self._set("sunk_sync_placeholders_unheard", len(jobs))
        if jobs and not before:
            cure = "--hooks-url must lead from the compute nodes to --hooks-api-bind-address"
            named = ", ".join(jobs[:NAMED_MAX])
            event = "placeholders run, but never called the hooks server"
            self._log.warning(event, jobs=len(jobs), first=named, cure=cure)
        elif before and not jobs:
            self._log.info(
                "all running placeholders have called the hooks server", unheard_before=before
            )

    def together(self, hosts: int, *, seconds: float) -> None:
        """Report the hosts on which a job runs beside a Pod whose own job has ended (P25).

        seconds: the sum over all hosts since this process started.
        """
        if hosts and not self._together:
            self._log.warning("jobs run beside Pods that still terminate", hosts=hosts)
        elif self._together and not hosts:
            self._log.info(
                "no job runs beside a Pod that still terminates", seconds=round(seconds, 1)
            )
        self._together = hosts
        self._set("sunk_sync_double_allocation_seconds_total", seconds)

    def conflicts(self, count: int) -> None:
        """Report the number of Slurm nodes that more than one object claims (S16)."""
        before = self._set("sunk_sync_conflicts", count)
        if count != before:
            level = self._log.warning if count > before else self._log.info
            level("conflicting claims", slurm_nodes=count, before=before)
