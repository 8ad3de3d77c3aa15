"""The manifests of the chart: a reason for each verb of a role, and a restricted Pod."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sunk_sync.core.model.user_policy import Rules
from sunk_sync.kube.rbac import ALL_PODS, LOCKED_PODS, PERMISSIONS
from sunk_sync.kube.write.hooks_key import secret_name
from sunk_sync.settings.model import Settings
from sunk_sync.settings.sources import CONFIG_VARIABLE, load

FOLDER = Path(__file__).parent.parent / "deploy" / "manifests"
OWN = "slurm"
WHERE = {
    ("ClusterRole", "sunk-sync-slurm"): "cluster",
    ("ClusterRole", "sunk-sync-scheduler-cluster-slurm"): "cluster",
    ("Role", "sunk-sync-slurmd"): "slurmd",
    ("Role", "sunk-sync-work"): "work",
    ("Role", "sunk-sync-scheduler"): "work",
    ("Role", "sunk-sync"): "own",
    ("Role", "sunk-sync-hooks-key"): "own",
    ("Role", "sunk-sync-lease"): "own",
    ("Role", "sunk-sync-events-slurm"): "default",
}
NEEDED = [one for one in PERMISSIONS if one.component != "nodesets"]
"""By the default components."""
READING_AND_MARKING = {"get", "list", "watch", "patch", "create"}

Document = dict[str, Any]


def documents() -> Iterator[Document]:
    for file in sorted(FOLDER.glob("*.yaml")):
        yield from yaml.safe_load_all(file.read_text(encoding="utf-8"))


def of_kind(kind: str) -> list[Document]:
    return [document for document in documents() if document["kind"] == kind]


def roles() -> list[Document]:
    return [*of_kind("ClusterRole"), *of_kind("Role")]


def pod_spec() -> Document:
    (deployment,) = of_kind("Deployment")
    spec: Document = deployment["spec"]["template"]["spec"]
    return spec


def container() -> Document:
    (only,) = pod_spec()["containers"]
    assert isinstance(only, dict)
    return only


def config() -> Document:
    """The file with the settings of the process."""
    values: Document = yaml.safe_load(mounted_file("config.yaml"))
    return values


def mounted_file(name: str) -> str:
    (found,) = of_kind("ConfigMap")
    return str(found["data"][name])


def mounts() -> dict[str, Path]:
    """Where each volume is mounted."""
    assert all("subPath" not in mount for mount in container()["volumeMounts"])
    return {mount["name"]: Path(mount["mountPath"]) for mount in container()["volumeMounts"]}


def settings_in(folder: Path) -> Settings:
    """Load the settings as the process does, with its token and user policy in this folder."""
    (folder / "token").write_text("x")
    policy, file = folder / "user-policy.yaml", folder / "config.yaml"
    policy.write_text(mounted_file(policy.name))
    files = {"slurm-auth-token-file": str(folder / "token"), "user-policy": str(policy)}
    changed = {**config(), **files}
    file.write_text(yaml.safe_dump(changed))
    return load({}, {CONFIG_VARIABLE: str(file)}, OWN)


def granted() -> set[tuple[str, str, str, str]]:
    """Return place, group, resource with names, and verb of every rule in the manifests."""
    found = set()
    for role in roles():
        where = WHERE[role["kind"], role["metadata"]["name"]]
        for rule in role["rules"]:
            for resource in rule["resources"]:
                spelled = " ".join((resource, *rule.get("resourceNames", ())))
                for verb in rule["verbs"]:
                    found.add((where, rule["apiGroups"][0], spelled, verb))
    return found


def test_kustomization_names_every_file() -> None:
    (kustomization,) = of_kind("Kustomization")
    files = {file.name for file in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(kustomization["resources"]) == files


def test_the_roles_grant_the_table_of_permissions_and_nothing_else() -> None:
    wanted = {(one.where, one.group, one.spelled, verb) for one in NEEDED for verb, _ in one.verbs}
    assert granted() == wanted


def test_the_watch_of_all_pods_has_a_role_of_its_own_P28() -> None:
    text = (FOLDER.parent / "all-pods" / "roles.yaml").read_text(encoding="utf-8")
    role, binding = yaml.safe_load_all(text)
    (rule,) = role["rules"]
    assert (rule["resources"], rule["verbs"]) == ([ALL_PODS.resource], ["list", "watch"])
    assert all(f"- {verb} # {why}" in text for verb, why in ALL_PODS.verbs)
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    main, _ = of_kind("ClusterRoleBinding")
    assert binding["subjects"] == main["subjects"]


def test_the_lock_has_a_role_of_its_own_L1() -> None:
    text = (FOLDER.parent / "lock" / "roles.yaml").read_text(encoding="utf-8")
    role, binding = yaml.safe_load_all(text)
    (rule,) = role["rules"]
    assert (rule["resources"], rule["verbs"]) == (["pods"], ["list"])
    assert all(f"- {verb} # {why}" in text for verb, why in LOCKED_PODS.verbs)
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    main, _ = of_kind("ClusterRoleBinding")
    assert binding["subjects"] == main["subjects"]


def test_node_sets_have_a_kind_and_roles_of_their_own() -> None:
    """deploy/manifests alone can neither make nor delete slurmd Pods."""
    folder = FOLDER.parent / "nodesets"
    role, binding = yaml.safe_load_all((folder / "roles.yaml").read_text(encoding="utf-8"))
    given = {
        (rule["apiGroups"][0], rule["resources"][0], verb)
        for rule in role["rules"]
        for verb in rule["verbs"]
    }
    ours = [one for one in PERMISSIONS if one.component == "nodesets"]
    assert given == {(one.group, one.resource, verb) for one in ours for verb, _ in one.verbs}
    assert {one.where for one in ours} == {"slurmd"}
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    crd = yaml.safe_load((folder / "crd.yaml").read_text(encoding="utf-8"))
    file = FOLDER.parent / "helm" / "sunk-sync" / "files" / "nodesets.yaml"
    assert crd["spec"] == yaml.safe_load(file.read_text(encoding="utf-8"))["spec"]
    (kustomization,) = yaml.safe_load_all((folder / "kustomization.yaml").read_text())
    files = {file.name for file in folder.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(kustomization["resources"]) == files


def test_every_verb_has_its_reason_from_the_table() -> None:
    text = (FOLDER / "roles.yaml").read_text(encoding="utf-8")
    lines = re.findall(r"^      - (\w+)(?: # (.*))?$", text, re.MULTILINE)
    reasons = [(verb, why) for one in NEEDED for verb, why in one.verbs]
    assert sorted(lines) == sorted(reasons)
    assert len(lines) == sum(len(rule["verbs"]) for role in roles() for rule in role["rules"])


def test_no_role_has_a_wildcard_and_only_the_scheduler_deletes_only_pods() -> None:
    deletes = []
    for role in roles():
        for rule in role["rules"]:
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert set(rule["verbs"]) <= READING_AND_MARKING | {"delete"}
            if "delete" in rule["verbs"]:
                deletes.append((role["metadata"]["name"], *rule["resources"]))
    assert deletes == [("sunk-sync-scheduler", "pods")]


def test_the_scheduler_has_roles_of_its_own() -> None:
    """An installation with --components=syncer need not grant them."""
    named = {"sunk-sync-scheduler", "sunk-sync-scheduler-cluster-slurm"}
    given = {
        (rule["apiGroups"][0], rule["resources"][0], verb)
        for role in roles()
        if role["metadata"]["name"] in named
        for rule in role["rules"]
        for verb in rule["verbs"]
    }
    ours = [one for one in PERMISSIONS if one.component == "scheduler"]
    assert given == {(one.group, one.resource, verb) for one in ours for verb, _ in one.verbs}


def test_every_role_is_bound_to_our_service_account_alone() -> None:
    bindings = [*of_kind("ClusterRoleBinding"), *of_kind("RoleBinding")]
    assert len(bindings) == len(roles())
    for binding in bindings:
        reference = binding["roleRef"]
        assert (reference["kind"], reference["name"]) in WHERE
        namespaces = {
            role["metadata"].get("namespace")
            for role in roles()
            if role["metadata"]["name"] == reference["name"] and role["kind"] == reference["kind"]
        }
        assert namespaces == {binding["metadata"].get("namespace")}
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": "sunk-sync", "namespace": OWN}
        ]


def test_two_replicas_share_an_election_and_one_is_always_there_F6() -> None:
    (deployment,) = of_kind("Deployment")
    assert deployment["spec"]["replicas"] == 2
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert config()["leader-elect"] is True


def test_the_pod_meets_the_restricted_pod_security_standard() -> None:
    assert pod_spec()["securityContext"]["runAsNonRoot"] is True
    assert pod_spec()["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    security = container()["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}


def test_the_jobs_of_pods_are_roots_and_may_ask_for_nothing_else(tmp_path: Path) -> None:
    policy = settings_in(tmp_path).user_policy
    assert policy is not None
    assert policy.policy.namespaces == (("*", Rules(users=((0, 0),), groups=((0, 0),))),)


def test_an_admission_policy_that_fails_refuses_no_pod() -> None:
    """sunk-sync judges every Pod in any case."""
    for policy in of_kind("ValidatingAdmissionPolicy"):
        assert policy["spec"]["failurePolicy"] == "Ignore"
        conditions = [one["expression"] for one in policy["spec"]["matchConditions"]]
        assert any('schedulerName == "slurm-slurm"' in one for one in conditions)


def test_service_links_are_off() -> None:
    """They would set SUNK_SYNC_PORT and others."""
    assert pod_spec()["enableServiceLinks"] is False


def test_the_token_is_in_a_mounted_folder_without_subPath() -> None:
    """With a subPath a renewed Secret stays invisible; an argument would be visible in ps."""
    assert Path(config()["slurm-auth-token-file"]).parent == mounts()["token"]


def test_the_settings_are_a_mounted_file() -> None:
    """Not arguments: `kubectl exec … sunk-sync doctor` then has the same settings."""
    variables = {one["name"]: one["value"] for one in container()["env"]}
    assert Path(variables[CONFIG_VARIABLE]) == mounts()["config"] / "config.yaml"
    assert container()["args"] == ["run"]


def test_the_secret_of_the_hooks_key_is_empty_and_named_after_the_cluster() -> None:
    """The process fills it, and applying it again keeps the key."""
    (secret,) = of_kind("Secret")
    assert "hooks-key-file" not in config()
    assert secret["metadata"]["name"] == secret_name(config()["cluster-name"])
    assert secret["metadata"]["namespace"] == OWN
    assert not {"data", "stringData", "immutable"} & secret.keys()


def test_only_the_secret_of_the_hooks_key_can_be_read_and_written() -> None:
    """A right to create Secrets is a right to read the token of any account in the namespace."""
    rules = [rule for role in roles() for rule in role["rules"] if "secrets" in rule["resources"]]
    (rule,) = rules
    assert rule["verbs"] == ["get", "patch"]
    assert rule["resourceNames"] == [secret_name("slurm")]


def test_the_settings_of_the_deployment_are_valid_and_fit_its_ports(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    assert settings.slurmd_namespace == (OWN,)
    assert settings.metrics_bind_address is not None
    assert settings.health_probe_bind_address is not None
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    assert ports["metrics"] == settings.metrics_bind_address.port
    assert ports["health"] == settings.health_probe_bind_address.port
    assert settings.hooks_api_bind_address is not None
    assert ports["hooks"] == settings.hooks_api_bind_address.port


@pytest.mark.parametrize(("probe", "path"), [("liveness", "/livez"), ("readiness", "/readyz")])
def test_each_probe_has_its_own_path(probe: str, path: str) -> None:
    asked = container()[f"{probe}Probe"]["httpGet"]
    assert asked == {"path": path, "port": "health"}


def test_the_services_select_the_pods_and_the_hooks_also_before_they_are_ready(
    tmp_path: Path,
) -> None:
    metrics, hooks = of_kind("Service")
    (deployment,) = of_kind("Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for service, port in ((metrics, "metrics"), (hooks, "hooks")):
        assert service["spec"]["selector"].items() <= labels.items()
        assert service["spec"]["ports"][0]["targetPort"] == port
    assert hooks["spec"]["publishNotReadyAddresses"] is True
    settings = settings_in(tmp_path)
    where = f"{hooks['metadata']['name']}.{hooks['metadata']['namespace']}.svc"
    assert settings.hooks_url == f"http://{where}:{hooks['spec']['ports'][0]['port']}"
    assert labels["app.kubernetes.io/component"] != "slurmd"
