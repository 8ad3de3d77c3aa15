"""A workload without a job gets one (P1, P7, P10, P11a, P17): the only rule that submits."""

import zlib

from msgspec.structs import replace

from sunk_sync.core.model.actions import SubmitJob
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.job_description import JobDescription
from sunk_sync.core.model.job_identity import Identity, job_name
from sunk_sync.core.model.placeholder import AT_ONCE, QUEUED, PlaceholderKind
from sunk_sync.core.model.timing import A_MINUTE_MAX, doubled_s
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.counted import counted
from sunk_sync.core.translate.job_states import AGAIN, may_have_begun
from sunk_sync.core.views.conclusions import (
    REFUSED_AGAIN_S,
    cancelled_job,
    claims_in_words,
    end_in_words,
    exclusions,
    host_waited_for,
    is_open,
    named,
    pinned,
    refusal_ends_s,
    tried_again_s,
)
from sunk_sync.core.views.parts import SubmissionHistory
from sunk_sync.core.views.workload import EndedJobs, Workload

ENDED_AGAIN_S = 5.0
"""Pause after a job that ended by itself before its Pod was bound; doubled each time."""
GIVEN_UP_AGAIN_S = 2.0
"""Pause after the second job in a row that sunk-sync gave up; doubled each time. No pause follows
the first."""
A_MINUTE_S = 60.0
_OPEN = Ruling(because="a submission got no answer: looking for its job in Slurm first (F2)")


def submit(workload: Workload, configuration: Configuration, now: float) -> Ruling:
    """Submit one placeholder as soon as nothing prevents it."""
    members, description = workload.members, workload.request.description
    if workload.live is not None or not members.pods:
        return QUIET
    leaving = any(pod.ended or pod.terminating for pod in members.pods)
    if members.bound:
        return QUIET if leaving else _readopt(workload, configuration, now)
    if leaving:
        return QUIET
    prevented = _prevented(workload, configuration) or _not_yet(workload, configuration, now)
    if prevented is not None:
        return prevented
    assert description is not None  # else something of the request is missing or invalid
    action = _submission(workload, description, configuration, now)
    again_s = tried_again_s(workload.history, now)
    return Ruling((action,), f"job submitted for {named(workload)}", again_s)


def _prevented(workload: Workload, configuration: Configuration) -> Ruling | None:
    """Return what prevents a submission until some fact changes."""
    members, hosts = workload.members, workload.hosts
    if any(pod.gated for pod in members.pods):
        return Ruling(because="waits: the Pod has scheduling gates")
    if claims := claims_in_words(workload):
        return Ruling(because=f"waits: {claims}")
    if members.missing:
        return Ruling(because=f"waits: {members.missing}")
    if workload.request.invalid:
        return Ruling(because=f"refused: {workload.request.invalid}")
    if workload.request.unread:
        return Ruling(because=f"waits: {workload.request.unread}")
    if workload.volumes.waits:
        return Ruling(because=f"waits: {workload.volumes.waits}")
    if hosts.unfit:
        return Ruling(because=f"no host can take it: {hosts.unfit}")
    if waits := host_waited_for(workload):
        return Ruling(because=waits)
    cancelled = cancelled_job(members, workload.ended)
    if cancelled and not configuration.resubmit_cancelled:
        return Ruling(because=f"job {cancelled} was cancelled in Slurm: no new one")
    return None


def _not_yet(workload: Workload, configuration: Configuration, now: float) -> Ruling | None:
    submission, last = workload.submission, workload.ended.last
    if is_open(submission, configuration):
        return _OPEN
    refused_until_s = refusal_ends_s(submission, workload.request)
    if refused_until_s is not None and now < refused_until_s:
        assert submission.refused is not None
        why = f"Slurm refused the job: {submission.refused.text}"
        return Ruling(because=why, look_again_s=refused_until_s)
    if last is not None and may_have_begun(last):
        return Ruling(because=f"waits: {end_in_words(workload.ended)}")
    ended_until_s = _pause_ends_s(workload.ended)
    if last is not None and now < ended_until_s:
        why = f"{end_in_words(workload.ended)}: trying again soon"
        return Ruling(because=why, look_again_s=ended_until_s)
    return _brake(workload.id, workload.history, now)


def _brake(workload: str, history: SubmissionHistory, now: float) -> Ruling | None:
    """Replacements back off, and no workload is submitted more than five times a minute (P32)."""
    again_s = _replaced_again_s(workload, history)
    if now < again_s:
        jobs = counted(history.given_up, "job was", "jobs in a row were")
        why = f"{jobs} given up: another one follows after a pause"
        return Ruling(because=why, look_again_s=again_s)
    if len(history.sent_s) == A_MINUTE_MAX and now < history.sent_s[0] + A_MINUTE_S:
        why = f"{A_MINUTE_MAX} jobs were submitted within a minute: another one follows after it"
        return Ruling(because=why, look_again_s=history.sent_s[0] + A_MINUTE_S)
    return None


def _replaced_again_s(workload: str, history: SubmissionHistory) -> float:
    if history.given_up < 2:
        return 0.0
    doublings = history.given_up - 2
    pause_s = doubled_s(GIVEN_UP_AGAIN_S, doublings=doublings, longest_s=REFUSED_AGAIN_S)
    share = zlib.crc32(f"{workload} {history.given_up}".encode()) / 2**32
    return history.given_up_s + pause_s * (0.75 + share / 2)


def _pause_ends_s(ended: EndedJobs) -> float:
    last = ended.last
    if last is None or last.identity.replaced or not AGAIN.isdisjoint(last.state):
        return 0.0
    doublings = ended.by_itself - 1
    return ended.since_s + doubled_s(ENDED_AGAIN_S, doublings=doublings, longest_s=REFUSED_AGAIN_S)


def _submission(
    workload: Workload, description: JobDescription, configuration: Configuration, now: float
) -> SubmitJob:
    pods = workload.members.pods
    excluded, hosts = exclusions(workload, now=now)
    name = job_name(pods[0].namespace, pods[0].name, workload=workload.id)
    return SubmitJob(
        name=name,
        identity=Identity(
            cluster=configuration.cluster_uid,
            scheduler=configuration.scheduler,
            workload=workload.id,
            pods=tuple(sorted(f"{pod.namespace}/{pod.name}/{pod.uid}" for pod in pods)),
            digest=workload.request.digest,
            hosts=hosts,
            name=name,
        ),
        description=pinned(description, workload.hosts.required),
        excluded=excluded,
        kind=_kind(workload, description, configuration),
        created_s=max(pod.created_s for pod in pods),
        specs=tuple(dict.fromkeys(pod.spec for pod in pods)),
        volume_claims=tuple(sorted({claim for pod in pods for claim in pod.volume_claims})),
        alone=workload.hosts.ruled,
    )


def _kind(
    workload: Workload, description: JobDescription, configuration: Configuration
) -> PlaceholderKind:
    chosen = configuration.placeholder
    if chosen != "auto" and chosen in QUEUED:
        return chosen
    if workload.hosts.external:
        return "external"
    tried = workload.ended.allocation_refused or workload.submission.refused is not None
    # An allocation belongs to the token's own user, whichever user the job asks for (P5).
    as_root = not description.user_id and not description.group_id
    at_once = (chosen != "auto" or workload.gate) and as_root
    return "allocation" if at_once and workload.hosts.free and not tried else "script"


def _readopt(workload: Workload, configuration: Configuration, now: float) -> Ruling:
    """A Pod that lives without a job gets a job on its own host, or none (P30)."""
    wanted = configuration.lost_job == "readopt" and workload.lost and not _tried(workload)
    description, slurm_nodes = workload.request.description, workload.locations.slurm_nodes
    if not wanted or description is None or not all(slurm_nodes):
        return QUIET
    if is_open(workload.submission, configuration):
        return _OPEN
    there = replace(description, required_nodes=",".join(sorted(slurm_nodes)))
    submission = _submission(workload, there, configuration, now)
    action = replace(submission, excluded=(), kind="allocation")
    return Ruling((action,), f"{named(workload)} lives without a job: another one on its host")


def _tried(workload: Workload) -> bool:
    refused = workload.submission.refused
    return workload.ended.allocation_refused or (refused is not None and refused.kind in AT_ONCE)
