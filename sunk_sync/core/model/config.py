"""Settings that rules and policy read."""

from typing import Literal

from msgspec import Struct

from sunk_sync.core.model.job_identity import Identity
from sunk_sync.core.model.node_signs import GOING
from sunk_sync.core.model.placeholder import PlaceholderKind
from sunk_sync.core.model.user_policy import UserPolicy


class Configuration(Struct, frozen=True, kw_only=True, gc=False, cache_hash=True):
    cluster_uid: str = ""
    """UID of the namespace kube-system: it identifies this Kubernetes cluster."""
    namespace: str = "default"
    """Namespace of sunk-sync: Events about the whole service are there."""
    cluster_name: str = "slurm"
    not_ready_grace_s: float = 5.0
    node_not_ready_grace_s: float = 40.0
    cordon_on_slurm_drain: bool = False
    drain_taints: tuple[tuple[str, str], ...] = GOING
    """Taints for which a Node is drained: key, value; an empty value is any (S21)."""
    drain_conditions: tuple[tuple[str, str], ...] = ()
    """Conditions for which a Node is drained: type, status (S21)."""
    max_drains_per_minute: int | None = None
    """None: the greater of 20 and 10 % of the hosts."""
    scheduler: str = ""
    """--scheduler-name, also in the identity of jobs; empty: the scheduler does not run."""
    watch_namespaces: tuple[str, ...] = ("*",)
    """Namespaces of workload Pods; `*`: all."""
    slurmd_namespaces: tuple[str, ...] = ("*",)
    """Namespaces of slurmd Pods and NodeSets; `*`: all."""
    gate: Literal["auto", "on", "off"] = "auto"
    placeholder: Literal["auto", PlaceholderKind] = "auto"
    lost_job: Literal["keep", "readopt", "end"] = "keep"
    resubmit_cancelled: bool = False
    max_pod_ends_per_minute: int | None = None
    """None: the greater of 20 and 10 % of bound workloads."""
    settle_s: float = 12.0
    """Slurm may act on a submission without an answer for so long after its last byte (F2)."""
    dry_run: bool = False
    kill_wait_s: float = 30.0
    """Slurm's KillWait."""
    termination_offset_s: float = 5.0
    namespace_rules: UserPolicy | None = None
    """What the Pods of each namespace may ask; None: anything (P5)."""
    gpu_types: tuple[tuple[str, str], ...] = ()
    """Value of a Node's label, type of GPU in Slurm (P6)."""
    gres_map: tuple[tuple[str, str], ...] = ()
    """Extended resource (or `prefix/*`), GRES in Slurm or `-` (P6)."""
    priority_map: tuple[tuple[str, str, str | int], ...] = ()
    """PriorityClass; qos, partition or priority; its value (P9)."""
    refuse_static_cpu: bool = False
    volume_timeout_s: float = 600.0
    """A job whose Pods get no volumes for so long is given up (P8)."""
    pack: Literal["off", "nodes"] = "off"
    """nodes: hosts in use get lower weights than empty ones (W1)."""
    node_sets: bool = False
    """The component that makes slurmd Pods runs."""
    lock: bool = False
    """Prologs may lock Nodes (L1)."""
    lock_wait_s: float = 60.0
    lock_late: Literal["pass", "hold"] = "pass"
    lock_linger_s: float = 10.0
    watch_all_pods: bool = False
    """Count Pods of other schedulers one by one (P28)."""
    node_overhead: tuple[tuple[str, int], ...] = ()
    """Resources of other Pods on each Node, as PodSpec.requests (P28)."""

    def owns(self, identity: Identity) -> bool:
        """Whether a job with this identity is one of this cluster and scheduler (P22)."""
        return (identity.cluster, identity.scheduler) == (self.cluster_uid, self.scheduler)
