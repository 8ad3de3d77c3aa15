"""Jobs of ours that stay because nobody knows whether their Pods live (P21)."""

from sunk_sync.facts import Job
from sunk_sync.graph import Graph
from sunk_sync.job_state import is_live
from sunk_sync.work_keys import uids_of


def kept_jobs(graph: Graph) -> list[Job]:
    """Which; one whose Pods were only just asked for is not among them."""
    ids = {one for key in graph.works.orphaned() for one in graph.works.works.job_ids(key)}
    rows = [graph.jobs.entries[one].row for one in sorted(ids)]
    return [row for row in rows if _is_kept(graph, row)]


def _is_kept(graph: Graph, job: Job) -> bool:
    if not is_live(job):
        return False
    works = graph.works.works
    absent = [
        uid
        for uid in uids_of(job.identity)
        if uid not in works.key_of_uid and uid not in works.gone
    ]
    if not job.identity.pods:
        return bool(absent) and not graph.works.watches(job)
    answers = [works.sightings[uid] for uid in absent if uid in works.sightings]
    return any(answer.found == "unknown" for answer in answers)
