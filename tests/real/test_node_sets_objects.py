"""The Service and the PodDisruptionBudget beside NodeSets, with the controllers of Kubernetes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.real.conftest import for_each_slurm
from tests.real.node_farm import Farm, farm_with
from tests.real.service import MANIFESTS
from tests.real.slurmd_pods import wait_for
from tests.real.testbed.rest import RestError

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

OBJECTS = MANIFESTS.parent / "nodesets" / "objects.yaml"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/slurm/endpointslices"
OF_SERVICE = "?labelSelector=kubernetes.io%2Fservice-name%3Dslurm-nodes"
BUDGET = "/apis/policy/v1/namespaces/slurm/poddisruptionbudgets/sunk-sync-busy-nodes"
SLEEP = "#!/bin/sh\nsleep {}\n"


@contextmanager
def with_objects(version: str) -> Iterator[Farm]:
    with farm_with(version) as made:
        made.kube.kubectl("apply", "-f", OBJECTS)
        yield made


farms = for_each_slurm(with_objects)


@pytest.fixture
def farm(farms: Farm) -> Iterator[Farm]:
    yield farms
    farms.clear()


def host_names(farm: Farm) -> dict[str, str]:
    """Return the address of each host name that the cluster DNS would serve."""
    slices = farm.kube.rest.call("GET", f"{SLICES}{OF_SERVICE}")["items"]
    found = [one for each in slices for one in each["endpoints"] or ()]
    return {one["hostname"]: one["addresses"][0] for one in found}


def evict(farm: Farm, name: str) -> Any:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": "slurm"},
    }
    return farm.kube.rest.call("POST", f"/api/v1/namespaces/slurm/pods/{name}/eviction", body)


def test_each_slurmd_pod_has_a_host_name_also_before_it_is_ready(farm: Farm) -> None:
    farm.pods.starts = False
    farm.make(2)
    wait_for(lambda: set(host_names(farm)) == {"cpu-0", "cpu-1"}, "two host names")
    farm.pods.starts = True
    wait_for(lambda: farm.usable(2), "two nodes in Slurm")
    pods = farm.pods_of()
    assert host_names(farm) == {name: pod["status"]["podIP"] for name, pod in pods.items()}


def is_busy(farm: Farm, name: str) -> bool:
    return "sunk.coreweave.com/busy" in farm.pods_of()[name]["metadata"]["labels"]


def uid(farm: Farm, name: str) -> str | None:
    pod = farm.pods_of().get(name)
    return str(pod["metadata"]["uid"]) if pod is not None else None


def test_a_pod_with_a_job_is_not_evicted_and_one_without_is_N27(farm: Farm) -> None:
    farm.make(2)
    wait_for(lambda: farm.usable(2), "two nodes in Slurm")
    job = farm.slurm.submit(SLEEP.format(300), required_nodes=["cpu-1"])
    wait_for(lambda: is_busy(farm, "cpu-1"), "the label")
    # A controller-manager that does not know the kind yet allows no eviction either.
    wait_for(lambda: budget(farm).get("disruptionsAllowed") == 0, "the budget")
    with pytest.raises(RestError) as refused:
        evict(farm, "cpu-1")
    assert refused.value.status == 429
    before = uid(farm, "cpu-0")
    evict(farm, "cpu-0")
    wait_for(lambda: uid(farm, "cpu-0") not in (before, None), "another Pod", deadline_s=40)
    farm.slurm.cancel(job)
    wait_for(lambda: not is_busy(farm, "cpu-1"), "the job ended", deadline_s=60)
    evict(farm, "cpu-1")


def budget(farm: Farm) -> Any:
    return farm.kube.rest.call("GET", BUDGET)["status"]
