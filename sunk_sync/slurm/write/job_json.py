"""The JSON of desired writes for placeholder jobs.

One spelling serves every version; `refusal` names what a version does not support. A number that
may be unset is `{"set": true, "number": N}`: without `set` slurmrestd silently reads it as unset.
Users and groups are strings: slurmrestd 24.11 crashes on the name of a group.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from sunk_sync.core.model.actions import SubmitJob, UpdateJob
from sunk_sync.core.model.job_description import NOT_ASKED, SETTINGS, JobDescription, Setting
from sunk_sync.core.model.job_identity import Identity, spell_identity
from sunk_sync.core.model.placeholder import PLACEHOLDERS
from sunk_sync.core.translate.hostlist import compress
from sunk_sync.slurm.api.versions import dialect_of, first_that

Body = dict[str, Any]

_is_name: Final = re.compile(r"[A-Za-z0-9._-]{1,253}").fullmatch
"""One invalid name makes Slurm refuse the whole job."""
_NOWHERE: Final = {
    "standard_input": "/dev/null",
    "standard_output": "/dev/null",
    "standard_error": "/dev/null",
}
"""Without it each placeholder would leave a file in its working directory."""


def refusal(action: SubmitJob, version: str) -> str:
    """Return why this version cannot make such a job, or empty."""
    dialect, kind, asked = dialect_of(version), action.kind, action.description
    if kind not in dialect.placeholders:
        since = first_that(lambda one: kind in one.placeholders)
        return f"slurmrestd {version} makes no placeholder of kind {kind} (from {since} on)"
    if PLACEHOLDERS[kind].at_once and (asked.user_id or asked.group_id):
        return "slurmrestd allocates for the token's own user only: a script must be submitted"
    if asked.exclusive == "topo" and not dialect.topo:
        since = first_that(lambda one: one.topo)
        return f"slurmrestd {version} does not know exclusive=topo (from {since} on)"
    return ""


def submit_body(
    action: SubmitJob, *, script: str = "", environment: Sequence[str] = (), extra: str = ""
) -> bytes:
    """Return the body for POST /job/allocate (a job that starts at once) or POST /job/submit.

    `environment` is `NAME=value` each and must not be empty for a script. An identity with `uids`
    makes an array, with a task for each. Call `refusal` first.
    """
    kind = PLACEHOLDERS[action.kind]
    asked = action.description
    # A field without a value is left out, so that Slurm's default holds.
    job = _shape(asked) | _settings(asked, lambda one: one.always or _asks(asked, one))
    job |= _named(action.name, action.identity) | _array(action.identity)
    job |= {"requeue": False, "extra": extra, "argv": [spell_identity(action.identity)]}
    excluded = _excluded(asked.excluded_nodes, action.excluded)
    if excluded:
        job["excluded_nodes"] = excluded
    job |= {"flags": ["EXTERNAL_JOB"]} if kind.external else {"environment": list(environment)}
    if kind.at_once:
        job["immediate"] = True
    if kind.scripted:
        return msgspec.json.encode({"script": script, "job": job | _NOWHERE})
    return msgspec.json.encode({"job": job})


def update_body(action: UpdateJob) -> bytes:
    """Return the body for POST /job/{id} with the description of a waiting job.

    Slurm performs a part of a refused update. So the identity with the new digest follows in a
    request of its own, `identity_body`, after this one succeeded.
    """
    new = action.description
    job = _settings(
        new, lambda one: one.update == "yes" or (one.update == "value" and _asks(new, one))
    )
    job["excluded_nodes"] = _excluded(new.excluded_nodes, action.excluded) or [""]
    return msgspec.json.encode(job)


def exclusions_body(action: UpdateJob, identity: Identity) -> bytes:
    """Return the body for POST /job/{id} with new exclusions and their digest: both or none."""
    excluded = _excluded(action.description.excluded_nodes, action.excluded) or [""]
    comment = spell_identity(identity)
    return msgspec.json.encode({"excluded_nodes": excluded, "admin_comment": comment})


def identity_body(identity: Identity) -> bytes:
    return msgspec.json.encode({"admin_comment": spell_identity(identity)})


def _named(name: str, identity: Identity) -> Body:
    return {"name": name, "admin_comment": spell_identity(identity)}


def _array(identity: Identity) -> Body:
    if not identity.uids:
        return {}
    return {"array": f"0-{len(identity.uids) - 1}"}


def _settings(description: JobDescription, wanted: Callable[[Setting], bool]) -> Body:
    return {one.rest: _spelled(description, one) for one in SETTINGS.values() if wanted(one)}


def _asks(description: JobDescription, one: Setting) -> bool:
    return bool(getattr(description, one.field) != getattr(NOT_ASKED, one.field))


def _spelled(description: JobDescription, one: Setting) -> object:
    """Spell a value for slurmrestd; an empty text removes it from the job."""
    value = getattr(description, one.field)
    match one.form:
        case "nodes" | "sharing":
            return [value]
        case "priority" | "minutes":
            return _set(value)
        case _:
            return str(value)


def _shape(description: JobDescription) -> Body:
    """Return the resources of each node: one task a node."""
    job: Body = {
        "nodes": str(description.slurm_nodes),
        "tasks": description.slurm_nodes,
        "tasks_per_node": 1,
        "cpus_per_task": description.cpus,
    }
    if description.memory_mb:
        job["memory_per_node"] = _set(description.memory_mb)
    if description.gres:
        job["tres_per_node"] = ",".join(f"gres/{name}:{n}" for name, n in description.gres)
    return job


def _set(number: int) -> Body:
    return {"set": True, "number": number}


def _excluded(given: str, ours: Iterable[str]) -> list[str]:
    """Return the user's list as it is, then the excluded hosts in brackets."""
    return [words for words in (given, compress(filter(_is_name, ours))) if words]
