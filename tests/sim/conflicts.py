"""S16 from outside: Pods that claim the same Slurm node, and what they must show.

Only simple conflicts are covered: running slurmd Pods, none of which is terminating.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from tests.sim import words
from tests.sim.words import Object

CONFLICT = "SlurmNodeConflict"
"""Type of the condition, and reason of the Event."""


class Conflict(Struct, frozen=True, kw_only=True):
    """One Slurm node, the Pods that claim it, and all Pods in conflict."""

    slurm_node: str
    claimants: Sequence[Object]
    rivals: Sequence[Object]


def conflicts(pods: Iterable[Object]) -> Iterator[Conflict]:
    """Yield two Pods that claim one Slurm node, or two on one Node that claim two."""
    living = [pod for pod in pods if not words.is_finished(pod)]
    for name in sorted({words.claimed_by(pod) for pod in living}):
        claimants = [pod for pod in living if words.claimed_by(pod) == name]
        rivals = _rivals(claimants, living)
        if len(rivals) > 1 and not any(words.is_terminating(pod) for pod in rivals):
            yield Conflict(slurm_node=name, claimants=claimants, rivals=rivals)


def _rivals(claimants: Sequence[Object], living: Sequence[Object]) -> Sequence[Object]:
    """Return all claimants. For a single one, add its neighbours on the Node that claim others."""
    if len(claimants) > 1:
        return claimants
    place = claimants[0]["spec"].get("nodeName", "")
    return [pod for pod in living if place and pod["spec"].get("nodeName") == place] or claimants


def unreported(conflict: Conflict, events: Iterable[Object] | None) -> Iterator[str]:
    """Yield claimants whose condition or Event lacks a rival. `events=None` ignores Events."""
    names = [f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in conflict.rivals]
    for pod in conflict.claimants:
        who, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        condition = words.conditions_of(pod).get(CONFLICT, {})
        if condition.get("status") != "True" or not _names_all(condition, names):
            yield f"S16: Pod {who} does not show {names}: {condition}"
        if events is None:
            continue
        told = [
            event
            for event in events
            if event["reason"] == CONFLICT and event["involvedObject"].get("uid") == uid
        ]
        if not any(_names_all(event, names) for event in told):
            yield f"S16: no Event on Pod {who} names {names}"


def _names_all(told: Object, names: Sequence[str]) -> bool:
    return all(name in told.get("message", "") for name in names)
