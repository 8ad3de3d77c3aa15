"""Reads that show whether Pods that no listing shows are gone (P21)."""

from sunk_sync.core.model.actions import LOOK_AGAIN_S, Action, GetObject, Relist
from sunk_sync.core.model.verdict import Ruling
from sunk_sync.core.views.conclusions import is_known_gone
from sunk_sync.core.views.parts import Tried
from sunk_sync.core.views.workload import AbsentPods


def look_for_absent(absent: AbsentPods, *, since_s: float, now: float) -> Ruling | None:
    """Read each absent Pod by name: a missing row does not prove it gone (P21).

    `since_s`: when their job was seen. None: all are known to be gone.
    """
    open_pods = [pod for pod in absent.pods if not is_known_gone(absent, pod)]
    if not open_pods:
        return None
    asked = {(one.namespace, one.name): one.asked_s for one in absent.get_results}
    wants: list[Action] = []
    times: list[float] = []
    for pod in open_pods:
        namespace, _, rest = pod.partition("/")
        name = rest.partition("/")[0]
        asked_s = asked.get((namespace, name))
        if asked_s is not None and now < asked_s + LOOK_AGAIN_S:
            times.append(asked_s + LOOK_AGAIN_S)
        elif not name:
            wants.append(Relist("pods", since_s))
        else:
            wants.append(GetObject("Pod", namespace, name, asked_s or since_s))
    because = f"{open_pods[0]} may still live"
    return Ruling(tuple(dict.fromkeys(wants)), because, min(times, default=None))


BOUND_AGAIN_S = 2.0
"""Seconds between two reads of a Pod that do not show whether it is bound."""


def look_where_bound(
    tried: Tried, *, namespace: str, name: str, now: float
) -> tuple[GetObject | None, float]:
    """Return a read of a Pod that may be bound, or none, and when it is due (P14, L7)."""
    again_s = tried.asked_s + BOUND_AGAIN_S
    if tried.asked_s and now < again_s:
        return None, again_s
    return GetObject("Pod", namespace, name, tried.asked_s or tried.given_up_s), now
