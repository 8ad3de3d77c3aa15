"""Make the two dashboards for Grafana in deploy/helm/sunk-sync/files. Run after a change here."""

import json
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from tools.chart import CHART

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT = 24, 8
OURS = 'namespace=~"$namespace"'
"""Every query is for the chosen namespaces of sunk-sync."""


class Panel(NamedTuple):
    title: str
    text: str
    unit: str
    queries: Sequence[tuple[str, str]]
    """Legend and expression; @ stands for the labels that choose the namespace."""
    kind: str = "timeseries"
    width: int = 8


def latency(metric: str, by: str) -> list[tuple[str, str]]:
    """Return the query for the 95th percentile of a histogram."""
    rate = f"sum by (le, {by}) (rate({metric}_bucket{{@}}[$__rate_interval]))"
    return [(f"{{{{{by}}}}}", f"histogram_quantile(0.95, {rate})")]


OPERATOR = (
    Panel(
        "Leader", "Replicas that lead; it must be 1.", "none",
        [("leads", 'sum(leader_election_master_status{@, name=~"sunk-sync-.+"})')], "stat", 4,
    ),
    Panel("Paused", "1: an operator paused all writes.", "none",
          [("paused", "max(sunk_sync_paused{@})")], "stat", 4),
    Panel("Drains held", "Held by --max-drains-per-minute.", "none",
          [("drains", "max(sunk_sync_drains_held{@})"),
           ("ends of Pods", "max(sunk_sync_pod_ends_held{@})")], "stat", 4),
    Panel("Conflicts", "Slurm nodes with several claims.", "none",
          [("claims", "max(sunk_sync_conflicts{@})")], "stat", 4),
    Panel("Defects", "Objects that no rule decides; it must be 0.", "none",
          [("out of service", "max(sunk_sync_keys_out_of_service{@})"),
           ("surprises", "sum(sunk_sync_audit_surprises_total{@})")], "stat", 4),
    Panel("Token left", "Until the Slurm token expires.", "s",
          [("left", "min(slurm_token_expiry_timestamp_seconds{@}) - time()")], "stat", 4),
    Panel("Age of the sources", "Since the last complete listing or proof.", "s",
          [("{{source}} {{pod}}", "sunk_sync_source_age_seconds{@}")]),
    Panel("Sources that can be read", "0: lost.", "none",
          [("{{source}} {{pod}}", "sunk_sync_source_listed{@}")]),
    Panel("Writes by outcome", "A second.", "wps",
          [("{{action}} {{outcome}}",
            "sum by (action, outcome) (rate(sunk_sync_writes_total{@}[$__rate_interval]))")]),
    Panel("From the decision to the answer", "95th percentile of each write.", "s",
          latency("sunk_sync_write_duration_seconds", "action")),
    Panel("From a Pod to its binding", "95th percentile, with the time in Slurm's queue.", "s",
          latency("sunk_sync_pod_wait_seconds", "job")),
    Panel("From the end of a job to the deletion of its Pod", "95th percentile.", "s",
          latency("sunk_sync_pod_end_delay_seconds", "job")),
    Panel("Writes that wait", "In the outbox.", "none",
          [("{{name}} {{pod}}", "workqueue_depth{@}")]),
    Panel("Requests", "A second, by status.", "reqps",
          [("{{host}} {{code}}",
            "sum by (host, code) (rate(rest_client_requests_total{@}[$__rate_interval]))")]),
    Panel("Request duration", "95th percentile.", "s",
          latency("rest_client_request_duration_seconds", "host")),
    Panel("Hook calls", "Waiting, and a second by answer.", "none",
          [("waiting", "sum(sunk_sync_hook_calls_waiting{@})"),
           ("{{call}} {{outcome}}",
            "sum by (call, outcome) (rate(sunk_sync_hook_calls_total{@}[$__rate_interval]))")]),
    Panel("Loop", "Share of time busy, and the longest step.", "s",
          [("busy {{pod}}", "rate(sunk_sync_loop_busy_seconds_total{@}[$__rate_interval])"),
           ("longest step {{pod}}", "sunk_sync_loop_longest_step_seconds{@}")]),
    Panel("CPU and memory", "Of the process.", "none",
          [("cpu {{pod}}", "rate(process_cpu_seconds_total{@}[$__rate_interval])"),
           ("MiB {{pod}}", "process_resident_memory_bytes{@} / 1048576")]),
    Panel("Differences", "Between Slurm and Kubernetes; `sunk-sync diff` names them.", "none",
          [("{{kind}}", "max by (kind) (sunk_sync_differences{@})")]),
    Panel("Oldest difference", "Of each kind.", "s",
          [("{{kind}}", "max by (kind) (sunk_sync_oldest_difference_seconds{@})")]),
    Panel("Double allocation", "Seconds in which a host had two users; it must stay 0.", "s",
          [("seconds",
            "sum(increase(sunk_sync_double_allocation_seconds_total{@}[$__rate_interval]))")]),
)  # fmt: skip
OF_JOBS = 'action=~"submit-job|cancel-job|bind|end-pod"'
CAPACITY = (
    Panel("Slurm nodes", "By state; each counts once.", "none",
          [(state, f"max(slurm_nodes_{state}{{@}})")
           for state in ("idle", "mix", "alloc", "comp", "drain", "down", "maint", "resv", "fail")],
          width=12),
    Panel("Slurm nodes that do not respond", "Whatever their state.", "none",
          [("not responding", "max(slurm_nodes_not_responding{@})"),
           ("all", "max(slurm_nodes_total{@})")], width=12),
    Panel("NodeSets: desired and in use", "slurmd Pods.", "none",
          [("{{nodeset}} desired", "max by (nodeset) (kube_sunk_nodeset_desired{@})"),
           ("{{nodeset}} registered", "max by (nodeset) (kube_sunk_nodeset_registered{@})"),
           ("{{nodeset}} unavailable", "max by (nodeset) (kube_sunk_nodeset_unavailable{@})")],
          width=12),
    Panel("NodeSets: jobs", "Slurm nodes with jobs, and free ones.", "none",
          [("{{nodeset}} allocated", "max by (nodeset) (kube_sunk_nodeset_allocated{@})"),
           ("{{nodeset}} idle", "max by (nodeset) (kube_sunk_nodeset_idle{@})"),
           ("{{nodeset}} drained", "max by (nodeset) (kube_sunk_nodeset_drained{@})"),
           ("{{nodeset}} down", "max by (nodeset) (kube_sunk_nodeset_down{@})")], width=12),
    Panel("NodeSets: updates", "Pods with the newest template.", "none",
          [("{{nodeset}} updated", "max by (nodeset) (kube_sunk_nodeset_updated{@})"),
           ("{{nodeset}} current", "max by (nodeset) (kube_sunk_nodeset_current{@})"),
           ("{{nodeset}} ready", "max by (nodeset) (kube_sunk_nodeset_ready{@})")], width=12),
    Panel("Jobs by state", "Each counts in one; tasks of arrays one by one.", "none",
          [(state, f"max(slurm_queue_{state}{{@}})")
           for state in ("running", "pending", "pending_dependency", "configuring", "completing",
                         "suspended", "completed", "canceled", "failed", "timeout", "node_fail",
                         "preempted")],
          width=12),
    Panel("Running and waiting jobs of users", "The ten users with the most.", "none",
          [("{{user}} running", "topk(10, sum by (user) (slurm_jobs_running{@}))"),
           ("{{user}} pending", "topk(10, sum by (user) (slurm_jobs_pending{@}))")], width=12),
    Panel("CPUs of the partitions", "A node may belong to several.", "none",
          [("{{partition}} " + part, f"max by (partition) (slurm_partition_cpu_{part}{{@}})")
           for part in ("alloc", "idle", "total")], width=12),
    Panel("GPUs of the partitions", "A node may belong to several.", "none",
          [("{{partition}} " + part, f"max by (partition) (slurm_partition_gpu_{part}{{@}})")
           for part in ("alloc", "idle", "total")], width=12),
    Panel("Memory of the partitions", "A node may belong to several.", "mbytes",
          [("{{partition}} " + part, f"max by (partition) (slurm_partition_mem_{part}{{@}})")
           for part in ("alloc", "idle", "total")], width=12),
    Panel("Scheduler of Slurm", "Mean duration of a cycle, and the last one.", "s",
          [("mean", "max(slurm_scheduler_cycle_mean_seconds{@})"),
           ("last", "max(slurm_scheduler_cycle_last_seconds{@})"),
           ("backfill mean", "max(slurm_scheduler_backfill_cycle_mean_seconds{@})"),
           ("backfill last", "max(slurm_scheduler_backfill_cycle_last_seconds{@})")], width=12),
    Panel("slurmctld", "Threads, and messages that wait.", "none",
          [("threads", "max(slurm_scheduler_threads{@})"),
           ("to nodes", "max(slurm_scheduler_queue{@})"),
           ("to slurmdbd", "max(slurm_scheduler_dbd_queue{@})")], width=12),
    Panel("Calls to slurmctld", "Mean duration of the ten slowest types.", "s",
          [("{{message_type}}",
            "topk(10, max by (message_type) (slurm_controller_rpc_mean_duration_seconds{@}))")],
          width=12),
    Panel("Jobs that wait", "By what they wait for.", "none",
          [("{{partition}} {{features}} {{gres}} {{waits_for}}",
            "max by (partition, features, gres, waits_for) (sunk_sync_pending_jobs{@})")],
          width=12),
    Panel("Nodes that waiting jobs ask for", "At least.", "none",
          [("{{nodeset}} {{partition}}",
            "max by (nodeset, partition) (kube_sunk_nodeset_pending_nodes{@})"),
           ("{{partition}} {{features}} {{gres}} {{waits_for}}",
            "max by (partition, features, gres, waits_for) (sunk_sync_pending_nodes{@})")],
          width=12),
    Panel("Placeholders", "Written by sunk-sync, a second.", "wps",
          [("{{action}}",
            f"sum by (action) (rate(sunk_sync_writes_total{{@, {OF_JOBS}}}[$__rate_interval]))")],
          width=12),
)  # fmt: skip
DASHBOARDS = {
    "operator": ("sunk-sync: operator", OPERATOR),
    "capacity": ("sunk-sync: capacity", CAPACITY),
}


def dashboard(name: str) -> dict[str, Any]:
    title, panels = DASHBOARDS[name]
    return {
        "uid": f"sunk-sync-{name}",
        "title": title,
        "tags": ["sunk-sync", "slurm"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_datasource(), _namespace()]},
        "panels": _placed(panels),
    }


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus"}


def _namespace() -> dict[str, Any]:
    query = "label_values(sunk_sync_build_info, namespace)"
    return {
        "name": "namespace",
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": "namespace"},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _placed(panels: Sequence[Panel]) -> list[dict[str, Any]]:
    """Put the panels in rows from left to right."""
    x = y = 0
    placed = []
    for number, panel in enumerate(panels):
        height = HEIGHT // 2 if panel.kind == "stat" else HEIGHT
        if x + panel.width > WIDTH:
            x, y = 0, y + HEIGHT
        place = {"x": x, "y": y, "w": panel.width, "h": height}
        placed.append({"id": number + 1, **_panel(panel), "gridPos": place})
        x += panel.width
    return placed


def _panel(panel: Panel) -> dict[str, Any]:
    targets = [
        {
            "refId": chr(ord("A") + number),
            "datasource": SOURCE,
            "expr": query.replace("@", OURS),
            "legendFormat": legend,
        }
        for number, (legend, query) in enumerate(panel.queries)
    ]
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": targets,
    }


def made(name: str) -> str:
    return json.dumps(dashboard(name), indent=1) + "\n"


def main() -> int:
    for name in DASHBOARDS:
        (CHART / "files" / f"dashboard-{name}.json").write_text(made(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
