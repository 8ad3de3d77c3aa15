"""Names and texts that sunk-sync writes, spelled independently of the product."""

from typing import Any, Final

PREFIX: Final = "sunk.coreweave.com/"
SLURM_NODE: Final = PREFIX + "slurm-node"
CORDON: Final = PREFIX + "cordon"
CORDON_REASON: Final = PREFIX + "cordon-reason"
PENDING_DELETION: Final = PREFIX + "pending-deletion"
KEEP_CORDON: Final = PREFIX + "keep-cordon"
DRAIN: Final = PREFIX + "drain"
DRAINED: Final = PREFIX + "drained"
CORDONED_FOR_DRAIN: Final = PREFIX + "cordoned-for-drain"
NODE_LABELS: Final = tuple(PREFIX + word for word in ("cluster", "namespace", "nodeset", "pod"))
OUR_ANNOTATIONS: Final = {
    "Node": frozenset({DRAIN, CORDONED_FOR_DRAIN}),
    "Pod": frozenset({DRAIN, DRAINED}),
}
OUR_NODE_CONDITIONS: Final = frozenset(
    {"SlurmCordon", "SlurmDrain", "SlurmNotResponding", "SlurmRunning"}
)
SELECTOR: Final = ("app.kubernetes.io/component", "slurmd")

BASES: Final = ("ALLOCATED", "DOWN", "ERROR", "FUTURE", "IDLE", "MIXED", "UNKNOWN")
FLAGS: Final = {
    "COMPLETING": "Completing",
    "DRAIN": "Drain",
    "FAIL": "Fail",
    "INVALID": "Invalid",
    "INVALID_REG": "InvalidReg",
    "MAINTENANCE": "Maintenance",
    "NOT_RESPONDING": "NotResponding",
    "UNDRAIN": "Undrain",
    "RESERVED": "Reserved",
    "PLANNED": "Planned",
    "POWER_DOWN": "PowerDown",
    "POWERING_DOWN": "PowerDown",
    "POWERED_DOWN": "PowerDown",
    "POWER_DRAIN": "PowerDown",
    "POWER_UP": "PoweringUp",
    "POWERING_UP": "PoweringUp",
    "REBOOT_REQUESTED": "RebootRequested",
    "REBOOT_ISSUED": "RebootRequested",
}
FROZEN: Final = frozenset(
    {
        "DOWN", "ERROR", "FAIL", "FUTURE", "UNKNOWN", "INVALID", "INVALID_REG", "POWERED_DOWN",
        "POWERING_DOWN", "REBOOT_REQUESTED", "REBOOT_ISSUED", "REBOOT_CANCELED",
    }
)  # fmt: skip
"""S13: nothing is written, but see `keeps_drain`."""
POWERED_OFF: Final = frozenset({"POWERED_DOWN", "POWERING_DOWN"})
WAKING: Final = POWERED_OFF | {"POWERING_UP", "POWER_UP"}
POWER: Final = frozenset(flag for flag in FLAGS if flag.startswith("POWER"))
BUSY: Final = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})
ABSENCES: Final = (
    "k8s: pod not ready",
    "k8s: pod terminated",
    "k8s: node not ready",
    "k8s: node gone",
)
"""S19: S4, S7, S8."""
GOING_TAINTS: Final = ("ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted")
"""S21."""
TAINTED: Final = "k8s: node tainted"
OF_POWER_SAVING: Final = (*ABSENCES, "k8s: pod terminating")
"""S8: what power saving of Slurm itself brings about."""

LINGERING: Final = (
    "k8s: pod still terminating",
    "k8s: pod deletion timeout",
    "k8s: pod without job",
)
"""P25, L6, P30: workload Pods have their own checks."""
SCHEDULER: Final = "default-slurm"
OTHER_SCHEDULER: Final = "other"
JOB_ID: Final = PREFIX + "job-id"
BOUND_FOR: Final = PREFIX + "bound-for"
CANCELLED: Final = PREFIX + "cancelled"
RESUBMIT: Final = PREFIX + "resubmit"
GANG: Final = PREFIX + "gang"
GANG_SIZE: Final = PREFIX + "gang-size"
VOLUME_FOR: Final = PREFIX + "volume-for"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"

Object = dict[str, Any]


def going_taint(node: Object) -> str:
    """Return the first taint with which a Node is about to go."""
    taints = node["spec"].get("taints") or ()
    return next((one["key"] for one in taints if one["key"] in GOING_TAINTS), "")


def keeps_drain(state: frozenset[str]) -> bool:
    """S13: no drain is set or lifted there."""
    frozen = FROZEN - POWERED_OFF - {"REBOOT_REQUESTED"}
    return bool(state & frozen) or {"REBOOT_REQUESTED", "DRAIN"} <= state


def wakes_for_jobs(state: frozenset[str]) -> bool:
    """Whether jobs have the node and wait for its power: a drain would end them."""
    return bool(state & BUSY and state & WAKING)


def is_our_text(reason: str) -> bool:
    """A drain is ours only if its reason starts with this prefix."""
    return reason.startswith("k8s:")


def is_our_condition(kind: str, type_: str) -> bool:
    if kind == "Node":
        return type_ in OUR_NODE_CONDITIONS
    return type_.startswith("SlurmNodeState") or type_ == "SlurmNodeConflict"


def annotations_of(an_object: Object) -> dict[str, str]:
    found: dict[str, str] = an_object["metadata"].get("annotations") or {}
    return found


def labels_of(an_object: Object) -> dict[str, str]:
    found: dict[str, str] = an_object["metadata"].get("labels") or {}
    return found


def conditions_of(an_object: Object) -> dict[str, Object]:
    listed = an_object.get("status", {}).get("conditions") or ()
    return {one["type"]: one for one in listed}


def is_ready(an_object: Object) -> bool:
    return conditions_of(an_object).get("Ready", {}).get("status") == "True"


def is_slurmd(pod: Object) -> bool:
    return labels_of(pod).get(SELECTOR[0]) == SELECTOR[1]


def is_workload(pod: Object) -> bool:
    return bool(pod["spec"].get("schedulerName") == SCHEDULER)


def is_of_others(pod: Object) -> bool:
    """Whether another scheduler placed the Pod."""
    return bool(pod["spec"].get("schedulerName") == OTHER_SCHEDULER)


def is_finished(pod: Object) -> bool:
    """Whether the containers have ended for good. Such a Pod claims nothing."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def is_terminating(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def claimed_by(pod: Object) -> str:
    spec = pod["spec"]
    own = spec.get("nodeName", "") if spec.get("hostNetwork") else pod["metadata"]["name"]
    return annotations_of(pod).get(SLURM_NODE) or spec.get("hostname") or own


def tidy(text: str) -> str:
    """S17, for the texts of this simulator."""
    for wrong, right in (('"', "'"), ("\\", "/"), ("#", " ")):
        text = text.replace(wrong, right)
    text = "".join(one if one.isprintable() else " " for one in text)
    return " ".join(text.split())[:256].rstrip()
