"""Whose a record is, by the texts that it has, and by what sunk-sync knew of its number before.

1. Its command line names the Pods. Slurm lets nobody change it, but every user can submit a job
   with such a command line. So it is a proof only in a job of root or of the user of our token.
   In a job of another user it is a claim, which the Pods decide.
2. Its admin_comment names the Pods: only operators write it. It also holds what changes later. If
   somebody overwrote it, the changes come from what was known before.
3. Neither does, but number, submit time and name are those of a known job. Jobs of earlier versions
   have no identity in their command line.
4. Neither does, and the name is one that sunk-sync gives: this is a claim, too.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from sunk_sync.core.model.claims import Claim
from sunk_sync.core.model.facts import Job
from sunk_sync.core.model.job_identity import Identity, is_named
from sunk_sync.core.translate.job_states import LIVE
from sunk_sync.slurm.decode.jobs import JobRecord, is_same_work, with_replaced

Mine = Callable[[Identity], bool]
"""Whether an identity has this cluster and scheduler (P22)."""
_ROOT: Final = 0


class Known(Struct, frozen=True):
    """What was known of a record's number before."""

    identity: Identity
    """Of an array: the whole identity."""
    name: str
    submitted_at: int


def proven(
    record: JobRecord, known: Known | None, *, mine: Mine, operator: str
) -> JobRecord | Claim | None:
    """Return the record with the identity of its job, or a claim; None: no job of sunk-sync.

    `operator`: name of the user of our token.
    """
    given, comment = record.given, record.identity
    trusted = record.user_id == _ROOT or (operator != "" and record.user_name == operator)
    if given is None and comment is not None and _is_marked_by_us(record, comment):
        return record if mine(comment) else None
    if given is None:
        named = comment is None and is_named(record.name)
        return _as_held(record, known) or (claim_of(record, trusted=trusted) if named else None)
    if not mine(given):
        return None
    if comment is not None and is_same_work(comment, given):
        return record
    if known is not None and is_same_work(known.identity, given):
        return replace(record, identity=known.identity, overwritten=True)
    return by_claim(record, given) if trusted else claim_of(record, trusted=False)


def by_claim(record: JobRecord, identity: Identity) -> JobRecord:
    """Return the record with an identity that nothing known completes.

    The mark of a job that sunk-sync gave up is lost with its admin_comment. So a cancelled job
    counts as given up, and its Pod gets another one: else it would wait for a person.
    """
    identity = replace(identity, replaced="CANCELLED" in record.state)
    return replace(record, identity=identity, overwritten=True)


def claim_of(record: JobRecord, *, trusted: bool) -> Claim:
    job_id = str(record.number)
    if record.array:
        job_id = f"{record.array}_{'*' if record.task is None else record.task}"
    live = not LIVE.isdisjoint(record.state)
    return Claim(job_id, record.name, record.given, record.user_id, trusted, live)


def known_job(job: Job, array: JobRecord | None) -> Known | None:
    """Return what is known of a job. A task has the identity of its array, with its own mark."""
    if array is None:
        return Known(job.identity, job.name, job.submitted_at)
    whole = known_array(array)
    if whole is None or not job.identity.replaced:
        return whole
    task = int(job.job_id.partition("_")[2])
    return replace(whole, identity=with_replaced(whole.identity, frozenset({task})))


def known_array(array: JobRecord) -> Known | None:
    identity = array.identity
    return None if identity is None else Known(identity, array.name, array.submitted_at)


def _is_marked_by_us(record: JobRecord, comment: Identity) -> bool:
    """A mark in flight while slurmctld lost its state may have reached another job with the same
    id. So an identity marked as replaced counts only with a name that sunk-sync gives (P23).
    """
    return is_named(record.name) or not comment.replaced


def _as_held(record: JobRecord, known: Known | None) -> JobRecord | None:
    """A requeued job has a later submit time."""
    if known is None or record.identity is not None or known.name != record.name:
        return None
    same = known.submitted_at in (0, record.submitted_at)
    again = record.requeued and known.submitted_at < record.submitted_at
    if not (same or again):
        return None
    return replace(record, identity=known.identity, overwritten=True)
