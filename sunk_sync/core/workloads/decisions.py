"""What later facts need to know about a decision: only the reconciler notes it, no view."""

from sunk_sync.core.model.actions import CancelJob
from sunk_sync.core.model.verdict import Verdict
from sunk_sync.core.workloads.snapshot import WorkloadSnapshots
from sunk_sync.core.workloads.workloads import Workloads


class Decisions:
    def __init__(self, workloads: Workloads, snapshots: WorkloadSnapshots) -> None:
        self._lists = workloads.lists
        self._submissions = workloads.memory.submissions
        self._snapshots = snapshots

    def note(self, key: str, verdict: Verdict) -> None:
        """Note who follows the hosts at once (P7), and on which full hosts a job is given up."""
        if verdict.follows:
            self._lists.following[key] = None
        if any(isinstance(want, CancelJob) and want.replaced for want in verdict.wants):
            self._note_given_up(key)

    def _note_given_up(self, key: str) -> None:
        """Note it while the cause is there: the room may be back when the job's end is read.

        Once the job is marked as given up, no later decision says why.
        """
        live, full = self._snapshots.workload(key).live, self._submissions.full
        if live is None or (live.job.identity.replaced and live.job.job_id in full):
            return
        names = [one.slurm_node for one in live.placements if one.full]
        full[live.job.job_id] = frozenset(names)
