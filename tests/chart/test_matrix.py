"""Every values file of the matrix: lint, render, validate, load as settings."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from sunk_sync.core.model.user_policy import Rules
from sunk_sync.settings.model import Settings
from tests.chart.helm import NAMESPACE, Helm, of_kind, the
from tests.chart.loading import loaded
from tests.chart.matrix import MATRIX
from tests.chart.schemas import LOCATION, extract
from tests.real.testbed import KubeServer, cache
from tools.chart import CHART

pytestmark = pytest.mark.real

ABSENT = ("monitoring.coreos.com/", "sunk-sync.dev/")
"""APIs that the server does not have. test_compute.py has NodeSets on a server with their kind."""
each = pytest.mark.parametrize("name", MATRIX)


@each
def test_lint_finds_nothing(helm: Helm, name: str) -> None:
    """With --strict, a warning fails."""
    said = helm.run("lint", CHART, "--strict", "--namespace", NAMESPACE, values=MATRIX[name])
    assert "1 chart(s) linted, 0 chart(s) failed" in said


@each
def test_the_settings_are_accepted_by_the_product(helm: Helm, tmp_path: Path, name: str) -> None:
    """And they are those of the values."""
    values = MATRIX[name]
    settings = loaded(helm.objects(values), tmp_path)
    scheduler = values.get("scheduler", {})
    assert ("scheduler" in settings.components) == scheduler.get("enabled", True)
    node_sets = values.get("nodesets", {}).get("enabled", False)
    assert ("nodesets" in settings.components) == node_sets
    everywhere = scheduler.get("scope", {}).get("type") == "cluster"
    assert (settings.watch_namespace == ("*",)) == everywhere
    assert settings.watch_all_pods == scheduler.get("watchAllPods", False)
    assert settings.leader_elect == values.get("leaderElection", {}).get("enabled", True)
    called = {"scheduler", "nodesets"} & {*settings.components}
    assert settings.hooks_open == bool(called)
    assert (settings.hooks_api_bind_address is None) == (not called)
    is_open = scheduler.get("openToAll", False) or not scheduler.get("enabled", True)
    assert (settings.user_policy is None) == is_open
    assert settings.cluster_name == values.get("clusterName", "slurm")


def test_values_reach_the_settings(helm: Helm, tmp_path: Path) -> None:
    """Lists, maps, numbers and durations keep their meaning."""

    def of(name: str) -> Settings:
        return loaded(helm.objects(MATRIX[name]), tmp_path)

    assert of("namespaces as text").watch_namespace == ("team-a", "team-b")
    assert of("namespaces as list").watch_namespace == ("team-a", "slurm")
    assert of("slurmd elsewhere").slurmd_namespace == ("workers", "slurm")
    assert of("slurmd elsewhere").slurmd_selector == "app in (slurmd)"
    assert of("TLS and two addresses").slurm_api_base == ("https://a:6820", "https://b:6820")
    assert of("hooks from outside").hooks_url == "http://hooks.example:30800"
    assert of("names").hooks_url == "http://bridge-hooks.slurm.svc:8000"
    policy = of("rules of namespaces").user_policy
    assert policy is not None
    team_a, team_b = (rules for _, rules in policy.policy.namespaces)
    assert team_a.users == ((1001, 1001), (1002, 1002), (2000, 2999))
    assert (team_b.default_user, team_b.priority_max, team_b.qos) == (3000001, 4294967293, None)
    default = of("defaults").user_policy
    assert default is not None
    assert default.policy.namespaces == (("*", Rules(users=((0, 0),), groups=((0, 0),))),)
    settings = of("settings")
    assert settings.slurm_kill_wait_s == 90
    assert settings.not_ready_grace_s == 10
    assert settings.max_drains_per_minute == 2_000_000
    assert settings.dry_run
    assert settings.gate == "on"
    assert dict(settings.gres_map) == {"nvidia.com/gpu": "gpu", "rdma/*": "-"}
    assert len(settings.node_overhead) == 2


Validate = Callable[[str], None]


@pytest.fixture(scope="module")
def validate(kube: KubeServer, tmp_path_factory: pytest.TempPathFactory) -> Validate:
    """Run kubeconform with the schemas of the real API server, without unknown fields."""
    folder = tmp_path_factory.mktemp("schemas")
    own = (
        "policy",
        "networking.k8s.io",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "coordination.k8s.io",
        "rbac.authorization.k8s.io",
    )
    groups = {"v1", "apps/v1", *(f"{group}/v1" for group in own)}
    extract(kube, groups, folder)
    options = ["-strict", "-output", "json", "-schema-location", str(folder / LOCATION)]

    def check(text: str) -> None:
        done = subprocess.run(
            [cache.chart_tools().path / "kubeconform", *options, "-"],
            input=text,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    return check


def of_kubernetes(text: str) -> str:
    """The objects whose kinds the server has."""
    objects = [one for one in yaml.safe_load_all(text) if one]
    return yaml.safe_dump_all(one for one in objects if not one["apiVersion"].startswith(ABSENT))


@each
def test_kubeconform_finds_nothing(helm: Helm, validate: Validate, name: str) -> None:
    """By the server's own schemas."""
    validate(of_kubernetes(helm.template(MATRIX[name])))


def test_kubeconform_can_fail(helm: Helm, validate: Validate) -> None:
    """An unknown field, and a wrong type."""
    text = helm.template({})
    for was, wrong in (("args:", "argument:"), ("replicas: 2 ", "replicas: two ")):
        assert was in text
        with pytest.raises(AssertionError, match=r"(?i)invalid"):
            validate(text.replace(was, wrong))


@each
def test_the_server_accepts_every_object(
    helm: Helm, kube: KubeServer, tmp_path: Path, name: str
) -> None:
    """kubectl apply --dry-run=server with strict validation; nothing is stored."""
    file = tmp_path / "objects.yaml"
    file.write_text(of_kubernetes(helm.template(MATRIX[name])))
    said = kube.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", file)
    lines = said.splitlines()
    assert len(lines) == len(list(yaml.safe_load_all(file.read_text())))
    assert all(line.endswith("created (server dry run)") for line in lines)


@pytest.mark.parametrize("kind", ["ServiceMonitor", "PodMonitor"])
def test_a_monitor_reads_the_port_of_the_metrics(helm: Helm, kind: str) -> None:
    """Its kind is the Prometheus operator's, so that its fields are compared here."""
    objects = helm.objects(MATRIX[kind])
    monitor = the(objects, kind)
    assert monitor["apiVersion"] == "monitoring.coreos.com/v1"
    labels = monitor["spec"]["selector"]["matchLabels"]
    (endpoint,) = monitor["spec"].get("endpoints") or monitor["spec"]["podMetricsEndpoints"]
    template = the(objects, "Deployment")["spec"]["template"]
    ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
    services = [
        one
        for one in of_kind(objects, "Service")
        if labels.items() <= one["metadata"]["labels"].items()
        and endpoint["port"] in {port["name"] for port in one["spec"]["ports"]}
    ]
    assert labels.items() <= template["metadata"]["labels"].items()
    assert endpoint["port"] in ports
    assert len(services) == 1


def test_a_mistake_of_json_is_no_values_file(helm: Helm) -> None:
    """The matrix reaches helm as JSON, which is YAML."""
    assert json.loads(helm.run("version", "--template", '{"v": "{{.Version}}"}'))["v"] >= "v3.22"
