"""Scenarios by name: how a drain starts, changes its owner and ends."""

from collections.abc import Mapping

from sunk_sync.embedded.slurm.model.node import NodeSpec
from tests.sim.breaking import cut_streams, delay
from tests.sim.doings import (
    CORDONED,
    add_pod,
    annotate_node,
    annotate_pod,
    controller,
    cordon,
    delete_pod,
    drain,
    drained,
    expire_token,
    node_ready,
    pod_ready,
    reboot,
    run_job,
    select,
    taint,
    told,
    update,
)
from tests.sim.people import FOREIGN_COMMENT
from tests.sim.restores import RESTORES
from tests.sim.stage import Scenario

SCENARIOS: Mapping[str, Scenario] = {
    "nothing happens": told("M1-M8", n1=None, n2=None),
    "a node is cordoned": told("S1", (1, cordon("k1")), n1=CORDONED, n2=None),
    "and uncordoned": told("S2", (1, cordon("k1")), (3, cordon("k1", on=False)), n1=None),
    "cordoned with a reason that changes": told(
        "S1",
        (1, annotate_node("k1", cordon_reason="disk")),
        (0, cordon("k1")),
        (3, annotate_node("k1", cordon_reason="fan")),
        n1=f"{CORDONED}: fan",
    ),
    "an autoscaler is about to remove a node and takes it back": told(
        "S21",
        (1, taint("k1", "ToBeDeletedByClusterAutoscaler")),
        (0, taint("k2", "karpenter.sh/disrupted")),
        (0, taint("k3", "nvidia.com/gpu")),
        (5, taint("k2", "karpenter.sh/disrupted", on=False)),
        n1="k8s: node tainted: ToBeDeletedByClusterAutoscaler",
        n2=None,
        n3=None,
    ),
    "a pod is cordoned": told(
        "S3",
        (1, annotate_pod("n1", cordon="true")),
        (1, annotate_pod("n2", cordon="true")),
        (3, annotate_pod("n2", cordon=None)),
        n1="k8s: pod cordoned",
        n2=None,
    ),
    "a pod is not ready": told("S4", (1, pod_ready("n1", ready=False)), n1="k8s: pod not ready"),
    "a pod is ready again, in time and too late": told(
        "S4",
        (1, pod_ready("n1", ready=False)),
        (1, pod_ready("n2", ready=False)),
        (2, pod_ready("n2", ready=True)),
        (9, pod_ready("n1", ready=True)),
        n1=None,
        n2=None,
    ),
    "a pod ends and comes back": told(
        "S5 S7", (1, delete_pod("n1")), (9, add_pod("n1", "k1")), n1=None
    ),
    "a pod is gone": told("S7", (1, delete_pod("n1", grace_s=0)), n1="k8s: pod terminated"),
    "a pod is to be deleted while a job runs": told(
        "S6",
        (0, run_job(seconds=20)),
        (3, annotate_pod("n1", pending_deletion="scale-down")),
        n1="k8s: pod pending deletion: scale-down",
    ),
    "a pending deletion is withdrawn": told(
        "S6",
        (1, annotate_pod("n1", pending_deletion="update")),
        (9, annotate_pod("n1", pending_deletion=None)),
        n1=None,
    ),
    "a node is not ready": told("S8", (1, node_ready("k1", ready=False)), n1="k8s: node not ready"),
    "a node is ready again": told(
        "S8", (1, node_ready("k1", ready=False)), (60, node_ready("k1", ready=True)), n1=None
    ),
    "a node is gone": told(
        "S8", (1, lambda stage: stage.kube.remove_node("k1")), n1="k8s: node gone"
    ),
    "a node is replaced by one of the same name": told(
        "S8",
        (1, lambda stage: stage.kube.remove_node("k1")),
        (5, lambda stage: stage.kube.add_node("k1")),
        n1=None,
    ),
    "the first cause changes up and down": told(
        "S9",
        (1, annotate_pod("n1", cordon="true")),
        (2, cordon("k1")),
        (2, annotate_pod("n1", pending_deletion="update")),
        (2, annotate_pod("n1", pending_deletion=None)),
        (2, cordon("k1", on=False)),
        n1="k8s: pod cordoned",
    ),
    "undrained in Slurm while the cause stands": told(
        "S10", (1, cordon("k1")), (6, update("n1", state="UNDRAIN")), n1=CORDONED
    ),
    "a human drained before": told(
        "S11",
        (1, drain("n1", "fan broken")),
        (1, cordon("k1")),
        (9, cordon("k1", on=False)),
        n1="fan broken",
    ),
    "a human takes our drain over": told(
        "S12",
        (1, cordon("k1")),
        (3, update("n1", reason="mine")),
        (9, cordon("k1", on=False)),
        n1="mine",
    ),
    "undrained in Slurm while a listing is late": told(
        "S10",
        (2, delay("GET", "/nodes/", out_s=10)),
        (5, cordon("k1")),
        (2, update("n1", state="UNDRAIN")),
        (15, drained("n1", CORDONED)),
        n1=CORDONED,
    ),
    "a write is late, and its token has expired": told(
        "S0 S11 F5",
        (1, delay("POST", "/node/n1", out_s=9)),
        (0, cordon("k1")),
        (3, drain("n1", "fan broken")),
        (0, expire_token),
        n1="fan broken",
    ),
    "a drain without a reason": told(
        "S15", (1, update("n1", state="DRAIN")), (1, cordon("k1")), n1=""
    ),
    "a node that is down": told(
        "S13",
        (1, update("n1", state="DOWN", reason="dead")),
        (6, cordon("k1")),
        (9, update("n1", state="RESUME")),
        n1=CORDONED,
    ),
    "our reason without a drain": told(
        "S2", (1, update("n1", state="DOWN", reason="k8s: x")), (6, update("n1", state="RESUME"))
    ),
    "two claim one host": told(
        "S16",
        (1, add_pod("rival1", "k2", claims="n1")),
        (9, cordon("k1")),
        (9, delete_pod("rival1", grace_s=0)),
        n1=CORDONED,
        n2=None,
    ),
    "a second claim comes and goes": told(
        "S16",
        (1, add_pod("rival1", "k2", claims="n1")),
        (5, delete_pod("rival1", grace_s=0)),
        (5, add_pod("rival1", "k2", claims="n1")),
        (5, delete_pod("rival1", grace_s=0)),
        n1=None,
    ),
    "a pod moves to another node": told(
        "S7",
        (1, delete_pod("n1", grace_s=0)),
        (0, delete_pod("n2", grace_s=0)),
        (0, add_pod("n1", "k2")),
        (0, cordon("k2")),
        n1=CORDONED,
        n2="k8s: pod terminated",
    ),
    "a user deletes our annotations": told(
        "M3",
        (1, cordon("k1")),
        (5, annotate_pod("n1", drain=None)),
        (5, annotate_node("k1", drain=None)),
        n1=CORDONED,
    ),
    "undrained in Slurm at once, twice": told(
        "S10",
        (1, cordon("k1")),
        (0.02, update("n1", state="UNDRAIN")),
        (0.02, update("n1", state="UNDRAIN")),
        n1=CORDONED,
    ),
    "the last rival is a neighbour": told(
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
    "a pod is gone while its drain is being lifted": Scenario(
        rows="S19 S7 S9",
        steps=(
            (1, pod_ready("n1", ready=False)),
            (7, delay("GET", "/node/n1", out_s=8)),
            (0, pod_ready("n1", ready=True)),
            (2, delete_pod("n1", grace_s=0)),
        ),
        end={"n1": "k8s: pod terminated"},
        settings={"max_drains_per_minute": 1},
    ),
    "a drain arrives after it was lifted": Scenario(
        rows="S19 S2",
        steps=(
            (1, pod_ready("n1", ready=False)),
            (0, delay("POST", "/node/n1", out_s=30)),
            (25, pod_ready("n1", ready=True)),
        ),
        end={"n1": None},
        settings={"max_drains_per_minute": 1},
    ),
    "the selector matches no pod for a while": told(
        "S20",
        (1, select("n1", "n2", "n3", on=False)),
        (30, select("n1", "n2", "n3", on=True)),
        n1=None,
        n2=None,
        n3=None,
    ),
    "a Slurm node is deleted": told(
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
    "a host in use, and a reconfigure": Scenario(
        rows="W1 W2 W3",
        steps=(
            (6, run_job(seconds=40, cpus=4)),
            (12, lambda stage: stage.slurm.reconfigure(now_s=stage.now_s)),
            (12, run_job(seconds=5)),
        ),
        end={},
        settings={"pack": "nodes"},
    ),
    "a user cordons the node before the drain": Scenario(
        rows="M7",
        steps=(
            (1, cordon("k1")),
            (0, update("n1", state="DRAIN", reason="fan")),
            (9, update("n1", state="UNDRAIN")),
        ),
        end={"n1": CORDONED},
        settings={"cordon_on_slurm_drain": True},
    ),
    "a reconfigure deletes our marks": Scenario(
        rows="M8 F11",
        steps=(
            (1, lambda stage: stage.slurm.reconfigure(now_s=stage.now_s)),
            (3, cordon("k1")),
        ),
        end={"n1": CORDONED},
        knobs={"reconfigure_forgets_comments": True},
    ),
    "a comment of another system": told(
        "M8", (1, update("n1", comment=FOREIGN_COMMENT)), (6, cordon("k1")), n1=CORDONED
    ),
    "slurmctld is down for a minute and more": told(
        "F4 M2",
        (1, cordon("k1")),
        (0, controller(up=False)),
        (2, cordon("k2")),
        (90, controller(up=True)),
        n1=CORDONED,
        n2=CORDONED,
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
    "power saving removes a machine": Scenario(
        rows="S8",
        steps=(
            (1, update("n1", state="POWER_DOWN")),
            (9, delete_pod("n1", grace_s=0)),
            (30, update("n1", state="POWER_UP")),
            (1, add_pod("n1", "k1")),
        ),
        end={"n1": None},
        knobs={"power_saving": True},
    ),
    "a node is cordoned before its reboot": Scenario(
        rows="S13",
        steps=(
            (0, run_job(seconds=20)),
            (1, reboot("n1")),
            (1, cordon("k1")),
            (9, cordon("k1", on=False)),
        ),
        end={"n1": None},
        knobs={"reboot_program": True},
    ),
    "a Slurm node is in state FUTURE": told(
        "S13 M6",
        (1, update("n1", state="FUTURE")),
        (9, cordon("k1")),
        (9, update("n1", state="RESUME")),
        n1=CORDONED,
    ),
    "two claim one host for good": told(
        "S16",
        (1, add_pod("rival1", "k2", claims="n1")),
        (9, cordon("k1")),
        (0, cordon("k2")),
        n1=None,
        n2=None,
    ),
    "the token expires": told("F5", (1, expire_token), (1, cordon("k1")), n1=CORDONED),
    "the history is compacted between two pages": Scenario(
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
    **RESTORES,
}

IN_PAIRS = (
    "and uncordoned",
    "the first cause changes up and down",
    "undrained in Slurm while the cause stands",
    "a pod ends and comes back",
    "a human takes our drain over",
)
"""Scenarios that are also played with two crashes."""
