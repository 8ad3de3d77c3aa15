"""Filters of DELETE /jobs/: parsed as by slurmrestd, matched as by slurmctld.

slurmrestd checks only that the name of `user_id` exists; slurmctld then cancels jobs of all users.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from sunk_sync.embedded.slurm.api.body import (
    Complaint,
    mistyped,
    read_words,
    refusal,
    refuse_flag,
    refuse_shape,
    unknown_field,
)
from sunk_sync.embedded.slurm.model.job import Job
from sunk_sync.embedded.slurm.model.names import NamesError, expanded, ranged
from sunk_sync.embedded.slurm.model.release import CONVERSION, SlurmError

_TEXTS: Final = ("account", "job_name", "partition", "qos", "reservation", "wckey")
_STATES: Final = frozenset(
    {"PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT",
     "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"}
)  # fmt: skip
_ABSENT: Final = ("user_name", "signal", "flags")
"""Fields of the real slurmrestd that this server does not support."""
_MAX: Final = 2**32 - 2
_NO_USER: Final = SlurmError(2166, "Unable to resolve user ID to user name")


class Filter(Struct, kw_only=True):
    """The result of parsing. `ids` None: every job that matches."""

    ids: Sequence[str] | None = None
    texts: dict[str, str] = {}
    state: str | None = None
    nodes: Sequence[str] | None = None
    errors: list[Complaint] = []
    warnings: list[Complaint] = []
    absent: str = ""
    """A field that this server does not support."""
    fatal: bool = False
    """slurmrestd answers 500 and does nothing."""

    @property
    def is_empty(self) -> bool:
        """Whether it matches every job; slurmctld refuses that."""
        return not (self.ids or self.texts or self.state or self.nodes)


def read_filter(content: bytes, version: str) -> Filter | None:
    """Parse the filter in a body; None if the body is no JSON."""
    try:
        given = msgspec.json.decode(content) if content.strip() else {}
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    found = Filter()
    if not isinstance(given, dict):
        found.errors.append(refuse_shape(given, "#/"))
        found.fatal = True
        return found
    for name, value in given.items():
        if not found.fatal:
            _read_field(found, name, value, version=version)
    return found


def id_error(job_id: str) -> SlurmError | None:
    """Return the error with which slurmctld refuses this id."""
    number = job_id.partition(".")[0].partition("_")[0]
    if not job_id:
        return SlurmError(2136, "JobID must not be an empty string")
    if number.startswith("-"):
        return SlurmError(2138, "JobID can not be a negative number")
    if not number.isdecimal() or int(number) == 0:
        return SlurmError(2137, "JobID can not be zero")
    if int(number) >= _MAX:
        return SlurmError(2139, "JobID larger than acceptable range")
    return None


def mismatch(job: Job, found: Filter) -> str:
    """Return slurmctld's text for the first filter that does not match; empty if all match."""
    for name, words in _checks(job).items():
        if name in found.texts and found.texts[name] != words[0]:
            return f"Job {words[1]} {found.texts[name]}"
    if found.state and job.state != found.state:
        return f"Job state {job.state} != filter state {found.state}"
    if "wckey" in found.texts:
        return f"Job wckey (null) != filter wckey {found.texts['wckey']}"
    return _off_nodes(job, found.nodes)


def _checks(job: Job) -> Mapping[str, tuple[str | None, str]]:
    name, partition, account = job.request.name, job.partition, job.request.account or None
    return {
        "account": (account, f"account {account or '(null)'} != filter account"),
        "job_name": (name, f"name {name} != filter name"),
        "partition": (
            partition,
            f"partition {partition} does not include filter partition",
        ),
        "qos": (None, "qos NULL != filter qos"),
        "reservation": (None, "reservation (null) does not include filter reservation"),
    }


def _off_nodes(job: Job, wanted: Sequence[str] | None) -> str:
    if wanted is None or set(wanted) & set(job.nodes):
        return ""
    if not job.nodes:
        return f"Job does not have nodes but filter has nodes {ranged(wanted)}"
    here = ranged(job.nodes)
    return f"Job nodes {here} does not intersect with filter nodes {ranged(wanted)}"


def _read_field(found: Filter, name: str, value: Any, *, version: str) -> None:
    if name in _ABSENT:
        found.absent = name
    elif name == "jobs":
        _read_ids(found, value, version)
    elif name in _TEXTS:
        text = read_words(name, value, warnings=found.warnings)
        found.fatal = text is None and value is not None
        if text is not None:
            found.texts[name] = text
    elif name == "user_id":
        _read_user(found, value)
    elif name == "job_state":
        _read_state(found, value)
    elif name == "nodes":
        _read_nodes(found, value)
    else:
        found.warnings.append(unknown_field(f"#/{name}/", value, message="KILL_JOBS_MSG"))


def _read_ids(found: Filter, value: Any, version: str) -> None:
    if not isinstance(value, list):
        found.fatal = True
        kind = "null" if value is None else "string"
        if value is not None:
            found.warnings.append(mistyped("jobs", value, wanted="array"))
        text = f"Unexpected type {kind} when expecting a list"
        infix = f"_v{version[5:]}" if version <= "v0.0.42" else ""
        source = f"{infix}_parse_KILL_JOBS_MSG_JOBS_ARRAY"
        found.errors.append(refusal(CONVERSION, text, source=source))
        return
    ids = [read_words("jobs", each, warnings=found.warnings) or "" for each in value]
    found.ids = [job_id.partition(".")[0] for job_id in ids]


def _read_user(found: Filter, value: Any) -> None:
    """Check that the user exists; the filter does nothing else."""
    name = read_words("user_id", value, warnings=found.warnings) or "root"
    if name.isdecimal() or name == "root":
        return
    found.fatal = True
    text = f"Unable to resolve user: {name}"
    found.errors.append(refusal(_NO_USER, text, source="#/user_id/"))


def _read_state(found: Filter, value: Any) -> None:
    words = value if isinstance(value, list) else [value]
    for index, word in enumerate(words):
        if str(word).upper() not in _STATES:
            found.fatal = True
            found.errors.append(refuse_flag(word, f"#/job_state[{index}]/"))
        found.state = str(word).upper()


def _read_nodes(found: Filter, value: Any) -> None:
    if not isinstance(value, list):
        found.warnings.append(mistyped("nodes", value, wanted="array"))
    words = value if isinstance(value, list) else [value]
    try:
        found.nodes = expanded(map(str, words))
    except NamesError:
        found.absent = "nodes (a broken hostlist)"
