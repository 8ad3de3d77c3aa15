"""A stand-in for kube-scheduler, slurmd and two controllers, for the Pods of NodeSets.

It binds each waiting Pod to a free Node, and starts its slurmd some time after it runs. slurmd ends
with its Pod. Pods of a deleted Node are removed, as podgc does, and so are Pods whose NodeSet is
gone, as the garbage collector does.
"""

import asyncio
import random
from collections.abc import Callable
from functools import partial

from sunk_sync.embedded.kubernetes.store.kinds import NODE_SETS, NODES, PODS, Kind
from sunk_sync.embedded.kubernetes.store.place import Place
from sunk_sync.embedded.kubernetes.store.store import Change
from sunk_sync.embedded.slurm.dynamic import registration_of
from tests.kit.clock import OUTSIDE
from tests.sim import words
from tests.sim.node_sets.makers import patch
from tests.sim.node_sets.truth import (
    NAMESPACE,
    ORPHAN,
    SHAPE,
    is_deleting,
    is_orphaned,
    name_of,
    node_set_of_uid,
    node_sets,
    owner_of,
    pods_of,
    slurmd_of,
)
from tests.sim.words import Object
from tests.sim.worlds import Worlds

FARM = "farm"
LOST_S = 20.0
"""A Pod outlives its Node by this time."""
AGAIN_S = 2.0
"""A slurmd that cannot reach slurmctld tries again after this time."""


class Farm:
    """`rng`: chooses Nodes and durations. None: the first Node, and constant durations."""

    def __init__(self, worlds: Worlds, rng: random.Random | None = None) -> None:
        self._worlds = worlds
        self._rng = rng
        self._loop = asyncio.get_running_loop()
        self._planned = False
        self._started: dict[str, tuple[str, float]] = {}
        """Name of a Slurm node → UID of the Pod whose slurmd it is, and when it registers."""
        self._registered: set[str] = set()
        """UIDs of Pods whose slurmd has registered."""
        self._lost_s: dict[str, float] = {}
        """UID of a Pod → since when its Node is missing."""
        for kind in (PODS, NODES, NODE_SETS):
            worlds.kube.store.listen(kind, self._on_change)

    def _on_change(self, _: Change) -> None:
        self._plan(0.02)

    def look_soon(self) -> None:
        """Look again, after a restore of etcd."""
        self._plan(0.02)

    def _plan(self, after_s: float) -> None:
        """Look soon: not in the midst of a write."""
        if not self._planned:
            self._planned = True
            self._loop.call_later(after_s * self._factor(), self._look, context=OUTSIDE.copy())

    def _factor(self) -> float:
        return self._rng.uniform(0.3, 5.0) if self._rng else 1.0

    def _later(self, after_s: float) -> None:
        self._loop.call_later(after_s, self._plan, 0.001, context=OUTSIDE.copy())

    def _act(self, doing: Callable[[], object]) -> None:
        self._worlds.try_to(FARM, doing)

    def _look(self) -> None:
        self._planned = False
        pods = {pod["metadata"]["uid"]: pod for pod in self._slurmd_pods()}
        self._end_missing(pods)
        for uid, pod in pods.items():
            if not pod["spec"].get("nodeName"):
                self._bind(pod)
            elif self._worlds.kube.node(pod["spec"]["nodeName"]) is None:
                self._collect(uid, pod)
            elif _runs(pod) and uid not in self._registered:
                self._start(uid, pod)
        self._collect_garbage()

    def _slurmd_pods(self) -> list[Object]:
        pods = self._worlds.kube.pods(NAMESPACE)
        return sorted((pod for pod in pods if SHAPE in words.labels_of(pod)), key=name_of)

    def _bind(self, pod: Object) -> None:
        if words.is_terminating(pod):
            return
        kube = self._worlds.kube
        taken = {one["spec"].get("nodeName") for one in kube.pods(NAMESPACE)}
        nodes = sorted(name_of(node) for node in kube.nodes() if _serves(node))
        free = [name for name in nodes if name not in taken]
        if not free:
            return
        name = self._rng.choice(free) if self._rng else free[0]
        place = Place(kind=PODS, namespace=NAMESPACE, name=name_of(pod), manager=FARM)
        self._act(lambda: kube.writes.bind(place, {"target": {"name": name}}))

    def _start(self, uid: str, pod: Object) -> None:
        """Start slurmd, and let it register when its time has come."""
        name, now_s = name_of(pod), self._worlds.now_s
        known, at_s = self._started.get(name, ("", 0.0))
        if known != uid:
            at_s = now_s + 0.05 * self._factor()
            self._started[name] = uid, at_s
        if now_s < at_s:
            self._later(at_s - now_s)
            return
        spec = registration_of(slurmd_of(pod["spec"])["args"])
        reached: list[bool] = []
        slurm = self._worlds.slurm
        self._act(lambda: reached.append(slurm.register(spec, now_s=now_s)))
        if reached == [True]:
            self._registered.add(uid)
        else:
            self._later(AGAIN_S)

    def restart(self, name: str) -> None:
        """Let the kubelet start a slurmd that ended by itself: it registers once more."""
        uid, _ = self._started.get(name, ("", 0.0))
        self._registered.discard(uid)
        self._started.pop(name, None)
        self._plan(0.02)

    def kill(self, name: str) -> None:
        """Kill a slurmd; the kubelet does not start it again before `restart`."""
        self._act(lambda: self._stop(name))

    def _stop(self, name: str) -> None:
        if name in self._worlds.slurm.memory.slurmds:
            self._worlds.slurm.kill_slurmd(name, now_s=self._worlds.now_s)

    def _end_missing(self, pods: dict[str, Object]) -> None:
        """Stop the slurmd of Pods that are gone or have ended."""
        for name, (uid, _) in list(self._started.items()):
            pod = pods.get(uid)
            if pod is None or words.is_finished(pod):
                del self._started[name]
                self._registered.discard(uid)
                self.kill(name)

    def _collect(self, uid: str, pod: Object) -> None:
        """Remove a Pod whose Node is gone for a while."""
        since_s = self._lost_s.setdefault(uid, self._worlds.now_s)
        left_s = since_s + LOST_S - self._worlds.now_s
        if left_s > 0:
            self._later(left_s)
            return
        del self._lost_s[uid]
        kube, name = self._worlds.kube, name_of(pod)
        self._act(lambda: kube.delete_pod(name, namespace=NAMESPACE, grace_s=0))

    def _collect_garbage(self) -> None:
        for one in list(node_sets(self._worlds)):
            if is_deleting(one) and is_orphaned(one):
                self._orphan(one)
        for pod in self._slurmd_pods():
            owner = owner_of(pod)
            gone = owner and node_set_of_uid(self._worlds, owner) is None
            if gone and not words.is_terminating(pod):
                delete = partial(self._worlds.kube.delete_pod, name_of(pod), namespace=NAMESPACE)
                self._act(delete)

    def _orphan(self, node_set: Object) -> None:
        """Take the owner from its Pods, then the finalizer from the NodeSet."""
        for pod in pods_of(self._worlds, node_set):
            self._patch(PODS, name_of(pod), {"ownerReferences": None})
        kept = [one for one in node_set["metadata"]["finalizers"] if one != ORPHAN]
        self._patch(NODE_SETS, name_of(node_set), {"finalizers": kept})

    def _patch(self, kind: Kind, name: str, metadata: Object) -> None:
        self._act(lambda: patch(self._worlds, kind, name, {"metadata": metadata}))


def _serves(node: Object) -> bool:
    """Whether kube-scheduler places new Pods there: the Node is ready, and not cordoned."""
    return words.is_ready(node) and not node["spec"].get("unschedulable")


def _runs(pod: Object) -> bool:
    running = pod["status"].get("phase") == "Running"
    return running and not words.is_terminating(pod)
