"""Where the claims of Pods can be had, and which selected Nodes may stay after convergence (P8)."""

from collections.abc import Iterator, Sequence

from sunk_sync.embedded.kubernetes.store.kinds import (
    NODES,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
)
from sunk_sync.embedded.kubernetes.volumes import NO_PROVISIONER
from tests.sim import words
from tests.sim.words import Object
from tests.sim.workloads.storage import (
    attached,
    claim_of,
    claims_of,
    has_room,
    host_of,
    limit_of,
    volume_of,
)
from tests.sim.workloads.truth import (
    is_alive,
    live_jobs,
    place_of,
    slurm_node_of,
    spelled,
    uid_of,
    workload,
)
from tests.sim.workloads.volume_checks import users_of
from tests.sim.worlds import Worlds


def hosts_with_volumes(worlds: Worlds, pods: Sequence[Object]) -> set[str]:
    """Return the Slurm nodes where these Pods, a gang or one, can have all their claims.

    Each member has a host of its own. One that has a single choice gets it, and the others go to
    any of the hosts that suit all of them.
    """
    of_each = [_hosts_of(worlds, pod, pods) for pod in pods]
    only = [hosts for hosts in of_each if len(hosts) == 1]
    loose = [hosts for hosts in of_each if len(hosts) != 1]
    rest = set.intersection(*loose) if loose else set()
    if not all(of_each) or len(set.union(*only, set())) < len(only) or _share_one(pods):
        return set()
    return rest.union(*only)


def hosts_needed(worlds: Worlds, pods: Sequence[Object]) -> set[str]:
    """Return the Slurm nodes without which these Pods cannot run."""
    of_each = [_hosts_of(worlds, pod, pods) for pod in pods]
    return set().union(*(hosts for hosts in of_each if len(hosts) == 1))


def _share_one(pods: Sequence[Object]) -> bool:
    """Whether two members use one claim: all claims here are ReadWriteOnce."""
    names = [name for pod in pods for name in claims_of(pod)]
    return len(set(names)) < len(names)


def _hosts_of(worlds: Worlds, pod: Object, pods: Sequence[Object]) -> set[str]:
    nodes = {key.removeprefix("/") for key in worlds.kube.store.rows(NODES)}
    nodes = {node for node in nodes if _attaches(worlds, node, pod, but=pods)}
    for name in claims_of(pod):
        nodes &= _nodes_of(worlds, pod, name, nodes)
        path = f"{pod['metadata']['namespace']}/{name}"
        others = [one for one in users_of(worlds, path) if uid_of(one) != uid_of(pod)]
        nodes &= set(filter(None, map(place_of, others))) or nodes
    return set(map(slurm_node_of, nodes))


def _attaches(worlds: Worlds, node_name: str, pod: Object, *, but: Sequence[Object]) -> bool:
    """Whether the Node can attach the volumes of this Pod too.

    The volumes of Pods whose jobs run there count before they are bound; `but`: of its own job.
    """
    unbound = {uid_of(one) for one in but if not place_of(one)}
    others = [one for one in workload(worlds) if is_alive(one) and uid_of(one) not in unbound]
    there = [one for one in others if _is_at(worlds, one, node_name)]
    kube = worlds.kube
    if not attached(kube, [pod]):
        return True
    return len(attached(kube, [*there, pod])) <= limit_of(kube, node_name)


def _is_at(worlds: Worlds, pod: Object, node_name: str) -> bool:
    if place_of(pod):
        return place_of(pod) == node_name
    return any(slurm_node_of(node_name) in job.nodes for job in live_jobs(worlds, uid_of(pod)))


def _nodes_of(worlds: Worlds, pod: Object, name: str, nodes: set[str]) -> set[str]:
    kube, namespace = worlds.kube, pod["metadata"]["namespace"]
    claim = claim_of(kube, name, namespace=namespace)
    if claim is None or "deletionTimestamp" in claim["metadata"]:
        return set()
    volume = volume_of(kube, claim) or _reserved(worlds, claim)
    if volume is not None:
        near = {host_of(volume)}
        return nodes if near == {""} else near
    stored = kube.store.get(STORAGE_CLASSES, f"/{claim['spec']['storageClassName']}")
    if stored is None or stored.an_object["volumeBindingMode"] == "Immediate":
        return set()
    marks = words.annotations_of(claim)
    if words.SELECTED_NODE in marks and words.VOLUME_FOR not in marks:
        return {marks[words.SELECTED_NODE]}
    if stored.an_object["provisioner"] != NO_PROVISIONER:
        return {node for node in nodes if has_room(kube, node)}
    return {host_of(one) for one in _free(worlds, claim)}


def _reserved(worlds: Worlds, claim: Object) -> Object | None:
    uid = claim["metadata"]["uid"]
    rows = worlds.kube.store.rows(VOLUMES).values()
    mine = [
        row.an_object
        for row in rows
        if (row.an_object["spec"].get("claimRef") or {}).get("uid") == uid
    ]
    return mine[0] if mine else None


def _free(worlds: Worlds, claim: Object) -> list[Object]:
    of = claim["spec"]["storageClassName"]
    rows = [row.an_object for row in worlds.kube.store.rows(VOLUMES).values()]
    return [
        one
        for one in rows
        if one["spec"]["storageClassName"] == of
        and one["status"]["phase"] == "Available"
        and not one["spec"].get("claimRef")
    ]


def selections(worlds: Worlds) -> Iterator[str]:
    """Yield a sentence for each mark that no live job on its Node needs."""
    for path, row in worlds.kube.store.rows(VOLUME_CLAIMS).items():
        marks = words.annotations_of(row.an_object)
        owner = marks.get(words.VOLUME_FOR, "")
        if not owner:
            continue
        host = slurm_node_of(marks.get(words.SELECTED_NODE, ""))
        jobs = [
            job
            for pod in users_of(worlds, path)
            for job in live_jobs(worlds, uid_of(pod))
            if is_alive(pod) and not place_of(pod) and host in job.nodes
        ]
        if not any(owner == f"{words.SCHEDULER}/{spelled(job)}" for job in jobs):
            yield f"P8: claim {path} is still selected for {host or 'no host'} by {owner}"
