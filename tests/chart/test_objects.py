"""The Pod, its replicas and what stands beside it."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from sunk_sync.kube.write.hooks_key import secret_name
from sunk_sync.kube.write.lease import own_object_name
from tests.chart.helm import NAMESPACE, Helm, Object, of_kind, the
from tests.chart.matrix import MATRIX
from tools import manifests
from tools.chart import DEPLOY, scripts

pytestmark = pytest.mark.real


def pod(objects: list[Object]) -> Any:
    return the(objects, "Deployment")["spec"]["template"]["spec"]


def test_the_manifests_are_the_defaults_of_the_chart(helm: Helm) -> None:
    """Otherwise run `python -m tools.manifests`."""
    made = manifests.rendered(lambda *flags: helm.template({}, *flags))
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, path.name
    folder = DEPLOY / "manifests"
    by_hand = {folder / "kustomization.yaml", folder / "namespace.yaml"}
    assert set(folder.glob("*.yaml")) == by_hand | {path for path in made if path.parent == folder}


def test_two_replicas_stand_on_different_nodes_and_one_is_always_there_F6(helm: Helm) -> None:
    """The Lease is empty: no upgrade takes it from its holder."""
    objects = helm.objects({})
    spec = the(objects, "Deployment")["spec"]
    rolling = {"maxUnavailable": 0, "maxSurge": 1}
    assert spec["replicas"] == 2
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}
    assert the(objects, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    (spread,) = pod(objects)["topologySpreadConstraints"]
    assert spread["labelSelector"] == spec["selector"]
    assert "spec" not in the(objects, "Lease")


@pytest.mark.parametrize("cluster_name", ["slurm", "HPC_2.east", "a--b"])
def test_the_lease_is_where_the_process_looks(helm: Helm, cluster_name: str) -> None:
    """Its Role names no other."""
    lease = the(helm.objects({"clusterName": cluster_name}), "Lease")
    assert lease["metadata"]["name"] == own_object_name(cluster_name)


def test_one_replica_ends_before_the_next_starts(helm: Helm) -> None:
    """Without leader election two must never run side by side; a budget would block the Node."""
    objects = helm.objects(MATRIX["one replica"])
    assert not of_kind(objects, "Lease")
    spec = the(objects, "Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert not of_kind(objects, "PodDisruptionBudget")
    assert "topologySpreadConstraints" not in pod(objects)


def checksum(helm: Helm, values: Any) -> str:
    template = the(helm.objects(values), "Deployment")["spec"]["template"]
    return str(template["metadata"]["annotations"]["checksum/config"])


def test_changed_settings_replace_the_pod_and_nothing_else_does(helm: Helm) -> None:
    """The process reads its settings once; it reads new tokens and policies without a restart."""
    before = checksum(helm, {})
    assert before == checksum(helm, {"resources": {"limits": {"memory": "1Gi"}}})
    assert before != checksum(helm, {"settings": {"log-level": "debug"}})
    policy = {"scheduler": {"userPolicy": {"team-a": 1001}}}
    other = {"scheduler": {"userPolicy": {"team-a": 1002}}}
    assert checksum(helm, policy) == checksum(helm, other)
    assert checksum(helm, policy) != checksum(helm, {"scheduler": {"openToAll": True}})
    tokens = [{"slurm": {"auth": {"token": token}}} for token in ("one", "two")]
    assert checksum(helm, tokens[0]) == checksum(helm, tokens[1])


@pytest.mark.parametrize("cluster_name", ["slurm", "HPC_2.east", "a--b"])
def test_the_hooks_key_is_empty_and_where_the_process_looks(helm: Helm, cluster_name: str) -> None:
    """Without data no upgrade takes the key away; the policy keeps it at the end."""
    secret = the(helm.objects({"clusterName": cluster_name}), "Secret")
    assert secret["metadata"]["name"] == secret_name(cluster_name)
    assert secret["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert not {"data", "stringData", "immutable"} & secret.keys()


@pytest.mark.parametrize("name", ["syncer alone", "own hooks key"])
def test_without_need_no_hooks_key_is_made(helm: Helm, name: str) -> None:
    """The syncer alone has no hooks, and an own key needs no Secret of ours."""
    assert not of_kind(helm.objects(MATRIX[name]), "Secret")


def test_the_gate_s_scripts_are_those_of_deploy_slurm(helm: Helm, tmp_path: Path) -> None:
    """Byte for byte, with a configuration that they read."""
    data = of_kind(helm.objects(MATRIX["gate"]), "ConfigMap")[-1]
    assert data["metadata"]["namespace"] == "workers"
    files = data["data"]
    assert {name: files[name] for name in scripts()} == scripts()
    token = tmp_path / "token"
    token.write_text("gate.0123")
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    conf = tmp_path / "sunk-sync.conf"
    assert "url = http://sunk-sync-hooks.slurm.svc:8000\n" in conf.read_text()
    assert "silent = 60s=requeue\n" in conf.read_text()
    nowhere = conf.read_text().replace(
        "http://sunk-sync-hooks.slurm.svc:8000", "http://127.0.0.1:1"
    )
    conf.write_text(nowhere.replace("/etc/slurm/sunk-sync-token/token", str(token)))
    script = tmp_path / "sunk-sync-prolog.sh"
    done = subprocess.run(["sh", script, "--check"], capture_output=True, text=True, timeout=20)
    assert done.stdout.startswith("no answer")
    assert "unknown setting" not in done.stderr


def test_the_network_policy_admits_what_is_named(helm: Helm) -> None:
    """Probes always; hooks and metrics from the given peers."""
    policy = the(helm.objects(MATRIX["network policy"]), "NetworkPolicy")["spec"]
    admitted = {rule["ports"][0]["port"]: rule.get("from") for rule in policy["ingress"]}
    peers = MATRIX["network policy"]["networkPolicy"]["hooksFrom"]
    ourselves, *others = admitted.pop("hooks")
    assert ourselves == {"podSelector": policy["podSelector"]}
    assert others == peers
    assert admitted == {"health": None, "metrics": peers}
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    alone = the(helm.objects(MATRIX["open network policy, syncer alone"]), "NetworkPolicy")["spec"]
    assert {rule["ports"][0]["port"] for rule in alone["ingress"]} == {"health", "metrics"}
    assert alone["policyTypes"] == ["Ingress"]


def test_what_operators_add_reaches_the_pod(helm: Helm) -> None:
    """Each of the usual values."""
    objects = helm.objects(MATRIX["Pod"])
    spec, template = pod(objects), the(objects, "Deployment")["spec"]["template"]
    (container,) = spec["containers"]
    given = MATRIX["Pod"]
    names = ("imagePullSecrets", "nodeSelector", "tolerations", "affinity", "priorityClassName")
    assert {name: spec[name] for name in names} == {name: given[name] for name in names}
    assert container["args"] == ["run", "--log-level=debug"]
    assert given["extraEnv"][0] in container["env"]
    assert given["extraVolumes"][0] in spec["volumes"]
    assert given["extraVolumeMounts"][0] in container["volumeMounts"]
    assert container["resources"]["limits"] == {"memory": "1Gi"}
    assert container["resources"]["requests"] == {"cpu": "100m", "memory": "128Mi"}
    assert template["metadata"]["annotations"]["a"] == "b"
    assert template["metadata"]["labels"]["c"] == "d"


def test_the_image_is_named_by_tag_or_digest(helm: Helm) -> None:
    """Without either the tag is the version of the chart."""

    def image(values: Any) -> str:
        return str(pod(helm.objects(values))["containers"][0]["image"])

    assert image({}) == "sunk-sync:0.1.0"
    assert image({"image": {"tag": "1.2"}}) == "sunk-sync:1.2"
    assert image(MATRIX["digest"]).startswith("hpc/sunk-sync@sha256:0f0f")


@pytest.mark.parametrize("release", ["sunk-sync", "hpc", "a-name-of-53-characters".ljust(53, "x")])
def test_names_follow_the_release(helm: Helm, release: str) -> None:
    """The Service of the hooks is where the settings say, whatever the name of the release."""
    objects = helm.objects({}, release=release)
    (hooks,) = [one for one in of_kind(objects, "Service") if len(one["spec"]) == 4]
    name = hooks["metadata"]["name"]
    assert len(name) <= 63
    config = the(objects, "ConfigMap")["data"]["config.yaml"]
    url = f"hooks-url: http://{name}.{NAMESPACE}.svc:8000"
    assert (url in config) == (release != "sunk-sync")
