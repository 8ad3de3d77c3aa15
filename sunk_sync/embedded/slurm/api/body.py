"""Parsing of node updates as slurmrestd does it: fields, errors and warnings."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from sunk_sync.embedded.slurm.model.names import NamesError, expanded, ranged
from sunk_sync.embedded.slurm.model.node import FLAGS
from sunk_sync.embedded.slurm.model.release import CONVERSION, SlurmError
from sunk_sync.embedded.slurm.node_update import Update

Complaint = Mapping[str, Any]
"""An entry of `errors` or `warnings`."""


class Body(Struct):
    fields: dict[str, Any] = {}
    names: Sequence[str] | None = None
    errors: list[Complaint] = []
    warnings: list[Complaint] = []
    fatal: bool = False
    """slurmrestd does nothing with the body."""

    @property
    def update(self) -> Update:
        return Update(**self.fields)


STATES: Final = frozenset(FLAGS) | {
    "INVALID", "UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "ERROR", "MIXED", "FUTURE",
}  # fmt: skip
_SINCE_43: Final = frozenset({"POWER_DOWN_ASAP", "POWER_DOWN_FORCE"})
_TEXTS: Final = frozenset({"comment", "extra", "gres", "reason"})
_TAKEN: Final = frozenset({"address", "hostname", "cpu_bind", "resume_after", "reason_uid"})
"""Fields that the real slurmrestd reads and that have no effect here."""
_TOPOLOGY_SINCE: Final = "v0.0.43"
"""Older versions ignore it with a warning."""
_ACTIVE: Final = {"features": "features", "features_act": "active_features"}


def read_update(content: bytes, version: str) -> Body | None:
    """Parse the update in a body; None if the body is no JSON."""
    try:
        given = msgspec.json.decode(content) if content.strip() else {}
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    body = Body()
    if not isinstance(given, dict):
        _refuse_shape(body, given)
        return body
    for name, value in given.items():
        if not body.fatal:
            _read_field(body, name, value, version=version)
    return body


def warning(description: str, source: str) -> Complaint:
    return {"description": description, "source": source}


def refusal(error: SlurmError, description: str, *, source: str) -> Complaint:
    return {
        "description": description,
        "error_number": error.number,
        "error": error.text,
        "source": source,
    }


def refuse_shape(given: object, source: str) -> Complaint:
    text = f"Rejecting {_slurm_type(given)} when dictionary expected"
    error = SlurmError(9209, "Data parser expected a dictionary or object")
    return refusal(error, text, source=source)


def refuse_flag(word: object, source: str) -> Complaint:
    error = SlurmError(9207, "Data parser unable to parse invalid flag")
    return refusal(error, f'Unknown flag "{word}"', source=source)


def refuse_integer(value: object, source: str) -> Complaint:
    return refusal(CONVERSION, f"Expected integer but got {_json(value)}", source=source)


def unknown_field(source: str, value: object, *, message: str) -> Complaint:
    """Warn of an unknown field, which is the last name in `source`."""
    name = source.rstrip("/").rpartition("/")[2]
    text = f'Ignoring unknown field "{name}" of type {_slurm_type(value)} in DATA_PARSER_{message}'
    return warning(text, source)


def read_words(path: str, value: Any, *, warnings: list[Complaint]) -> str | None:
    """Return the text of a field, numbers as text with a warning; None if it is neither."""
    if value is not None and not isinstance(value, str):
        warnings.append(mistyped(path, value, wanted="string"))
    if value is None or isinstance(value, list | dict):
        return None
    return value if isinstance(value, str) else _json(value)


def _refuse_shape(body: Body, given: object) -> None:
    body.fatal = True
    body.errors.append(refuse_shape(given, "#/"))


def _read_field(body: Body, name: str, value: Any, *, version: str) -> None:
    if name == "state":
        _read_state(body, value, version)
    elif name == "name":
        _read_names(body, value)
    elif name in _TEXTS:
        _read_text(body, name, value)
    elif name in _ACTIVE:
        _read_features(body, name, value)
    elif name == "topology_str" and version >= _TOPOLOGY_SINCE:
        _read_text(body, "topology", value)
    elif name == "weight":
        _read_weight(body, value)
    elif name not in _TAKEN:
        text = f'Ignoring unknown field "{name}" of type {_slurm_type(value)} in '
        body.warnings.append(warning(f"{text}DATA_PARSER_UPDATE_NODE_MSG", f"#/{name}/"))


def _read_state(body: Body, value: Any, version: str) -> None:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list):
        text = f"Expected a List but found a {_slurm_type(value)}"
        error = SlurmError(9206, "Data parser expects flags to be a list")
        body.errors.append(refusal(error, text, source="#/state/"))
        body.fatal = True
        return
    known = STATES | (_SINCE_43 if version >= "v0.0.43" else frozenset())
    found = [str(word).upper() for word in words]
    for index, word in enumerate(words):
        if found[index] not in known:
            source = f"#/state[{index}]/" if isinstance(value, list) else "#/state/"
            body.errors.append(refuse_flag(word, source))
    if found:
        alone = len(set(found)) == 1 and found[0] in known
        body.fields["state"] = found[0] if alone else "?"


def _read_names(body: Body, value: Any) -> None:
    if not isinstance(value, list):
        body.warnings.append(mistyped("name", value, wanted="array"))
    words = [str(word) for word in value] if isinstance(value, list) else [str(value)]
    try:
        expanded(words)
    except NamesError:
        error = SlurmError(9216, "Request to parse invalid data")
        text = f"Invalid host string: {','.join(words)}"
        body.errors.append(refusal(error, text, source="#/name/"))
        body.fatal = True
        return
    body.names = words


def _read_text(body: Body, name: str, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        body.warnings.append(mistyped(name, value, wanted="string"))
    if not isinstance(value, list | dict):
        body.fields[name] = value if isinstance(value, str) else _json(value)


def _read_features(body: Body, name: str, value: Any) -> None:
    if not isinstance(value, list):
        body.warnings.append(mistyped(name, value, wanted="array"))
        value = str(value).split(",")
    if value:
        body.fields[_ACTIVE[name]] = tuple(str(each) for each in value)


def _read_weight(body: Body, value: Any) -> None:
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") else None
    if value is None:
        return
    try:
        body.fields["weight"] = int(value) % 2**32
    except (TypeError, ValueError):
        body.errors.append(refuse_integer(value, "#/weight/"))
        body.fatal = True


def no_integer(path: str, value: Any) -> Complaint:
    return warning(
        f"Expected OpenAPI type=integer format=int32 (Slurm type=64 bit integer) but got OpenAPI "
        f"type={_type(value)} (Slurm type={_slurm_type(value)}): {_json(value)}",
        f"#/{path}/",
    )


def mistyped(name: str, value: Any, *, wanted: str) -> Complaint:
    return warning(
        f"Expected OpenAPI type={wanted} (Slurm type={_SLURM_TYPES[wanted]}) but got OpenAPI "
        f"type={_type(value)} (Slurm type={_slurm_type(value)}): {_json(value)}",
        f"#/{name}/",
    )


_SLURM_TYPES: Final = {"array": "list", "string": "string"}
_KINDS: Final = (
    (bool, "boolean", "boolean"),
    (int, "integer", "64 bit integer"),
    (float, "number", "floating point number"),
    (str, "string", "string"),
    (list, "array", "list"),
    (dict, "object", "dictionary"),
)


def _type(value: object) -> str:
    return next((name for kind, name, _ in _KINDS if isinstance(value, kind)), "null")


def _slurm_type(value: object) -> str:
    return next((name for kind, _, name in _KINDS if isinstance(value, kind)), "null")


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def printed_names(names: Sequence[str] | None) -> str:
    return "(null)" if names is None else ranged(names)
