"""Steps of scenarios: operations of users, as functions of the stage."""

from collections.abc import Callable

from sunk_sync.embedded.slurm.model.job import JobRequest
from sunk_sync.embedded.slurm.node_update import Update
from tests.sim import words
from tests.sim.stage import NAMESPACE, Scenario, Stage, Step

Doing = Callable[[Stage], object]
CORDONED = "k8s: node cordoned"


def cordon(name: str, *, on: bool = True) -> Doing:
    return lambda stage: stage.kube.cordon(name, on=on)


def taint(name: str, key: str, *, on: bool = True) -> Doing:
    return lambda stage: stage.kube.taint(name, key, on=on)


def annotate_node(name: str, **annotations: str | None) -> Doing:
    keys = {words.PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
    return lambda stage: stage.kube.annotate(name, keys)


def annotate_pod(name: str, **annotations: str | None) -> Doing:
    keys = {words.PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
    return lambda stage: stage.kube.annotate(name, keys, namespace=NAMESPACE)


def pod_ready(name: str, *, ready: bool) -> Doing:
    return lambda stage: stage.kube.set_pod_ready(name, namespace=NAMESPACE, ready=ready)


def node_ready(name: str, *, ready: bool) -> Doing:
    return lambda stage: stage.kube.set_node_ready(name, ready=ready)


def delete_pod(name: str, *, grace_s: int = 30) -> Doing:
    return lambda stage: stage.kube.delete_pod(name, namespace=NAMESPACE, grace_s=grace_s)


def add_pod(name: str, node: str, *, claims: str = "") -> Doing:
    return lambda stage: stage.cast.add_pod(name, node=node, claims=claims)


def update(name: str, **fields: str) -> Doing:
    return lambda stage: stage.slurm.update(name, Update(**fields), now_s=stage.now_s)  # type: ignore[arg-type]


def reboot(name: str) -> Doing:
    return lambda stage: stage.slurm.reboot(name, now_s=stage.now_s)


def drain(name: str, reason: str) -> Doing:
    return update(name, state="DRAIN", reason=reason)


def select(*names: str, on: bool) -> Doing:
    key, value = words.SELECTOR

    def doing(stage: Stage) -> None:
        for name in names:
            label = {key: value if on else None}
            stage.kube.annotate(name, {}, namespace=NAMESPACE, labels=label)

    return doing


def drained(name: str, reason: str) -> Doing:
    """Expect this drain now, and not only at the end."""
    return lambda stage: stage.expect(name, reason)


def run_job(*, seconds: float, cpus: int | None = None) -> Doing:
    """Run a job on n1, with these CPUs or the whole node."""
    request = JobRequest(
        exclusive=cpus is None,
        cpus=cpus or 1,
        memory_mb=100,
        duration_s=seconds,
        required_nodes=("n1",),
    )
    return lambda stage: stage.slurm.submit(request, now_s=stage.now_s)


def controller(*, up: bool) -> Doing:
    return lambda stage: (
        stage.slurm.start_controller(now_s=stage.now_s)
        if up
        else stage.slurm.stop_controller(now_s=stage.now_s)
    )


def expire_token(stage: Stage) -> None:
    """Replace the token. The file has the new one from now on."""
    stage.worlds.tokens.add("another")
    stage.token.file = "another"


def told(rows: str, *steps: Step, **n1: str | None) -> Scenario:
    """Return a scenario that checks the drains of these hosts at its end."""
    return Scenario(rows=rows, steps=steps, end=n1)
