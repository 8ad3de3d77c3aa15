"""Members of a workload: a single Pod, the Pods of a job, or a complete gang (G1, G7)."""

from collections.abc import Sequence

from msgspec.structs import replace

from sunk_sync.core.model.facts import GangSize, Pod
from sunk_sync.core.model.pod_spec import PodSpec
from sunk_sync.core.views.workload import Members


def members_of(
    known: dict[str, Pod], named: Sequence[str] | None, *, size_fact: GangSize | None
) -> Members:
    """Return the members among the known Pods of one key.

    `named`: UIDs in the identity of its job; None: no job. `size_fact`: the size read for the gang.
    """
    pods = sorted(known.values(), key=_name_of) if len(known) > 1 else list(known.values())
    if named is not None:
        strange = [pod for pod in pods if pod.uid not in named]
        return _members([pod for pod in pods if pod.uid in named] if strange else pods, strange)
    if not pods or (len(pods) == 1 and pods[0].gang is None):
        return _members(pods)
    return _of_gang(pods, size_fact)


def _members(pods: Sequence[Pod], surplus: Sequence[Pod] = ()) -> Members:
    every = tuple(pods)
    unbound = [pod for pod in pods if not pod.node_name]
    if not unbound:
        return Members(every, every, (), tuple(surplus))
    bound = [pod for pod in pods if pod.node_name]
    return Members(every, tuple(bound), tuple(unbound), tuple(surplus))


def _name_of(pod: Pod) -> str:
    return pod.name


def _of_gang(pods: Sequence[Pod], size_fact: GangSize | None) -> Members:
    """Without a job the gang is complete only if as many Pods exist as its size (G1, G7)."""
    bound = [pod for pod in pods if pod.node_name]
    if bound:
        return _of_bound(bound, [pod for pod in pods if not pod.node_name], size_fact)
    size = max((pod.gang.size for pod in pods if pod.gang), default=0)
    problem = next((pod.gang.problem for pod in pods if pod.gang and pod.gang.problem), "")
    ask = not size and (size_fact is None or not size_fact.size) and not problem
    size = size or (size_fact.size if size_fact else 0)
    ready = [pod for pod in pods if not (pod.ended or pod.terminating or pod.gated)]
    ready.sort(key=lambda pod: (pod.created_s, pod.name))
    missing = problem or _missing(len(ready), size, size_fact)
    taken = sorted(ready[:size], key=lambda pod: pod.name) if not missing else pods
    return Members(
        tuple(taken),
        (),
        tuple(taken),
        tuple(ready[size:]) if not missing else (),
        missing,
        ask,
        size_fact.asked_s if size_fact else 0.0,
    )


def _of_bound(bound: Sequence[Pod], others: Sequence[Pod], size_fact: GangSize | None) -> Members:
    """Bound together, so fewer Pods than the size mean that one is gone (G3)."""
    size = min((pod.gang.size for pod in bound if pod.gang), default=0)
    size = size or (size_fact.size if size_fact else 0)
    missing = f"{len(bound)} of the {size} Pods of its gang are left" if len(bound) < size else ""
    return replace(_members(bound, others), missing=missing)


def _missing(ready: int, size: int, size_fact: GangSize | None) -> str:
    if not size:
        why = f": {size_fact.why}" if size_fact is not None and size_fact.why else ""
        return f"the size of its gang is not known{why}"
    return f"{ready} of the {size} Pods of its gang exist" if ready < size else ""


def could_have_job(pod: Pod) -> bool:
    return not (pod.node_name or pod.ended or pod.terminating or pod.gated)


def kinds_of(pods: Sequence[Pod]) -> list[PodSpec]:
    specs = [pod.spec for pod in pods]
    return list(dict.fromkeys(specs)) if len(specs) > 1 else specs
