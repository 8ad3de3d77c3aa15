"""Names that users see: annotations, labels, conditions, reasons, field managers."""

from typing import Final

PREFIX: Final = "sunk.coreweave.com/"

# Annotations that users and controllers write.
SLURM_NODE: Final[str] = PREFIX + "slurm-node"
CORDON: Final[str] = PREFIX + "cordon"
CORDON_REASON: Final[str] = PREFIX + "cordon-reason"
CLOUD_CORDON_REASON = "node.coreweave.cloud/cordonReason"
PENDING_DELETION: Final[str] = PREFIX + "pending-deletion"
DELETION_COST: Final[str] = "controller.kubernetes.io/pod-deletion-cost"
KEEP_CORDON: Final[str] = PREFIX + "keep-cordon"

# Annotations of Namespaces that users write: the defaults of their Pods (P5).
DEFAULT_USER: Final[str] = PREFIX + "default-user"
DEFAULT_GROUP: Final[str] = PREFIX + "default-group"
DEFAULT_ACCOUNT: Final[str] = PREFIX + "default-account"

# Annotations of workload Pods that users and controllers write, besides `job_description`.
RESUBMIT: Final[str] = PREFIX + "resubmit"
GANG: Final[str] = PREFIX + "gang"
GANG_SIZE: Final[str] = PREFIX + "gang-size"
GANG_JOB = "job"
"""Value of the annotation gang: the Pods of one Indexed Job."""
POD_GROUP_LABELS = (
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
)
LWS_GROUP = "leaderworkerset.sigs.k8s.io/group-key"
LWS_SIZE = "leaderworkerset.sigs.k8s.io/size"

# Annotations and labels that sunk-sync writes.
JOB_ID: Final[str] = PREFIX + "job-id"
BOUND_FOR: Final[str] = PREFIX + "bound-for"
CANCELLED: Final[str] = PREFIX + "cancelled"
DRAIN: Final[str] = PREFIX + "drain"
DRAINED: Final[str] = PREFIX + "drained"
CORDONED_FOR_DRAIN: Final[str] = PREFIX + "cordoned-for-drain"
LOCK: Final[str] = PREFIX + "lock"
"""Also the key of the taint."""
VOLUME_FOR: Final[str] = PREFIX + "volume-for"
"""On a claim: the job on whose host sunk-sync selected its Node."""
HOOKS_ADDRESS: Final[str] = PREFIX + "hooks-address"
RELEASED_BY: Final[str] = PREFIX + "released-by"
PAUSED: Final[str] = PREFIX + "paused"
"""On the Lease: until when sunk-sync writes nothing, and why."""
LABEL_CLUSTER: Final[str] = PREFIX + "cluster"
LABEL_NAMESPACE: Final[str] = PREFIX + "namespace"
LABEL_POD: Final[str] = PREFIX + "pod"
LABEL_NODESET: Final[str] = PREFIX + "nodeset"
LABEL_REVISION: Final[str] = PREFIX + "revision"
LABEL_SHAPE: Final[str] = PREFIX + "shape"
LABEL_BUSY: Final[str] = PREFIX + "busy"
NODE_LABELS = (LABEL_CLUSTER, LABEL_NAMESPACE, LABEL_NODESET, LABEL_POD)

# Annotations of claims that Kubernetes defines.
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
OLD_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"

POD_STATE_CONDITION = "SlurmNodeState"
POD_CONFLICT_CONDITION = "SlurmNodeConflict"
NODE_DRAIN_CONDITION = "SlurmDrain"
NODE_RUNNING_CONDITION = "SlurmRunning"
NODE_NOT_RESPONDING_CONDITION = "SlurmNotResponding"
NODE_CORDON_CONDITION = "SlurmCordon"
NODE_CONDITIONS = (
    NODE_CORDON_CONDITION,
    NODE_DRAIN_CONDITION,
    NODE_NOT_RESPONDING_CONDITION,
    NODE_RUNNING_CONDITION,
)
SCHEDULED_CONDITION = "PodScheduled"
DISRUPTION_CONDITION = "DisruptionTarget"
TOO_SMALL_CONDITION = "SlurmJobTooSmall"
WORKLOAD_CONDITIONS = (DISRUPTION_CONDITION, SCHEDULED_CONDITION, TOO_SMALL_CONDITION)

# One field manager per rule that writes to Kubernetes objects.
MANAGER_MIRROR = "sunk-sync-mirror"
MANAGER_RETIRE = "sunk-sync-retire"
MANAGER_CORDON = "sunk-sync-cordon"
MANAGER_SUBMIT = "sunk-sync-submit"
MANAGER_RELEASE = "sunk-sync-release"
MANAGER_BUSY = "sunk-sync-busy"
MANAGER_LOCK = "sunk-sync-lock"
MANAGER_CONDEMN = "sunk-sync-condemn"
MANAGER_NODE_SET = "sunk-sync-nodeset"
MANAGER_VOLUME = "sunk-sync-volume"
WORKLOAD_MANAGERS = (MANAGER_SUBMIT, MANAGER_RELEASE)
EVENT_COMPONENT = "sunk-sync"

# A drain belongs to sunk-sync only if the reason begins so.
REASON_PREFIX = "k8s:"
LIFTED_PREFIX = "lifted, was "
REASON_LENGTH_MAX = 256
MARK_KEY = "sunk-sync"

REASON_NODE_GONE = "k8s: node gone"
REASON_NODE_NOT_READY = "k8s: node not ready"
REASON_PENDING_DELETION = "k8s: pod pending deletion"
"""Reasons of drains that more than the rule `drain` reads."""
