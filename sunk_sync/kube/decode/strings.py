"""Cut untrusted texts, and share equal ones."""

from functools import lru_cache
from sys import intern

from sunk_sync.core.model.condition import Condition, ConditionStatus
from sunk_sync.kube.decode import wire_hosts

VALUE_LENGTH_MAX = 1024


def cut(value: str) -> str:
    """Cut to a bounded length: annotations can have 256 kB."""
    return value if len(value) <= VALUE_LENGTH_MAX else value[:VALUE_LENGTH_MAX]


def cut_or_none(value: str | None) -> str | None:
    return None if value is None else cut(value)


def asked(value: str) -> bool:
    """Whether a boolean annotation is set: any value except the empty one and `false`."""
    return bool(value) and value.strip().lower() not in ("", "false")


def condition(wire: wire_hosts.WireCondition) -> Condition:
    """Share one object for equal conditions: thousands of objects have the same few.

    Most are equal to the last one of their type, and this comparison is cheaper than a look-up.
    """
    kind = wire.type
    latest = _latest.get(kind)
    if latest is not None and (
        latest.status == wire.status
        and latest.reason == wire.reason
        and latest.message == wire.message
    ):
        return latest
    found = _condition(kind, wire.status, cut(wire.reason), cut(wire.message))
    if len(_latest) < TYPES_KEPT or kind in _latest:
        _latest[found.type] = found
    return found


TYPES_KEPT = 64
_latest: dict[str, Condition] = {}


@lru_cache(maxsize=8192)
def _condition(kind: str, status: str, reason: str, message: str) -> Condition:
    return Condition(intern(cut(kind)), condition_status(status), intern(reason), message)


def condition_status(text: str) -> ConditionStatus:
    """Return one of the three that Kubernetes has; any other text says nothing."""
    return "True" if text == "True" else "False" if text == "False" else "Unknown"
