"""The kind PodGroup of scheduling.x-k8s.io, which a gang's size can come from."""

import time
from typing import Any

from tests.real.testbed import RestError
from tests.real.testbed.rest import Rest

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = "podgroups.scheduling.x-k8s.io"
SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
CRD: dict[str, Any] = {
    "metadata": {
        "name": NAME,
        # Its group belongs to Kubernetes: without this annotation the API server refuses the kind.
        "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
    },
    "spec": {
        "group": "scheduling.x-k8s.io",
        "scope": "Namespaced",
        "names": {"plural": "podgroups", "kind": "PodGroup"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": SCHEMA},
            }
        ],
    },
}
WITHIN_S = 15


def make_pod_group(rest: Rest, namespace: str, name: str, *, size: int) -> None:
    """Add the kind and a PodGroup with this `minMember`."""
    rest.call("POST", CRDS, CRD)
    path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/podgroups"
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": size},
    }
    deadline_s = time.monotonic() + WITHIN_S
    while True:
        try:
            rest.call("POST", path, group)
        except RestError as error:  # the server serves a new kind a moment later
            if error.status != 404 or time.monotonic() > deadline_s:
                raise
            time.sleep(0.1)
        else:
            return


def remove_kind(rest: Rest) -> None:
    rest.call("DELETE", f"{CRDS}/{NAME}")
