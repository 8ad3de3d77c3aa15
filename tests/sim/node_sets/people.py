"""Operations of administrators and users of NodeSets: all changes except ours and faults."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from sunk_sync.embedded.slurm.model.job import ALIVE, JobRequest
from sunk_sync.embedded.slurm.model.node import NodeSpec
from sunk_sync.embedded.slurm.node_update import Update
from tests.sim import words
from tests.sim.cast import PERSON
from tests.sim.node_sets import makers, truth
from tests.sim.node_sets.farm import Farm
from tests.sim.node_sets.makers import NEVER
from tests.sim.node_sets.truth import NAMESPACE, name_of
from tests.sim.words import Object
from tests.sim.worlds import Worlds

NAMES = ("cpu", "gpu")
OTHERS = "others1"
RACKS = ("r1", "r2", "r-3", None)
STRATEGIES: tuple[Any, ...] = (
    None,
    {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
    {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}},
    {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}},
    {"type": "OnDelete"},
)
FEATURES: tuple[Any, ...] = (
    None,
    {"static": ["fast"]},
    {"static": ["fast", "large"], "dynamic": {"rack": {"prefix": "in-"}}},
)
TOPOLOGIES: tuple[Any, ...] = (None, {"tree": ["rack"]}, {"tree": ["rack", "rack"]})
REQUEUEING: tuple[Any, ...] = (
    {},
    {"updateJobs": {"method": "time", "after": "0s"}, "scaleInTimeout": "1s"},
    {"updateJobs": {"method": "time", "after": "20s"}, "scaleInTimeout": "10s"},
    {"updateJobs": {"method": "partition", "partitions": ["main"]}, "scaleInTimeout": "0s"},
    {"updateJobs": {"method": "partition", "partitions": ["spare"]}, "scaleInTimeout": "0s"},
)
FLAKY_S = (0.0, 0.0, 1.0, 8.0)


class NodeSetPeople:
    """Draws the next operation. `nodes`: number of Nodes."""

    def __init__(self, rng: random.Random, farm: Farm, worlds: Worlds, *, nodes: int) -> None:
        self._rng = rng
        self._farm = farm
        self._worlds = worlds
        self._kube, self._slurm = worlds.kube, worlds.slurm
        self._nodes = [f"k{number}" for number in range(1, nodes + 1)]
        self._images = 1
        liked = {one: rng.choice((0, 1, 1, 2, 4)) for one in dict.fromkeys(_ACTS)}
        liked["scale"] = max(liked["scale"], 2)
        liked["job"] = max(liked["job"], 1)
        self._acts = [one for one in _ACTS for _ in range(liked[one])]

    def act(self) -> None:
        self.do(self._rng.choice(self._acts))

    def do(self, name: str) -> None:
        doing: Callable[[], object] = getattr(self, name)
        history = self._worlds.history
        history.count(f"people: {name}")
        try:
            answer = self._worlds.try_to(PERSON, doing)
        except LookupError:
            answer = "nobody is there"
        history.note("people", name, "" if answer is None else str(answer)[:150])

    def furnish(self) -> None:
        for name in self._nodes:
            rack = {"rack": self._rng.choice(RACKS[:3])}
            self._worlds.act(PERSON, partial(self._kube.add_node, name, labels=rack))
        for name in NAMES[: self._rng.choice((1, 1, 2))]:
            self._worlds.act(PERSON, partial(self._make, name))

    def _make(self, name: str) -> None:
        rng = self._rng
        spec = {
            "updateStrategy": rng.choice(STRATEGIES),
            "features": rng.choice(FEATURES),
            "topology": rng.choice(TOPOLOGIES),
            "minReadySeconds": rng.choice((0, 0, 0, 7)),
        }
        given = {key: value for key, value in spec.items() if value} | rng.choice(REQUEUEING)
        template = makers.template(annotations=self._knobs(), grace_s=rng.choice((1, 30)))
        replicas = rng.randrange(len(self._nodes) + 1)
        made = makers.node_set(name, replicas=replicas, **{**given, "template": template})
        makers.make(self._worlds, made)

    def _knobs(self) -> dict[str, str]:
        rng = self._rng
        return {
            "embedded/start-delay-s": str(rng.choice(FLAKY_S)),
            "embedded/end-delay-s": str(rng.choice(FLAKY_S)),
        }

    # NodeSets

    def _any_set(self) -> Object:
        return self._rng.choice(list(truth.node_sets(self._worlds)))

    def _change(self, **spec: Any) -> object:
        name = name_of(self._any_set())
        makers.change(self._worlds, name, **spec)
        return f"{name} {spec}"

    def scale(self) -> object:
        return self._change(replicas=self._rng.randrange(len(self._nodes) + 2))

    def new_image(self) -> object:
        self._images += 1
        image = f"none.invalid/slurmd:{self._images}"
        return self._change(template=makers.template(image, annotations=self._knobs()))

    def old_image(self) -> object:
        """Roll back to the first template."""
        return self._change(template=makers.template())

    def bad_image(self) -> object:
        self._images += 1
        image = f"none.invalid/slurmd:{self._images}"
        return self._change(template=makers.template(image, annotations=makers.NEVER))

    def reshape(self) -> object:
        return self._change(memory=self._rng.choice((None, "4Gi", "16Gi")))

    def reweigh(self) -> object:
        return self._change(weight=self._rng.choice((None, 5, 9)))

    def refeature(self) -> object:
        return self._change(features=self._rng.choice(FEATURES))

    def replace_topology(self) -> object:
        return self._change(topology=self._rng.choice(TOPOLOGIES))

    def restrategy(self) -> object:
        return self._change(updateStrategy=self._rng.choice(STRATEGIES))

    def requeueing(self) -> object:
        no = {"updateJobs": None, "scaleInTimeout": None}
        return self._change(**{**no, **self._rng.choice(REQUEUEING)})

    def make(self) -> object:
        name = self._rng.choice(NAMES)
        self._make(name)
        return name

    def delete(self) -> object:
        name = name_of(self._any_set())
        makers.delete(self._worlds, name, orphan=self._rng.random() < 0.15)
        return name

    # Pods and Nodes

    def _any_pod(self) -> str:
        pods = [pod for pod in self._kube.pods(NAMESPACE) if truth.owner_of(pod)]
        return name_of(self._rng.choice(pods))

    def delete_pod(self) -> object:
        name = self._any_pod()
        grace_s = self._rng.choice((None, 0, 5))
        self._kube.delete_pod(name, namespace=NAMESPACE, grace_s=grace_s)
        return name

    def evict(self) -> object:
        name = self._any_pod()
        makers.fail_pod(self._worlds, name)
        return name

    def not_ready(self) -> object:
        name, on = self._any_pod(), self._rng.random() < 0.5
        self._kube.set_pod_ready(name, namespace=NAMESPACE, ready=on)
        return f"{name} {on}"

    def ask_to_leave(self) -> object:
        """Ask for the deletion of a Pod, as other controllers do."""
        name, text = self._any_pod(), self._rng.choice((None, "scale-down", "update"))
        self._kube.annotate(name, {words.PENDING_DELETION: text}, namespace=NAMESPACE)
        return f"{name} {text}"

    def rival(self) -> object:
        """Create a slurmd Pod of others with a name that a NodeSet may want."""
        name = f"{self._rng.choice(NAMES)}-{self._rng.randrange(3)}"
        metadata = {"labels": dict([words.SELECTOR])}
        self._kube.add_pod(name, namespace=NAMESPACE, metadata=metadata)
        return name

    def _any_node(self) -> str:
        return self._rng.choice(list(map(name_of, self._kube.nodes())))

    def relabel(self) -> object:
        name, rack = self._any_node(), self._rng.choice(RACKS)
        self._kube.annotate(name, {}, labels={"rack": rack})
        return f"{name} {rack}"

    def cordon(self) -> object:
        name, on = self._any_node(), self._rng.random() < 0.5
        self._kube.cordon(name, on=on)
        return f"{name} {on}"

    def node_ready(self) -> object:
        name, on = self._any_node(), self._rng.random() < 0.6
        self._kube.set_node_ready(name, ready=on)
        return f"{name} {on}"

    def remove_node(self) -> object:
        name = self._any_node()
        self._kube.remove_node(name)
        return name

    def add_node(self) -> object:
        for name in self._nodes:
            if self._kube.node(name) is None:
                rack = {"rack": self._rng.choice(RACKS[:3])}
                self._kube.add_node(name, labels=rack)
                return name
        return None

    # Slurm

    def _any_record(self) -> str:
        names = [name for name in self._slurm.nodes if name != OTHERS]
        return self._rng.choice(sorted(names))

    def _update(self, **fields: Any) -> object:
        name = self._any_record()
        self._slurm.update(name, Update(**fields), now_s=self._worlds.now_s)
        return f"{name} {fields}"

    def drain(self) -> object:
        return self._update(state="DRAIN", reason=self._rng.choice(("fan broken", "")))

    def undrain(self) -> object:
        return self._update(state=self._rng.choice(("UNDRAIN", "RESUME")))

    def down(self) -> object:
        return self._update(state="DOWN", reason="dead")

    def comment(self) -> object:
        return self._update(comment=self._rng.choice(("bought in 2019", "")))

    def add_feature(self) -> object:
        name = self._any_record()
        row = self._slurm.nodes[name]
        update = Update(
            features=(*row.features, "theirs"), active_features=(*row.active_features, "theirs")
        )
        self._slurm.update(name, update, now_s=self._worlds.now_s)
        return name

    def remove_record(self) -> object:
        name = self._any_record()
        self._slurm.remove_node(name, now_s=self._worlds.now_s)
        return name

    def foreign_record(self) -> object:
        """Let a slurmd of others register with a name that a NodeSet may want."""
        name = f"{self._rng.choice(NAMES)}-{self._rng.randrange(4)}"
        self._slurm.add_node(NodeSpec(name=name), now_s=self._worlds.now_s)
        return name

    def kill_slurmd(self) -> object:
        name = self._any_record()
        self._farm.kill(name)
        return name

    def restart_slurmd(self) -> object:
        name = self._any_pod()
        self._farm.restart(name)
        return name

    def job(self) -> object:
        """Submit jobs: some run anywhere, most require one slot."""
        rng = self._rng
        for _ in range(rng.choice((1, 1, 3))):
            required = (self._any_record(),) if rng.random() < 0.6 else ()
            request = JobRequest(
                cpus=rng.choice((1, 4)),
                memory_mb=100,
                required_nodes=required,
                requeue=rng.random() < 0.8,
                priority=0 if rng.random() < 0.05 else 1,
                duration_s=rng.choice((0.5, 5.0, 40.0, 200.0)),
                ending_s=rng.choice((None, None, 9.0)),
            )
            self._slurm.submit(request, now_s=self._worlds.now_s)
        return None

    def cancel(self) -> object:
        numbers = [one.job_id for one in self._slurm.jobs.values() if one.state in ALIVE]
        number = self._rng.choice(numbers)
        self._slurm.cancel(number, now_s=self._worlds.now_s)
        return number

    # the end

    def calm(self) -> None:
        """Repair everything, and end the jobs. NodeSets and their Pods stay."""
        for name in self._nodes:
            if self._kube.node(name) is None:
                self._worlds.act(PERSON, partial(self._kube.add_node, name))
            self._worlds.act(PERSON, partial(self._kube.set_node_ready, name, ready=True))
            self._worlds.act(PERSON, partial(self._kube.cordon, name, on=False))
        for number, job in list(self._slurm.jobs.items()):
            if job.state in ALIVE:
                cancel = partial(self._slurm.cancel, number, now_s=self._worlds.now_s)
                self._worlds.act(PERSON, cancel)
        for name in list(self._slurm.nodes):
            self._worlds.act(PERSON, partial(self._mend, name))
        for pod in list(self._kube.pods(NAMESPACE)):
            self._worlds.try_to(PERSON, partial(self._mend_pod, pod))
        self._share_nodes()

    def _mend(self, name: str) -> None:
        """Resume the node, or remove the record of others."""
        slurm, now_s, row = self._slurm, self._worlds.now_s, self._slurm.nodes[name]
        if name != OTHERS and not truth.stamp_of(row)[0]:
            slurm.remove_node(name, now_s=now_s)
            return
        slurm.update(name, Update(comment="" if not _is_mark(row.comment) else None), now_s=now_s)
        if row.base == "DOWN" or ("DRAIN" in row.flags and not words.is_our_text(row.reason)):
            slurm.update(name, Update(state="RESUME"), now_s=now_s)

    def _mend_pod(self, pod: Object) -> None:
        """Remove Pods of others; restart slurmd, and set the others Ready."""
        name = name_of(pod)
        if not truth.owner_of(pod):
            if truth.SHAPE not in words.labels_of(pod):
                self._kube.delete_pod(name, namespace=NAMESPACE, grace_s=0)
            return
        if not truth.condemned_for(pod):
            gone: dict[str, str | None] = {words.PENDING_DELETION: None}
            self._kube.annotate(name, gone, namespace=NAMESPACE)
        if NEVER.items() <= words.annotations_of(pod).items():
            self._kube.delete_pod(name, namespace=NAMESPACE)
        if pod["status"].get("phase") == "Running":
            self._kube.set_pod_ready(name, namespace=NAMESPACE, ready=True)
            self._farm.restart(name)

    def _share_nodes(self) -> None:
        """Let each NodeSet ask for no more Pods than Nodes are left, with an image that starts."""
        left = len(self._nodes)
        for one in list(truth.node_sets(self._worlds)):
            wanted = min(truth.replicas_of(one), left)
            left -= wanted
            change = partial(makers.change, self._worlds, name_of(one), replicas=wanted)
            self._worlds.try_to(PERSON, change)
            annotations = one["spec"]["template"].get("metadata", {}).get("annotations", {})
            if annotations == makers.NEVER:
                image = partial(
                    makers.change, self._worlds, name_of(one), template=makers.template()
                )
                self._worlds.try_to(PERSON, image)

    def forget_orphans(self) -> None:
        """Delete the Pods that a NodeSet left behind, so that others can have their names."""
        for pod in list(self._kube.pods(NAMESPACE)):
            if not truth.owner_of(pod):
                delete = partial(self._kube.delete_pod, name_of(pod), namespace=NAMESPACE)
                self._worlds.try_to(PERSON, delete)


def _is_mark(comment: str) -> bool:
    return not comment or comment.startswith('{"sunk-sync"')


_ACTS = (
    "scale", "scale", "scale", "new_image", "old_image", "bad_image", "reshape", "reshape",
    "reweigh", "refeature", "replace_topology", "restrategy", "requeueing", "make", "make",
    "delete", "delete_pod", "evict", "not_ready", "ask_to_leave", "rival", "relabel", "cordon",
    "node_ready", "remove_node", "add_node", "add_node", "drain", "undrain", "undrain", "down",
    "comment", "add_feature", "remove_record", "foreign_record", "kill_slurmd", "restart_slurmd",
    "restart_slurmd", "job", "job", "job", "cancel",
)  # fmt: skip
