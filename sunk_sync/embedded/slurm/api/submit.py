"""Parsing of job descriptions, for submissions, allocations and updates.

The first `sleep N` of the script gives the duration of the job; without one it runs until it is
cancelled. A script with `trap '' TERM` keeps its node until KillWait is over. A script that is only
`exit N` ends at once.
"""

import re
from collections.abc import Callable, Mapping
from math import ceil, inf
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sunk_sync.embedded.slurm.api.body import (
    Complaint,
    mistyped,
    no_integer,
    read_words,
    refusal,
    refuse_flag,
    refuse_integer,
    refuse_shape,
    unknown_field,
)
from sunk_sync.embedded.slurm.model.array import ArrayError, read_tasks
from sunk_sync.embedded.slurm.model.job import JobRequest
from sunk_sync.embedded.slurm.model.names import NamesError, expanded
from sunk_sync.embedded.slurm.model.release import BAD_ARRAY, INVALID_NAME, UNKNOWN_USER, SlurmError

_sleep = re.compile(r"sleep\s+([0-9.]+)").search
_exit = re.compile(r"(?s)#!\S+\s+exit\s+([0-9]+)\s*").fullmatch
_size = re.compile(r"([0-9]+)([KMGT]?)B?").fullmatch
_MB: Final = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}

_TEXTS: Final = {
    "name": "name",
    "comment": "comment",
    "admin_comment": "admin_comment",
    "extra": "extra",
    "account": "account",
    "qos": "qos",
    "partition": "partition",
    "prefer": "prefer",
    "tres_per_node": "tres_per_node",
    "current_working_directory": "directory",
}
_INTEGERS: Final = {
    "cpus_per_task": "cpus_per_task",
    "tasks": "tasks",
    "tasks_per_node": "tasks_per_node",
    "minimum_nodes": "nodes",
}
_NUMBERS: Final = {
    "time_limit": "time_limit_min",
    "memory_per_node": "memory_mb",
    "priority": "priority",
}
_BOOLEANS: Final = {"hold": "hold", "requeue": "requeue", "immediate": "immediate"}
_LISTS: Final = frozenset({"required_nodes", "excluded_nodes"})
_SHARED: Final = frozenset({"none", "oversubscribe", "user", "mcs", "topo"})
_FLAGS: Final = frozenset(
    {"EXTERNAL_JOB", "SPREAD_JOB", "KILL_INVALID_DEPENDENCY", "TEST_NOW_ONLY"}
)
_TAKEN: Final = frozenset(
    {"dependency", "wckey", "mcs_label", "deadline", "network", "licenses", "nice", "mail_user",
     "standard_output", "standard_error", "standard_input", "segment_size", "maximum_nodes",
     "minimum_cpus", "kill_warning_signal", "kill_warning_delay", "kill_warning_flags",
     "begin_time", "end_time", "container", "reboot", "contiguous", "overcommit",
     "memory_per_cpu", "threads_per_core", "distribution", "temporary_disk_per_node"}
)  # fmt: skip
"""Fields that the real slurmrestd reads and that have no effect here."""
_UIDS: Final = {"root": 0, "slurm": 64030, "nobody": 65534, "nogroup": 65534}
_SIZED: Final = frozenset({"cpus_per_task", "tasks", "tasks_per_node", "nodes"})


class Description(Struct, kw_only=True):
    fields: dict[str, Any] = {}
    """Fields of JobRequest, and `hold`, `immediate`."""
    has: set[str] = set()
    """Other fields that are present and not empty: environment, reservation, script."""
    script: str = ""
    errors: list[Complaint] = []
    warnings: list[Complaint] = []
    fatal: bool = False
    """slurmrestd does nothing with the body."""
    refused: SlurmError | None = None
    """The error of slurmctld for a value that slurmrestd accepts."""


def decoded(content: bytes) -> Any:
    """Decode the JSON of a body; an empty body is an empty object. Raises ValueError."""
    try:
        return msgspec.json.decode(content) if content.strip() else {}
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error


def read_job(given: Any, version: str, *, path: str = "#/job/") -> Description:
    found = Description()
    if not isinstance(given, dict):
        found.errors.append(refuse_shape(given, path))
        found.fatal = True
        return found
    for name, value in sorted(given.items(), key=lambda item: (item[0] not in _KNOWN, item[0])):
        if value is not None and not found.fatal:
            _read_field(found, name, value, place=_Place(path, version))
    return found


def request_of(found: Description, *, user: str, acted_script: str) -> JobRequest:
    """Return a new request; a held one has priority 0 unless it sets another."""
    fields = dict(found.fields)
    held, _ = fields.pop("hold", False), fields.pop("immediate", False)
    if held:
        fields.setdefault("priority", 0)
    return sized(JobRequest(**{"name": "", "user": user, **fields, **_lived(found, acted_script)}))


def change_of(found: Description, request: JobRequest) -> Mapping[str, Any]:
    fields = {name: value for name, value in found.fields.items() if name != "immediate"}
    if fields.keys() & _SIZED:
        plain = {name: value for name, value in fields.items() if name != "hold"}
        fields["cpus"] = sized(replace(request, **plain)).cpus
    return fields


def sized(request: JobRequest) -> JobRequest:
    tasks = request.tasks_per_node or ceil(request.tasks / max(request.nodes, 1)) or 1
    return replace(request, cpus=tasks * request.cpus_per_task)


class _Place(Struct, frozen=True):
    path: str
    version: str


def _read_field(found: Description, name: str, value: Any, *, place: _Place) -> None:
    source = f"{place.path}{name}"
    if name in _TEXTS:
        text = read_words(source[2:], value, warnings=found.warnings)
        text = f"gres/{text[5:]}" if text and text.startswith("gres:") else text
        _keep(found, _TEXTS[name], text)
    elif name in _INTEGERS or name in _NUMBERS:
        _read_number(found, name, value, source=source)
    elif name in _BOOLEANS:
        found.fields[_BOOLEANS[name]] = bool(value)
    elif name in _LISTS:
        _read_nodes(found, name, value, source=source)
    elif name in ("shared", "flags"):
        _read_flags(found, name, value, place=place)
    elif name in _OTHERS:
        _OTHERS[name](found, value, source)
    elif name not in _TAKEN:
        found.warnings += _unknown(f"{source}/", value)


def _keep(found: Description, name: str, value: Any) -> None:
    if value is None:
        found.fatal = True
    else:
        found.fields[name] = value


def _read_number(found: Description, name: str, value: Any, *, source: str) -> None:
    if isinstance(value, dict) and name in _NUMBERS:
        if value.get("infinite") and name == "time_limit":
            found.fields["time_limit_min"] = None
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
        if value is None:
            return
    number = _megabytes(value) if name == "memory_per_node" else _integer(value)
    if name in _INTEGERS and not isinstance(value, int):
        found.warnings.append(no_integer(source[2:], value))
        if number is None:
            return
    if number is None:
        found.errors.append(refuse_integer(value, f"{source}/"))
        found.fatal = True
    else:
        fields = {**_INTEGERS, **_NUMBERS}
        found.fields[fields[name]] = number if name != "time_limit" or number else None


def _integer(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _megabytes(value: Any) -> int | None:
    match = _size(str(value))
    return int(int(match[1]) * _MB[match[2]]) if match else None


def _read_nodes(found: Description, name: str, value: Any, *, source: str) -> None:
    """Read a list of nodes; an empty list changes nothing, a list of an empty text clears it."""
    if not isinstance(value, list):
        found.warnings.append(mistyped(source[2:], value, wanted="array"))
        value = str(value).split(",")
    try:
        names = tuple(expanded(map(str, value)))
    except NamesError:
        found.refused = INVALID_NAME
        return
    if value:
        found.fields[name] = names


def _read_flags(found: Description, name: str, value: Any, *, place: _Place) -> None:
    words = value if isinstance(value, list) else [value]
    known = _SHARED if name == "shared" else _FLAGS
    if place.version < "v0.0.43":
        known -= {"EXTERNAL_JOB", "topo"}
    for index, word in enumerate(words):
        if word not in known:
            found.errors.append(refuse_flag(word, f"{place.path}{name}[{index}]/"))
        if name == "shared":
            # slurmrestd reads an unknown word as 0, which means none.
            shared = word if word in known else "none"
            found.fields |= {"shared": shared, "exclusive": shared == "none"}
        elif word in known and word == "EXTERNAL_JOB":
            found.fields["kind"] = "external"


def _read_constraints(found: Description, value: Any, source: str) -> None:
    text = read_words(source[2:], value, warnings=found.warnings) or ""
    found.fields["features"] = tuple(filter(None, text.split("&")))


def _read_count(found: Description, value: Any, source: str) -> None:
    """Read `2` or `2-4`; the lower number counts."""
    text = read_words(source[2:], value, warnings=found.warnings) or ""
    least = text.partition("-")[0]
    if least.isdecimal():
        found.fields |= {"nodes": int(least), "any_of": True}


def _read_command(found: Description, value: Any, source: str) -> None:
    """Read the command line, of which only the first word is kept; an update changes nothing."""
    del source
    words = value if isinstance(value, list) else [value]
    found.fields["command"] = str(next(iter(words), ""))


def _read_array(found: Description, value: Any, source: str) -> None:
    text = read_words(source[2:], value, warnings=found.warnings)
    if not text:
        return
    try:
        found.fields["array"], found.fields["array_most"] = read_tasks(text)
    except ArrayError:
        found.refused = BAD_ARRAY


def _read_user(found: Description, value: Any, source: str) -> None:
    _read_id(found, value, source=source, kind="user")


def _read_group(found: Description, value: Any, source: str) -> None:
    _read_id(found, value, source=source, kind="group")


def _read_id(found: Description, value: Any, *, source: str, kind: str) -> None:
    name = read_words(source[2:], value, warnings=found.warnings) or ""
    number = int(name) if name.isdecimal() else _UIDS.get(name)
    if number is None:
        text = f"Unable to resolve {kind}: {name}"
        found.errors.append(refusal(UNKNOWN_USER, text, source=f"{source}/"))
        found.fatal = True
        return
    found.fields[f"{kind}_id"] = number


def _read_script(found: Description, value: Any, source: str) -> None:
    found.script = read_words(source[2:], value, warnings=found.warnings) or ""


def _note(found: Description, value: Any, source: str) -> None:
    if value:
        found.has.add(source.rpartition("/")[2])


_OTHERS: Final[Mapping[str, Callable[[Description, Any, str], None]]] = {
    "constraints": _read_constraints,
    "nodes": _read_count,
    "array": _read_array,
    "argv": _read_command,
    "user_id": _read_user,
    "group_id": _read_group,
    "script": _read_script,
    "environment": _note,
    "reservation": _note,
}


_KNOWN: Final = frozenset({*_TEXTS, *_INTEGERS, *_NUMBERS, *_BOOLEANS, *_LISTS, *_OTHERS, *_TAKEN})


def _unknown(source: str, value: Any) -> list[Complaint]:
    """Warn of an unknown field; of an object, warn of each of its fields."""
    if not isinstance(value, dict):
        return [unknown_field(source, value, message="JOB_DESC_MSG")]
    fields = {f"{source}{name}/": each for name, each in value.items()}
    return [unknown_field(path, each, message="JOB_DESC_MSG") for path, each in fields.items()]


def _lived(found: Description, acted_script: str) -> Mapping[str, Any]:
    if found.fields.get("kind") == "external":
        return {"duration_s": None}
    if acted_script and acted_script in found.script:
        return {"duration_s": None, "acted": True}
    exits = _exit(found.script)
    if exits:
        return {"duration_s": 0.0, "exit_code": int(exits.group(1))}
    stubborn = "trap '' TERM" in found.script
    slept = None if stubborn else _sleep(found.script)
    return {
        "ending_s": inf if stubborn else None,
        "duration_s": float(slept.group(1)) if slept else None,
    }
