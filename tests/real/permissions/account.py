"""The ServiceAccount of the chart with the rendered Roles, from which a test takes one verb."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from http.client import HTTPConnection
from typing import Any

from msgspec import Struct

from sunk_sync.kube.rbac import Permission
from tests.chart.helm import Helm, of_kind
from tests.real.stage import eventually
from tests.real.testbed import KubeServer
from tests.real.testbed.kube_objects import Object

OWN, SLURMD, WORK = "slurm", "machines", "team"
"""Three namespaces: a Role of one place then hides no missing Role of another."""
PLACES = {"cluster": "", "slurmd": SLURMD, "work": WORK, "own": OWN, "default": "default"}
ACCOUNT = "sunk-sync"
USER = f"system:serviceaccount:{OWN}:{ACCOUNT}"
GROUPS = ["system:serviceaccounts", f"system:serviceaccounts:{OWN}", "system:authenticated"]
KINDS = {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "ServiceAccount"}
VALUES: Mapping[str, Any] = {
    "slurmd": {"namespaces": SLURMD},
    "scheduler": {"scope": {"type": "namespace", "namespaces": WORK}},
}
ALL_PODS_TOO: Mapping[str, Any] = {
    **VALUES,
    "scheduler": {**VALUES["scheduler"], "watchAllPods": True},
}
LOCK_TOO: Mapping[str, Any] = {**VALUES, "lock": {"enabled": True}}
NODE_SETS_TOO: Mapping[str, Any] = {**VALUES, "nodesets": {"enabled": True}}
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Question(Struct, frozen=True, kw_only=True):
    """One access, as SubjectAccessReview spells it."""

    verb: str
    group: str = ""
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""


def questions(one: Permission, verb: str) -> Iterator[Question]:
    """Yield the accesses that a verb of the table stands for."""
    resource, _, subresource = one.resource.partition("/")
    for name in one.names or ("",):
        yield Question(
            verb=verb,
            group=one.group,
            resource=resource,
            subresource=subresource,
            namespace=PLACES[one.where],
            name=name,
        )


def may(
    kube: KubeServer, question: Question, *, user: str = USER, over: HTTPConnection | None = None
) -> bool:
    """Ask the API server."""
    asked = {
        "verb": question.verb,
        "group": question.group,
        "resource": question.resource,
        "subresource": question.subresource,
        "namespace": question.namespace,
        "name": question.name,
    }
    review = {"spec": {"user": user, "groups": GROUPS, "resourceAttributes": asked}}
    return bool(kube.rest.call("POST", REVIEWS, review, over=over)["status"]["allowed"])


class Account:
    """Applies the account, Roles and bindings that the chart renders for these values."""

    def __init__(self, kube: KubeServer, helm: Helm, values: Mapping[str, Any]) -> None:
        self._kube = kube
        self.all_pods = bool(values["scheduler"].get("watchAllPods"))
        self.node_sets = "nodesets" in values
        self.lock = "lock" in values
        rendered = helm.objects(values, namespace=OWN)
        self.objects = [one for one in rendered if one["kind"] in KINDS]
        self._roles = [*of_kind(self.objects, "Role"), *of_kind(self.objects, "ClusterRole")]
        for namespace in (OWN, SLURMD, WORK):
            kube.ensure_namespace(namespace)
        for one in self.objects:
            self._create(one)

    def _create(self, one: Object) -> None:
        namespace = one["metadata"].get("namespace")
        within = f"/namespaces/{namespace}" if namespace else ""
        root = "/api/v1" if one["kind"] == "ServiceAccount" else RBAC
        self._kube.rest.call("POST", f"{root}{within}/{one['kind'].lower()}s", one)

    def remove(self) -> None:
        for one in self.objects:
            self._kube.rest.call("DELETE", _path(one))

    @contextmanager
    def without(self, one: Permission, verb: str) -> Iterator[None]:
        """Take the verb of this permission from the Roles, and give it back at the end."""
        asked = list(questions(one, verb))
        assert all(may(self._kube, question) for question in asked), "the chart does not grant it"
        for role in self._roles:
            self._put(_reduced(role, one, verb))
        self._wait(lambda: not any(may(self._kube, question) for question in asked))
        try:
            yield
        finally:
            for role in self._roles:
                self._put(role)
            self._wait(lambda: all(may(self._kube, question) for question in asked))

    def _put(self, role: Object) -> None:
        self._kube.rest.call("PUT", _path(role), role)

    def _wait(self, claim: Any) -> None:
        eventually(claim, "the API server follows the Roles")


def _path(one: Object) -> str:
    metadata = one["metadata"]
    namespace = metadata.get("namespace")
    within = f"/namespaces/{namespace}" if namespace else ""
    root = "/api/v1" if one["kind"] == "ServiceAccount" else RBAC
    return f"{root}{within}/{one['kind'].lower()}s/{metadata['name']}"


def _reduced(role: Object, one: Permission, verb: str) -> Object:
    """Return the Role without this verb, if it is a Role of the permission's place."""
    copy = deepcopy(role)
    if role["metadata"].get("namespace", "") != PLACES[one.where]:
        return copy
    for rule in copy["rules"]:
        names = tuple(rule.get("resourceNames", ()))
        if (rule["apiGroups"], rule["resources"], names) == (
            [one.group],
            [one.resource],
            one.names,
        ):
            rule["verbs"] = [kept for kept in rule["verbs"] if kept != verb]
    copy["rules"] = [rule for rule in copy["rules"] if rule["verbs"]]
    return copy
