"""A workload without a job gets one (P1, P7, P10, P11a, P17): the only rule that submits."""

import zlib

from msgspec.structs import replace

from sunk_sync.core.model.actions import SubmitJob
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.job_identity import Identity, job_name
from sunk_sync.core.model.placeholder import AT_ONCE, QUEUED, Kind
from sunk_sync.core.model.timing import A_MINUTE_MAX
from sunk_sync.core.model.verdict import QUIET, Ruling
from sunk_sync.core.translate.job_states import AGAIN
from sunk_sync.core.views.conclusions import (
    REFUSED_AGAIN_S,
    TRIED_AGAIN_S,
    cancelled_job,
    exclusions,
    is_open,
    named,
    refusal_ends_s,
    waited_for,
)
from sunk_sync.core.views.workload import Workload

ENDED_AGAIN_S = 5.0
"""After a job that ended by itself before its Pod was bound; doubled each time."""
GIVEN_UP_AGAIN_S = 2.0
"""After the second job in a row that we gave up; doubled each time. The first has no pause."""
A_MINUTE_S = 60.0
_OPEN = Ruling(because="a submission got no answer: looking for its job in Slurm first (F2)")


def submit(workload: Workload, configuration: Configuration, now: float) -> Ruling:
    """One placeholder, as soon as nothing speaks against it."""
    if workload.job is not None or not workload.pods:
        return QUIET
    if workload.bound:
        return _readopt(workload, configuration, now)
    if any(pod.ended or pod.terminating for pod in workload.pods):
        return QUIET
    against = _against(workload, configuration, now)
    if against is not None:
        return against
    assert workload.description is not None
    action = _submission(workload, configuration, now)
    return Ruling((action,), f"job submitted for {named(workload)}", _tried_again_s(workload, now))


def _against(workload: Workload, configuration: Configuration, now: float) -> Ruling | None:
    """What speaks against a submission now."""
    if any(pod.gated for pod in workload.pods):
        return Ruling(because="waits: scheduling gates stand")
    if workload.missing:
        return Ruling(because=f"waits: {workload.missing}")
    if workload.invalid:
        return Ruling(because=f"refused: {workload.invalid}")
    if workload.unfit:
        return Ruling(because=f"no host can take it: {workload.unfit}")
    if workload.not_ready:
        return Ruling(because=waited_for(workload))
    cancelled = cancelled_job(workload)
    if cancelled and not configuration.resubmit_cancelled:
        return Ruling(because=f"job {cancelled} was cancelled in Slurm: no new one")
    return _not_yet(workload, configuration, now)


def _not_yet(workload: Workload, configuration: Configuration, now: float) -> Ruling | None:
    if is_open(workload, configuration):
        return _OPEN
    refused_until_s = refusal_ends_s(workload)
    if refused_until_s is not None and now < refused_until_s:
        assert workload.refused is not None
        why = f"Slurm refused the job: {workload.refused.text}"
        return Ruling(because=why, look_again_s=refused_until_s)
    ended_until_s = _rest_ends_s(workload)
    if workload.last is not None and now < ended_until_s:
        why = f"job {workload.last.job_id} ended before its Pod was bound: trying again soon"
        return Ruling(because=why, look_again_s=ended_until_s)
    return _brake(workload, now)


def _brake(workload: Workload, now: float) -> Ruling | None:
    """P32: replacements back off, and no workload is submitted more than five times a minute."""
    again_s = _replaced_again_s(workload)
    if now < again_s:
        why = f"{workload.given_up} jobs in a row were given up: another one follows after a pause"
        return Ruling(because=why, look_again_s=again_s)
    if len(workload.sent_s) == A_MINUTE_MAX and now < workload.sent_s[0] + A_MINUTE_S:
        why = f"{A_MINUTE_MAX} jobs were submitted within a minute: another one follows after it"
        return Ruling(because=why, look_again_s=workload.sent_s[0] + A_MINUTE_S)
    return None


def _tried_again_s(workload: Workload, now: float) -> float | None:
    """When the next of its hosts may be tried again; None: none is kept from it."""
    times = [since_s + TRIED_AGAIN_S for _, since_s in workload.given_up_on]
    return min([time for time in times if now < time], default=None)


def _replaced_again_s(workload: Workload) -> float:
    if workload.given_up < 2:
        return 0.0
    pause_s = min(GIVEN_UP_AGAIN_S * 2.0 ** min(workload.given_up - 2, 10), REFUSED_AGAIN_S)
    share = zlib.crc32(f"{workload.id} {workload.given_up}".encode()) / 2**32
    return workload.given_up_s + pause_s * (0.75 + share / 2)


def _rest_ends_s(workload: Workload) -> float:
    last = workload.last
    if last is None or last.identity.replaced or not AGAIN.isdisjoint(last.state):
        return 0.0
    return workload.last_s + min(ENDED_AGAIN_S * 2.0 ** max(workload.ends - 1, 0), REFUSED_AGAIN_S)


def _submission(workload: Workload, configuration: Configuration, now: float) -> SubmitJob:
    assert workload.description is not None
    first = workload.pods[0]
    return SubmitJob(
        name=job_name(first.namespace, first.name, workload=workload.id),
        identity=Identity(
            cluster=configuration.cluster_uid,
            scheduler=configuration.scheduler,
            workload=workload.id,
            pods=tuple(sorted(f"{pod.namespace}/{pod.name}/{pod.uid}" for pod in workload.pods)),
            digest=workload.digest,
            hosts=workload.hosts,
        ),
        description=workload.description,
        excluded=exclusions(workload, now=now),
        kind=_kind(workload, configuration),
        created_s=max(pod.created_s for pod in workload.pods),
        specs=tuple(dict.fromkeys(pod.spec for pod in workload.pods)),
    )


def _kind(workload: Workload, configuration: Configuration) -> Kind:
    chosen = configuration.placeholder
    if chosen != "auto" and chosen in QUEUED:
        return chosen
    if workload.external:
        return "external"
    tried = workload.tried or workload.refused is not None
    at_once = (chosen != "auto" or workload.gate) and _as_root(workload)
    return "allocation" if at_once and workload.room and not tried else "script"


def _as_root(workload: Workload) -> bool:
    """An allocation is for the token's own user, whomever the job asks for (P5)."""
    asked = workload.description
    return asked is not None and not asked.user_id and not asked.group_id


def _readopt(workload: Workload, configuration: Configuration, now: float) -> Ruling:
    """A Pod that lives without a job gets one on its own host, or none (P30)."""
    wanted = configuration.lost_job == "readopt" and workload.lost and not _tried(workload)
    leaves = any(pod.ended or pod.terminating for pod in workload.pods)
    if not wanted or leaves or workload.description is None or not all(workload.standing):
        return QUIET
    if is_open(workload, configuration):
        return _OPEN
    description = replace(workload.description, required_nodes=",".join(sorted(workload.standing)))
    action = replace(
        _submission(workload, configuration, now),
        description=description,
        excluded=(),
        kind="allocation",
    )
    return Ruling((action,), f"{named(workload)} lives without a job: another one on its host")


def _tried(workload: Workload) -> bool:
    refused = workload.refused
    return workload.tried or (refused is not None and refused.kind in AT_ONCE)
