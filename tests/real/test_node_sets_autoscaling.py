"""A real HorizontalPodAutoscaler scales a NodeSet by the jobs that wait, to zero and back (N26).

The metric is a custom resource in the place of an adapter: the controller reads it as it reads any
external metric. `-rP` shows the seconds.
"""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.real.conftest import require
from tests.real.node_farm import Farm, farm_with
from tests.real.slurmd_pods import wait_for
from tests.real.testbed.bed import SLURM_DEFAULT
from tests.real.testbed.cache import KUBE_DEFAULT

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.night("two minutes of an autoscaler"),
]

METRICS = "/apis/external.metrics.k8s.io/v1beta1"
METRIC = "waiting-jobs"
SYNC_S = 15.0
"""The controller looks so often."""
KIND = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": f"{METRIC}.external.metrics.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
    },
    "spec": {
        "group": "external.metrics.k8s.io",
        "scope": "Namespaced",
        "names": {
            "plural": METRIC,
            "kind": "ExternalMetricValue",
            "listKind": "ExternalMetricValueList",
        },
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "metricName": {"type": "string"},
                            "timestamp": {"type": "string", "format": "date-time"},
                            "value": {"type": "string"},
                        },
                    }
                },
            }
        ],
    },
}
AUTOSCALER = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "cpu", "namespace": "slurm"},
    "spec": {
        "scaleTargetRef": {
            "apiVersion": "sunk-sync.dev/v1alpha1",
            "kind": "NodeSet",
            "name": "cpu",
        },
        "minReplicas": 1,
        "maxReplicas": 4,
        "metrics": [
            {
                "type": "External",
                "external": {
                    "metric": {"name": METRIC},
                    "target": {"type": "AverageValue", "averageValue": "1"},
                },
            }
        ],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
    },
}


@pytest.fixture(scope="module")
def farm() -> Iterator[Farm]:
    require(kube=KUBE_DEFAULT, slurm=SLURM_DEFAULT)
    with farm_with(SLURM_DEFAULT) as made:
        made.kube.rest.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", KIND)
        name = str(KIND["metadata"]["name"])  # type: ignore[index]
        made.kube.kubectl("wait", "--for=condition=Established", f"crd/{name}")
        yield made


def show_metric(farm: Farm, value: int) -> None:
    path = f"{METRICS}/namespaces/slurm/{METRIC}"
    body = {
        "apiVersion": "external.metrics.k8s.io/v1beta1",
        "kind": "ExternalMetricValue",
        "metadata": {"name": "now", "namespace": "slurm"},
        "metricName": METRIC,
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "value": str(value),
    }
    farm.kube.kubectl("delete", f"{METRIC}.external.metrics.k8s.io", "--all", "-n", "slurm")
    farm.kube.rest.call("POST", path, body)


def autoscaler(farm: Farm) -> str:
    path = "/apis/autoscaling/v2/namespaces/slurm/horizontalpodautoscalers/cpu"
    return json.dumps(farm.kube.rest.call("GET", path).get("status"))


def wanted(farm: Farm) -> Any:
    path = "/apis/sunk-sync.dev/v1alpha1/namespaces/slurm/nodesets/cpu"
    return farm.kube.rest.call("GET", path)["spec"].get("replicas")


def until_usable(farm: Farm, number: int) -> None:
    """Wait for the autoscaler, then for the Slurm nodes."""
    wait_for(lambda: wanted(farm) == number, f"the autoscaler wants {number}", deadline_s=90)
    took_s = wait_for(lambda: farm.is_available(number), f"{number} nodes", deadline_s=60)
    print(f"{number} nodes {took_s:.2f} s after the autoscaler wanted them")


def test_an_autoscaler_scales_a_nodeset_by_waiting_jobs_to_zero_and_back_N26(farm: Farm) -> None:
    show_metric(farm, 3)
    farm.make(1)
    farm.kube.rest.call(
        "POST", "/apis/autoscaling/v2/namespaces/slurm/horizontalpodautoscalers", AUTOSCALER
    )
    try:
        until_usable(farm, 3)
        show_metric(farm, 9)
        until_usable(farm, 4)
        show_metric(farm, 1)
        until_usable(farm, 1)
        # As KEDA does it: HorizontalPodAutoscalers rest while the number is 0.
        farm.scale(0)
        wait_for(lambda: not farm.records(), "no node")
        farm.scale(1)
        show_metric(farm, 2)
        until_usable(farm, 2)
    finally:
        print(autoscaler(farm))
        farm.kube.kubectl("delete", "hpa", "cpu", "-n", "slurm")
        farm.clear()
