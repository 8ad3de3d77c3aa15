"""The claim that fails without each permission, in the words of docs/reference.md."""

from collections.abc import Mapping

READY = "sunk-sync becomes ready"
LEADS = "a replica leads"
LEADS_AGAIN = "a replica leads although somebody deleted the Lease"
NODE_CORDON = "a cordoned Node drains its Slurm node"
NODE_CONDITION = "a Node shows the drain in its condition SlurmDrain"
NODE_METADATA = "a Node has the labels of its slurmd Pod and the drain annotation"
NODE_GONE = "a deleted Node drains its Slurm node"
NODE_EVENT = "a Node that another Node contradicts gets an Event"
POD_CORDON = "a cordoned slurmd Pod drains its Slurm node"
POD_CONDITION = "a slurmd Pod shows the state of its Slurm node"
POD_ANNOTATION = "a slurmd Pod has the drain annotation"
POD_GONE = "a deleted slurmd Pod drains its Slurm node"
POD_EVENT = "a slurmd Pod that another one contradicts gets an Event"
POD_COUNT = "a slurmd Pod that is contradicted twice gets one Event, counted twice"
NODE_COUNT = "a Node that is contradicted twice gets one Event, counted twice"
LATE_COUNT = "a Pod that is edited twice after its binding gets one Event, counted twice"
HELD_COUNT = "drains that are held twice get one Event, counted twice"
HOOKS_KEY = "the key of the hook tokens is kept in its Secret"
BOUND = "a new Pod is bound"
SELECTS = "a Pod keeps a rule that selects Namespaces by label"
JOB_ID = "a waiting Pod names its job"
WAITS = "a waiting Pod shows the reason of Slurm"
WAITS_EVENT = "a waiting Pod gets an Event"
ENDED = "a Pod ends with its job"
ORPHAN = "a job without a Pod is cancelled"
POD_GROUP = "a gang of a PodGroup gets a job"
INDEXED_JOB = "a gang of an Indexed Job gets a job"
HELD = "held drains get an Event"
NODE_SET_PODS = "a NodeSet gets its slurmd Pods"
NODE_SET_HELD = "a NodeSet gets the finalizer"
NODE_SET_STATUS = "a NodeSet shows its numbers"
NODE_SET_ENDS = "a NodeSet that shrinks loses a Pod"
OTHERS = "a Node that Pods of other schedulers fill is no host"
SELECTED = "a claim gets its volume on the host of its Pod's job"
RESERVED = "a free volume is reserved for the claim of a Pod"
ATTACHED = "a Pod whose volume no Node may attach gets no job"
ROOM = "a Pod for whose volume the driver has no room gets no job"
SAID = "a Pod shows why the provisioner of its claim makes no volume"
OF_VOLUMES = (SELECTED, RESERVED, ATTACHED, ROOM, SAID)
LOCKED = "a Node whose job asks for the lock is locked"

Grant = tuple[str, str, str]
"""Where, resource with names, and verb, as docs/reference.md shows them."""

WITHOUT: Mapping[Grant, str] = {
    ("cluster", "nodes", "list"): NODE_CORDON,
    ("cluster", "nodes", "watch"): READY,
    ("cluster", "nodes", "get"): NODE_GONE,
    ("cluster", "nodes", "patch"): NODE_METADATA,
    ("cluster", "nodes/status", "patch"): NODE_CONDITION,
    ("cluster", "namespaces kube-system", "get"): READY,
    ("cluster", "namespaces", "list"): SELECTS,
    ("cluster", "namespaces", "watch"): READY,
    ("cluster", "pods", "list"): OTHERS,
    ("cluster", "pods", "watch"): READY,
    ("cluster", "persistentvolumes", "list"): RESERVED,
    ("cluster", "persistentvolumes", "watch"): RESERVED,
    ("cluster", "persistentvolumes", "get"): RESERVED,
    ("cluster", "persistentvolumes", "patch"): RESERVED,
    ("cluster", "storageclasses", "list"): SELECTED,
    ("cluster", "storageclasses", "watch"): SELECTED,
    ("cluster", "csinodes", "list"): ATTACHED,
    ("cluster", "csinodes", "watch"): ATTACHED,
    ("cluster", "csidrivers", "list"): ROOM,
    ("cluster", "csidrivers", "watch"): ROOM,
    ("cluster", "csistoragecapacities", "list"): SELECTED,
    ("cluster", "csistoragecapacities", "watch"): SELECTED,
    ("slurmd", "pods", "list"): POD_CORDON,
    ("slurmd", "pods", "watch"): READY,
    ("slurmd", "pods", "get"): POD_GONE,
    ("slurmd", "pods", "patch"): POD_ANNOTATION,
    ("slurmd", "pods/status", "patch"): POD_CONDITION,
    ("slurmd", "events", "create"): POD_EVENT,
    ("slurmd", "events", "patch"): POD_COUNT,
    ("slurmd", "pods", "create"): NODE_SET_PODS,
    ("slurmd", "pods", "delete"): NODE_SET_ENDS,
    ("slurmd", "nodesets", "list"): NODE_SET_PODS,
    ("slurmd", "nodesets", "watch"): NODE_SET_PODS,
    ("slurmd", "nodesets", "patch"): NODE_SET_HELD,
    ("slurmd", "nodesets/status", "patch"): NODE_SET_STATUS,
    ("work", "pods", "list"): BOUND,
    ("work", "pods", "watch"): READY,
    ("work", "pods", "get"): ORPHAN,
    ("work", "pods", "patch"): JOB_ID,
    ("work", "pods", "delete"): ENDED,
    ("work", "pods/binding", "create"): BOUND,
    ("work", "pods/status", "patch"): WAITS,
    ("work", "events", "create"): WAITS_EVENT,
    ("work", "events", "patch"): LATE_COUNT,
    ("work", "events", "list"): SAID,
    ("work", "persistentvolumeclaims", "list"): SELECTED,
    ("work", "persistentvolumeclaims", "watch"): SELECTED,
    ("work", "persistentvolumeclaims", "get"): SELECTED,
    ("work", "persistentvolumeclaims", "patch"): SELECTED,
    ("work", "jobs", "get"): INDEXED_JOB,
    ("work", "podgroups", "get"): POD_GROUP,
    ("own", "events", "create"): HELD,
    ("own", "events", "patch"): HELD_COUNT,
    ("own", "secrets sunk-sync-slurm-hooks-key", "get"): HOOKS_KEY,
    ("own", "secrets sunk-sync-slurm-hooks-key", "patch"): HOOKS_KEY,
    ("own", "leases sunk-sync-slurm", "get"): LEADS,
    ("own", "leases sunk-sync-slurm", "patch"): LEADS,
    ("own", "leases", "create"): LEADS_AGAIN,
    ("default", "events", "create"): NODE_EVENT,
    ("default", "events", "patch"): NODE_COUNT,
}
"""A test takes each verb away on real servers. For `list` it also restarts the API server."""
