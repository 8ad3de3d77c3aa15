"""Members of a workload: a single Pod, the Pods of a job, or a complete gang (G1, G7, G8)."""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from sunk_sync.core.model.facts import Job, Pod
from sunk_sync.core.model.gang_size import GangSize
from sunk_sync.core.model.keys import uid_in
from sunk_sync.core.model.pod_spec import PodSpec
from sunk_sync.core.translate.counted import counted
from sunk_sync.core.views.workload import Members, SizeRead

ASK_AGAIN_S = 30.0
ASK_AGAIN_MAX_S = 300.0
PODS_CAME_S = 1.0
"""Pause before the size is read again while Pods of an incomplete gang come and go."""


class GangFacts(Struct, frozen=True, gc=False):
    """What sunk-sync remembers of a gang, besides its Pods."""

    size: GangSize | None
    """The size as it was read last; None: it was not."""
    changed_s: float
    """When a Pod last came or went."""
    finished: Mapping[str, Pod]
    """Bound Pods that ended by themselves, by UID; some are gone."""
    gone: Collection[str]
    """UIDs of Pods that a watch reported as deleted."""


def members_of(known: dict[str, Pod], gang: GangFacts) -> Members:
    """Return the members among the known Pods of one key that has no live job."""
    pods = _sorted(known)
    if not pods or (len(pods) == 1 and pods[0].gang is None):
        return _members(pods, gang)
    return _of_gang(pods, gang)


def members_of_job(
    known: dict[str, Pod], named: Sequence[str], *, gang: GangFacts, waits: bool
) -> Members:
    """Return the members of the key's live job. `named`: UIDs in its identity."""
    pods = _sorted(known)
    strange = [pod for pod in pods if pod.uid not in named]
    if not strange:
        return _with_lost(_members(pods, gang), named, gang)
    surplus = [pod for pod in strange if not pod.ended]
    members = _members([pod for pod in pods if pod.uid in named], gang, surplus)
    others = sorted(filter(could_have_job, strange), key=_age)
    if not (members.pods and others):
        return _with_lost(members, named, gang)
    if waits and not members.bound:
        return _of_waiting(members, others, [pod for pod in pods if pod.ended], gang)
    members = _with_lost(members, named, gang)
    return replace(members, replacement=_replacement(members, named, others, gang.finished))


def _sorted(known: dict[str, Pod]) -> list[Pod]:
    return sorted(known.values(), key=_name_of) if len(known) > 1 else list(known.values())


def _members(pods: Sequence[Pod], gang: GangFacts, surplus: Sequence[Pod] = ()) -> Members:
    every = tuple(pods)
    unbound = [pod for pod in pods if not pod.node_name]
    bound = [pod for pod in pods if pod.node_name] if unbound else every
    leaving = any(_is_leaving(pod, gang.finished) for pod in pods)
    return Members(every, tuple(bound), tuple(unbound), tuple(surplus), leaving=leaving)


def _is_leaving(pod: Pod, finished: Collection[str]) -> bool:
    if pod.ended:
        return not pod.node_name or (pod.terminating and pod.uid not in finished)
    return pod.terminating


def _name_of(pod: Pod) -> str:
    return pod.name


def _age(pod: Pod) -> tuple[int, str]:
    return pod.created_s, pod.name


def _of_gang(pods: Sequence[Pod], gang: GangFacts) -> Members:
    """Without a job the gang is complete only if as many Pods live as it needs (G1, G7, G8)."""
    living = [pod for pod in pods if not pod.ended]
    ended = [pod for pod in pods if pod.ended]
    if not living:
        return _members(pods, gang)
    bound = [pod for pod in living if pod.node_name]
    if bound:
        others = [pod for pod in living if not pod.node_name]
        return _of_bound(bound, others, ended, gang)
    ready = sorted(filter(could_have_job, living), key=_age)
    problem = next((pod.gang.problem for pod in living if pod.gang and pod.gang.problem), "")
    given = max((pod.gang.size for pod in living if pod.gang), default=0)
    size = given or (gang.size.size if gang.size else 0)
    succeeded = _succeeded(living, ended, gang.size)
    size_read = (
        None if given or problem else _size_read(gang, ready=len(ready), needed=size - succeeded)
    )
    missing = problem or _missing(gang.size, ready=len(ready), size=size, succeeded=succeeded)
    if not missing and size_read is not None and _is_outdated(gang):
        missing = "the size of its gang is read again"
    if missing:
        return Members(tuple(living), (), tuple(living), missing=missing, size_read=size_read)
    taken, surplus = ready[: size - succeeded], ready[size - succeeded :]
    taken.sort(key=_name_of)
    return Members(tuple(taken), (), tuple(taken), tuple(surplus), size_read=size_read)


def _of_bound(
    bound: Sequence[Pod], others: Sequence[Pod], ended: Sequence[Pod], gang: GangFacts
) -> Members:
    """Bound together, so fewer Pods than the size mean that one is gone (G3)."""
    size = min((pod.gang.size for pod in bound if pod.gang), default=0)
    size = size or (gang.size.size if gang.size else 0)
    attempts = {pod.job_id for pod in bound}
    failed = [pod for pod in ended if pod.job_id in attempts and not has_succeeded(pod)]
    beside = [pod for pod in ended if pod.job_id in attempts and has_succeeded(pod)]
    succeeded = max(len(beside), _succeeded(bound, ended, gang.size))
    left = len(bound) + len(failed) + succeeded
    missing = f"{left} of the {counted(size, 'Pod')} of its gang are left" if left < size else ""
    again = sorted(filter(could_have_job, others), key=_age) if failed else []
    replacement = again[0] if again else None
    return replace(_members(bound, gang, others), missing=missing, replacement=replacement)


def _of_waiting(
    members: Members, others: Sequence[Pod], ended: Sequence[Pod], gang: GangFacts
) -> Members:
    """More Pods came while the job waits: the size of the gang may have changed (G9)."""
    given = max((pod.gang.size for pod in members.pods if pod.gang), default=0)
    read = gang.size.size if gang.size and not _is_outdated(gang) else 0
    now = len(members.pods)
    needed = (given or read) - _succeeded(members.pods, ended, gang.size)
    complete = len([*filter(could_have_job, members.pods)]) + len(others) >= needed
    pods = counted(needed, "Pod")
    resized = f"its gang has {pods} now, not {now}" if complete and needed > now else ""
    size_read = None if given else _size_read(gang, ready=now + len(others), needed=now)
    return replace(members, resized=resized, size_read=size_read)


def _with_lost(members: Members, named: Sequence[str], gang: GangFacts) -> Members:
    """Say which Pods were cleaned up after their success, when this process did not see it (G8).

    Only a Job counts them: it keeps each Pod until then.
    """
    if len(members.pods) == len(named) or not members.pods:
        return members
    first = members.pods[0].gang
    present = {pod.uid for pod in members.pods} | gang.finished.keys()
    lost = [uid for uid in named if uid not in present and uid not in gang.gone]
    if not lost or first is None or first.kind != "job":
        return members
    if gang.size is None or _is_outdated(gang):
        read = SizeRead() if gang.size is None else SizeRead(gang.size.asked_s, PODS_CAME_S)
        return replace(members, size_read=read, unread_ends=True)
    ends = {pod.uid: pod for pod in (*gang.finished.values(), *members.pods)}.values()
    seen = [pod for pod in ends if has_succeeded(pod) and _owners([pod]) == {first.owner}]
    cleaned_up = len(lost) <= gang.size.succeeded - len(seen)
    return replace(members, cleaned_up=tuple(lost)) if cleaned_up else members


def _replacement(
    members: Members, named: Sequence[str], others: Sequence[Pod], finished: Mapping[str, Pod]
) -> Pod | None:
    """Return the Pod that takes the place of a failed member while others run, or None (G8)."""
    present = {pod.uid: pod for pod in members.pods}
    ends = [present.get(uid) or finished.get(uid) for uid in named]
    failed = [pod for pod in ends if pod is not None and pod.phase == "Failed"]
    living = [pod for pod in members.pods if not pod.ended]
    return others[0] if failed and living else None


def has_succeeded(pod: Pod) -> bool:
    return pod.phase == "Succeeded"


def _succeeded(living: Sequence[Pod], ended: Sequence[Pod], size: GangSize | None) -> int:
    """Return how many ranks have succeeded: their Pods are not made again.

    Pods of another owner, or of none, may be an earlier gang of the same name.
    """
    owners = _owners(living)
    seen = [pod for pod in ended if has_succeeded(pod) and not owners.isdisjoint(_owners([pod]))]
    return max(len(seen), size.succeeded if size else 0)


def _owners(pods: Collection[Pod]) -> set[str]:
    return {pod.gang.owner for pod in pods if pod.gang and pod.gang.owner}


def _is_outdated(gang: GangFacts) -> bool:
    """Whether a Pod came or went after the size was read."""
    return gang.size is None or gang.size.asked_s < gang.changed_s


def _size_read(gang: GangFacts, *, ready: int, needed: int) -> SizeRead | None:
    """Return when the PodGroup or Job must be read; None: it names as many Pods as exist (G9)."""
    size = gang.size
    if size is None:
        return SizeRead()
    if not _is_outdated(gang):
        pause_s = min(max(ASK_AGAIN_S, size.asked_s - gang.changed_s), ASK_AGAIN_MAX_S)
        return None if size.size and ready == needed else SizeRead(size.asked_s, pause_s)
    if not size.size:
        return SizeRead(size.asked_s, ASK_AGAIN_S)
    return SizeRead(size.asked_s, 0.0 if ready >= needed else PODS_CAME_S)


def _missing(size_fact: GangSize | None, *, ready: int, size: int, succeeded: int) -> str:
    if not size:
        why = f": {size_fact.why}" if size_fact is not None and size_fact.why else ""
        return f"the size of its gang is not known{why}"
    needed = size - succeeded
    if needed < 1:
        pods = counted(size, "Pod of its gang has", "Pods of its gang have")
        return f"all {pods} succeeded already"
    done = f"; {counted(succeeded, 'has', 'have')} succeeded" if succeeded else ""
    pods = counted(needed, "Pod")
    return f"{ready} of the {pods} of its gang exist{done}" if ready < needed else ""


def could_have_job(pod: Pod) -> bool:
    return not (pod.node_name or pod.ended or pod.terminating or pod.gated)


def kinds_of(pods: Sequence[Pod]) -> list[PodSpec]:
    specs = [pod.spec for pod in pods]
    return list(dict.fromkeys(specs)) if len(specs) > 1 else specs


def absent_of(job: Job | None, known: Collection[str]) -> tuple[str, ...]:
    """Return the Pods of the job that are not among these UIDs."""
    if job is None:
        return ()
    named = job.identity.pods or tuple(f"//{uid}" for uid in job.identity.uids)
    return tuple([pod for pod in named if uid_in(pod) not in known])
