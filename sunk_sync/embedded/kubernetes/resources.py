"""Resources of Pods on a Node, and the status with which a kubelet rejects a Pod."""

from collections.abc import Iterable, Mapping
from typing import Any

from sunk_sync.core.translate.quantity import Amounts, amounts_of, counted, pod_requests

Object = dict[str, Any]


def requests_of(pod: Object) -> Amounts:
    """Return the resources that the kubelet reserves; none for invalid values."""
    try:
        return _requests_of(pod["spec"])
    except ValueError:
        return {}


def _requests_of(spec: Object) -> Amounts:
    return pod_requests(
        containers=[_asked(one) for one in spec.get("containers", ())],
        init_containers=[
            (_asked(one), one.get("restartPolicy") == "Always")
            for one in spec.get("initContainers", ())
        ],
        pod_level=_asked(spec),
        overhead=amounts_of(spec.get("overhead")),
    )


def _asked(one: Object) -> Amounts:
    return amounts_of((one.get("resources") or {}).get("requests"))


def rejection(
    asked: Amounts, *, beside: Iterable[Amounts], allocatable: Mapping[str, Any]
) -> Object | None:
    """Return the status of a Pod that does not fit beside the others; None if it fits.

    Resources that the Node does not list are ignored, as a kubelet does with extended resources.
    """
    if not asked:
        return None
    taken = list(beside)
    for resource, room in amounts_of(dict(allocatable)).items():
        wanted = asked.get(resource, 0)
        used = sum(one.get(resource, 0) for one in taken)
        if wanted and wanted + used > room:
            numbers = [counted(resource, amount) for amount in (wanted, used, room)]
            return _rejected(resource, *numbers)
    return None


def _rejected(resource: str, wanted: int, used: int, room: int) -> Object:
    why = f"Node didn't have enough resource: {resource}"
    return {
        "phase": "Failed",
        "reason": f"OutOf{resource}",
        "message": f"Pod was rejected: {why}, requested: {wanted}, used: {used}, capacity: {room}",
    }
