"""Invariants of the writes to claims and volumes, and of bindings of Pods with claims (P8)."""

from typing import Final

from sunk_sync.embedded.kubernetes.store.kinds import PODS
from sunk_sync.embedded.kubernetes.store.store import Change
from sunk_sync.embedded.slurm.model.job import Job
from sunk_sync.embedded.slurm.model.node import Node
from tests.sim import words
from tests.sim.history import History
from tests.sim.words import Object
from tests.sim.workloads.storage import claim_of, claims_of, host_of, volume_of
from tests.sim.workloads.truth import (
    is_alive,
    is_live,
    is_ours,
    place_of,
    spelled,
    uid_of,
    workloads_of,
)
from tests.sim.worlds import US, Worlds

SEEN_S: Final = 90.0
"""Time in which the service may not know that a claim has gone."""
CLAIM, VOLUME = "PersistentVolumeClaim", "PersistentVolume"
OURS: Final = frozenset({words.SELECTED_NODE, words.VOLUME_FOR})
OF_VOLUMES: Final = frozenset({"pv.kubernetes.io/bound-by-controller"})


class VolumeChecks:
    def __init__(self, worlds: Worlds, history: History) -> None:
        self._worlds = worlds
        self._history = history
        self._gone: dict[str, tuple[str, float]] = {}
        """Bound claim that has gone → the host of its volume, and when."""
        worlds.onlookers.append(self)

    def _break(self, check: str, why: str) -> None:
        self._history.break_promise(check, why)

    def kube_changed(self, change: Change, author: str) -> None:
        kind = change.kind.name
        if kind == CLAIM:
            self._claim_changed(change, author)
        elif kind == VOLUME and author == US:
            self._check_volume(change)
        elif kind == "Pod" and author == US and change.before is not None:
            pod = change.now.an_object
            if place_of(pod) and not place_of(change.before.an_object):
                self._check_binding(pod)

    def _check_binding(self, pod: Object) -> None:
        namespace = pod["metadata"]["namespace"]
        for name in claims_of(pod):
            why = self._why_not(f"{namespace}/{name}", place_of(pod))
            why = why or self._where_else(f"{namespace}/{name}", place_of(pod))
            if why:
                self._break("bound without volume", f"{pod['metadata']['name']}: {name} {why}")

    def _where_else(self, path: str, node_name: str) -> str:
        """All claims here are ReadWriteOnce."""
        users = users_of(self._worlds, path)
        elsewhere = {place_of(pod) for pod in users} - {"", node_name}
        return f"is used on {sorted(elsewhere)} just now" if elsewhere else ""

    def _why_not(self, path: str, node_name: str) -> str:
        namespace, _, name = path.partition("/")
        claim = claim_of(self._worlds.kube, name, namespace=namespace)
        volume = volume_of(self._worlds.kube, claim) if claim is not None else None
        if volume is not None:
            host = host_of(volume)
            return "" if host in ("", node_name) else f"is on {host}, not on {node_name}"
        host, gone_s = self._gone.get(path, ("", 0.0))
        if self._worlds.now_s - gone_s < SEEN_S and host in ("", node_name):
            return ""
        return "has no volume"

    def _claim_changed(self, change: Change, author: str) -> None:
        before = change.before.an_object if change.before else None
        now, gone = change.now.an_object, change.type == "DELETED"
        volume = volume_of(self._worlds.kube, now)
        if gone and volume is not None:
            self._gone[change.key] = (host_of(volume), self._worlds.now_s)
        if author != US:
            return
        if gone or before is None:
            self._break("foreign claim", f"{change.key} was created or deleted")
            return
        was, is_now = words.annotations_of(before), words.annotations_of(now)
        changed = {key for key in was.keys() | is_now.keys() if was.get(key) != is_now.get(key)}
        if changed - OURS or before["spec"] != now["spec"]:
            self._break("foreign claim", f"{change.key}: more than our marks changed")
        self._check_selection(change.key, was, is_now)

    def _check_selection(self, path: str, was: dict[str, str], now: dict[str, str]) -> None:
        """No Node is taken from the job, or from the other scheduler, that selected it."""
        selected, owner = was.get(words.SELECTED_NODE, ""), was.get(words.VOLUME_FOR, "")
        if not selected or now.get(words.SELECTED_NODE, "") == selected:
            return
        if not owner:
            self._break("selection taken", f"{path}: {selected} was selected by others")
        elif words.BIND_COMPLETED not in was and self._holds(owner, path):
            self._break("selection taken", f"{path}: {selected} belongs to live job {owner}")

    def _holds(self, owner: str, path: str) -> bool:
        """Whether this job lives, and is one of a Pod that uses the claim."""
        users = {uid_of(pod) for pod in users_of(self._worlds, path)}
        return any(
            f"{words.SCHEDULER}/{spelled(job)}" == owner and any(map(users.intersection, of))
            for job in self._worlds.slurm.jobs.values()
            if is_live(job) and is_ours(job, self._worlds.cluster_uid)
            for of in [workloads_of(job)]
        )

    def _check_volume(self, change: Change) -> None:
        """No volume is taken from a claim: only a free one is reserved."""
        name, now = change.now.an_object["metadata"]["name"], change.now.an_object
        before = change.before.an_object if change.before else None
        if before is None or change.type == "DELETED":
            self._break("foreign volume", f"{name} was created or deleted")
            return
        was, owner = before["spec"].get("claimRef"), now["spec"].get("claimRef")
        mine = was and owner and (was["namespace"], was["name"]) == (
            owner["namespace"], owner["name"],
        )  # fmt: skip
        if was and not (mine and was.get("uid", "") in ("", owner.get("uid"))):
            self._break("volume taken", f"{name}: its claimRef was {was}, and is {owner}")
        marks, old = words.annotations_of(now), words.annotations_of(before)
        others = {key for key in marks.keys() | old.keys() if marks.get(key) != old.get(key)}
        rest = [{**one["spec"], "claimRef": None} for one in (before, now)]
        if others - OF_VOLUMES or rest[0] != rest[1]:
            self._break("foreign volume", f"{name}: more than its claimRef changed")

    def job_changed(self, before: Job | None, after: Job | None, author: str) -> None:
        """Ignore jobs."""

    def slurm_changed(self, before: Node | None, after: Node | None, author: str) -> None:
        """Ignore nodes."""

    def kube_restored(self) -> None:
        """Ignore restores, which runs of Pods do not have."""


def users_of(worlds: Worlds, path: str) -> list[Object]:
    """Return the living Pods of sunk-sync that use a claim."""
    namespace, _, name = path.partition("/")
    pods = [row.an_object for _, row in worlds.kube.store.scan(PODS, namespace=namespace)]
    return [
        pod for pod in pods if words.is_workload(pod) and is_alive(pod) if name in claims_of(pod)
    ]
