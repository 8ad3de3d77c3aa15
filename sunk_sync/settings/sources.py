"""Where settings come from: flags over environment over file; every mistake is told at once."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

import yaml
from pydantic import ValidationError

from sunk_sync.settings.model import (
    ABOUT,
    ENVIRONMENT_PREFIX,
    Settings,
    flag_of,
    key_of,
    variable_of,
)

FILE_BYTES_MAX = 1 << 20
CONFIG_FLAG = "--config"
CONFIG_VARIABLE = ENVIRONMENT_PREFIX + "CONFIG"
TESTBED_PREFIX = ENVIRONMENT_PREFIX + "TESTBED_"
OWN_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

_FIELD_OF_KEY = {key_of(about.field): about.field for about in ABOUT}
_FIELD_OF_VARIABLE = {variable_of(about.field): about.field for about in ABOUT}
_SECRETS = frozenset(about.field for about in ABOUT if about.secret)
_FILES_READ = ("kubeconfig", "slurm_auth_token_file")

# Kubernetes puts these into every Pod of a namespace that has a Service named sunk-sync….
_SERVICE_LINK = re.compile(
    r"SUNK_SYNC_(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)"
    r"(?:_(?:PROTO|PORT|ADDR))?)?)"
)


class Given(NamedTuple):
    """One value as written, and where."""

    value: object
    origin: str


class SettingsError(Exception):
    """What is wrong, one sentence per mistake."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = tuple(mistakes)


def load(
    flags: Mapping[str, str], environment: Mapping[str, str], own_namespace: str = ""
) -> Settings:
    """Settings of flags (keys as in the file), environment and file, checked as a whole.

    Raises SettingsError with every mistake of all three.
    """
    mistakes: list[str] = []
    config = flags.get("config") or environment.get(CONFIG_VARIABLE, "")
    given = (
        _of_file(config, mistakes)
        | _of_environment(environment, mistakes)
        | _of_flags(flags, mistakes)
    )
    settings = _checked(given, own_namespace or "default", mistakes)
    if mistakes or settings is None:
        raise SettingsError(mistakes)
    return settings


def own_namespace(file: Path = OWN_NAMESPACE_FILE) -> str:
    """Namespace of this Pod; empty outside a cluster."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def suggestion(word: str, known: Sequence[str]) -> str:
    """`; did you mean X?` where something known is near."""
    near = get_close_matches(word, known, n=1, cutoff=0.7)
    return f"; did you mean {near[0]}?" if near else ""


def unknown_flag(flag: str, known: Sequence[str]) -> str:
    """The sentence for a flag that does not exist beside the known ones."""
    return f"{clean(flag)}: unknown flag{suggestion(flag, known)}"


def clean(value: object, length_max: int = 80) -> str:
    """Bounded and free of control characters, fit for one line."""
    text = "".join(c if c.isprintable() else " " for c in str(value)[: length_max + 1])
    return text if len(text) <= length_max else text[:length_max] + "…"


def _of_flags(flags: Mapping[str, str], mistakes: list[str]) -> dict[str, Given]:
    given = {}
    for key, value in flags.items():
        if key in _FIELD_OF_KEY:
            given[_FIELD_OF_KEY[key]] = Given(value, "the command line")
        elif key != "config":
            mistakes.append(unknown_flag("--" + key, tuple(map(flag_of, _FIELD_OF_KEY.values()))))
    return given


def _of_environment(environment: Mapping[str, str], mistakes: list[str]) -> dict[str, Given]:
    given = {}
    for variable, value in sorted(environment.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable == CONFIG_VARIABLE:
            continue
        if variable in _FIELD_OF_VARIABLE:
            given[_FIELD_OF_VARIABLE[variable]] = Given(value, "the environment")
        elif not (variable.startswith(TESTBED_PREFIX) or _SERVICE_LINK.fullmatch(variable)):
            bare = {name.removeprefix(ENVIRONMENT_PREFIX) for name in _FIELD_OF_VARIABLE}
            near = suggestion(variable.removeprefix(ENVIRONMENT_PREFIX), sorted(bare))
            mistakes.append(f"{clean(variable)}: unknown environment variable{near}")
    return given


def _of_file(path: str, mistakes: list[str]) -> dict[str, Given]:
    if not path:
        return {}
    try:
        root = _parse(path)
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        told = f"{CONFIG_FLAG} ({CONFIG_VARIABLE}): {clean(path)}: {_file_trouble(error)}"
        mistakes.append(told)
        return {}
    given: dict[str, Given] = {}
    for key_node, value_node in root:
        _take(given, path, (key_node, value_node), mistakes)
    return given


def _parse(path: str) -> list[tuple[yaml.Node, yaml.Node]]:
    with Path(path).open("rb") as file:
        content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise ValueError("larger than 1 MiB")
    root = yaml.compose(content.decode("utf-8"), Loader=yaml.SafeLoader)
    if root is None:
        return []
    if not isinstance(root, yaml.MappingNode):
        raise ValueError("must be a mapping of settings: `key: value` on each line")
    return list(root.value)


def _file_trouble(error: Exception) -> str:
    match error:
        case OSError():
            return error.strerror or type(error).__name__
        case UnicodeDecodeError():
            return "is not UTF-8 text"
        case yaml.MarkedYAMLError() if error.problem_mark:
            return f"line {error.problem_mark.line + 1}: not YAML: {clean(error.problem)}"
        case RecursionError():
            return "nested too deeply"
        case _:
            return clean(error, 200)


def _take(
    given: dict[str, Given], path: str, item: tuple[yaml.Node, yaml.Node], mistakes: list[str]
) -> None:
    key_node, value_node = item
    key = str(key_node.value)
    place = f"{clean(path)} line {key_node.start_mark.line + 1}"
    field = _FIELD_OF_KEY.get(key)
    if field is None:
        near = suggestion(key.replace("_", "-").removeprefix("--"), tuple(_FIELD_OF_KEY))
        mistakes.append(f"{place}: unknown key {clean(key)!r}{near}")
    elif field in given:
        mistakes.append(f"{_names(field)}: set twice, the second time on {place}")
    elif _is_null(value_node):
        mistakes.append(f"{_names(field)}: has no value on {place}; leave the key out for default")
    else:
        given[field] = Given(_plain(value_node), place)


def _is_null(node: yaml.Node) -> bool:
    return node.tag == "tag:yaml.org,2002:null"


def _plain(node: yaml.Node) -> object:
    """Scalars as written (so `on` stays `on`); lists and mappings of them, one level deep."""
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    if isinstance(node, yaml.SequenceNode):
        return [_scalar(part) for part in node.value]
    return {_scalar(key): _scalar(value) for key, value in node.value}


def _scalar(node: yaml.Node) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _checked(
    given: Mapping[str, Given], own_namespace: str, mistakes: list[str]
) -> Settings | None:
    values = _defaults(given, own_namespace) | {name: one.value for name, one in given.items()}
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        mistakes.extend(_sentences(error, given))
        return None
    mistakes.extend(_unreadable(settings, given))
    return settings


def _defaults(given: Mapping[str, Given], own_namespace: str) -> dict[str, object]:
    cluster = given["cluster_name"].value if "cluster_name" in given else "slurm"
    return {
        "own_namespace": own_namespace,
        "watch_namespace": own_namespace,
        "slurmd_namespace": own_namespace,
        "scheduler_name": f"{own_namespace}-{cluster}",
    }


def _sentences(error: ValidationError, given: Mapping[str, Given]) -> list[str]:
    sentences = []
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        message = problem["msg"].removeprefix("Value error, ")
        field = str(problem["loc"][0]) if problem["loc"] else ""
        told = message.splitlines() or [message]
        sentences += [_sentence(field, line, given.get(field)) for line in told]
    return sentences


def _sentence(field: str, message: str, given: Given | None) -> str:
    if given is None:
        return f"{_names(field)}: {message}" if field else message
    value = "the value" if field in _SECRETS else repr(clean(given.value))
    allowed = message.replace("Input should be", "allowed is")
    return f"{_names(field)}: {value} from {given.origin} is wrong: {allowed}"


def _names(field: str) -> str:
    return f"{flag_of(field)} ({variable_of(field)}, file key {key_of(field)})"


def _unreadable(settings: Settings, given: Mapping[str, Given]) -> list[str]:
    """Files that must be there at start; opened, not read."""
    sentences = []
    for field in _FILES_READ:
        path = getattr(settings, field)
        try:
            if path is not None:
                path.open("rb").close()
        except OSError as error:
            why = f"cannot be read: {error.strerror or type(error).__name__}"
            sentences.append(_sentence(field, why, given.get(field)))
    return sentences
