"""The custom resource NodeSet on a real API server."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import yaml

from tests.real.stage import eventually
from tests.real.testbed import KubeServer, RestError
from tests.real.testbed.kube_objects import Object
from tools.chart import CHART

FILE = CHART / "files" / "nodesets.yaml"
NAME = "nodesets.sunk-sync.dev"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
EVERYWHERE = "/apis/sunk-sync.dev/v1alpha1/nodesets"
NAMESPACE = "slurm"
ESTABLISHED_S = 20


def path(namespace: str = NAMESPACE) -> str:
    return f"/apis/sunk-sync.dev/v1alpha1/namespaces/{namespace}/nodesets"


def schema() -> Any:
    """Return the schema of the version that the API server stores."""
    (version,) = yaml.safe_load(FILE.read_text(encoding="utf-8"))["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]


@contextmanager
def installed(kube: KubeServer) -> Iterator[None]:
    """Make the kind, and remove it with all its objects at the end."""
    install(kube)
    try:
        yield
    finally:
        remove(kube)


def install(kube: KubeServer) -> None:
    kube.kubectl("apply", "-f", FILE)
    wait_established(kube)


def wait_established(kube: KubeServer) -> None:
    """`kubectl wait` fails on an object that has no conditions yet."""
    eventually(lambda: _answers(kube), "the API server serves NodeSets", within_s=ESTABLISHED_S)


def _answers(kube: KubeServer) -> bool:
    try:
        kube.rest.call("GET", EVERYWHERE)
    except RestError:
        return False
    return True


def remove(kube: KubeServer) -> None:
    """Remove the kind if it exists, with NodeSets whose finalizer nobody takes away any more."""
    if kube.kubectl("get", "crd", NAME, "--ignore-not-found", "-o", "name"):
        clear(kube)
    kube.kubectl("delete", "crd", NAME, "--ignore-not-found", "--wait=true")


def clear(kube: KubeServer) -> None:
    """Delete all NodeSets without the service that would take their finalizer away."""
    # An API server that started just now answers 429 for a moment.
    eventually(lambda: _answers(kube), "the API server serves NodeSets", within_s=ESTABLISHED_S)
    for one in kube.rest.call("GET", EVERYWHERE)["items"]:
        of = f"{path(one['metadata']['namespace'])}/{one['metadata']['name']}"
        body = {"metadata": {"finalizers": None}}
        kube.rest.call("PATCH", of, body, content_type="application/merge-patch+json")
        with suppress(RestError):  # the patch ended one that was deleted
            kube.rest.call("DELETE", of)


def node_set(name: str = "cpu", /, *, namespace: str = NAMESPACE, **spec: Any) -> Object:
    """Return the smallest NodeSet, with these fields of its spec."""
    template = {"spec": {"containers": [{"name": "slurmd", "image": "slurmd"}]}}
    return {
        "apiVersion": "sunk-sync.dev/v1alpha1",
        "kind": "NodeSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"template": template, **spec},
    }


def with_pod(container: Mapping[str, Any] | None = None, **pod: Any) -> Object:
    """Return a NodeSet whose template has these fields, and these in container slurmd."""
    slurmd = {"name": "slurmd", "image": "slurmd", **(container or {})}
    return node_set(template={"spec": {"containers": [slurmd], **pod}})


def applied(kube: KubeServer, an_object: Object, *flags: str) -> tuple[bool, str]:
    """Run `kubectl apply` as a user does; return whether it succeeded, and its words."""
    done = subprocess.run(
        [*kube.kubectl_command(), "apply", *flags, "-f", "-"],
        input=json.dumps(an_object),
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode == 0, " ".join((done.stdout + done.stderr).split())
