"""Invariants of bindings of Pods with rules about other Pods, and of their jobs (P8, P32)."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from sunk_sync.embedded.kubernetes.store.kinds import NAMESPACES
from sunk_sync.embedded.kubernetes.store.store import Change
from sunk_sync.embedded.slurm.model.job import Job
from sunk_sync.embedded.slurm.model.node import Node
from tests.sim import words
from tests.sim.history import History
from tests.sim.words import Object
from tests.sim.workloads.domains import Labels, Scene, Seen, has_same_rules, is_ruled, why_not
from tests.sim.workloads.truth import (
    is_alive,
    is_live,
    is_ours,
    node_of,
    place_of,
    placed,
    uid_of,
    workloads_of,
)
from tests.sim.worlds import US, Worlds

SEEN_S: Final = 120.0
"""Time in which the service may not know of a change of a Node or of the end of a Pod.

A frozen watch is broken off after 100 s of silence, and then everything is listed again.
"""
CALM_S: Final = 5.0
"""The same without faults: the time of a watch, a poll of jobs, and a binding on its way."""
MOMENT_S: Final = 1.0
"""Jobs that start together, and their bindings, lie within this time."""
GIVEN_UP_MAX: Final = 3
"""Jobs that sunk-sync may give up for one Pod without faults and without changes by others."""


class GroupChecks:
    def __init__(
        self,
        worlds: Worlds,
        history: History,
        *,
        calm: bool = False,
        given_up_max: int = GIVEN_UP_MAX,
    ) -> None:
        self._worlds = worlds
        self._history = history
        self._given_up_max = given_up_max
        self.calm = calm
        """There are no faults."""
        self._labels: defaultdict[str, list[tuple[Labels | None, float]]] = defaultdict(list)
        """Node → labels that it had, and until when. None: it was not there."""
        self._spaces: list[tuple[str, Labels, float]] = []
        """Namespace, labels that it had, and until when."""
        self._gone: list[tuple[Object, str, float]] = []
        """Pods that stood on a Node or had a job there, and until when."""
        self._bound_s: dict[str, float] = {}
        self._leaving_s: dict[str, float] = {}
        self._given_up: Counter[str] = Counter()
        self._pods: dict[str, Object] = {}
        self._deleted: dict[str, tuple[Object, float]] = {}
        """UID → a Pod that had no Node, and since when it is gone. Its job may start meanwhile."""
        worlds.onlookers.append(self)

    @property
    def _since_s(self) -> float:
        return self._worlds.now_s - (CALM_S if self.calm else SEEN_S)

    def settle(self) -> None:
        """From now on there are neither faults nor operations of users."""
        self.calm = True
        self._given_up.clear()

    def kube_changed(self, change: Change, author: str) -> None:
        now, before = change.now.an_object, change.before.an_object if change.before else None
        if change.kind.name == "Node":
            self._node_changed(before, now, gone=change.type == "DELETED")
        elif change.kind.name == "Namespace" and before is not None:
            name, was = before["metadata"]["name"], words.labels_of(before)
            self._spaces.append((name, was, self._worlds.now_s))
            self._given_up.clear()
        elif change.kind.name == "Pod" and (words.is_workload(now) or words.is_of_others(now)):
            self._pod_changed(before, now, gone=change.type == "DELETED")
            if author == US and place_of(now) and before is not None and not place_of(before):
                self._check_binding(now)

    def _node_changed(self, before: Object | None, now: Object, *, gone: bool) -> None:
        was = words.labels_of(before) if before is not None else None
        if gone or before is None or was != words.labels_of(now):
            self._labels[now["metadata"]["name"]].append((was, self._worlds.now_s))
            self._given_up.clear()

    def _pod_changed(self, before: Object | None, now: Object, *, gone: bool) -> None:
        uid = uid_of(now)
        if place_of(now):
            self._bound_s.setdefault(uid, self._worlds.now_s)
        if words.is_terminating(now):
            self._leaving_s.setdefault(uid, self._worlds.now_s)
        if not gone and is_alive(now):
            self._pods[uid] = now
            return
        self._pods.pop(uid, None)
        if not place_of(now):
            self._deleted[uid] = (now, self._worlds.now_s)
        if before is not None and is_alive(before) and place_of(before):
            self._gone.append((before, place_of(before), self._worlds.now_s))

    def _check_binding(self, pod: Object) -> None:
        scene = self.scene(pod)
        if not is_ruled(pod) and not any(is_ruled(one.pod) for one in scene.pods):
            return
        self._history.count("groups: bindings judged")
        if why := why_not(pod, place_of(pod), scene):
            name = pod["metadata"]["name"]
            self._history.break_promise("forbidden domain", f"{name} to {place_of(pod)}: {why}")

    def scene(self, pod: Object) -> Scene:
        """Return the true state for one Pod, with all that the service may not know yet."""
        pods = [*self._standing(pod), *self._arriving(), *self._left()]
        return Scene(self._nodes(), pods, self._namespaces())

    def _namespaces(self) -> dict[str, list[Labels]]:
        found = _labels_of_namespaces(self._worlds)
        for name, labels, until_s in self._spaces:
            if until_s > self._since_s:
                found.setdefault(name, []).append(labels)
        return found

    def _nodes(self) -> dict[str, list[Labels | None]]:
        found: dict[str, list[Labels | None]] = {
            node["metadata"]["name"]: [words.labels_of(node)] for node in self._worlds.kube.nodes()
        }
        for name, past in self._labels.items():
            before = [labels for labels, until_s in past if until_s > self._since_s]
            found[name] = [*found.get(name, [None]), *before]
        return found

    def _standing(self, pod: Object) -> Iterator[Seen]:
        """Yield the bound Pods.

        A Pod counts for those whose jobs got their hosts later. It may be bound first although its
        own job was the later one. Among Pods of sunk-sync with the same rules the order does not
        matter, unless both are bound in one moment: the first of a group may go anywhere, and it is
        the one whose job came first.
        """
        for other in placed(self._worlds):
            uid, since_s = uid_of(other), self._since_s
            bound_s = self._bound_s.get(uid, 0.0)
            together = words.is_workload(other) and has_same_rules(other, pod)
            known = bound_s < (self._worlds.now_s - MOMENT_S if together else since_s)
            left = self._leaving_s.get(uid, self._worlds.now_s) < since_s
            yield Seen(other, place_of(other), sure=known, left=left)

    def _arriving(self) -> Iterator[Seen]:
        """Pods whose job holds hosts: they count from there on, and need not."""
        for job in self._worlds.slurm.jobs.values():
            if is_live(job) and job.nodes and is_ours(job, self._worlds.cluster_uid):
                for pod in (*self._unbound(job), *self._lately_deleted(job)):
                    yield from (Seen(pod, node_of(name), sure=False) for name in job.nodes)

    def _unbound(self, job: Job) -> Iterator[Object]:
        uids = [uid for of in workloads_of(job) for uid in of]
        pods = [self._pods[uid] for uid in uids if uid in self._pods]
        return (pod for pod in pods if not place_of(pod))

    def _lately_deleted(self, job: Job) -> Iterator[Object]:
        for uid in [uid for of in workloads_of(job) for uid in of if uid in self._deleted]:
            pod, since_s = self._deleted[uid]
            if since_s > self._since_s:
                yield pod

    def _left(self) -> Iterator[Seen]:
        self._gone = [one for one in self._gone if one[2] > self._since_s]
        return (Seen(pod, node_name, sure=False) for pod, node_name, _ in self._gone)

    def job_changed(self, before: Job | None, after: Job | None, author: str) -> None:
        """Note jobs that end before their Pods are bound."""
        if before is None or not (is_live(before) and before.nodes):
            return
        if not is_ours(before, self._worlds.cluster_uid) or (after is not None and is_live(after)):
            return
        for pod in self._unbound(before):
            now_s = self._worlds.now_s
            self._gone += [(pod, node_of(name), now_s) for name in before.nodes]
            if author == US and is_ruled(pod) and not words.is_terminating(pod):
                self._note_given_up(pod)

    def _note_given_up(self, pod: Object) -> None:
        self._history.count("groups: jobs given up")
        self._given_up[uid_of(pod)] += 1
        if self.calm and self._given_up[uid_of(pod)] > self._given_up_max:
            name, count = pod["metadata"]["name"], self._given_up[uid_of(pod)]
            self._history.break_promise("given up again", f"{count} jobs of Pod {name}")

    def slurm_changed(self, before: Node | None, after: Node | None, author: str) -> None:
        """Ignore nodes of Slurm."""

    def kube_restored(self) -> None:
        """Ignore restores, which runs of Pods do not have."""


def exact(worlds: Worlds) -> Scene:
    """Return the true state alone: at rest the service knows everything."""
    nodes = {node["metadata"]["name"]: [words.labels_of(node)] for node in worlds.kube.nodes()}
    seen = [Seen(pod, place_of(pod), left=words.is_terminating(pod)) for pod in placed(worlds)]
    return Scene(nodes, seen, _labels_of_namespaces(worlds))


def _labels_of_namespaces(worlds: Worlds) -> dict[str, list[Labels]]:
    stored = worlds.kube.store.scan(NAMESPACES)
    objects = [one.an_object for _, one in stored]
    return {one["metadata"]["name"]: [words.labels_of(one)] for one in objects}
