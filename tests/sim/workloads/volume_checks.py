"""Invariants of the writes to claims and volumes, and of bindings of Pods with claims (P8)."""

import math
from collections import defaultdict
from typing import Final

from sunk_sync.embedded.kubernetes.store.kinds import CSI_NODES, PODS, STORAGE_CAPACITIES
from sunk_sync.embedded.kubernetes.store.store import Change
from sunk_sync.embedded.slurm.model.job import Job
from sunk_sync.embedded.slurm.model.node import Node
from tests.sim import words
from tests.sim.history import History
from tests.sim.words import Object
from tests.sim.workloads.storage import (
    attached,
    claim_of,
    claims_of,
    host_of,
    is_made,
    limit_in,
    limit_of,
    volume_of,
)
from tests.sim.workloads.truth import (
    is_alive,
    is_live,
    is_ours,
    place_of,
    spelled,
    uid_of,
    workload,
    workloads_of,
)
from tests.sim.worlds import US, Worlds

SEEN_S: Final = 120.0
"""Time in which the service may not know of a change: a frozen watch is broken off after 100 s."""
HOST: Final = "kubernetes.io/hostname"
OWN_S: Final = 20.0
"""The same for what it bound itself."""
CLAIM, VOLUME = "PersistentVolumeClaim", "PersistentVolume"
OURS: Final = frozenset({words.SELECTED_NODE, words.VOLUME_FOR})
OF_VOLUMES: Final = frozenset({"pv.kubernetes.io/bound-by-controller"})


class VolumeChecks:
    def __init__(self, worlds: Worlds, history: History, *, seen_s: float = SEEN_S) -> None:
        self._seen_s = seen_s
        self._bound_s: dict[str, float] = {}
        """UID of a Pod → when it was bound."""
        self._limits: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        """Node → how many volumes it could attach, and until when."""
        self._rooms: list[tuple[Object, float]] = []
        """Room that the driver told, and until when; it tells nothing before the first one."""
        self._worlds = worlds
        self._history = history
        self._gone: dict[str, tuple[str, float]] = {}
        """Bound claim that has gone → the host of its volume, and when."""
        self._ended_s: dict[str, float] = {}
        """Job, as a claim names it → when it ended. slurmctld may lose the end."""
        worlds.onlookers.append(self)

    def _break(self, check: str, why: str) -> None:
        self._history.break_promise(check, why)

    def kube_changed(self, change: Change, author: str) -> None:
        kind = change.kind.name
        if kind == CLAIM:
            self._claim_changed(change, author)
        elif kind == VOLUME and author == US:
            self._check_volume(change)
        elif kind == CSI_NODES.name:
            before = change.before.an_object if change.before else None
            was = limit_in(before) if before is not None else math.inf
            self._limits[change.now.an_object["metadata"]["name"]].append((was, self._worlds.now_s))
        elif kind == STORAGE_CAPACITIES.name and change.before is not None:
            self._rooms.append((change.before.an_object, self._worlds.now_s))
        elif kind == "Pod" and author == US and change.before is not None:
            pod = change.now.an_object
            if place_of(pod) and not place_of(change.before.an_object):
                self._bound_s[uid_of(pod)] = self._worlds.now_s
                self._check_binding(pod)
                self._check_attached(pod)

    def _check_binding(self, pod: Object) -> None:
        namespace = pod["metadata"]["namespace"]
        for name in claims_of(pod):
            why = self._why_not(f"{namespace}/{name}", place_of(pod))
            why = why or self._where_else(f"{namespace}/{name}", place_of(pod))
            if why:
                self._break("bound without volume", f"{pod['metadata']['name']}: {name} {why}")

    def _check_attached(self, pod: Object) -> None:
        """The Node attaches no more volumes than it may, by all that the service must know."""
        node_name, kube, since_s = place_of(pod), self._worlds.kube, self._worlds.now_s
        bound_s = since_s - min(self._seen_s, OWN_S)
        since_s -= self._seen_s
        known = [
            one
            for one in workload(self._worlds)
            if is_alive(one) and place_of(one) == node_name
            if self._bound_s.get(uid_of(one), 0.0) < bound_s or uid_of(one) == uid_of(pod)
        ]
        before = [count for count, until_s in self._limits[node_name] if until_s > since_s]
        most = max([limit_of(kube, node_name), *before])
        if attached(kube, [pod]) and len(attached(kube, known)) > most:
            name = pod["metadata"]["name"]
            self._break("too many volumes", f"{name} to {node_name}, which attaches {most:.0f}")

    def _check_room(self, claim: Object, node_name: str) -> None:
        """A Node is selected only where the driver has told of room, now or lately."""
        since_s = self._worlds.now_s - self._seen_s
        rows = self._worlds.kube.store.rows(STORAGE_CAPACITIES).values()
        rooms = [row.an_object for row in rows]
        rooms += [one for one, until_s in self._rooms if until_s > since_s]
        has_room = {one["nodeTopology"]["matchLabels"][HOST] for one in rooms if _fits(one)}
        if rooms and is_made(claim) and node_name not in has_room:
            name = claim["metadata"]["name"]
            self._break("no room", f"{node_name} was selected for {name}, but {has_room} have room")

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
        selected = is_now.get(words.SELECTED_NODE, "")
        if selected and selected != was.get(words.SELECTED_NODE):
            self._check_room(now, selected)

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
        if self._ended_s.get(owner, -math.inf) > self._worlds.now_s - self._seen_s:
            return False
        users = {uid_of(pod) for pod in users_of(self._worlds, path)}
        return any(
            _owner(job) == owner and any(map(users.intersection, of))
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

    def job_changed(self, before: Job | None, after: Job | None, author: str) -> None:  # noqa: ARG002
        """Note when jobs end."""
        if before is not None and is_live(before) and not (after is not None and is_live(after)):
            self._ended_s[_owner(before)] = self._worlds.now_s

    def slurm_changed(self, before: Node | None, after: Node | None, author: str) -> None:
        """Ignore nodes."""

    def kube_restored(self) -> None:
        """Ignore restores, which runs of Pods do not have."""


def _owner(job: Job) -> str:
    return f"{words.SCHEDULER}/{spelled(job)}"


def _fits(capacity: Object) -> bool:
    """All claims here ask for 1 GiB."""
    return bool(capacity["capacity"] != "0Gi")


def users_of(worlds: Worlds, path: str) -> list[Object]:
    """Return the living Pods of sunk-sync that use a claim."""
    namespace, _, name = path.partition("/")
    pods = [row.an_object for _, row in worlds.kube.store.scan(PODS, namespace=namespace)]
    return [
        pod for pod in pods if words.is_workload(pod) and is_alive(pod) if name in claims_of(pod)
    ]
