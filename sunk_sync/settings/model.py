"""What the operator chooses: one frozen Settings, filled by `configure` from flags and files.

Field `slurm_kill_wait_s` is flag `--slurm-kill-wait`, environment variable
`SUNK_SYNC_SLURM_KILL_WAIT` and key `slurm-kill-wait` of the file: `flag_of` and its neighbours.
Fields ending in `_s` are seconds; they are given as durations (`30s`, `1m30s`, `500ms`, `2h`).
"""

from typing import Any, Literal, NamedTuple, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from sunk_sync.core.model.placeholder import Kind
from sunk_sync.settings.pod_types import (
    GRES_MAP,
    GpuTypes,
    GresMap,
    Overhead,
    PriorityMap,
    UserPolicyFile,
)
from sunk_sync.settings.types import (
    COMPONENTS_BUILT,
    Address,
    BindAddress,
    Components,
    Count,
    Duration,
    FilePath,
    HooksUrl,
    LabelValue,
    Level,
    Namespaces,
    NamespacesOrAll,
    Secret,
    Selector,
    SlurmAddresses,
    SlurmVersion,
    Switch,
    Text,
)
from sunk_sync.slurm.api.versions import NEWEST, OLDEST

ENVIRONMENT_PREFIX = "SUNK_SYNC_"


def _setting(default: object, group: str, text: str, **limits: Any) -> Any:
    """A field with its group, its meaning, and (`shown`) the default in words."""
    shown = limits.pop("shown", None)
    return Field(
        default=default,
        description=text,
        json_schema_extra={"group": group, "shown": shown},
        **limits,
    )


def _off(group: str, text: str) -> Any:
    """A switch that is off unless asked for."""
    return _setting(default=False, group=group, text=text)


_WHERE = "What it looks after"
_SLURM = "Slurm"
_DRAINS = "Drains"
_PODS = "Pods scheduled by Slurm"
_DOORS = "Addresses it listens on"
_HOOKS = "Hooks and the gate"
_RUNNING = "Running"
_LATER = "Later (accepted, no effect yet)"


class Settings(BaseModel):
    """Everything that can be chosen. Units and defaults stand with each field."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    own_namespace: str = Field(default="default", exclude=True)
    """Where this process runs; read from its ServiceAccount, not a setting."""

    components: Components = _setting(
        COMPONENTS_BUILT, _WHERE, "comma list of what to run: syncer; scheduler and others later"
    )
    cluster_name: LabelValue = _setting(
        "slurm", _WHERE, "name of this Slurm cluster in labels, logs and metrics"
    )
    kubeconfig: FilePath | None = _setting(
        None, _WHERE, "kubeconfig file", shown="in-cluster, else the usual kubeconfig rules"
    )
    context: Text | None = _setting(
        None, _WHERE, "context of the kubeconfig", shown="its current context"
    )
    watch_namespace: NamespacesOrAll = _setting(
        ("default",),
        _WHERE,
        "comma list of namespaces of workload Pods; * is all",
        shown="own namespace, else default",
    )
    slurmd_namespace: Namespaces = _setting(
        ("default",),
        _WHERE,
        "comma list of namespaces of the slurmd Pods",
        shown="own namespace, else default",
    )
    slurmd_selector: Selector = _setting(
        "app.kubernetes.io/component=slurmd", _WHERE, "label selector of the slurmd Pods"
    )
    scheduler_name: Text = _setting(
        "default-slurm",
        _WHERE,
        "Pods with this spec.schedulerName are ours",
        shown="<own namespace>-<cluster-name>",
        max_length=253,
    )

    slurm_api_base: SlurmAddresses = _setting(
        ("http://slurm-restd:6820",),
        _SLURM,
        "comma list of slurmrestd addresses: fail over in order",
    )
    slurm_api_version: SlurmVersion = _setting(
        "auto", _SLURM, f"auto: the newest of {OLDEST} … {NEWEST} that both sides speak"
    )
    slurm_auth_token: Secret | None = _setting(
        None, _SLURM, "JWT for slurmrestd; a file is better: it can be renewed"
    )
    slurm_auth_token_file: FilePath | None = _setting(
        None, _SLURM, "file with the JWT; read again when it changes and when Slurm refuses it"
    )
    slurm_user_name: Text | None = _setting(None, _SLURM, "X-SLURM-USER-NAME, where needed")
    slurm_kill_wait_s: Duration | None = _setting(
        None,
        _SLURM,
        "must equal Slurm's KillWait; doctor compares",
        shown="read from Slurm (26.05), else 30s",
        ge=1.0,
    )
    slurm_poll_interval_s: Duration = _setting(
        1.0,
        _SLURM,
        "between two polls of one listing; longer to spare a slow slurmrestd, shorter in a burst",
        ge=0.05,
        le=300.0,
    )

    not_ready_grace_s: Duration = _setting(
        5.0, _DRAINS, "a slurmd Pod may be not Ready for so long before its host is drained"
    )
    node_not_ready_grace_s: Duration = _setting(
        40.0, _DRAINS, "a Node may be NotReady or Unknown for so long before it is drained"
    )
    max_drains_per_minute: Count | None = _setting(
        None,
        _DRAINS,
        "most new drains a minute whose cause is an absence or NotReady; the rest is held",
        shown="the greater of 20 and 10 % of the hosts",
    )
    cordon_on_slurm_drain: Switch = _off(
        _DRAINS, "a drain that began in Slurm cordons the Node too"
    )

    termination_offset_s: Duration = _setting(
        5.0, _PODS, "a Pod's grace period must end so long before Slurm's KillWait"
    )
    user_policy: UserPolicyFile = _setting(
        None,
        _PODS,
        "YAML table of namespaces and the uids their jobs may run as",
        shown="unset: any",
    )
    gres_map: GresMap = _setting(
        GRES_MAP,
        _PODS,
        "extended resources → GRES of Slurm; -: only the kubelet counts it",
    )
    gpu_types: GpuTypes = _setting(
        (),
        _PODS,
        "values of gpu.nvidia.com/model or /class → GPU types of Slurm: A100_PCIE_80GB=a100",
        shown="unset: no type is asked for",
    )
    priority_map: PriorityMap = _setting(
        (),
        _PODS,
        "PriorityClass → what Slurm is asked for: high=qos=urgent,low=partition=spare,"
        "first=priority=1000; an annotation wins",
        shown="unset",
    )
    unsupported: Literal["ignore", "refuse"] = _setting(
        "ignore", _PODS, "Pods with hard rules on other Pods or on spread, which Slurm cannot keep"
    )
    refuse_static_cpu: Switch = _off(
        _PODS, "refuse Pods of Guaranteed QoS with whole CPUs instead of warning"
    )

    metrics_bind_address: BindAddress = _setting(
        Address("", 8080), _DOORS, "/metrics, and the status page at /; empty: off"
    )
    health_probe_bind_address: BindAddress = _setting(
        Address("", 8081), _DOORS, "/livez, /readyz, /healthz; ?verbose names each check"
    )
    hooks_api_bind_address: BindAddress = _setting(
        Address("", 8000), _DOORS, "calls of the gate and of placeholder jobs; empty: off"
    )

    hooks_url: HooksUrl | None = _setting(
        None,
        _HOOKS,
        "address under which slurmctld and compute nodes reach the hooks",
        shown="http://sunk-sync-hooks.<own namespace>.svc and the port of the door",
    )
    hooks_key_file: FilePath | None = _setting(
        None,
        _HOOKS,
        "file with the key of the hook tokens, 16 to 4096 bytes",
        shown="made at start: tokens given out before a restart are void after it",
    )
    gate: Literal["auto", "on", "off"] = _setting(
        "auto",
        _HOOKS,
        "whether our PrologSlurmctld stands; auto: once it called about a job of ours",
    )

    dry_run: Switch = _off(_RUNNING, "observe, decide, say; write nothing")
    log_level: Level = _setting("info", _RUNNING, "debug, info, warning or error")
    log_format: Literal["auto", "json", "console"] = _setting(
        "auto", _RUNNING, "json or console; auto: console on a terminal"
    )

    leader_elect: Switch = _off(_LATER, "one of several replicas acts")
    placeholder: Literal["auto", Kind] = _setting("auto", _PODS, "kind of placeholder job")
    resubmit_cancelled: Switch = _off(
        _PODS, "a job cancelled by a human before its Pod was bound is submitted anew"
    )
    watch_all_pods: Switch = _off(
        _PODS,
        "count what Pods of others take of each Node; needs the rights in deploy/all-pods",
    )
    node_overhead: Overhead = _setting(
        (), _PODS, "cpu=…,memory=… that Pods of others take on each Node", shown="unset"
    )
    lost_job: Literal["keep", "readopt", "end"] = _setting(
        "keep", _PODS, "what becomes of a bound Pod whose job is missing"
    )
    max_pod_ends_per_minute: Count | None = _setting(
        None,
        _PODS,
        "most ends of Pods a minute for failed nodes and missing jobs; the rest is held",
        shown="the greater of 20 and 10 % of bound workloads",
    )

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        if self.slurm_auth_token and self.slurm_auth_token_file:
            raise ValueError(
                "--slurm-auth-token and --slurm-auth-token-file are both set: give only one"
            )
        return self

    @property
    def hooks_address(self) -> str:
        """--hooks-url, or what deploy/manifests make of it."""
        door = self.hooks_api_bind_address
        derived = f"http://sunk-sync-hooks.{self.own_namespace}.svc:{door.port if door else 8000}"
        return self.hooks_url or derived

    @property
    def without_effect(self) -> tuple[str, ...]:
        """What the operator set though it does nothing yet: flags, and names of components."""
        flags = [flag_of(name) for name in LATER if name in self.model_fields_set]
        parts = [part for part in self.components if part not in COMPONENTS_BUILT]
        return (*flags, *(f"--components={part}" for part in parts))


class About(NamedTuple):
    """How one setting looks from outside."""

    field: str
    group: str
    text: str
    default: str
    """In words."""
    form: str
    """What kind of value, for the help."""
    switch: bool
    """True or false: the flag alone means true."""
    secret: bool


def flag_of(field: str) -> str:
    """`slurm_kill_wait_s` → `--slurm-kill-wait`"""
    return "--" + key_of(field)


def key_of(field: str) -> str:
    """`slurm_kill_wait_s` → `slurm-kill-wait`, as in the file."""
    return field.removesuffix("_s").replace("_", "-")


def variable_of(field: str) -> str:
    """`slurm_kill_wait_s` → `SUNK_SYNC_SLURM_KILL_WAIT`"""
    return ENVIRONMENT_PREFIX + field.removesuffix("_s").upper()


def _about(name: str) -> About:
    field = Settings.model_fields[name]
    extra = field.json_schema_extra
    assert isinstance(extra, dict)
    return About(
        field=name,
        group=str(extra["group"]),
        text=field.description or "",
        default=str(extra["shown"] or shown(name, field.default)),
        form=_form(name, field.annotation),
        switch=field.annotation is bool,
        secret=name == "slurm_auth_token",
    )


def _form(name: str, kind: Any) -> str:
    if kind is bool:
        return "true|false"
    if get_origin(kind) is Literal and len(get_args(kind)) < 5:
        return "|".join(get_args(kind))
    if name.endswith("_s"):
        return "DURATION"
    words = {"file": "FILE", "kubeconfig": "FILE", "address": "HOST:PORT", "minute": "N"}
    words |= {"base": "URL,…", "components": "LIST", "namespace": "LIST", "policy": "FILE"}
    words |= {"map": "KEY=VALUE,…", "types": "KEY=VALUE,…"}
    return words.get(name.rpartition("_")[2], "TEXT")


def shown(name: str, value: object) -> str:
    """A value as one would write it; a secret never."""
    match value:
        case None | "":
            return "unset"
        case bool():
            return str(value).lower()
        case Address() | SecretStr():
            return str(value)
        case tuple():
            return ",".join(map(str, value))
        case float() if name.endswith("_s"):
            return f"{value:g}s"
        case _:
            return str(value)


ABOUT: tuple[About, ...] = tuple(
    _about(name) for name in Settings.model_fields if name != "own_namespace"
)
LATER: tuple[str, ...] = tuple(about.field for about in ABOUT if about.group == _LATER)
