"""The only rule that updates jobs: a waiting job follows its Pods (P20) and their hosts (P7)."""

from msgspec.structs import replace

from sunk_sync.core.model.actions import UpdateJob
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.job_states import is_edited, is_waiting
from sunk_sync.core.views.conclusions import exclusions, pinned, tried_again_s
from sunk_sync.core.views.replacement import may_stay
from sunk_sync.core.views.workload import Workload


def update(workload: Workload, configuration: Configuration, now: float) -> Ruling:  # noqa: ARG001
    """Replace the description, or only the exclusions, of a job that waits and may stay."""
    live, request, hosts = workload.live, workload.request, workload.hosts
    if live is None or request.description is None or not is_waiting(live.job):
        return QUIET
    job = live.job
    edited = is_edited(job, request.digest)
    if not (edited or hosts.digest) or not may_stay(workload, live):
        return QUIET
    excluded, digest = exclusions(workload, now=now)
    again_s = tried_again_s(workload.history, now)
    if not edited and job.identity.hosts in (hosts.digest, digest):
        return Ruling(look_again_s=again_s)
    if "_" in job.job_id:  # all tasks of an array share one list, even after some were given up
        excluded, digest = hosts.excluded, hosts.digest
    action = UpdateJob(
        job_id=job.job_id,
        name=job.name,
        identity=replace(job.identity, digest=request.digest, hosts=digest or job.identity.hosts),
        description=pinned(request.description, hosts.required),
        excluded=excluded,
        change="edit" if edited else "hosts" if hosts.may_require else "exclusions",
    )
    why = "its Pod was edited" if edited else "other hosts can take its Pods now"
    return Ruling((action,), f"job {job.job_id} is updated: {why}", again_s)
