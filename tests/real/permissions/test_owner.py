"""A Pod of a NodeSet on an API server that guards owner references, as OpenShift's does."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.node_set import NodeSet
from sunk_sync.core.translate.node_set import plan_of
from sunk_sync.core.translate.slurmd_pod import slurmd_pod
from tests.chart.helm import Helm
from tests.real import node_sets
from tests.real.conftest import require, require_helm
from tests.real.permissions.account import ACCOUNT, NODE_SETS_TOO, OWN, SLURMD, Account
from tests.real.testbed import KubeServer, RestError
from tests.real.testbed.cache import KUBE_DEFAULT
from tests.real.testbed.rest import Rest

pytestmark = pytest.mark.real

PLUGIN = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeServer]:
    """With the kind, and the account of the chart."""
    require(kube=KUBE_DEFAULT)
    require_helm()
    with KubeServer(kubelet=False, apiserver_flags=[PLUGIN]) as kube:
        account = Account(kube, Helm(tmp_path_factory.mktemp("helm")), NODE_SETS_TOO)
        node_sets.install(kube)
        yield kube
        account.remove()


@pytest.fixture
def body(guarded: KubeServer) -> Iterator[dict[str, Any]]:
    """The Pod as the product makes it."""
    one = node_sets.node_set(namespace=SLURMD)
    stored = guarded.rest.call("POST", node_sets.path(SLURMD), one)
    spec = NodeSet(
        namespace=SLURMD,
        name="cpu",
        uid=stored["metadata"]["uid"],
        prefix="cpu",
        template=msgspec.json.encode(one["spec"]["template"]),
    )
    yield slurmd_pod(spec, plan_of(spec, Configuration(cluster_uid="c")), name="cpu-0")
    guarded.rest.call("DELETE", f"{node_sets.path(SLURMD)}/cpu")


def post(kube: KubeServer, body: dict[str, Any]) -> None:
    headers = {"Authorization": f"Bearer {kube.token_for(ACCOUNT, OWN)}"}
    rest = Rest(kube.url, headers=headers, ca_file=kube.ca_file)
    path = f"/api/v1/namespaces/{SLURMD}/pods?dryRun=All&fieldValidation=Strict"
    rest.call("POST", path, body)


def test_the_permissions_are_enough_for_the_pods_of_a_node_set(
    guarded: KubeServer, body: dict[str, Any]
) -> None:
    """`update` of nodesets/finalizers is not granted."""
    post(guarded, body)


def test_an_owner_that_blocks_its_deletion_would_need_more(
    guarded: KubeServer, body: dict[str, Any]
) -> None:
    """So the API server looks. The finalizer of the NodeSet does what this field would do."""
    body["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = True
    with pytest.raises(RestError, match="cannot set blockOwnerDeletion") as refused:
        post(guarded, body)
    assert refused.value.status == 403
