"""Operations of an administrator on Kubernetes, one line each."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.real.testbed import kube_objects
from tests.real.testbed.kube_objects import Object
from tests.real.testbed.rest import Rest, RestError

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
PLURALS = {"Node": "nodes", "Pod": "pods", "Namespace": "namespaces"}
CONNECTIONS = 16


class KubeApi:
    """All methods block; safe from any thread. RestError is a refusal of the API server."""

    rest: Rest

    def create(self, *objects: Object) -> None:
        """POST Nodes, Pods, Namespaces; many at once use several connections."""
        if len(objects) <= 2:
            for an_object in objects:
                self.rest.call("POST", _collection(an_object), an_object)
            return
        with ThreadPoolExecutor(CONNECTIONS) as threads:
            parts = [objects[i::CONNECTIONS] for i in range(CONNECTIONS)]
            list(threads.map(self._create_all, parts))

    def create_pod(self, pod: Object) -> str:
        return str(self.rest.call("POST", _collection(pod), pod)["metadata"]["uid"])

    def _create_all(self, objects: Iterable[Object]) -> None:
        connection = self.rest.connect()
        try:
            for an_object in objects:
                self.rest.call("POST", _collection(an_object), an_object, over=connection)
        finally:
            connection.close()

    def add_nodes(self, *names: str) -> None:
        self.create(*(kube_objects.node(name) for name in names))

    def add_hosts(self, *names: str, namespace: str = "slurm") -> None:
        """Create a Node for each name, with the slurmd Pod of the Slurm node of that name."""
        self.ensure_namespace(namespace)
        self.add_nodes(*names)
        self.create(*(kube_objects.slurmd_pod(name, namespace=namespace) for name in names))

    def ensure_namespace(self, name: str) -> None:
        """Create the namespace if it is missing, with the account that its Pods need at once."""
        self._ensure("/api/v1/namespaces", name)
        self._ensure(f"/api/v1/namespaces/{name}/serviceaccounts", "default")

    def _ensure(self, collection: str, name: str) -> None:
        try:
            self.rest.call("POST", collection, {"metadata": {"name": name}})
        except RestError as error:
            if error.status != 409:
                raise

    def node(self, name: str) -> Any:
        return self.rest.call("GET", f"/api/v1/nodes/{name}")

    def pod(self, name: str, namespace: str = "default") -> Any:
        return self.rest.call("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")

    def pod_if_any(self, name: str, namespace: str) -> Any:
        """Return the Pod; None if it is gone."""
        try:
            return self.pod(name, namespace)
        except RestError as error:
            if error.status != 404:
                raise
            return None

    def resource_versions(self, namespace: str) -> dict[str, str]:
        """Return the versions of all Nodes and of the Pods of a namespace, by UID."""
        paths = ("/api/v1/nodes", f"/api/v1/namespaces/{namespace}/pods")
        found = [
            item["metadata"] for path in paths for item in self.rest.call("GET", path)["items"]
        ]
        return {one["uid"]: one["resourceVersion"] for one in found}

    def cordon(self, name: str, *, unschedulable: bool = True) -> None:
        self.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": unschedulable or None}})

    def annotate_node(self, name: str, annotations: Mapping[str, str | None]) -> None:
        self._annotate(f"/api/v1/nodes/{name}", annotations)

    def annotate_pod(
        self, name: str, namespace: str, annotations: Mapping[str, str | None]
    ) -> None:
        self._annotate(f"/api/v1/namespaces/{namespace}/pods/{name}", annotations)

    def _annotate(self, path: str, annotations: Mapping[str, str | None]) -> None:
        self.patch(path, {"metadata": {"annotations": dict(annotations)}})

    def patch(self, path: str, patch: Object) -> None:
        self.rest.call("PATCH", path, patch, content_type=MERGE_PATCH)

    def patch_pod(self, name: str, namespace: str, patch: Object) -> None:
        self.patch(f"/api/v1/namespaces/{namespace}/pods/{name}", patch)

    def set_node_ready(self, name: str, *, ready: bool) -> None:
        """Set the Ready condition to True or Unknown, as kubelet and node controller do."""
        status = "True" if ready else "Unknown"
        condition = kube_objects.condition("Ready", status)
        self._patch_status(f"/api/v1/nodes/{name}", {"conditions": [condition]})

    def set_node_condition(self, name: str, kind: str, status: str) -> None:
        condition = kube_objects.condition(kind, status)
        self._patch_status(f"/api/v1/nodes/{name}", {"conditions": [condition]})

    def taint_node(self, name: str, key: str, *, on: bool = True) -> None:
        """Add a taint NoSchedule, or take all of this key away."""
        taints = [one for one in self.node(name)["spec"].get("taints", ()) if one["key"] != key]
        taints += [{"key": key, "effect": "NoSchedule"}] if on else []
        self.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": taints}})

    def delete_node(self, name: str) -> None:
        self.rest.call("DELETE", f"/api/v1/nodes/{name}")

    def set_allocatable(self, name: str, **amounts: str) -> None:
        """Let the Node offer so much to Pods."""
        self._patch_status(f"/api/v1/nodes/{name}", {"allocatable": amounts})

    def set_pod_ready(self, name: str, namespace: str = "default", *, ready: bool) -> None:
        self.patch_pod_status(name, namespace, {"conditions": _readiness(ready=ready)})

    def end_pod(self, name: str, namespace: str = "default", *, phase: str) -> None:
        status = {"phase": phase, "conditions": _readiness(ready=False)}
        self.patch_pod_status(name, namespace, status)

    def delete_pod(
        self, name: str, namespace: str = "default", *, grace_s: int | None = None
    ) -> None:
        options = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        self.rest.call("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", options)

    def patch_pod_status(self, name: str, namespace: str, status: Object) -> None:
        self._patch_status(f"/api/v1/namespaces/{namespace}/pods/{name}", status)

    def _patch_status(self, path: str, status: Object) -> None:
        body, kind = {"status": status}, STRATEGIC_MERGE_PATCH
        self.rest.call("PATCH", f"{path}/status", body, content_type=kind)

    def token_for(
        self, service_account: str, namespace: str = "default", *, lifespan_s: int = 3600
    ) -> str:
        """Return a new token of the ServiceAccount (created if missing), for at least 600 s."""
        self.ensure_namespace(namespace)
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        self._ensure(accounts, service_account)
        request = {"spec": {"expirationSeconds": lifespan_s}}
        answer = self.rest.call("POST", f"{accounts}/{service_account}/token", request)
        return str(answer["status"]["token"])


def _collection(an_object: Object) -> str:
    namespace = an_object["metadata"].get("namespace")
    within = f"namespaces/{namespace}/" if namespace else ""
    return f"/api/v1/{within}{PLURALS[an_object['kind']]}"


def _readiness(*, ready: bool) -> list[Object]:
    return [kube_objects.condition(kind, str(ready)) for kind in ("Ready", "ContainersReady")]
