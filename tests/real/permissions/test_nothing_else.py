"""The account of the chart may do what the table says, and nothing else: every access is asked."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest
from msgspec.structs import replace

from sunk_sync.kube.rbac import PERMISSIONS
from tests.chart.helm import Helm
from tests.real import node_sets
from tests.real.conftest import require, require_helm
from tests.real.permissions.account import (
    ACCOUNT,
    NODE_SETS_TOO,
    OWN,
    SLURMD,
    VALUES,
    WORK,
    Account,
    Question,
    may,
    questions,
)
from tests.real.pod_bed import pod_conf
from tests.real.service import MANIFESTS, NAMESPACE, Service, install
from tests.real.testbed import Bed, KubeServer, RestError
from tests.real.testbed.bed import SLURM_DEFAULT
from tests.real.testbed.cache import KUBE_DEFAULT
from tests.real.testbed.rest import Rest

pytestmark = pytest.mark.real

NOBODY = f"system:serviceaccount:{OWN}:nobody"
ELSEWHERE = "elsewhere"
NAMESPACES = ("", OWN, SLURMD, WORK, "default", ELSEWHERE, "kube-system")
VERBS = (
    *("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
    *("impersonate", "bind", "escalate", "approve", "sign", "use", "*"),
)
IMPERSONATED = ("users", "groups", "serviceaccounts", "userextras/scopes")
"""Resources that no discovery lists."""
NAMES = ("", "other")
THREADS = 4
EXPECTED_AT_LEAST = 10_000
"""Fewer questions would mean that the discovery was not read."""


@pytest.fixture(scope="module")
def kube() -> Iterator[KubeServer]:
    require(kube=KUBE_DEFAULT)
    with KubeServer(kubelet=False) as server:
        for namespace in (OWN, SLURMD, WORK, ELSEWHERE):
            server.ensure_namespace(namespace)
        node_sets.install(server)
        yield server


@pytest.fixture(scope="module")
def account(
    request: pytest.FixtureRequest, kube: KubeServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Account]:
    """The account with the Roles for these values of the chart, or for the first ones."""
    require_helm()
    values = getattr(request, "param", VALUES)
    made = Account(kube, Helm(tmp_path_factory.mktemp("helm")), values)
    yield made
    made.remove()


def resources(kube: KubeServer) -> Iterator[tuple[str, str, bool]]:
    """Yield group, resource and whether it is in a namespace, for all that the server has."""
    get = kube.rest.call
    groups = [one["preferredVersion"]["groupVersion"] for one in get("GET", "/apis")["groups"]]
    for path in ("/api/v1", *(f"/apis/{group}" for group in groups)):
        listed = get("GET", path)
        for one in listed["resources"]:
            yield group_of(listed["groupVersion"]), one["name"], one["namespaced"]
    yield from (("", name, False) for name in IMPERSONATED)


def group_of(version: str) -> str:
    return version.partition("/")[0] if "/" in version else ""


def every_question(kube: KubeServer) -> Iterator[Question]:
    named = {(one.group, one.resource): one.names for one in PERMISSIONS if one.names}
    for group, resource, namespaced in resources(kube):
        kind, _, subresource = resource.partition("/")
        names = (*NAMES, *named.get((group, resource), ()))
        for namespace, verb, name in product(NAMESPACES if namespaced else ("",), VERBS, names):
            yield Question(
                verb=verb,
                group=group,
                resource=kind,
                subresource=subresource,
                namespace=namespace,
                name=name,
            )


def allowed(kube: KubeServer, asked: list[Question], **user: str) -> set[Question]:
    def of_a_share(share: list[Question]) -> set[Question]:
        with closing(kube.rest.connect()) as connection:
            return {one for one in share if may(kube, one, over=connection, **user)}

    with ThreadPoolExecutor(THREADS) as threads:
        shares = [asked[begin::THREADS] for begin in range(THREADS)]
        return set[Question]().union(*threads.map(of_a_share, shares))


def granted_by_the_table(asked: list[Question], components: set[str]) -> set[Question]:
    """Return the questions that a row of the table allows.

    A row without names allows each name, a row of the whole cluster each namespace.
    """
    rows = {
        question
        for one in PERMISSIONS
        if one.component in components
        for verb, _ in one.verbs
        for question in questions(one, verb)
    }

    def granting(one: Question) -> set[Question]:
        unnamed = replace(one, name="")
        return {one, unnamed, replace(unnamed, namespace="")}

    return {one for one in asked if granting(one) & rows}


@pytest.mark.parametrize("account", [VALUES, NODE_SETS_TOO], ids=["", "NodeSets"], indirect=True)
def test_of_all_accesses_exactly_the_table_is_allowed(kube: KubeServer, account: Account) -> None:
    """Each resource of the real server, each verb, in each namespace; without what all may do."""
    components = {"syncer", "scheduler"} | ({"nodesets"} if account.node_sets else set())
    asked = list(every_question(kube))
    assert len(asked) > EXPECTED_AT_LEAST
    ours = allowed(kube, asked)
    everybodys = allowed(kube, sorted(ours, key=str), user=NOBODY)
    print(f"{len(asked)} accesses, {len(ours - everybodys)} allowed to us alone")
    assert ours - everybodys == granted_by_the_table(asked, components)
    assert {one.resource for one in everybodys} <= {
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
        "selfsubjectreviews",
    }


@pytest.mark.parametrize(
    "path",
    [
        f"/api/v1/namespaces/{OWN}/secrets",
        f"/api/v1/namespaces/{OWN}/secrets/sunk-sync-slurm-token",
        f"/api/v1/namespaces/{WORK}/secrets/sunk-sync-slurm-hooks-key",
        f"/api/v1/namespaces/{ELSEWHERE}/pods",
        f"/api/v1/namespaces/{ELSEWHERE}/pods/any",
        f"/api/v1/namespaces/{OWN}/pods",
        "/api/v1/pods",
        f"/api/v1/namespaces/{OWN}/configmaps",
    ],
)
def test_secrets_and_pods_elsewhere_are_denied(
    kube: KubeServer, account: Account, path: str
) -> None:
    """By requests with the token of the account."""
    assert account
    headers = {"Authorization": f"Bearer {kube.token_for(ACCOUNT, OWN)}"}
    with pytest.raises(RestError) as refused:
        Rest(kube.url, headers=headers, ca_file=kube.ca_file).call("GET", path)
    assert refused.value.status == 403


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    require(kube=KUBE_DEFAULT, slurm=SLURM_DEFAULT)
    with Bed.start(conf=pod_conf(1)) as bed:
        yield bed


def bindings(kube: KubeServer) -> set[tuple[str, str]]:
    """Return kind and name of each binding of our account."""
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    found = set()
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        path = f"/apis/rbac.authorization.k8s.io/v1/{kind.lower()}s"
        for one in kube.rest.call("GET", path)["items"]:
            if subject in one.get("subjects", ()):
                found.add((kind, str(one["metadata"]["name"])))
    return found


def rendered(kube: KubeServer) -> set[tuple[str, str]]:
    applied = kube.kubectl("apply", "-k", MANIFESTS, "--dry-run=client", "-o", "name")
    pairs = [line.partition("/")[::2] for line in applied.split()]
    kinds = {"rolebinding": "RoleBinding", "clusterrolebinding": "ClusterRoleBinding"}
    named = [(kinds.get(kind.partition(".")[0]), name) for kind, name in pairs]
    return {(kind, name) for kind, name in named if kind}


def test_the_services_of_this_suite_run_with_the_account_and_roles_of_the_chart(bed: Bed) -> None:
    """So each test on real servers also shows that these permissions are enough."""
    install(bed)
    with Service(bed) as service:
        review = bed.kube.kubectl(
            *("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"),
            kubeconfig=Path(service.settings["kubeconfig"]),
        )
        assert review == f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
        assert bindings(bed.kube) == rendered(bed.kube)
        assert service.readyz()[0] == 200
