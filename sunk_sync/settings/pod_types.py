"""Forms of the settings about workload Pods: maps and the table of users.

As in `forms`: every validator raises ValueError with a sentence that says what is allowed.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from pydantic import PlainValidator

from sunk_sync.core.translate.quantity import nanos
from sunk_sync.core.translate.user_policy import UserPolicy, read_user_policy

PRIORITY_MAX: Final = 2**32 - 3
_NAME_MAX: Final = 1024

_resource = re.compile(r"[a-z0-9][-a-z0-9.]*/(?:\*|[A-Za-z0-9][-A-Za-z0-9_.]*)", re.ASCII).fullmatch
_gres = re.compile(r"-|[A-Za-z][A-Za-z0-9_.-]*(?::[A-Za-z0-9_.+-]+)?", re.ASCII).fullmatch
_label_value = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII).fullmatch
_gpu_type = re.compile(r"[A-Za-z0-9_.+-]+", re.ASCII).fullmatch
_class = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII).fullmatch


class Pair(NamedTuple):
    """One entry of a map."""

    key: str
    value: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}"


class ByClass(NamedTuple):
    """What Pods of a PriorityClass ask of Slurm."""

    priority_class: str
    field: str
    """qos, partition or priority."""
    value: str | int

    def __str__(self) -> str:
        return f"{self.priority_class}={self.field}={self.value}"


GRES_MAP: Final = (
    Pair("nvidia.com/gpu", "gpu"),
    Pair("amd.com/gpu", "gpu"),
    Pair("rdma/*", "-"),
)


def _entries(given: object) -> list[Pair]:
    """`a=b,c=d`, or a mapping or a list of the file."""
    match given:
        case Mapping():
            words = [f"{key}={value}" for key, value in given.items()]
        case list() | tuple():
            words = [str(word) for word in given]
        case _:
            words = str(given).split(",") if str(given).strip() else []
    entries = [Pair(*map(str.strip, word.partition("=")[::2])) for word in words]
    if wrong := [entry for entry in entries if not (entry.key and entry.value)]:
        raise ValueError(f"allowed is a comma list of KEY=VALUE, and {wrong[0]!s} is none")
    return entries


def _once(entries: list[Pair]) -> tuple[Pair, ...]:
    seen: set[str] = set()
    for entry in entries:
        if entry.key in seen:
            raise ValueError(f"allowed is each key once, and {entry.key} stands there twice")
        seen.add(entry.key)
    return tuple(entries)


def _gres_map(given: object) -> object:
    entries = _once(_entries(given))
    for entry in entries:
        if not _resource(entry.key) or not _gres(entry.value):
            raise ValueError(
                f"{entry!s} is wrong: allowed is RESOURCE=GRES with an extended resource such as "
                "nvidia.com/gpu or rdma/*, and a GRES of Slurm such as gpu or gpu:a100, or -"
            )
    return entries


def _gpu_types(given: object) -> object:
    entries = _once(_entries(given))
    for entry in entries:
        if not _label_value(entry.key) or not _gpu_type(entry.value):
            raise ValueError(
                f"{entry!s} is wrong: allowed is LABELVALUE=TYPE such as A100_PCIE_80GB=a100"
            )
    return entries


def _overhead(given: object) -> object:
    entries = _once(_entries(given))
    for entry in entries:
        if entry.key not in ("cpu", "memory") or not _is_amount(entry.value):
            raise ValueError(
                f"{entry!s} is wrong: allowed is cpu=AMOUNT and memory=AMOUNT, as in a Pod's "
                "requests, such as 500m or 4Gi"
            )
    return entries


def _is_amount(text: str) -> bool:
    try:
        return nanos(text) > 0
    except ValueError:
        return False


def _priority_map(given: object) -> object:
    entries = [_by_class(entry) for entry in _entries(given)]
    seen: set[tuple[str, str]] = set()
    for entry in entries:
        if entry[:2] in seen:
            raise ValueError(f"{entry.priority_class}={entry.field} stands there twice")
        seen.add(entry[:2])
    return tuple(entries)


def _by_class(entry: Pair) -> ByClass:
    field, _, text = map(str.strip, entry.value.partition("="))
    sound = _is_number(text) if field == "priority" else field in ("qos", "partition")
    if not (sound and _is_name(text) and _class(entry.key)):
        raise ValueError(
            f"{entry!s} is wrong: allowed is PRIORITYCLASS=qos=NAME, PRIORITYCLASS=partition=NAME "
            "or PRIORITYCLASS=priority=NUMBER"
        )
    return ByClass(entry.key, field, int(text) if field == "priority" else text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= PRIORITY_MAX


def _is_name(text: str) -> bool:
    return text.isprintable() and 0 < len(text.encode()) <= _NAME_MAX and " " not in text


def _user_policy(given: object) -> object:
    if not isinstance(given, str) or not given or "\0" in given:
        raise ValueError("allowed is the path of a file")
    return read_user_policy(Path(given))


GresMap = Annotated[tuple[Pair, ...], PlainValidator(_gres_map)]
Overhead = Annotated[tuple[Pair, ...], PlainValidator(_overhead)]
GpuTypes = Annotated[tuple[Pair, ...], PlainValidator(_gpu_types)]
PriorityMap = Annotated[tuple[ByClass, ...], PlainValidator(_priority_map)]
UserPolicyFile = Annotated[UserPolicy | None, PlainValidator(_user_policy)]
