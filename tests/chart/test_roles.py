"""The chart grants what the table of permissions says, for each choice of components and scope."""

from typing import Any

import pytest

from sunk_sync.kube.rbac import ALL_PODS, LOCKED_PODS, PERMISSIONS, Permission
from sunk_sync.kube.write.hooks_key import secret_name
from tests.chart.helm import NAMESPACE, Helm, Object, of_kind
from tests.chart.matrix import MATRIX

pytestmark = pytest.mark.real

Grant = tuple[str, str, str, str]
"""Namespace (`*`: cluster), API group, resource with names, verb."""
ROLES_OFF = [name for name, values in MATRIX.items() if values.get("rbac") == {"create": False}]


def words(given: Any) -> list[str]:
    """A list, or a text with commas; empty: our own namespace."""
    parts = given if isinstance(given, list) else str(given or "").split(",")
    return [part.strip() for part in parts if part.strip()] or [NAMESPACE]


def wanted(values: Any) -> set[Grant]:
    """What the table says for these values."""
    scheduler = {"enabled": True, "watchAllPods": False, **values.get("scheduler", {})}
    scope = {"type": "namespace", "namespaces": "", **scheduler.get("scope", {})}
    places = {
        "cluster": ["*"],
        "slurmd": words(values.get("slurmd", {}).get("namespaces")),
        "work": ["*"] if scope["type"] == "cluster" else words(scope["namespaces"]),
        "own": [NAMESPACE],
        "default": ["default"],
    }
    node_sets = values.get("nodesets", {}).get("enabled", False)
    chosen = {"syncer": True, "scheduler": scheduler["enabled"], "nodesets": node_sets}
    components = {name for name, is_chosen in chosen.items() if is_chosen}
    alone = values.get("leaderElection") == {"enabled": False}
    own_key = "hooks" in values and "key" in values["hooks"]
    no_hooks = not components & {"scheduler", "nodesets"}
    needed = [
        one
        for one in PERMISSIONS
        if one.component in components
        and not (one.resource == "secrets" and (own_key or no_hooks))
        and not (one.resource == "leases" and alone)
    ]
    needed += [ALL_PODS] if scheduler["watchAllPods"] else []
    needed += [LOCKED_PODS] if values.get("lock", {}).get("enabled") else []
    cluster = values.get("clusterName", "slurm")
    return {
        (place, one.group, spelled(one, cluster), verb)
        for one in needed
        for place in places[one.where]
        for verb, _ in one.verbs
    }


def spelled(one: Permission, cluster_name: str) -> str:
    """As the table, with the names of our objects for this cluster."""
    was, named = (secret_name(name).removesuffix("-hooks-key") for name in ("slurm", cluster_name))
    return one.spelled.replace(was, named)


def roles(objects: list[Object]) -> list[Object]:
    return [*of_kind(objects, "Role"), *of_kind(objects, "ClusterRole")]


def place_of(an_object: Object) -> str:
    """Its namespace; `*`: the cluster."""
    return str(an_object["metadata"].get("namespace", "*"))


def granted(objects: list[Object]) -> set[Grant]:
    return {
        (place_of(role), group, " ".join((resource, *names)), verb)
        for role in roles(objects)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for names in [rule.get("resourceNames", ())]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("name", [name for name in MATRIX if name not in ROLES_OFF])
def test_the_roles_are_the_table(helm: Helm, name: str) -> None:
    """For these components and this scope, nothing more and nothing less."""
    assert granted(helm.objects(MATRIX[name])) == wanted(MATRIX[name])


@pytest.mark.parametrize("name", [name for name in MATRIX if name not in ROLES_OFF])
def test_every_role_is_bound_to_our_account_alone(helm: Helm, name: str) -> None:
    """One binding for each role, of its name and in its namespace."""
    objects = helm.objects(MATRIX[name])
    bindings = [*of_kind(objects, "RoleBinding"), *of_kind(objects, "ClusterRoleBinding")]
    (account,) = {one["metadata"]["name"] for one in of_kind(objects, "ServiceAccount")}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    bound = set()
    for binding in bindings:
        assert binding["subjects"] == [subject]
        reference = binding["roleRef"]
        assert binding["kind"] == f"{reference['kind']}Binding"
        assert binding["metadata"]["name"] == reference["name"]
        bound.add((reference["kind"], place_of(binding), reference["name"]))
    every = roles(objects)
    made = {(one["kind"], place_of(one), one["metadata"]["name"]) for one in every}
    assert bound == made
    assert len(bindings) == len(bound) == len(every)


@pytest.mark.parametrize("name", ROLES_OFF)
def test_no_role_is_made_if_the_operator_makes_them(helm: Helm, name: str) -> None:
    """rbac.create: false."""
    kinds = {one["kind"] for one in helm.objects(MATRIX[name])}
    assert not {kind for kind in kinds if "Role" in kind}


def test_two_releases_share_no_object(helm: Helm) -> None:
    """Two Slurm clusters in one Kubernetes: cluster-wide names and those in `default` differ."""
    scope = {
        "scheduler": {"scope": {"type": "cluster"}, "watchAllPods": True},
        "lock": {"enabled": True},
    }

    def names(namespace: str) -> set[tuple[str, str, str]]:
        return {
            (one["kind"], place_of(one), one["metadata"]["name"])
            for one in helm.objects(scope, namespace=namespace)
        }

    assert not names("slurm-a") & names("slurm-b")
