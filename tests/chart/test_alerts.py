"""The alerts by promtool: each fires on what it is for, and stays silent otherwise."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.helm import Helm, the
from tests.chart.promtool import firing
from tests.real.conftest import require_promtool
from tests.real.testbed import cache
from tools import dashboards
from tools.chart import CHART

pytestmark = pytest.mark.real

RULES = CHART / "files" / "alerts.yaml"
HEALTHY = (
    ('sunk_sync_build_info{instance="a"}', "1x90"),
    ('leader_election_master_status{name="sunk-sync-slurm",instance="a"}', "1x90"),
    ('leader_election_master_status{name="sunk-sync-slurm",instance="b"}', "0x90"),
    ('sunk_sync_source_listed{source="nodes"}', "1x90"),
    ("slurm_token_expiry_timestamp_seconds", "86400x90"),
    ("sunk_sync_drains_held", "0x90"),
    ("sunk_sync_pod_ends_held", "0x90"),
    ("sunk_sync_paused", "0x90"),
    ("sunk_sync_double_allocation_seconds_total", "5x90"),
    ("sunk_sync_conflicts", "0x90"),
    ('sunk_sync_oldest_difference_seconds{kind="record"}', "20x90"),
    ('sunk_sync_oldest_difference_seconds{kind="drain"}', "0+60x90"),
    ("sunk_sync_jobs_kept", "0x90"),
    ("sunk_sync_user_policy_wrong", "0x90"),
    ("sunk_sync_placeholders_unheard", "0x90"),
    ("sunk_sync_keys_out_of_service", "0x90"),
    ("sunk_sync_rule_failures_total", "0x90"),
    ("sunk_sync_audit_surprises_total", "0x90"),
    ('sunk_sync_writes_total{action="drain",outcome="done"}', "0+9x90"),
    ('sunk_sync_writes_total{action="drain",outcome="refused"}', "0+1x90"),
    ('workqueue_depth{name="slurm",instance="a"}', "3x90"),
    ('workqueue_depth{name="slurm",instance="kube-controller-manager"}', "999x90"),
    ("sunk_sync_loop_longest_step_seconds", "0.01x90"),
    ("sunk_sync_log_lines_dropped_total", "4x90"),
    ('kube_sunk_nodeset_unavailable{nodeset="gpu"}', "0x90"),
    ('kube_sunk_nodeset_ready{nodeset="gpu"}', "4x90"),
    ('kube_sunk_nodeset_registered{nodeset="gpu"}', "4x90"),
)
"""Series of a healthy installation, for 90 minutes."""
FAULTS = {
    "SunkSyncAbsent": ('sunk_sync_build_info{instance="a"}', "_x90"),
    "SunkSyncNoLeader": (
        'leader_election_master_status{name="sunk-sync-slurm",instance="a"}',
        "0x90",
    ),
    "SunkSyncTwoLeaders": (
        'leader_election_master_status{name="sunk-sync-slurm",instance="b"}',
        "1x90",
    ),
    "SunkSyncSourceUnreadable": ('sunk_sync_source_listed{source="nodes"}', "0x90"),
    "SunkSyncSlurmTokenExpires": ("slurm_token_expiry_timestamp_seconds", "7000x90"),
    "SunkSyncDrainsHeld": ("sunk_sync_drains_held", "3x90"),
    "SunkSyncPodEndsHeld": ("sunk_sync_pod_ends_held", "3x90"),
    "SunkSyncPaused": ("sunk_sync_paused", "1x90"),
    "SunkSyncDoubleAllocation": ("sunk_sync_double_allocation_seconds_total", "0+1x90"),
    "SunkSyncConflictingClaims": ("sunk_sync_conflicts", "2x90"),
    "SunkSyncSidesDiffer": (
        'sunk_sync_oldest_difference_seconds{kind="record"}',
        "0+60x90",
    ),
    "SunkSyncJobsKept": ("sunk_sync_jobs_kept", "1x90"),
    "SunkSyncUserPolicyWrong": ("sunk_sync_user_policy_wrong", "1x90"),
    "SunkSyncPlaceholdersUnheard": ("sunk_sync_placeholders_unheard", "1x90"),
    "SunkSyncDefect": ("sunk_sync_audit_surprises_total", "0+1x90"),
    "SunkSyncWritesFail": ('sunk_sync_writes_total{action="drain",outcome="refused"}', "0+20x90"),
    "SunkSyncWritesWait": ('workqueue_depth{name="slurm",instance="a"}', "200x90"),
    "SunkSyncLoopSlow": ("sunk_sync_loop_longest_step_seconds", "1.5x90"),
    "SunkSyncLogLinesDropped": ("sunk_sync_log_lines_dropped_total", "0+4x90"),
    "SunkSyncNodeSetUnavailable": ('kube_sunk_nodeset_unavailable{nodeset="gpu"}', "1x90"),
    "SunkSyncNodeSetNotRegistered": ('kube_sunk_nodeset_registered{nodeset="gpu"}', "3x90"),
}
"""What differs in a fault, and the alert that it fires."""


@pytest.fixture(scope="module")
def promtool() -> Path:
    require_promtool()
    return cache.promtool().path / "promtool"


def run(*argv: str | Path) -> str:
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_fault_fires_its_alert_and_no_other(promtool: Path, tmp_path: Path) -> None:
    assert set(FAULTS) == {rule["alert"] for rule in rules()}
    tests = [firing(HEALTHY, ())]
    for alert, (name, values) in FAULTS.items():
        changed = [(one, values if one == name else usual) for one, usual in HEALTHY]
        assert changed != list(HEALTHY)
        tests.append(firing(changed, [alert]))
    file = tmp_path / "tests.yaml"
    given = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}
    file.write_text(yaml.safe_dump(given))
    run(promtool, "test", "rules", file)


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return list(group["rules"])


def test_the_chart_puts_the_same_rules_into_a_prometheus_rule(
    helm: Helm, promtool: Path, tmp_path: Path
) -> None:
    url = "https://docs.example/alerts"
    values = {
        "metrics": {"prometheusRule": {"enabled": True, "labels": {"team": "hpc"}, "runbooks": url}}
    }
    rule = the(helm.objects(values), "PrometheusRule")
    assert rule["metadata"]["labels"]["team"] == "hpc"
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(rule["spec"]))
    run(promtool, "check", "rules", file)
    (group,) = rule["spec"]["groups"]
    assert [one["expr"] for one in group["rules"]] == [one["expr"] for one in rules()]
    links = [one["annotations"]["runbook_url"] for one in group["rules"]]
    assert links == [f"{url}#{one['alert'].lower()}" for one in rules()]


def test_each_query_of_a_dashboard_is_valid(promtool: Path, tmp_path: Path) -> None:
    exprs = [
        target["expr"].replace("$namespace", ".*").replace("$__rate_interval", "5m")
        for name in dashboards.DASHBOARDS
        for panel in dashboards.dashboard(name)["panels"]
        for target in panel["targets"]
    ]
    made = [{"record": f"query:{number}", "expr": expr} for number, expr in enumerate(exprs)]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": made}]}))
    assert f"{len(exprs)} rules found" in run(promtool, "check", "rules", file)


def test_the_chart_gives_both_dashboards_to_grafana(helm: Helm) -> None:
    values = {"metrics": {"dashboards": {"enabled": True}}}
    (made,) = [
        one
        for one in helm.objects(values)
        if one["kind"] == "ConfigMap" and one["metadata"]["name"].endswith("-dashboards")
    ]
    assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
    boards = [json.loads(text) for text in made["data"].values()]
    assert {one["uid"] for one in boards} == {"sunk-sync-operator", "sunk-sync-capacity"}
