"""Whose a job is, if its own texts do not prove it: by its Pods, their user, and their annotation.

A job of a tenant can have any command line and any name. It counts for Pods that request the same
user, who could cancel their job anyway, and for bound Pods whose annotation names it.
"""

from collections.abc import Iterator, Sequence

from sunk_sync.core.model.claims import Claim, Claims, Vouched
from sunk_sync.core.model.facts import Pod
from sunk_sync.core.model.job_description import JobDescription
from sunk_sync.core.model.job_identity import Identity, job_name, workload_id
from sunk_sync.core.model.keys import CLUSTER, Key, uids_of, workload_key, workload_key_of
from sunk_sync.core.tables.claims import pod_key
from sunk_sync.core.translate.job_spec import digested
from sunk_sync.core.workloads.workloads import Workloads


def vouched(workloads: Workloads, claim: Claim) -> Vouched:
    """Return the identity of the job; unknown: its Pods are not known, or not yet.

    A job whose command line names Pods that no listing shows may be believed: at most it ends.
    """
    pods = _named_pods(workloads, claim)
    if not pods:
        return claim.identity if claim.identity and workloads.pods.listed else "unknown"
    if claim.identity is None:
        return _by_name(workloads, claim, pods)
    return claim.identity if _may_be_theirs(workloads, claim, pods) else "foreign"


def claims_changed(workloads: Workloads, word: Claims, *, now: float) -> set[Key]:
    """Take in the claims; return the workloads that they concern, or concerned before."""
    keys: set[str] = set()
    for one in workloads.memory.note_claims(word, now=now):
        pod = workloads.pods.get("/".join(one.split("/")[1:3]))
        own = workloads.index.key_of_uid.get(one)
        keys.update(filter(None, (own, None if pod is None else workload_key_of(pod))))
    return {CLUSTER, *map(workload_key, keys)}


def _named_pods(workloads: Workloads, claim: Claim) -> Sequence[Pod]:
    if claim.identity is not None:
        found = map(workloads.index.pod_of, uids_of(claim.identity))
        return [pod for pod in found if pod is not None]
    namespace, name = [*claim.name.split("/"), "", ""][1:3]
    pod = workloads.pods.get(pod_key(namespace, name))
    return [] if pod is None else [pod]


def _by_name(workloads: Workloads, claim: Claim, pods: Sequence[Pod]) -> Vouched:
    """The name has the hash of the Pods' UIDs: a Pod that was made anew has another one."""
    (first,) = pods
    if "_" in claim.job_id:
        return "unknown"  # the name of an array is that of one of its Pods
    for members in _sets_of(workloads, first):
        workload = workload_id([pod.uid for pod in members])
        same = claim.name == job_name(first.namespace, first.name, workload=workload)
        if same and _may_be_theirs(workloads, claim, members):
            named = tuple(sorted(f"{pod.namespace}/{pod.name}/{pod.uid}" for pod in members))
            ours = workloads.configuration
            return Identity(ours.cluster_uid, ours.scheduler, workload, named, name=claim.name)
    return "unknown"


def _sets_of(workloads: Workloads, first: Pod) -> Iterator[Sequence[Pod]]:
    """Yield the Pods that the job may have been made for."""
    yield [first]
    if first.gang is not None:
        members = list(workloads.index.pods.get(workload_key_of(first), {}).values())
        yield members
        yield [pod for pod in members if pod.job_id == first.job_id]


def _may_be_theirs(workloads: Workloads, claim: Claim, pods: Sequence[Pod]) -> bool:
    bound = [pod for pod in pods if pod.node_name]
    if bound:
        return all(_number_of(pod.job_id) == _number_of(claim.job_id) for pod in bound)
    return claim.trusted or claim.user_id == _user_of(workloads, pods[0])


def _number_of(job_id: str) -> str:
    return job_id.partition("_")[0]


def _user_of(workloads: Workloads, pod: Pod) -> int | None:
    """Return the user that the Pod requests; None: unknown, or its values are invalid."""
    own = workloads.namespace_defaults(pod.namespace)
    if own is None:
        return None
    described, _ = digested((pod,), workloads.configuration, own=own)
    return described.user_id if isinstance(described, JobDescription) else None
