"""Placeholders whose script runs, as Slurm shows, and was never heard at the hooks door (L6).

Such a script is not told either that its Pods are gone: it holds its host until KillWait is over.
"""

from sunk_sync.facts import Job
from sunk_sync.graph import Graph
from sunk_sync.job_state import has_passed_prolog

PATIENCE_S = 30.0
"""A script calls at once; while nobody answers, it waits 10 s for that and 16 s before the next."""


class Unheard:
    """Counts jobs submitted after it began: of those before, another process may have heard."""

    def __init__(self) -> None:
        self._before: int | None = None
        """submit_time of the newest job there was; None: jobs were not listed yet."""
        self._since_s: dict[str, float] = {}

    def sample(self, graph: Graph, *, now: float) -> list[Job]:
        """Those that were silent for so long."""
        if self._before is None:
            self._begin(graph)
            return []
        rows = {row.job_id: row for row in _silent(graph) if row.submitted_at > self._before}
        self._since_s = {job_id: self._since_s.get(job_id, now) for job_id in rows}
        return [rows[one] for one, since_s in self._since_s.items() if now - since_s >= PATIENCE_S]

    def _begin(self, graph: Graph) -> None:
        if graph.jobs.listed:
            self._before = max((row.submitted_at for row in graph.jobs.rows()), default=0)


def _silent(graph: Graph) -> list[Job]:
    works = graph.works.works
    entries = graph.jobs.entries
    rows = [entries[one].row for one in works.ran_s if one not in works.started]
    return [row for row in rows if row.script and row.started and has_passed_prolog(row)]
