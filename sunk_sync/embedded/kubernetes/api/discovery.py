"""Documents that describe the server: version, health, groups, resources."""

from typing import Any

from sunk_sync.embedded.kubernetes.store.kinds import KINDS, PODS, Kind

Json = dict[str, Any]
VERSION = "v1.35.4"
AUTHORIZATION = "authorization.k8s.io"
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_STATUS_VERBS = ("get", "patch", "update")
_MAJOR, _MINOR = VERSION[1:].split(".")[:2]

_VERSION: Json = {
    "major": _MAJOR,
    "minor": _MINOR,
    "emulationMajor": _MAJOR,
    "emulationMinor": _MINOR,
    "gitVersion": VERSION,
    "gitCommit": "embedded",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}


def _groups() -> tuple[str, ...]:
    return (*sorted({kind.group for kind in KINDS if kind.group}), AUTHORIZATION)


def _group(name: str) -> Json:
    version = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


def _resources(kind: Kind) -> list[Json]:
    resource: Json = {
        "name": kind.plural,
        "singularName": kind.name.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.name,
        "verbs": [
            verb for verb in _VERBS if verb != "deletecollection" or kind.name != "Namespace"
        ],
    }
    if kind.short_names:
        resource["shortNames"] = list(kind.short_names)
    if kind.categories:
        resource["categories"] = list(kind.categories)
    listed = [resource]
    if kind is PODS:
        listed.append(_below(kind, "binding", of="Binding", verbs=("create",)))
    if kind.has_status:
        listed.append(_below(kind, "status", of=kind.name, verbs=_STATUS_VERBS))
    return listed


def _below(kind: Kind, subresource: str, *, of: str, verbs: tuple[str, ...]) -> Json:
    return {
        "name": f"{kind.plural}/{subresource}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": of,
        "verbs": list(verbs),
    }


_REVIEW: Json = {
    "name": "selfsubjectaccessreviews",
    "singularName": "selfsubjectaccessreview",
    "namespaced": False,
    "kind": "SelfSubjectAccessReview",
    "verbs": ["create"],
}


def _listed(group: str) -> Json:
    resources = [one for kind in KINDS if kind.group == group for one in _resources(kind)]
    if group == AUTHORIZATION:
        resources = [_REVIEW]
    group_version = f"{group}/v1" if group else "v1"
    listed = {"kind": "APIResourceList", "groupVersion": group_version, "resources": resources}
    return {"apiVersion": "v1", **listed} if group else listed


def _documents() -> dict[str, Json]:
    documents: dict[str, Json] = {
        "/version": _VERSION,
        "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
        "/api/v1": _listed(""),
        "/apis": {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [_group(name) for name in _groups()],
        },
    }
    for name in _groups():
        documents[f"/apis/{name}"] = {"kind": "APIGroup", "apiVersion": "v1", **_group(name)}
        documents[f"/apis/{name}/v1"] = _listed(name)
    return documents


DOCUMENTS = _documents()
