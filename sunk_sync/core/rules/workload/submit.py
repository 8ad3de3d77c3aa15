"""A Work without a job gets one (P1, P7, P10, P11a, P17): the only rule that submits."""

import zlib
from typing import Literal

from msgspec.structs import replace

from sunk_sync.core.model.actions import SubmitJob
from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.job_identity import Identity, job_name
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
from sunk_sync.core.views.workload import Work

ENDED_AGAIN_S = 5.0
"""After a job that ended by itself before its Pod was bound; doubled each time."""
GIVEN_UP_AGAIN_S = 2.0
"""After the second job in a row that we gave up; doubled each time. The first has no pause."""
A_MINUTE_S = 60.0
_OPEN = Ruling(because="a submission got no answer: looking for its job in Slurm first (F2)")

Kind = Literal["allocation", "script", "external"]


def submit(work: Work, configuration: Configuration, now: float) -> Ruling:
    """One placeholder, as soon as nothing speaks against it."""
    if work.job is not None or not work.pods:
        return QUIET
    if work.bound:
        return _readopt(work, configuration, now)
    if any(pod.ended or pod.terminating for pod in work.pods):
        return QUIET
    against = _against(work, configuration, now)
    if against is not None:
        return against
    assert work.description is not None
    action = _submission(work, configuration, now)
    return Ruling((action,), f"job submitted for {named(work)}", _tried_again_s(work, now))


def _against(work: Work, configuration: Configuration, now: float) -> Ruling | None:
    """What speaks against a submission now."""
    if any(pod.gated for pod in work.pods):
        return Ruling(because="waits: scheduling gates stand")
    if work.missing:
        return Ruling(because=f"waits: {work.missing}")
    if work.invalid:
        return Ruling(because=f"refused: {work.invalid}")
    if work.unfit:
        return Ruling(because=f"no host can take it: {work.unfit}")
    if work.not_ready:
        return Ruling(because=waited_for(work))
    cancelled = cancelled_job(work)
    if cancelled and not configuration.resubmit_cancelled:
        return Ruling(because=f"job {cancelled} was cancelled in Slurm: no new one")
    return _not_yet(work, configuration, now)


def _not_yet(work: Work, configuration: Configuration, now: float) -> Ruling | None:
    if is_open(work, configuration):
        return _OPEN
    refused_until_s = refusal_ends_s(work)
    if refused_until_s is not None and now < refused_until_s:
        assert work.refused is not None
        why = f"Slurm refused the job: {work.refused.text}"
        return Ruling(because=why, look_again_s=refused_until_s)
    ended_until_s = _rest_ends_s(work)
    if work.last is not None and now < ended_until_s:
        why = f"job {work.last.job_id} ended before its Pod was bound: trying again soon"
        return Ruling(because=why, look_again_s=ended_until_s)
    return _brake(work, now)


def _brake(work: Work, now: float) -> Ruling | None:
    """P32: replacements back off, and no workload is submitted more than five times a minute."""
    again_s = _replaced_again_s(work)
    if now < again_s:
        why = f"{work.given_up} jobs in a row were given up: another one follows after a pause"
        return Ruling(because=why, look_again_s=again_s)
    if len(work.sent_s) == A_MINUTE_MAX and now < work.sent_s[0] + A_MINUTE_S:
        why = f"{A_MINUTE_MAX} jobs were submitted within a minute: another one follows after it"
        return Ruling(because=why, look_again_s=work.sent_s[0] + A_MINUTE_S)
    return None


def _tried_again_s(work: Work, now: float) -> float | None:
    """When the next of its hosts may be tried again; None: none is kept from it."""
    times = [since_s + TRIED_AGAIN_S for _, since_s in work.given_up_on]
    return min([time for time in times if now < time], default=None)


def _replaced_again_s(work: Work) -> float:
    if work.given_up < 2:
        return 0.0
    pause_s = min(GIVEN_UP_AGAIN_S * 2.0 ** min(work.given_up - 2, 10), REFUSED_AGAIN_S)
    share = zlib.crc32(f"{work.id} {work.given_up}".encode()) / 2**32
    return work.given_up_s + pause_s * (0.75 + share / 2)


def _rest_ends_s(work: Work) -> float:
    last = work.last
    if last is None or last.identity.replaced or not AGAIN.isdisjoint(last.state):
        return 0.0
    return work.last_s + min(ENDED_AGAIN_S * 2.0 ** max(work.ends - 1, 0), REFUSED_AGAIN_S)


def _submission(work: Work, configuration: Configuration, now: float) -> SubmitJob:
    assert work.description is not None
    first = work.pods[0]
    return SubmitJob(
        name=job_name(first.namespace, first.name, work=work.id),
        identity=Identity(
            cluster=configuration.cluster_uid,
            scheduler=configuration.scheduler,
            work=work.id,
            pods=tuple(sorted(f"{pod.namespace}/{pod.name}/{pod.uid}" for pod in work.pods)),
            digest=work.digest,
            hosts=work.hosts,
        ),
        description=work.description,
        excluded=exclusions(work, now=now),
        kind=_kind(work, configuration),
        created_s=max(pod.created_s for pod in work.pods),
        specs=tuple(dict.fromkeys(pod.spec for pod in work.pods)),
    )


def _kind(work: Work, configuration: Configuration) -> Kind:
    chosen = configuration.placeholder
    if chosen in ("script", "external"):
        return chosen
    if work.external:
        return "external"
    tried = work.tried or work.refused is not None
    at_once = (chosen == "allocation" or work.gate) and _as_root(work)
    return "allocation" if at_once and work.room and not tried else "script"


def _as_root(work: Work) -> bool:
    """An allocation is for the token's own user, whomever the job asks for (P5)."""
    asked = work.description
    return asked is not None and not asked.user_id and not asked.group_id


def _readopt(work: Work, configuration: Configuration, now: float) -> Ruling:
    """A Pod that lives without a job gets one on its own host, or none (P30)."""
    wanted = configuration.lost_job == "readopt" and work.lost and not _tried(work)
    leaves = any(pod.ended or pod.terminating for pod in work.pods)
    if not wanted or leaves or work.description is None or not all(work.standing):
        return QUIET
    if is_open(work, configuration):
        return _OPEN
    description = replace(work.description, required_nodes=",".join(sorted(work.standing)))
    action = replace(
        _submission(work, configuration, now),
        description=description,
        excluded=(),
        kind="allocation",
    )
    return Ruling((action,), f"{named(work)} lives without a job: another one on its host")


def _tried(work: Work) -> bool:
    return work.tried or (work.refused is not None and work.refused.kind == "allocation")
