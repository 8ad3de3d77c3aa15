"""Every literal that the outside world sees: annotations, labels, conditions, reasons, owners."""

PREFIX = "sunk.coreweave.com/"

# Annotations that others write and we read.
SLURM_NODE = PREFIX + "slurm-node"
CORDON = PREFIX + "cordon"
CORDON_REASON = PREFIX + "cordon-reason"
CLOUD_CORDON_REASON = "node.coreweave.cloud/cordonReason"
PENDING_DELETION = PREFIX + "pending-deletion"
KEEP_CORDON = PREFIX + "keep-cordon"

# Annotations and labels that we write.
DRAIN = PREFIX + "drain"
DRAINED = PREFIX + "drained"
CORDONED_FOR_DRAIN = PREFIX + "cordoned-for-drain"
LABEL_CLUSTER = PREFIX + "cluster"
LABEL_NAMESPACE = PREFIX + "namespace"
LABEL_POD = PREFIX + "pod"
LABEL_NODESET = PREFIX + "nodeset"
NODE_LABELS = (LABEL_CLUSTER, LABEL_NAMESPACE, LABEL_NODESET, LABEL_POD)

# Conditions.
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

# One field manager per rule that writes to Kubernetes objects.
MANAGER_MIRROR = "sunk-sync-mirror"
MANAGER_RETIRE = "sunk-sync-retire"
MANAGER_CORDON = "sunk-sync-cordon"
EVENT_COMPONENT = "sunk-sync"

# Slurm: a drain is ours only while its reason begins so.
REASON_PREFIX = "k8s:"
LIFTED_PREFIX = "lifted, was "
REASON_LENGTH_MAX = 256
MARK_KEY = "sunk-sync"

# Reasons of Events.
EVENT_CONFLICT = "SlurmNodeConflict"
EVENT_DRAINS_HELD = "DrainsHeld"
EVENT_SELECTOR = "SlurmdSelectorMismatch"
