"""Load the settings: flags over environment over file over defaults; report every mistake at once.

The sources of pydantic-settings read and merge the values. This module adds the origin of each
value, and the names that belong to no setting.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    YamlConfigSettingsSource,
)

from sunk_sync.settings import model
from sunk_sync.settings.model import ENVIRONMENT_PREFIX, FIELDS, Settings, key_of, variable_of
from sunk_sync.settings.yaml_file import read_mapping

CONFIG_VARIABLE = ENVIRONMENT_PREFIX + "CONFIG"
OWN_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

_VARIABLE_OF = {key_of(field): variable_of(field) for field in FIELDS}

_SERVICE_LINK = re.compile(r"SUNK_SYNC_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_\w+)?)")
"""Variables that Kubernetes sets in every Pod of a namespace with a Service named sunk-sync…."""


class SettingsError(Exception):
    """Every mistake, one sentence each."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = tuple(mistakes)


class _Loaded(BaseSettings, Settings):
    """Settings for the sources: each field has the name of its variable."""

    model_config = SettingsConfigDict(
        alias_generator=variable_of,
        case_sensitive=True,
        enable_decoding=False,
        loc_by_alias=False,
        validate_default=False,
    )

    def __init__(self, *sources: PydanticBaseSettingsSource) -> None:
        super().__init__(_build_sources=(sources, {}))


class _File(YamlConfigSettingsSource):
    """The file of --config: its values as written, and the line of each.

    The library itself would read `on` as true, and a missing file as an empty one.
    """

    def __init__(self, path: str) -> None:
        self.places: dict[str, str] = {}
        self.mistakes: list[str] = []
        super().__init__(_Loaded, yaml_file=path)

    def _read_files(self, files: Any, deep_merge: bool = False) -> dict[str, Any]:  # noqa: ARG002
        path, values = clean(files), {}
        try:
            entries = read_mapping(Path(files)) if files else []
        except ValueError as error:
            self.mistakes.append(f"--config ({CONFIG_VARIABLE}): {path}: {clean(error, 200)}")
            return {}
        for key, value, line in entries:
            variable = _VARIABLE_OF.get(key, "")
            if mistake := _mistake(key, value, known=variable, again=variable in values):
                self.mistakes.append(f"{path} line {line}: {mistake}")
            else:
                values[variable] = value
                self.places[variable] = f"{path} line {line}"
        return values


def load(
    flags: Mapping[str, str], environment: Mapping[str, str], own_namespace: str = ""
) -> Settings:
    """Return the settings of flags (by key), environment and file, checked as a whole.

    Raises SettingsError with every mistake of all three.
    """
    given = {_VARIABLE_OF[key]: value for key, value in flags.items() if key != "config"}
    own = {variable_of("own_namespace"): own_namespace or "default"}
    variables = EnvSettingsSource(_Loaded)
    variables.env_vars = environment
    file = _File(flags.get("config") or environment.get(CONFIG_VARIABLE, ""))
    mistakes = [*file.mistakes, *_unknown_variables(environment)]
    try:
        settings = _Loaded(InitSettingsSource(_Loaded, given | own), variables, file)
    except ValidationError as error:
        origins = file.places | dict.fromkeys(environment, "the environment")
        origins |= dict.fromkeys(given, "the command line")
        mistakes += _sentences(error, file.yaml_data | {**environment, **given}, origins)
    if mistakes:
        raise SettingsError(mistakes)
    return settings


def own_namespace(file: Path = OWN_NAMESPACE_FILE) -> str:
    """Return the namespace of this Pod; empty outside a cluster."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def clean(value: object, length_max: int = 80) -> str:
    """Return the text in one line: bounded, without control characters."""
    text = "".join(c if c.isprintable() else " " for c in str(value)[: length_max + 1])
    return text if len(text) <= length_max else text[:length_max] + "…"


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean X?` if a known word is similar."""
    near = get_close_matches(word, list(known), n=1, cutoff=0.7)
    return f"; did you mean {near[0]}?" if near else ""


def removal(key: str) -> str:
    """Return what to do instead of a setting that an earlier version had; empty: there was none."""
    instead = model.REMOVED.get(key)
    return f"this version does not have it any more; {instead}" if instead else ""


def _mistake(key: str, value: object, *, known: object, again: bool) -> str:
    """Return the mistake in a key of the file, apart from its value; empty: none."""
    if not known:
        spelled = key.replace("_", "-").removeprefix("--")
        if instead := removal(spelled):
            return f"key {clean(key)!r}: {instead}"
        return f"unknown key {clean(key)!r}{suggestion(spelled, _VARIABLE_OF)}"
    if again:
        return f"key {key!r} is set twice"
    return f"key {key!r} has no value; leave it out for the default" if value is None else ""


def _unknown_variables(environment: Mapping[str, str]) -> Iterator[str]:
    variables = _VARIABLE_OF.values()
    known = [variable.removeprefix(ENVIRONMENT_PREFIX) for variable in variables]
    for variable in sorted(environment.keys() - variables - {CONFIG_VARIABLE}):
        if variable.startswith(ENVIRONMENT_PREFIX) and not _SERVICE_LINK.fullmatch(variable):
            name = variable.removeprefix(ENVIRONMENT_PREFIX)
            instead = removal(name.lower().replace("_", "-"))
            unknown = f"unknown environment variable{suggestion(name, known)}"
            yield f"{clean(variable)}: {instead or unknown}"


def _sentences(
    error: ValidationError, given: Mapping[str, object], origins: Mapping[str, str]
) -> Iterator[str]:
    for problem in error.errors(include_url=False, include_context=False):
        told = problem["msg"].removeprefix("Value error, ").replace("Input should be", "allowed is")
        field, *entry = map(str, problem["loc"] or ("",))
        variable = variable_of(field)
        if not field:
            yield told
        elif variable in given:
            value = repr(clean(problem["input"] if entry else given[variable]))
            if "SecretStr" in str(Settings.model_fields[field].annotation):
                value = "the value"
            names = f"--{key_of(field)} ({variable}, file key {key_of(field)})"
            for line in told.splitlines():
                yield f"{names}: {value} from {origins[variable]} is wrong: {line}"
