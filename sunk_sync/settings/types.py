"""Types of the values of settings: turn the text of a flag, variable or file into a checked value.

Each check raises ValueError, for pydantic, with a sentence that says what is allowed.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, PlainValidator, SecretStr, WrapValidator

from sunk_sync.core.model.user_policy import UserPolicy
from sunk_sync.core.translate.gres import read_gpu_type, read_gres
from sunk_sync.core.translate.job_annotations import read_priority_class
from sunk_sync.core.translate.kube_forms import is_label_value, is_namespace, is_selector
from sunk_sync.core.translate.quantity import read_overhead
from sunk_sync.core.translate.user_policy import user_policy_of
from sunk_sync.settings.yaml_file import read_sections
from sunk_sync.slurm.api.versions import DIALECTS

DURATION_MAX_S: Final = 7 * 24 * 3600.0
_UNIT_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

_PORT = r"(?:6553[0-5]|655[0-2]\d|65[0-4]\d\d|6[0-4]\d{3}|[1-5]?\d{1,4})"
_HOST = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*\])"
_KEY: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?", re.ASCII).fullmatch
KEY_MAX: Final = 317
_VERSIONS: Final = ("auto", *DIALECTS)
_URL = rf"https?://{_HOST}(?::(?!0){_PORT})?(?:/[\w./-]{{0,200}})?"
"""No special character of a shell is valid: scripts contain --hooks-url."""


def _form(pattern: str) -> Callable[[str], object]:
    return re.compile(pattern, re.ASCII).fullmatch


class Address(NamedTuple):
    host: str
    """Empty: every address of the machine."""
    port: int
    """0: any free port."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class PolicyFile(NamedTuple):
    path: Path
    policy: UserPolicy
    """Its content at the start."""


def parse_duration(given: object) -> float:
    """Read `1m30s` as 90.0, a plain number as seconds. The ValueError says what is allowed."""
    text = str(given).strip()
    text = f"{text}s" if re.fullmatch(r"\d+(?:\.\d+)?", text, re.ASCII) else text
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", text, re.ASCII)
    if not parts or "".join(map("".join, parts)) != text:
        raise ValueError("allowed is a duration: 30s, 1m30s, 500ms, 2h, or plain seconds")
    seconds = sum(float(number) * _UNIT_S[unit] for number, unit in parts)
    if seconds > DURATION_MAX_S:
        raise ValueError("allowed is at most seven days (168h)")
    return seconds


def parse_address(given: object) -> Address | None:
    """Read `:8080`, `127.0.0.1:0`, `[::1]:80`; empty is None: this server is off."""
    text = str(given).strip()
    if not text:
        return None
    if not re.fullmatch(rf"{_HOST}?:{_PORT}", text, re.ASCII):
        raise ValueError("allowed is HOST:PORT, :PORT, [IPv6]:PORT, or empty for off")
    host, _, port = text.rpartition(":")
    return Address(host.strip("[]"), int(port))


def parse_loopback(given: object) -> Address | None:
    """Read an address as `parse_address` does; only this machine may reach it."""
    address = parse_address(given)
    if address is not None and not re.fullmatch(r"127\.[\d.]+|::1|localhost", address.host):
        raise ValueError("allowed is an address of this machine alone, 127.0.0.1:PORT, or empty")
    return address


def _check(is_sound: Callable[[str], object], allowed: str) -> BeforeValidator:
    """Refuse an invalid value; `allowed` describes the valid ones."""

    def checked(given: object) -> object:
        text = str(given).strip() if isinstance(given, str | int) else ""
        if not (text and is_sound(text)):
            raise ValueError(f"allowed is {allowed}")
        return text

    return BeforeValidator(checked)


def _bare(url: str) -> str:
    return url.rstrip("/")


def _readable(path: Path) -> Path:
    try:
        path.open("rb").close()
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or type(error).__name__}") from None
    return path


def read_user_policy(path: Path) -> UserPolicy:
    """Read and check the whole file. ValueError: each problem is a line."""
    return user_policy_of(read_sections(path))


def _user_policy(path: str) -> PolicyFile:
    file = _readable(Path(path))
    return PolicyFile(file, read_user_policy(file))


def _unless_empty(given: object, check: Callable[[object], object]) -> object:
    return check(given) if given else None


def _traceable(address: str) -> str:
    """Refuse an address without the optional packages: nothing would be sent there."""
    try:
        spec = find_spec("opentelemetry.exporter.otlp.proto.http")
    except ModuleNotFoundError:
        spec = None
    if spec is None or find_spec("opentelemetry.sdk") is None:
        raise ValueError(
            "the packages of the extra `traces` are missing: the image of sunk-sync has them, and "
            "elsewhere `pip install --no-deps -r requirements-traces.lock` installs them"
        )
    return address


def parse_share(given: object) -> float:
    """Read `0.1`. The ValueError says what is allowed."""
    text = str(given).strip()
    if not re.fullmatch(r"0|1|0?\.\d{1,9}|[01]\.0*", text, re.ASCII):
        raise ValueError("allowed is a share from 0 to 1, such as 0.1")
    return float(text)


def _words(given: object) -> object:
    """Turn a comma list into a tuple; lists of the file pass as they are."""
    parts = given.split(",") if isinstance(given, str) else given
    words = [str(part).strip() for part in parts] if isinstance(parts, list | tuple) else []
    if not words or not all(words):
        raise ValueError("allowed is a comma-separated list without empty entries")
    return tuple(words)


def _words_or_none(given: object) -> object:
    return () if given in ("none", [], ()) else _words(given)


def _or_all(given: object, check: Callable[[object], object]) -> object:
    return ("*",) if _words(given) == ("*",) else check(given)


def _with_syncer(components: tuple[str, ...]) -> tuple[str, ...]:
    if "syncer" not in components:
        raise ValueError("the others rest on syncer: name it too")
    return tuple(dict.fromkeys(components))


def _entries(given: object) -> object:
    """Accept `a=b,c=d`, or a mapping or a list of the file."""
    if isinstance(given, Mapping):
        return tuple(f"{key}={value}" for key, value in given.items())
    return _words(given) if given else ()


def _unique(entries: tuple[tuple[Any, ...], ...]) -> tuple[tuple[Any, ...], ...]:
    keys = Counter("=".join(entry[:-1]) for entry in entries)
    if twice := [key for key, count in keys.items() if count > 1]:
        raise ValueError(f"allowed is each key once, and {twice[0]} stands there twice")
    return entries


def _pair(given: object) -> tuple[str, str]:
    key, _, value = map(str.strip, str(given).partition("="))
    if not (key and value):
        raise ValueError("allowed is a comma list of KEY=VALUE")
    return key, value


def _name_and_value(given: object) -> tuple[str, str]:
    """Read KEY or KEY=VALUE; no value stands for any."""
    key, _, value = map(str.strip, str(given).partition("="))
    if not _KEY(key) or len(key) > KEY_MAX:
        raise ValueError("allowed is a comma list of KEY or KEY=VALUE")
    return key, value


def _type_and_status(given: object) -> tuple[str, str]:
    """Read TYPE or TYPE=STATUS; no status stands for True."""
    kind, status = _name_and_value(given)
    if status not in ("", "True", "False", "Unknown"):
        raise ValueError("allowed is a comma list of TYPE or TYPE=True, TYPE=False, TYPE=Unknown")
    return kind, status or "True"


_path = _check(_form(r"[^\0]+"), "the path of a file")
_namespace = _check(is_namespace, "a name of a namespace: a-z, 0-9 and -, at most 63")
_list = BeforeValidator(_words)
_map = BeforeValidator(_entries)
_by_key = AfterValidator(_unique)
_key_value = PlainValidator(_pair)

Duration = Annotated[float, BeforeValidator(parse_duration)]
Switch = Annotated[bool, _check(_form("(?i:true|false|yes|no|on|off|1|0)"), "true or false")]
Count = Annotated[int, _check(_form(r"\d{1,9}"), "a whole number, 0 or more")]
Text = Annotated[str, _check(str.isprintable, "a text with no control characters, not empty")]
LabelValue = Annotated[
    str, _check(is_label_value, "a label value: letters, digits, -, _ and ., at most 63")
]
Selector = Annotated[
    str, _check(is_selector, "a label selector such as app=slurmd,tier in (a,b); not empty")
]
Secret = Annotated[SecretStr, _check(_form("[!-~]+"), "one token: printable ASCII without spaces")]
FilePath = Annotated[Path, _path]
ReadableFile = Annotated[Path, AfterValidator(_readable), _path]
BindAddress = Annotated[Address | None, PlainValidator(parse_address)]
LoopbackAddress = Annotated[Address | None, PlainValidator(parse_loopback)]
Url = Annotated[
    str, AfterValidator(_bare), _check(_form(_URL), "http://HOST:PORT or https://HOST:PORT")
]
TracesUrl = Annotated[Url, AfterValidator(_traceable), WrapValidator(_unless_empty)]
"""None: empty, as if it were not set."""
Share = Annotated[float, BeforeValidator(parse_share)]
Urls = Annotated[tuple[Url, ...], _list]
Namespaces = Annotated[tuple[Annotated[str, _namespace], ...], _list]
NamespacesOrAll = Annotated[Namespaces, WrapValidator(_or_all)]
Component = Literal["syncer", "scheduler", "nodes", "nodesets", "topology"]
Components = Annotated[tuple[Component, ...], _list, AfterValidator(_with_syncer)]
Objects = Annotated[tuple[Literal["jobs", "nodes"], ...], _list]
SlurmVersion = Annotated[str, _check(_VERSIONS.__contains__, f"one of {', '.join(_VERSIONS)}")]
Level = Literal["debug", "info", "warning", "error"]

_Gres = Annotated[tuple[str, str], _key_value, AfterValidator(read_gres)]
_GpuType = Annotated[tuple[str, str], _key_value, AfterValidator(read_gpu_type)]
_Overhead = Annotated[tuple[str, int], _key_value, AfterValidator(read_overhead)]
_ByClass = Annotated[tuple[str, str, str | int], _key_value, AfterValidator(read_priority_class)]
_Taint = Annotated[tuple[str, str], PlainValidator(_name_and_value)]
_Condition = Annotated[tuple[str, str], PlainValidator(_type_and_status)]
Taints = Annotated[tuple[_Taint, ...], BeforeValidator(_words_or_none)]
Conditions = Annotated[tuple[_Condition, ...], BeforeValidator(_words_or_none)]
GresMap = Annotated[tuple[_Gres, ...], _map, _by_key]
GpuTypes = Annotated[tuple[_GpuType, ...], _map, _by_key]
NodeOverhead = Annotated[tuple[_Overhead, ...], _map, _by_key]
PriorityMap = Annotated[tuple[_ByClass, ...], _map, _by_key]
CheckedPolicy = Annotated[PolicyFile, PlainValidator(_user_policy), _path]
