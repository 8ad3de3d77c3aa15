"""The settings: one frozen Settings; `sources.load` fills it.

A setting is one row: its type, its group, its default, and its meaning as the docstring. Field
`slurm_kill_wait_s` is flag `--slurm-kill-wait`, environment variable `SUNK_SYNC_SLURM_KILL_WAIT`
and key `slurm-kill-wait` of the file. Fields ending in `_s` are seconds, given as durations.
"""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sunk_sync.core.model.node_signs import GOING
from sunk_sync.core.model.placeholder import PlaceholderKind
from sunk_sync.settings import types

ENVIRONMENT_PREFIX = "SUNK_SYNC_"
COMPONENTS_BUILT = ("syncer", "scheduler", "nodesets")
COMPONENTS_CALLED = ("scheduler", "nodesets")
"""Slurm calls for them: prologs and placeholders; the script that writes the topology file."""
COMPONENTS_CHOSEN = ("syncer", "scheduler")
"""The default: component nodesets needs its custom resource."""
REMOVED: Mapping[str, str] = {
    "unsupported": "leave it out: every hard rule about other Pods is kept",
    "pending-jobs-interval": "set slurm-metrics-interval: one listing serves all metrics of jobs",
}
"""Settings of earlier versions, by file key → what to do instead, for the error message."""
GRES_MAP = (("nvidia.com/gpu", "gpu"), ("amd.com/gpu", "gpu"), ("rdma/*", "-"))

_WHERE = "Scope"
_SLURM = "Slurm"
_DRAINS = "Drains"
_PACKING = "Packing"
_PODS = "Pods scheduled by Slurm"
_LISTEN = "Listen addresses"
_HOOKS = "Hooks and the gate"
_LOCK = "Node lock"
_TRACES = "Traces"
_RUNNING = "Running"
_REPLICAS = "Replicas"


def _setting(group: str, default: object, shown: str = "", **limits: Any) -> Any:
    """Return a field of this group; `shown` describes its default if the value does not."""
    limits["default_factory" if callable(default) else "default"] = default
    return Field(json_schema_extra={"group": group, "shown": shown}, **limits)


def _own_namespace(given: dict[str, Any]) -> tuple[str, ...]:
    return (given["own_namespace"],)


def _own_scheduler(given: dict[str, Any]) -> str:
    return f"{given['own_namespace']}-{given['cluster_name']}"


def _own_hooks_url(given: dict[str, Any]) -> str:
    address = given["hooks_api_bind_address"]
    port = address.port if address else 8000
    return f"http://sunk-sync-hooks.{given['own_namespace']}.svc:{port}"


class Settings(BaseModel):
    """All settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    own_namespace: str = "default"
    """Namespace of this process, from its ServiceAccount; not a setting."""

    components: types.Components = _setting(_WHERE, COMPONENTS_CHOSEN)
    """comma list of what to run: syncer; scheduler; nodesets"""
    cluster_name: types.LabelValue = _setting(_WHERE, "slurm")
    """name of this Slurm cluster in labels, logs and metrics"""
    kubeconfig: types.ReadableFile | None = _setting(
        _WHERE, None, "in-cluster, else the usual kubeconfig rules"
    )
    """kubeconfig file"""
    context: types.Text | None = _setting(_WHERE, None, "its current context")
    """context of the kubeconfig"""
    watch_namespace: types.NamespacesOrAll = _setting(
        _WHERE, _own_namespace, "own namespace, else default"
    )
    """comma list of namespaces of workload Pods; * is all"""
    slurmd_namespace: types.Namespaces = _setting(
        _WHERE, _own_namespace, "own namespace, else default"
    )
    """comma list of namespaces of the slurmd Pods"""
    slurmd_selector: types.Selector = _setting(_WHERE, "app.kubernetes.io/component=slurmd")
    """label selector of the slurmd Pods"""
    scheduler_name: types.Text = _setting(
        _WHERE, _own_scheduler, "<own namespace>-<cluster-name>", max_length=253
    )
    """Pods with this spec.schedulerName are ours"""

    slurm_api_base: types.Urls = _setting(_SLURM, ("http://slurm-restd:6820",))
    """comma list of slurmrestd addresses: fail over in order"""
    slurm_api_version: types.SlurmVersion = _setting(_SLURM, "auto")
    """auto: the newest version that both sides speak"""
    slurm_auth_token: types.Secret | None = _setting(_SLURM, None)
    """JWT for slurmrestd; a file is better: it can be renewed"""
    slurm_auth_token_file: types.ReadableFile | None = _setting(_SLURM, None)
    """file with the JWT; read again when it changes and when Slurm refuses it"""
    slurm_user_name: types.Text | None = _setting(_SLURM, None)
    """X-SLURM-USER-NAME, where needed"""
    slurm_kill_wait_s: types.Duration | None = _setting(
        _SLURM, None, "read from Slurm (26.05), else 30s", ge=1.0
    )
    """must equal Slurm's KillWait; doctor compares"""
    slurm_poll_interval_s: types.Duration = _setting(_SLURM, 1.0, ge=0.05, le=300.0)
    """time between two listings; longer if slurmrestd is slow, shorter in a burst"""
    slurm_metrics_interval_s: types.Duration = _setting(_SLURM, 30.0, le=3600.0)
    """time between two listings of all jobs and nodes for the metrics slurm_queue_… and the like,
    and for autoscalers; longer if a listing takes more than a twentieth of it; 0: off"""
    slurm_metrics_per_object: types.Objects = _setting(_SLURM, (), "none")
    """comma list of what gets series of its own: jobs; nodes"""

    not_ready_grace_s: types.Duration = _setting(_DRAINS, 5.0)
    """drain a host when its slurmd Pod is not Ready for this time"""
    node_not_ready_grace_s: types.Duration = _setting(_DRAINS, 40.0)
    """drain a Node that is NotReady or Unknown for this time"""
    max_drains_per_minute: types.Count | None = _setting(
        _DRAINS, None, "the greater of 20 and 10 % of the hosts"
    )
    """maximum of new drains a minute for absent or NotReady objects; the rest is held"""
    drain_taints: types.Taints = _setting(_DRAINS, GOING, "those of autoscalers and clouds")
    """comma list of taints, KEY or KEY=VALUE: drain a Node that has one; none: whatever it has"""
    drain_conditions: types.Conditions = _setting(_DRAINS, (), "none")
    """comma list of conditions, TYPE (True) or TYPE=STATUS: drain a Node that has one"""
    cordon_on_slurm_drain: types.Switch = _setting(_DRAINS, default=False)
    """cordon the Node of a node that was drained in Slurm"""

    pack: Literal["off", "nodes"] = _setting(_PACKING, "off")
    """nodes: hosts in use get lower weights than empty ones, so that Slurm fills them first"""

    termination_offset_s: types.Duration = _setting(_PODS, 5.0)
    """a Pod's grace period must end this long before Slurm's KillWait"""
    user_policy: types.CheckedPolicy | None = _setting(_PODS, None, "unset: anything")
    """YAML file: what the Pods of each namespace may ask of Slurm; read again when it changes"""
    gres_map: types.GresMap = _setting(_PODS, GRES_MAP)
    """extended resources → GRES of Slurm; -: only the kubelet counts it"""
    gpu_types: types.GpuTypes = _setting(_PODS, (), "unset: no type is asked for")
    """values of gpu.nvidia.com/model or /class → GPU types of Slurm: A100_PCIE_80GB=a100"""
    priority_map: types.PriorityMap = _setting(_PODS, (), "unset")
    """PriorityClass → what Slurm is asked for:
    high=qos=urgent,low=partition=spare,first=priority=1000; an annotation wins"""
    refuse_static_cpu: types.Switch = _setting(_PODS, default=False)
    """refuse Pods of Guaranteed QoS with whole CPUs instead of warning"""
    placeholder: Literal["auto", PlaceholderKind] = _setting(_PODS, "auto")
    """kind of placeholder job"""
    resubmit_cancelled: types.Switch = _setting(_PODS, default=False)
    """submit a job again if a user cancels it before its Pod is bound"""
    watch_all_pods: types.Switch = _setting(_PODS, default=False)
    """count what all other Pods take, and keep their rules; needs the RBAC in deploy/all-pods"""
    node_overhead: types.NodeOverhead = _setting(_PODS, (), "unset")
    """cpu=…,memory=… that other Pods use on each Node"""
    volume_timeout_s: types.Duration = _setting(_PODS, 600.0, ge=10.0, le=3600.0)
    """time for the volumes of a Pod whose job runs; then another job follows elsewhere"""
    lost_job: Literal["keep", "readopt", "end"] = _setting(_PODS, "keep")
    """action for a bound Pod whose job is missing"""
    max_pod_ends_per_minute: types.Count | None = _setting(
        _PODS, None, "the greater of 20 and 10 % of bound workloads"
    )
    """maximum of Pods deleted a minute for failed nodes and missing jobs; the rest is held"""

    metrics_bind_address: types.BindAddress = _setting(_LISTEN, types.Address("", 8080))
    """/metrics, and the status page at /; empty: off"""
    health_probe_bind_address: types.BindAddress = _setting(_LISTEN, types.Address("", 8081))
    """/livez, /readyz, /healthz; ?verbose names each check"""
    hooks_api_bind_address: types.BindAddress = _setting(_LISTEN, types.Address("", 8000))
    """hooks server for the gate and placeholder jobs; empty: off"""
    operators_bind_address: types.LoopbackAddress = _setting(
        _LISTEN, types.Address("127.0.0.1", 8082)
    )
    """answers `sunk-sync explain`, on this machine alone: kubectl exec; empty: off"""

    hooks_url: types.Url = _setting(
        _HOOKS,
        _own_hooks_url,
        "http://sunk-sync-hooks.<own namespace>.svc and the port of the hooks server",
    )
    """URL at which slurmctld and the compute nodes reach the hooks server"""
    hooks_key_file: types.FilePath | None = _setting(
        _HOOKS, None, "the key in Secret sunk-sync-<cluster-name>-hooks-key"
    )
    """file with the key of the hook tokens, 16 to 4096 bytes"""
    gate: Literal["auto", "on", "off"] = _setting(_HOOKS, "auto")
    """whether sunk-sync's PrologSlurmctld is installed; auto: once it has called"""

    lock: types.Switch = _setting(_LOCK, default=False)
    """lock the Nodes of jobs whose prolog asks for it; needs list of Pods in all namespaces"""
    lock_wait_s: types.Duration = _setting(_LOCK, 60.0, ge=1.0, le=3600.0)
    """time that a prolog waits for foreign Pods to leave the Node"""
    lock_late: Literal["pass", "hold"] = _setting(_LOCK, "pass")
    """after that time: start the job beside them, or hold it until they are gone"""
    lock_linger_s: types.Duration = _setting(_LOCK, 10.0, le=50.0)
    """time that an idle Node stays locked, for the next job"""

    leader_elect: types.Switch = _setting(_REPLICAS, default=False)
    """only the replica that holds Lease sunk-sync-<cluster-name> writes; off: run one replica"""
    leader_elect_lease_duration_s: types.Duration = _setting(_REPLICAS, 6.0, ge=2.0, le=60.0)
    """time after which a standby takes over from a leader that does not answer"""

    traces_endpoint: types.TracesUrl | None = _setting(_TRACES, None, "off")
    """URL of an OTLP/HTTP collector, for a trace of each Pod; empty: off. It needs the packages of
    the extra `traces`, which the image has"""
    traces_sample: types.Share = _setting(_TRACES, 1.0, "1")
    """share of the Pods that are traced, 0 to 1; all replicas choose the same ones"""

    dry_run: types.Switch = _setting(_RUNNING, default=False)
    """decide and log, but write nothing"""
    log_level: types.Level = _setting(_RUNNING, "info")
    """debug, info, warning or error"""
    log_format: Literal["auto", "json", "console"] = _setting(_RUNNING, "auto")
    """json or console; auto: console on a terminal"""

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        if self.slurm_auth_token and self.slurm_auth_token_file:
            raise ValueError(
                "--slurm-auth-token and --slurm-auth-token-file are both set: give only one"
            )
        return self

    @property
    def hooks_open(self) -> bool:
        """Whether the hooks server runs: it has an address, and a component that is called."""
        called = any(part in COMPONENTS_CALLED for part in self.components)
        return called and self.hooks_api_bind_address is not None

    @property
    def without_effect(self) -> tuple[str, ...]:
        """Return the settings that have no effect yet: names of components."""
        parts = [part for part in self.components if part not in COMPONENTS_BUILT]
        return tuple(f"--components={part}" for part in parts)


def flag_of(field: str) -> str:
    return "--" + key_of(field)


def key_of(field: str) -> str:
    return field.removesuffix("_s").replace("_", "-")


def variable_of(field: str) -> str:
    return ENVIRONMENT_PREFIX + field.removesuffix("_s").upper()


FIELDS = tuple(name for name in Settings.model_fields if name != "own_namespace")
