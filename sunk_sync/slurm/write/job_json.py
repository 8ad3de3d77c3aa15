"""What a desired write for a placeholder job becomes in JSON. Pure.

The same spelling serves every version; what one of them cannot say is refused here.
Numbers that may be unset are `{"set": true, "number": N}`: without `set` slurmrestd takes them
for unset, silently, and users and groups are strings: 24.11's slurmrestd dies of a group's name.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from sunk_sync.core.model.actions import JobDescription, SubmitJob, UpdateJob
from sunk_sync.core.model.job_identity import Identity, spell_identity
from sunk_sync.core.model.placeholder import PLACEHOLDERS
from sunk_sync.core.translate.hostlist import compress
from sunk_sync.slurm.api.versions import dialect_of, first_that

Body = dict[str, Any]

_is_name: Final = re.compile(r"[A-Za-z0-9._-]{1,253}").fullmatch
"""A name that Slurm cannot read refuses the whole job."""
_NOWHERE: Final = {
    "standard_input": "/dev/null",
    "standard_output": "/dev/null",
    "standard_error": "/dev/null",
}
"""Else each placeholder leaves a file in its working directory."""


def refusal(action: SubmitJob, version: str) -> str:
    """Why this version cannot make such a job; empty where it can."""
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
    """For POST /job/allocate (what starts at once) or POST /job/submit.

    `environment` is `NAME=value` each and must not be empty for a script. An identity with
    `uids` makes an array, a task for each. Ask `refusal` first.
    """
    kind = PLACEHOLDERS[action.kind]
    job = _described(action.description) | _named(action.name, action.identity)
    job |= {"requeue": False, "extra": extra} | _array(action.identity)
    excluded = _excluded(action.description.excluded_nodes, action.excluded)
    if excluded:
        job["excluded_nodes"] = excluded
    job |= {"flags": ["EXTERNAL_JOB"]} if kind.external else {"environment": list(environment)}
    if kind.at_once:
        job["immediate"] = True
    if kind.scripted:
        return msgspec.json.encode({"script": script, "job": job | _NOWHERE})
    return msgspec.json.encode({"job": job})


def update_body(action: UpdateJob) -> bytes:
    """For POST /job/{id}, which takes the bare description: what a waiting job can be given.

    A refused update has been done in part, so the identity (with the new digest) must follow in a
    request of its own, `identity_body`, once this one was answered well.
    """
    new = action.description
    job: Body = {name: getattr(new, name) for name in _EMPTIED}
    job["current_working_directory"] = new.working_directory
    job["required_nodes"] = [new.required_nodes]
    job["excluded_nodes"] = _excluded(new.excluded_nodes, action.excluded) or [""]
    if new.partition:
        job["partition"] = new.partition
    return msgspec.json.encode(job | _numbers(new))


def exclusions_body(action: UpdateJob, identity: Identity) -> bytes:
    """For POST /job/{id}: other exclusions and the identity that tells of them, both or none."""
    excluded = _excluded(action.description.excluded_nodes, action.excluded) or [""]
    comment = spell_identity(identity)
    return msgspec.json.encode({"excluded_nodes": excluded, "admin_comment": comment})


def identity_body(identity: Identity) -> bytes:
    """For POST /job/{id}: only whose job it is."""
    return msgspec.json.encode({"admin_comment": spell_identity(identity)})


_EMPTIED: Final = ("comment", "constraints", "prefer", "reservation")
"""Texts of which `""` rids a job."""


def _named(name: str, identity: Identity) -> Body:
    return {"name": name, "admin_comment": spell_identity(identity)}


def _array(identity: Identity) -> Body:
    if not identity.uids:
        return {}
    return {"array": f"0-{len(identity.uids) - 1}"}


def _described(description: JobDescription) -> Body:
    """What was asked; what was not is left out and Slurm's own default holds."""
    job = _shape(description) | {
        "user_id": str(description.user_id),
        "group_id": str(description.group_id),
        "current_working_directory": description.working_directory,
    }
    for field in _TEXTS:
        if text := getattr(description, field):
            job[field] = text
    if description.exclusive:
        job["shared"] = [description.exclusive]
    if description.required_nodes:
        job["required_nodes"] = [description.required_nodes]
    return job | _numbers(description)


def _numbers(description: JobDescription) -> Body:
    job: Body = {}
    if description.priority is not None:
        job["priority"] = _set(description.priority)
    if description.time_limit_min:
        job["time_limit"] = _set(description.time_limit_min)
    return job


_TEXTS: Final = (
    "account",
    "comment",
    "constraints",
    "partition",
    "prefer",
    "qos",
    "reservation",
)


def _shape(description: JobDescription) -> Body:
    """So much on each of so many nodes: one task a node."""
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
    """The user's list as it stands, then ours in brackets."""
    return [words for words in (given, compress(filter(_is_name, ours))) if words]
