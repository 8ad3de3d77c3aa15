"""Scenarios of NodeSets. sunk-sync is also killed at each of their points (N25)."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from sunk_sync.embedded.slurm.model.job import JobRequest
from sunk_sync.embedded.slurm.model.node import NodeSpec
from sunk_sync.embedded.slurm.node_update import Update
from tests.sim import words
from tests.sim.breaking import delay
from tests.sim.node_sets import makers
from tests.sim.node_sets.stage import NodeSetScenario, NodeSetStage
from tests.sim.node_sets.truth import NAMESPACE
from tests.sim.stage import Stage, Step

Doing = Callable[[Stage], object]
IDLE = "IDLE+DYNAMIC_NORM"
MIXED = "MIXED+DYNAMIC_NORM"
SILENT = "DOWN+DRAIN+NOT_RESPONDING+DYNAMIC_NORM"
NEWER = "none.invalid/slurmd:2"
ONE = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}


def make(replicas: int, **spec: Any) -> Doing:
    return lambda stage: makers.make(stage.worlds, makers.node_set(replicas=replicas, **spec))


def change(**spec: Any) -> Doing:
    return lambda stage: makers.change(stage.worlds, "cpu", **spec)


def scale(replicas: int) -> Doing:
    return change(replicas=replicas)


def delete(*, orphan: bool = False) -> Doing:
    return lambda stage: makers.delete(stage.worlds, "cpu", orphan=orphan)


def job(name: str, *, seconds: float = 20, held: bool = False) -> Doing:
    """Submit a job that requires this Slurm node."""
    request = JobRequest(
        required_nodes=(name,), duration_s=seconds, cpus=2, memory_mb=100, priority=int(not held)
    )
    return lambda stage: stage.slurm.submit(request, now_s=stage.now_s)


def cancel_all(stage: Stage) -> None:
    for number in list(stage.slurm.jobs):
        stage.slurm.cancel(number, now_s=stage.now_s)


def update(name: str, **fields: Any) -> Doing:
    return lambda stage: stage.slurm.update(name, Update(**fields), now_s=stage.now_s)


def remove_record(name: str) -> Doing:
    return lambda stage: stage.slurm.remove_node(name, now_s=stage.now_s)


def delete_pod(name: str) -> Doing:
    return lambda stage: stage.kube.delete_pod(name, namespace=NAMESPACE, grace_s=5)


def fail_pod(name: str) -> Doing:
    return lambda stage: makers.fail_pod(stage.worlds, name)


def slurmrestd(*, up: bool) -> Doing:
    def doing(stage: Stage) -> None:
        stage.wire.outages.clear()
        if not up:
            stage.wire.outages["slurm"] = "refused"

    return doing


def foreign_record(name: str) -> Doing:
    return lambda stage: stage.slurm.add_node(NodeSpec(name=name), now_s=stage.now_s)


def foreign_pod(name: str, *, claims: str = "", **annotations: str) -> Doing:
    """Create a slurmd Pod of others on Node k5."""
    keys = {words.PREFIX + key.replace("_", "-"): text for key, text in annotations.items()}
    keys |= {words.SLURM_NODE: claims} if claims else {}
    metadata = {"labels": dict([words.SELECTOR]), "annotations": keys}
    return lambda stage: stage.kube.add_pod(name, namespace=NAMESPACE, node="k5", metadata=metadata)


def lose_node_of(name: str) -> Doing:
    """Delete a Pod and its Node."""

    def doing(stage: Stage) -> None:
        pod = stage.kube.pod(name, namespace=NAMESPACE)
        assert pod is not None
        stage.kube.delete_pod(name, namespace=NAMESPACE, grace_s=5)
        stage.kube.remove_node(pod["spec"]["nodeName"])

    return doing


def ask(name: str, text: str | None) -> Doing:
    """Ask for the deletion of a Pod, as other controllers do, or take this back."""
    keys = {words.PENDING_DELETION: text}
    return lambda stage: stage.kube.annotate(name, keys, namespace=NAMESPACE)


def label(node: str, **labels: str | None) -> Doing:
    return lambda stage: stage.kube.annotate(node, {}, labels=labels)


def restart_slurmctld(stage: Stage) -> None:
    """Kill slurmctld: what it learnt in the last seconds is lost."""
    stage.slurm.restart(now_s=stage.now_s, lose_state="recent")


def reconfigure(stage: Stage) -> None:
    stage.slurm.reconfigure(now_s=stage.now_s)


def story(rows: str, *steps: Step, **shows: str) -> NodeSetScenario:
    """Return a scenario; `shows`: the records at its end, with `_` for the hyphen."""
    return NodeSetScenario(
        rows=rows,
        steps=steps,
        settings={"components": ("syncer", "nodesets")},
        staged_by=NodeSetStage,
        shows={name.replace("_", "-"): state for name, state in shows.items()},
    )


def stuck(rows: str, *steps: Step, **shows: str) -> NodeSetScenario:
    """Return a scenario in which new Pods never start, so that an update waits for ever."""
    return replace(story(rows, *steps, **shows), stuck=frozenset({"cpu"}))


THREE = {"cpu_0": IDLE, "cpu_1": IDLE, "cpu_2": IDLE}

SCENARIOS: Mapping[str, NodeSetScenario] = {
    "a NodeSet is made and grows": story("N1 N2", (1, make(2)), (20, scale(3)), **THREE),
    "a job runs on": story(
        "N27", (1, make(2)), (20, job("cpu-1", seconds=9000)), cpu_0=IDLE, cpu_1=MIXED
    ),
    "replicas fall while a slot is busy": story(
        "N6 N7 N8 N10", (1, make(3)), (20, job("cpu-0")), (15, scale(1)), cpu_0=IDLE
    ),
    "replicas fall while all are busy": story(
        "N6 N8",
        (1, make(2)),
        (20, job("cpu-0", seconds=40)),
        (0, job("cpu-1", seconds=15)),
        (5, scale(1)),
        cpu_0=IDLE,
    ),
    "replicas rise again": story(
        "N9",
        (1, make(2)),
        (20, job("cpu-0", seconds=40)),
        (0, job("cpu-1", seconds=40)),
        (5, scale(0)),
        (8, scale(2)),
        cpu_0=IDLE,
        cpu_1=IDLE,
    ),
    "all go at once and come back at once": story(
        "N8 N9", (1, make(2)), (20, scale(0)), (0.05, scale(2)), cpu_0=IDLE, cpu_1=IDLE
    ),
    "replicas rise while a deletion is on its way": story(
        "N8 N9",
        (1, make(2)),
        (20, delay("DELETE", "/pods/cpu-1", out_s=7)),
        (0, scale(1)),
        (5, scale(2)),
        cpu_0=IDLE,
        cpu_1=IDLE,
    ),
    "a lift is on its way when its Pod is condemned": story(
        "N7 N8",
        (1, make(2)),
        (20, ask("cpu-1", "update")),
        (9, slurmrestd(up=False)),
        (8, ask("cpu-1", None)),
        (3, scale(1)),
        (9, slurmrestd(up=True)),
        (0, delay("POST", "/node/cpu-1", out_s=0.0035)),
        cpu_0=IDLE,
    ),
    "replicas fall while a Pod finds no Node": story(
        "N8 S13",
        (1, make(5)),
        (20, lose_node_of("cpu-4")),
        (30, update("cpu-4", state="DOWN", reason="dead")),
        (10, scale(4)),
        cpu_0=IDLE,
        cpu_1=IDLE,
        cpu_2=IDLE,
        cpu_3=IDLE,
    ),
    "a waiting job requires a record": story(
        "N10",
        (1, make(2)),
        (20, job("cpu-1", held=True)),
        (20, scale(1)),
        (30, cancel_all),
        cpu_0=IDLE,
    ),
    "a person drained a slot that goes": story(
        "N11",
        (1, make(2)),
        (20, update("cpu-0", state="DRAIN", reason="fan broken")),
        (9, scale(1)),
        cpu_1=IDLE,
    ),
    "another image rolls": story(
        "N12",
        (1, make(3, updateStrategy=ONE)),
        (25, change(template=makers.template(NEWER))),
        **THREE,
    ),
    "a job is requeued for another image": story(
        "N28 N12",
        (1, make(2, updateStrategy=ONE, updateJobs={"method": "time", "after": "30s"})),
        (25, job("cpu-1", seconds=900)),
        (3, change(template=makers.template(NEWER))),
        (300, cancel_all),
        cpu_0=IDLE,
        cpu_1=IDLE,
    ),
    "another shape rolls while a slot is busy": story(
        "N4 N12",
        (1, make(2, updateStrategy=ONE)),
        (25, job("cpu-1")),
        (3, change(memory="4Gi")),
        cpu_0=IDLE,
        cpu_1=IDLE,
    ),
    "an image that never starts": stuck(
        "N13",
        (1, make(3, updateStrategy=ONE)),
        (25, change(template=makers.template(NEWER, annotations=makers.NEVER))),
        cpu_0=IDLE,
        cpu_1=IDLE,
        cpu_2=SILENT,
    ),
    "an image that never starts is taken back": story(
        "N13",
        (1, make(3, updateStrategy=ONE)),
        (25, change(template=makers.template(NEWER, annotations=makers.NEVER))),
        (60, change(template=makers.template(NEWER))),
        **THREE,
    ),
    "a NodeSet is deleted while a slot is busy": story(
        "N23", (1, make(2)), (20, job("cpu-1")), (5, delete())
    ),
    "a NodeSet is deleted, its Pods stay": story(
        "N23", (1, make(1)), (20, delete(orphan=True)), cpu_0=IDLE
    ),
    "a record is deleted under its slurmd": story(
        "N3", (1, make(2)), (25, remove_record("cpu-0")), cpu_0=IDLE, cpu_1=IDLE
    ),
    "slurmctld is killed after a registration": story(
        "N3", (1, make(2)), (1, restart_slurmctld), cpu_0=IDLE, cpu_1=IDLE
    ),
    "a Pod is deleted and another shape waits": story(
        "N4",
        (1, make(1, updateStrategy={"type": "OnDelete"})),
        (25, change(memory="4Gi")),
        (3, delete_pod("cpu-0")),
        cpu_0=IDLE,
    ),
    "Slurm cannot be read while replicas rise and fall": story(
        "N24",
        (1, make(3)),
        (20, slurmrestd(up=False)),
        (80, scale(1)),
        (20, scale(4)),
        (20, scale(2)),
        (9, slurmrestd(up=True)),
        cpu_0=IDLE,
        cpu_1=IDLE,
    ),
    "others have the names of two slots": story(
        "N22 N29",
        (0, foreign_record("cpu-0")),
        (0, foreign_pod("other", claims="cpu-1")),
        (15, make(2)),
        (30, remove_record("cpu-0")),
        (0, delete_pod("other")),
        cpu_0=IDLE,
        cpu_1=IDLE,
    ),
    "a Pod of others is asked to leave": story(
        "N29",
        (0, foreign_pod("theirs", pending_deletion="scale-in of NodeSet cpu")),
        (1, make(1)),
        cpu_0=IDLE,
    ),
    "a Pod is evicted": story("N21", (1, make(1)), (20, fail_pod("cpu-0")), cpu_0=IDLE),
    "a Node is removed": story(
        "N17 N20",
        (1, make(2)),
        (20, lambda stage: stage.kube.remove_node("k1")),
        cpu_0=IDLE,
        cpu_1=IDLE,
    ),
    "features, weight and topology follow": story(
        "T1-T5",
        (1, make(2, features={"static": ["fast"], "dynamic": {"gpu": {"prefix": "gpu-"}}})),
        (15, change(weight=5, topology={"tree": ["rack"]})),
        (5, label("k1", gpu="a100", rack="r7")),
        (5, reconfigure),
        cpu_0=IDLE,
        cpu_1=IDLE,
    ),
}
