"""Named stories, one for each way in which a drain begins, changes hands and ends."""

from collections.abc import Callable, Mapping

from sunk_sync.embedded.slurm.model.job import JobRequest
from sunk_sync.embedded.slurm.model.node import NodeSpec
from sunk_sync.embedded.slurm.node_update import Update
from tests.sim import words
from tests.sim.breaking import (
    api_server_back,
    back_up,
    cut_streams,
    delay,
    freeze_streams,
    restore,
    restore_unseen,
    write_much,
)
from tests.sim.people import FOREIGN_COMMENT
from tests.sim.stage import NAMESPACE, Scenario, Stage, Step

Doing = Callable[[Stage], object]
CORDONED = "k8s: node cordoned"


def cordon(name: str, *, on: bool = True) -> Doing:
    return lambda stage: stage.kube.cordon(name, on=on)


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
    """By now, not only in the end."""
    return lambda stage: stage.expect(name, reason)


def run_job(*, seconds: float) -> Doing:
    request = JobRequest(exclusive=True, duration_s=seconds, required_nodes=("n1",))
    return lambda stage: stage.slurm.submit(request, now_s=stage.now_s)


def controller(*, up: bool) -> Doing:
    return lambda stage: (
        stage.slurm.start_controller(now_s=stage.now_s)
        if up
        else stage.slurm.stop_controller(now_s=stage.now_s)
    )


def expire_token(stage: Stage) -> None:
    """A new one stands in the file from now on."""
    stage.worlds.tokens.add("another")
    stage.token.file = "another"


def _told(rows: str, *steps: Step, **n1: str | None) -> Scenario:
    """The usual kind: what becomes of the drains of these hosts."""
    return Scenario(rows=rows, steps=steps, end=n1)


SCENARIOS: Mapping[str, Scenario] = {
    "nothing happens": _told("M1-M8", n1=None, n2=None),
    "a node is cordoned": _told("S1", (1, cordon("k1")), n1=CORDONED, n2=None),
    "and uncordoned": _told("S2", (1, cordon("k1")), (3, cordon("k1", on=False)), n1=None),
    "cordoned with a reason that changes": _told(
        "S1",
        (1, annotate_node("k1", cordon_reason="disk")),
        (0, cordon("k1")),
        (3, annotate_node("k1", cordon_reason="fan")),
        n1=f"{CORDONED}: fan",
    ),
    "a pod is cordoned": _told(
        "S3",
        (1, annotate_pod("n1", cordon="true")),
        (1, annotate_pod("n2", cordon="true")),
        (3, annotate_pod("n2", cordon=None)),
        n1="k8s: pod cordoned",
        n2=None,
    ),
    "a pod is not ready": _told("S4", (1, pod_ready("n1", ready=False)), n1="k8s: pod not ready"),
    "and ready again, in time and too late": _told(
        "S4",
        (1, pod_ready("n1", ready=False)),
        (1, pod_ready("n2", ready=False)),
        (2, pod_ready("n2", ready=True)),
        (9, pod_ready("n1", ready=True)),
        n1=None,
        n2=None,
    ),
    "a pod ends and comes back": _told(
        "S5 S7", (1, delete_pod("n1")), (9, add_pod("n1", "k1")), n1=None
    ),
    "a pod is gone": _told("S7", (1, delete_pod("n1", grace_s=0)), n1="k8s: pod terminated"),
    "a pod is to be deleted while a job runs": _told(
        "S6",
        (0, run_job(seconds=20)),
        (3, annotate_pod("n1", pending_deletion="scale-down")),
        n1="k8s: pod pending deletion: scale-down",
    ),
    "the deletion is called off": _told(
        "S6",
        (1, annotate_pod("n1", pending_deletion="update")),
        (9, annotate_pod("n1", pending_deletion=None)),
        n1=None,
    ),
    "a node is not ready": _told(
        "S8", (1, node_ready("k1", ready=False)), n1="k8s: node not ready"
    ),
    "and ready again": _told(
        "S8", (1, node_ready("k1", ready=False)), (60, node_ready("k1", ready=True)), n1=None
    ),
    "a node is gone": _told(
        "S8", (1, lambda stage: stage.kube.remove_node("k1")), n1="k8s: node gone"
    ),
    "a node is replaced under its name": _told(
        "S8",
        (1, lambda stage: stage.kube.remove_node("k1")),
        (5, lambda stage: stage.kube.add_node("k1")),
        n1=None,
    ),
    "the first cause changes up and down": _told(
        "S9",
        (1, annotate_pod("n1", cordon="true")),
        (2, cordon("k1")),
        (2, annotate_pod("n1", pending_deletion="update")),
        (2, annotate_pod("n1", pending_deletion=None)),
        (2, cordon("k1", on=False)),
        n1="k8s: pod cordoned",
    ),
    "undrained in Slurm while the cause stands": _told(
        "S10", (1, cordon("k1")), (6, update("n1", state="UNDRAIN")), n1=CORDONED
    ),
    "a human drained before": _told(
        "S11",
        (1, drain("n1", "fan broken")),
        (1, cordon("k1")),
        (9, cordon("k1", on=False)),
        n1="fan broken",
    ),
    "a human takes our drain over": _told(
        "S12",
        (1, cordon("k1")),
        (3, update("n1", reason="mine")),
        (9, cordon("k1", on=False)),
        n1="mine",
    ),
    "undrained in Slurm while a listing is late": _told(
        "S10",
        (2, delay("GET", "/nodes/", out_s=10)),
        (5, cordon("k1")),
        (2, update("n1", state="UNDRAIN")),
        (15, drained("n1", CORDONED)),
        n1=CORDONED,
    ),
    "a drain without a reason": _told(
        "S15", (1, update("n1", state="DRAIN")), (1, cordon("k1")), n1=""
    ),
    "a node that is down": _told(
        "S13",
        (1, update("n1", state="DOWN", reason="dead")),
        (6, cordon("k1")),
        (9, update("n1", state="RESUME")),
        n1=CORDONED,
    ),
    "our text without a drain": _told(
        "S2", (1, update("n1", state="DOWN", reason="k8s: x")), (6, update("n1", state="RESUME"))
    ),
    "two claim one host": _told(
        "S16",
        (1, add_pod("rival1", "k2", claims="n1")),
        (9, cordon("k1")),
        (9, delete_pod("rival1", grace_s=0)),
        n1=CORDONED,
        n2=None,
    ),
    "a pod moves to another node": _told(
        "S7",
        (1, delete_pod("n1", grace_s=0)),
        (0, delete_pod("n2", grace_s=0)),
        (0, add_pod("n1", "k2")),
        (0, cordon("k2")),
        n1=CORDONED,
        n2="k8s: pod terminated",
    ),
    "somebody takes away what we wrote": _told(
        "M3",
        (1, cordon("k1")),
        (5, annotate_pod("n1", drain=None)),
        (5, annotate_node("k1", drain=None)),
        n1=CORDONED,
    ),
    "undrained in Slurm at once, and again": _told(
        "S10",
        (1, cordon("k1")),
        (0.02, update("n1", state="UNDRAIN")),
        (0.02, update("n1", state="UNDRAIN")),
        n1=CORDONED,
    ),
    "the last rival is a neighbour": _told(
        "S16 S8",
        (1, add_pod("rival1", "k3", claims="n1")),
        (1, add_pod("rival9", "k1", claims="n9")),
        (3, delete_pod("rival1", grace_s=0)),
        (3, delete_pod("rival9", grace_s=0)),
        (3, lambda stage: stage.kube.remove_node("k1")),
        n1="k8s: node gone",
    ),
    "more drains than the breaker lets through": Scenario(
        rows="S19",
        steps=(
            (1, pod_ready("n1", ready=False)),
            (0, pod_ready("n2", ready=False)),
            (0, pod_ready("n3", ready=False)),
        ),
        end=dict.fromkeys(("n1", "n2", "n3"), "k8s: pod not ready"),
        settings={"max_drains_per_minute": 1},
    ),
    "a drain arrives when it was lifted already": Scenario(
        rows="S19 S2",
        steps=(
            (1, pod_ready("n1", ready=False)),
            (0, delay("POST", "/node/n1", out_s=30)),
            (25, pod_ready("n1", ready=True)),
        ),
        end={"n1": None},
        settings={"max_drains_per_minute": 1},
    ),
    "the selector loses everybody": _told(
        "S20",
        (1, select("n1", "n2", "n3", on=False)),
        (30, select("n1", "n2", "n3", on=True)),
        n1=None,
        n2=None,
        n3=None,
    ),
    "a slurm node vanishes": _told(
        "M6",
        (1, lambda stage: stage.slurm.add_node(NodeSpec(name="n4"), now_s=stage.now_s)),
        (1, lambda stage: stage.kube.add_node("k4")),
        (0, add_pod("n4", "k4")),
        (9, lambda stage: stage.slurm.remove_node("n4", now_s=stage.now_s)),
        n1=None,
    ),
    "a drain in Slurm cordons the node": Scenario(
        rows="M7",
        steps=(
            (1, drain("n1", "fan")),
            (1, drain("n2", "fan")),
            (9, update("n2", state="UNDRAIN")),
        ),
        end={"n1": "fan", "n2": None},
        settings={"cordon_on_slurm_drain": True},
    ),
    "a human cordoned beside it": Scenario(
        rows="M7",
        steps=(
            (1, cordon("k1")),
            (0, update("n1", state="DRAIN", reason="fan")),
            (9, update("n1", state="UNDRAIN")),
        ),
        end={"n1": CORDONED},
        settings={"cordon_on_slurm_drain": True},
    ),
    "a reconfigure takes our marks away": Scenario(
        rows="M8 F11",
        steps=(
            (1, lambda stage: stage.slurm.reconfigure(now_s=stage.now_s)),
            (3, cordon("k1")),
        ),
        end={"n1": CORDONED},
        knobs={"reconfigure_forgets_comments": True},
    ),
    "a comment of somebody else": _told(
        "M8", (1, update("n1", comment=FOREIGN_COMMENT)), (6, cordon("k1")), n1=CORDONED
    ),
    "slurmctld is away for a minute and more": _told(
        "F4 M2",
        (1, cordon("k1")),
        (0, controller(up=False)),
        (2, cordon("k2")),
        (90, controller(up=True)),
        n1=CORDONED,
        n2=CORDONED,
    ),
    "etcd is restored from a backup": _told(
        "F3",
        (0, back_up),
        (1, cordon("k1")),
        (0, delete_pod("n2", grace_s=0)),
        (5, restore),
        (3, api_server_back),
        n1=None,
        n2=None,
    ),
    "etcd is restored behind a dead connection": _told(
        "F3",
        (0, back_up),
        (1, cordon("k1")),
        (3, freeze_streams),
        (0, restore_unseen),
        (3, api_server_back),
        (1, write_much),
        (120, write_much),
        n1=None,
    ),
    "a pod that etcd forgot is made again": _told(
        "F3 S2",
        (1, delete_pod("n2", grace_s=0)),
        (1, back_up),
        (0, add_pod("n2", "k2")),
        (3, write_much),
        (0, annotate_pod("n2", keep_cordon="x")),
        (3, restore),
        (1, api_server_back),
        (9, add_pod("n2", "k2")),
        n2=None,
    ),
    "a node is powered down and up": Scenario(
        rows="S13",
        steps=(
            (1, update("n1", state="POWER_DOWN")),
            (40, cordon("k1")),
            (5, cordon("k1", on=False)),
            (1, update("n1", state="POWER_UP")),
            (20, cordon("k1")),
        ),
        end={"n1": CORDONED},
        knobs={"power_saving": True},
    ),
    "a slurm node is yet to come": _told(
        "S13 M6",
        (1, update("n1", state="FUTURE")),
        (9, cordon("k1")),
        (9, update("n1", state="RESUME")),
        n1=CORDONED,
    ),
    "two go on claiming one host": _told(
        "S16",
        (1, add_pod("rival1", "k2", claims="n1")),
        (9, cordon("k1")),
        (0, cordon("k2")),
        n1=None,
        n2=None,
    ),
    "the token expires": _told("F5", (1, expire_token), (1, cordon("k1")), n1=CORDONED),
    "the history is compacted under a page": Scenario(
        rows="F3",
        steps=(
            (1, cordon("k1")),
            (3, lambda stage: stage.kube.compact()),
            (0, cut_streams),
            (0, cordon("k2")),
        ),
        end={"n1": CORDONED, "n2": CORDONED},
        pages=True,
    ),
}

IN_PAIRS = (
    "and uncordoned",
    "the first cause changes up and down",
    "undrained in Slurm while the cause stands",
    "a pod ends and comes back",
    "a human takes our drain over",
)
"""Stories that are also played with two crashes."""
