"""Forms of values: text of a flag, variable or file → a checked value, or what is allowed.

Every validator raises ValueError (as pydantic asks) with a sentence that begins `allowed is`.
"""

import re
from pathlib import Path
from typing import Annotated, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import BeforeValidator, PlainValidator, SecretStr

from sunk_sync.slurm.api.versions import DIALECTS

COMPONENTS = ("syncer", "scheduler", "nodes", "nodesets", "topology")
COMPONENTS_BUILT = ("syncer", "scheduler")

DURATION_FORM = "a duration: 30s, 1m30s, 500ms, 2h, or plain seconds"
DURATION_MAX_S = 7 * 24 * 3600.0
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+", re.ASCII)
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_PLAIN_SECONDS = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

_SWITCH = {"true": True, "yes": True, "on": True, "1": True}
_SWITCH |= {"false": False, "no": False, "off": False, "0": False}
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?", re.ASCII)
_KEY = r"(?:[A-Za-z0-9][-A-Za-z0-9.]*/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE = r"[-A-Za-z0-9_.]*"
_REQUIREMENT = (
    rf"\s*(?:!\s*{_KEY}|{_KEY}|{_KEY}\s*(?:==?|!=)\s*{_VALUE}"
    rf"|{_KEY}\s+(?:not)?in\s+\(\s*{_VALUE}(?:\s*,\s*{_VALUE})*\s*\))\s*"
)
_PLAIN_URL = re.compile(r"https?://[A-Za-z0-9._\[\]:/-]{1,300}", re.ASCII)
_SELECTOR = re.compile(rf"{_REQUIREMENT}(?:,{_REQUIREMENT})*", re.ASCII)


class Address(NamedTuple):
    """Where a door listens."""

    host: str
    """Empty: every address of the machine."""
    port: int
    """0: any free port."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_duration(given: object) -> float:
    """`1m30s` → 90.0; a plain number is seconds. ValueError says what is allowed."""
    text = str(given).strip()
    if _PLAIN_SECONDS.fullmatch(text):
        seconds = float(text)
    elif _DURATION.fullmatch(text):
        seconds = sum(float(n) * _UNIT_S[unit] for n, unit in _DURATION_PART.findall(text))
    else:
        raise ValueError(f"allowed is {DURATION_FORM}")
    if seconds > DURATION_MAX_S:
        raise ValueError("allowed is at most seven days (168h)")
    return seconds


def parse_address(given: object) -> Address | None:
    """`:8080`, `127.0.0.1:0`, `[::1]:80`; empty is None: this door stays shut."""
    text = str(given).strip()
    if not text:
        return None
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    sound = not bare or (":" in bare) == (bare != host)
    sound = sound and (not bare or ":" in bare or _HOST.fullmatch(bare) is not None)
    if not (colon and sound and port.isascii() and port.isdigit() and int(port) < 65536):
        raise ValueError("allowed is HOST:PORT, :PORT, [IPv6]:PORT, or empty for off")
    return Address(bare, int(port))


def _words(given: object) -> object:
    """Comma list → tuple; lists of the file pass as they are."""
    parts = given.split(",") if isinstance(given, str) else given
    if not isinstance(parts, list | tuple):
        raise ValueError("allowed is a comma-separated list")
    words = tuple(str(part).strip() for part in parts)
    if not words or not all(words):
        raise ValueError("allowed is a comma-separated list without empty entries")
    return words


def _namespaces(given: object) -> object:
    words = _words(given)
    assert isinstance(words, tuple)
    for word in words:
        if not _NAMESPACE.fullmatch(word):
            raise ValueError(f"{word!r} is no name of a namespace (a-z, 0-9 and -, at most 63)")
    return words


def _namespaces_or_all(given: object) -> object:
    return ("*",) if given in ("*", ["*"], ("*",)) else _namespaces(given)


def _components(given: object) -> object:
    words = _words(given)
    assert isinstance(words, tuple)
    if unknown := [word for word in words if word not in COMPONENTS]:
        raise ValueError(f"{unknown[0]!r} is none of {', '.join(COMPONENTS)}")
    if "syncer" not in words:
        raise ValueError("the others rest on syncer: name it too")
    return tuple(dict.fromkeys(words))


def _addresses_of_slurmrestd(given: object) -> object:
    words = _words(given)
    assert isinstance(words, tuple)
    return tuple(_url(word) for word in words)


def _url(word: str) -> str:
    try:
        parts = urlsplit(word)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound or parts.username or parts.query or parts.fragment or not word.isprintable():
        raise ValueError("allowed is a comma list of http://HOST:PORT or https://HOST:PORT")
    return word.rstrip("/")


def _hooks_url(given: object) -> object:
    """It is written into shell scripts: nothing in it may mean something there."""
    try:
        url = _url(given) if isinstance(given, str) else ""
    except ValueError:
        url = ""
    if not _PLAIN_URL.fullmatch(url):
        raise ValueError("allowed is http://HOST:PORT or https://HOST:PORT")
    return url


def _switch(given: object) -> object:
    word = str(given).strip().lower()
    if word not in _SWITCH:
        raise ValueError("allowed is true or false")
    return _SWITCH[word]


def _whole(given: object) -> object:
    text = str(given).strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise ValueError("allowed is a whole number, 0 or more")
    return int(text)


def _label_value(given: object) -> object:
    if not isinstance(given, str) or not _LABEL_VALUE.fullmatch(given):
        raise ValueError("allowed is a label value: letters, digits, -, _ and ., at most 63")
    return given


def _selector(given: object) -> object:
    if not isinstance(given, str) or not _SELECTOR.fullmatch(given):
        raise ValueError("allowed is a label selector such as app=slurmd,tier in (a,b); not empty")
    return given


def _filled(given: object) -> object:
    if isinstance(given, str) and not (given and given.isprintable()):
        raise ValueError("allowed is a text that is not empty and has no control characters")
    return given


def _path(given: object) -> object:
    if not isinstance(given, str) or not given or "\0" in given:
        raise ValueError("allowed is the path of a file")
    return Path(given)


def _secret(given: object) -> object:
    text = given.strip() if isinstance(given, str) else ""
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("allowed is one token: printable ASCII without spaces")
    return SecretStr(text)


def _slurm_version(given: object) -> object:
    if given not in (known := ("auto", *DIALECTS)):
        raise ValueError(f"allowed is one of {', '.join(known)}")
    return given


Duration = Annotated[float, BeforeValidator(parse_duration)]
Switch = Annotated[bool, BeforeValidator(_switch)]
Count = Annotated[int, BeforeValidator(_whole)]
Text = Annotated[str, BeforeValidator(_filled)]
LabelValue = Annotated[str, BeforeValidator(_label_value)]
Selector = Annotated[str, BeforeValidator(_selector)]
FilePath = Annotated[Path, BeforeValidator(_path)]
Secret = Annotated[SecretStr, BeforeValidator(_secret)]
BindAddress = Annotated[Address | None, PlainValidator(parse_address)]
Namespaces = Annotated[tuple[str, ...], BeforeValidator(_namespaces)]
NamespacesOrAll = Annotated[tuple[str, ...], BeforeValidator(_namespaces_or_all)]
Components = Annotated[tuple[str, ...], BeforeValidator(_components)]
HooksUrl = Annotated[str, BeforeValidator(_hooks_url)]
SlurmAddresses = Annotated[tuple[str, ...], BeforeValidator(_addresses_of_slurmrestd)]
SlurmVersion = Annotated[str, BeforeValidator(_slurm_version)]
Level = Literal["debug", "info", "warning", "error"]
