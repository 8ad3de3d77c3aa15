"""Operations of administrators, users and controllers: all changes except ours and faults."""

import random
from collections.abc import Callable
from typing import Any

import msgspec

from sunk_sync.embedded.slurm.model.job import JobRequest
from sunk_sync.embedded.slurm.model.node import NodeSpec
from sunk_sync.embedded.slurm.node_update import Update
from sunk_sync.embedded.wire import Question
from tests.sim import words
from tests.sim.cast import PERSON, Cast, other_mark

REASONS = (
    "maintenance",
    "fan broken",
    "Kill task failed",
    "lifted, was k8s: node cordoned",
    "lifted, was maintenance",
    "K8S: shouting",
    'a "quoted" # text \\ with\teverything',
    "",
)
CORDON_REASONS = ("disk", "", "a new kernel", 'fan "3"')
DELETIONS = ("scale-down", "", "update", "true")
FOREIGN_COMMENT = "bought in 2019"


class People:
    """Draws the next operation. With `tidy` few claims conflict and few nodes break."""

    def __init__(self, rng: random.Random, cast: Cast, *, tidy: bool) -> None:
        self._rng = rng
        self._cast = cast
        self._worlds = cast.worlds
        self._kube = cast.worlds.kube
        self._slurm = cast.worlds.slurm
        acts = [*_CALM * 3, *([] if tidy else _WILD)]
        liked = {one: rng.choice((0, 1, 1, 2, 5)) for one in dict.fromkeys(acts)}
        self._acts = [one for one in acts for _ in range(liked[one])] or list(_CALM)

    def act(self) -> None:
        name = self._rng.choice(self._acts)
        self.do(name)

    def do(self, name: str) -> None:
        doing: Callable[[], object] = getattr(self, name)
        history = self._worlds.history
        history.count(f"people: {name}")
        try:
            answer = self._worlds.try_to(PERSON, doing)
        except LookupError:
            answer = "nobody is there"
        history.note("people", name, "" if answer is None else answer)

    def _any_node(self) -> str:
        names: list[str] = [node["metadata"]["name"] for node in self._kube.nodes()]
        return self._rng.choice(names)

    def _any_slurm_node(self) -> str:
        return self._rng.choice(list(self._slurm.nodes))

    def _any_pod(self) -> tuple[str, str] | None:
        pods = self._cast.pods()
        if not pods:
            return None
        metadata = self._rng.choice(pods)["metadata"]
        return metadata["namespace"], metadata["name"]

    def _update(self, **fields: Any) -> object:
        name = self._any_slurm_node()
        self._slurm.update(name, Update(**fields), now_s=self._worlds.now_s)
        return f"{name} {fields}"

    def meddle(self, name: str) -> None:
        update = self._rng.choice(
            (
                Update(state="DRAIN", reason="fan broken"),
                Update(state="DOWN", reason="dead"),
                Update(state="UNDRAIN"),
                Update(reason="mine now"),
                Update(comment=FOREIGN_COMMENT),
            )
        )
        slurm, now_s = self._worlds.slurm, self._worlds.now_s
        self._worlds.history.note("people", "meddle", name, update)
        self._worlds.history.count("people: meddle")
        self._worlds.try_to(PERSON, lambda: slurm.update(name, update, now_s=now_s))

    def drain(self) -> object:
        """Drain a Slurm node, with or without a reason."""
        return self._update(state="DRAIN", reason=self._rng.choice(REASONS))

    def undrain(self) -> object:
        """Undrain a Slurm node, whoever drained it."""
        return self._update(state=self._rng.choice(("UNDRAIN", "RESUME")))

    def resume(self) -> object:
        """Resume a Slurm node, which can be DOWN."""
        return self._update(state="RESUME")

    def down(self) -> object:
        return self._update(state="DOWN", reason=self._rng.choice(REASONS[:3]))

    def fail(self) -> object:
        return self._update(state="FAIL", reason="broken")

    def give_reason(self) -> object:
        """Write another reason on a drained node (S12)."""
        return self._update(reason=self._rng.choice(REASONS[:3]))

    def comment(self) -> object:
        """Write a comment: a foreign one, the mark of another cluster, or none."""
        texts = (FOREIGN_COMMENT, "", other_mark(self._worlds))
        return self._update(comment=self._rng.choice(texts))

    def reboot(self) -> object:
        name, asap = self._any_slurm_node(), self._rng.random() < 0.5
        self._slurm.reboot(name, now_s=self._worlds.now_s, asap=asap)
        return f"{name} asap={asap}"

    def kill_slurmd(self) -> object:
        name = self._any_slurm_node()
        self._slurm.kill_slurmd(name, now_s=self._worlds.now_s)
        return name

    def start_slurmd(self) -> object:
        name = self._any_slurm_node()
        self._slurm.start_slurmd(name, now_s=self._worlds.now_s, rebooted=self._rng.random() < 0.3)
        return name

    def submit(self) -> object:
        for _ in range(self._rng.choice((1, 1, 3))):
            request = JobRequest(
                cpus=self._rng.choice((1, 8, 16)),
                exclusive=self._rng.random() < 0.3,
                memory_mb=100,
                duration_s=self._rng.choice((0.5, 5.0, 40.0)),
            )
            self._slurm.submit(request, now_s=self._worlds.now_s)
        return None

    def cancel(self) -> object:
        running = [job.job_id for job in self._slurm.jobs.values() if job.state == "RUNNING"]
        if running:
            self._slurm.cancel(self._rng.choice(running), now_s=self._worlds.now_s)
        return None

    def add_slurm_node(self) -> object:
        self._slurm.add_node(NodeSpec(name=self._cast.spare), now_s=self._worlds.now_s)
        return self._cast.spare

    def remove_slurm_node(self) -> object:
        self._slurm.remove_node(self._cast.spare, now_s=self._worlds.now_s)
        return self._cast.spare

    def cordon(self) -> object:
        name = self._any_node()
        self._kube.cordon(name)
        return name

    def cordon_with_reason(self) -> object:
        name = self._any_node()
        self._kube.annotate(name, {words.CORDON_REASON: self._rng.choice(CORDON_REASONS)})
        self._kube.cordon(name)
        return name

    def uncordon(self) -> object:
        name = self._any_node()
        self._kube.cordon(name, on=False)
        return name

    def keep_cordon(self) -> object:
        name, on = self._any_node(), self._rng.random() < 0.5
        self._kube.annotate(name, {words.KEEP_CORDON: "true" if on else None})
        return f"{name} {on}"

    def node_not_ready(self) -> object:
        name = self._any_node()
        self._kube.set_node_ready(name, ready=False)
        return name

    def node_ready(self) -> object:
        name = self._any_node()
        self._kube.set_node_ready(name, ready=True)
        return name

    def silence_node(self) -> object:
        name, on = self._any_node(), self._rng.random() < 0.5
        self._kube.silence(name, on=on)
        return f"{name} {on}"

    def remove_node(self) -> object:
        name = self._any_node()
        self._kube.remove_node(name)
        return name

    def add_node(self) -> object:
        """Create a deleted Node again."""
        missing = [name for name in self._cast.nodes if self._kube.node(name) is None]
        if missing:
            self._kube.add_node(self._rng.choice(missing))
        return missing

    def name_slurm_node(self) -> object:
        name = self._any_node()
        claim = self._rng.choice((None, None, *self._cast.slurm_nodes))
        self._kube.annotate(name, {words.SLURM_NODE: claim})
        return f"{name} {claim}"

    def add_pod(self) -> object:
        """Create a slurmd Pod on a host without one. Some conflict with another."""
        have = {pod["metadata"]["name"] for pod in self._cast.pods()}
        free = [name for name in self._cast.slurm_nodes if name not in have]
        if not free:
            return None
        name = self._rng.choice(free)
        node = f"k{name[1:]}" if self._rng.random() < 0.7 else self._any_node()
        end_s = self._rng.choice((0.0, 2.0, 20.0))
        self._cast.add_pod(name, node=node if self._rng.random() < 0.95 else "", end_s=end_s)
        return f"{name} on {node}"

    def delete_pod(self) -> object:
        found = self._any_pod()
        if found is not None:
            grace_s = self._rng.choice((0, 1, 5, 30))
            self._kube.delete_pod(found[1], namespace=found[0], grace_s=grace_s)
        return found

    def replace_pod(self) -> object:
        """Delete a slurmd Pod and create it again, here or on another Node."""
        found = self._any_pod()
        if found is not None:
            self._kube.delete_pod(found[1], namespace=found[0], grace_s=0)
            same = f"k{found[1][1:]}" if self._rng.random() < 0.6 else self._any_node()
            self._cast.add_pod(found[1], node=same)
        return found

    def rival_pod(self) -> object:
        claim = self._rng.choice(self._cast.slurm_nodes)
        self._cast.add_pod(f"rival{claim[1:]}", node=self._any_node(), claims=claim)
        return claim

    def pod_not_ready(self) -> object:
        found = self._any_pod()
        if found is not None:
            self._kube.set_pod_ready(found[1], namespace=found[0], ready=False)
        return found

    def pod_ready(self) -> object:
        found = self._any_pod()
        if found is not None:
            self._kube.set_pod_ready(found[1], namespace=found[0], ready=True)
        return found

    def _annotate_pod(self, annotations: dict[str, str | None]) -> object:
        found = self._any_pod()
        if found is not None:
            self._kube.annotate(found[1], annotations, namespace=found[0])
        return f"{found} {annotations}"

    def cordon_pod(self) -> object:
        return self._annotate_pod({words.CORDON: self._rng.choice(("true", "yes", "false", ""))})

    def uncordon_pod(self) -> object:
        return self._annotate_pod({words.CORDON: None})

    def retire_pod(self) -> object:
        return self._annotate_pod({words.PENDING_DELETION: self._rng.choice(DELETIONS)})

    def keep_pod(self) -> object:
        return self._annotate_pod({words.PENDING_DELETION: None})

    def claim_otherwise(self) -> object:
        claim = self._rng.choice((None, *self._cast.slurm_nodes))
        return self._annotate_pod({words.SLURM_NODE: claim})

    def relabel(self) -> object:
        found = self._any_pod()
        if found is not None:
            key, value = words.SELECTOR
            label = None if self._rng.random() < 0.5 else value
            self._kube.annotate(found[1], {}, namespace=found[0], labels={key: label})
        return found

    def reselect(self) -> object:
        key, value = words.SELECTOR
        for pod in self._cast.pods():
            metadata = pod["metadata"]
            if not words.is_slurmd(pod):
                self._kube.annotate(
                    metadata["name"], {}, namespace=metadata["namespace"], labels={key: value}
                )
        return None

    def foreign_marks(self) -> object:
        name, value = self._any_node(), self._rng.choice(("a", "b"))
        condition = {"type": f"Example{value}", "status": "True", "reason": "R"}
        self._patch(f"nodes/{name}/status", {"status": {"conditions": [condition]}})
        metadata = {"labels": {"example.com/rack": value}, "annotations": {"x": value}}
        taint = {"key": f"example.com/{value}", "effect": "NoSchedule"}
        self._patch(f"nodes/{name}", {"metadata": metadata, "spec": {"taints": [taint]}})
        return name

    def foreign_pod_marks(self) -> object:
        found = self._any_pod()
        if found is not None:
            condition = {"type": "example.com/gate", "status": "True"}
            path = f"namespaces/{found[0]}/pods/{found[1]}/status"
            self._patch(path, {"status": {"conditions": [condition]}})
            self._kube.annotate(found[1], {"x": "y"}, namespace=found[0], labels={"team": "a"})
        return found

    def _patch(self, path: str, patch: dict[str, Any]) -> None:
        question = Question(
            method="PATCH",
            path=f"/api/v1/{path}",
            query={"fieldManager": "others"},
            headers={"content-type": "application/strategic-merge-patch+json"},
            body=msgspec.json.encode(patch),
        )
        self._worlds.kube_api.answer(question, self._worlds.now_s)

    def take_away_ours(self) -> object:
        found = self._any_pod()
        if found is not None:
            gone = {words.DRAIN: None, words.DRAINED: None}
            self._kube.annotate(found[1], gone, namespace=found[0])
        name = self._any_node()
        gone_labels = dict.fromkeys(words.NODE_LABELS[:2])
        self._kube.annotate(name, {words.DRAIN: None}, labels=gone_labels)
        return f"{found} {name}"


_CALM = (
    "drain", "undrain", "give_reason", "comment", "submit", "cancel", "cordon",
    "cordon_with_reason", "uncordon", "keep_cordon", "node_not_ready", "node_ready",
    "delete_pod", "add_pod", "add_pod", "replace_pod", "pod_not_ready", "pod_ready", "cordon_pod",
    "uncordon_pod", "retire_pod", "keep_pod", "foreign_marks", "foreign_pod_marks",
)  # fmt: skip
_WILD = (
    "down", "resume", "fail", "reboot", "kill_slurmd", "start_slurmd", "add_slurm_node",
    "remove_slurm_node", "silence_node", "remove_node", "add_node", "add_node", "name_slurm_node",
    "rival_pod", "claim_otherwise", "relabel", "reselect", "take_away_ours",
)  # fmt: skip
