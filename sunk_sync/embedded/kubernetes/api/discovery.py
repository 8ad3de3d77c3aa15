"""Documents that describe the server: version, health, groups, resources."""

from typing import Any

from sunk_sync.embedded.kubernetes.store.kinds import KINDS, KNOWN_KINDS, PODS, Kind

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


Kinds = tuple[Kind, ...]


def _groups(kinds: Kinds) -> dict[str, str]:
    """Return the groups, each with its version."""
    versions = {kind.group: kind.version for kind in kinds if kind.group}
    return {**{name: versions[name] for name in sorted(versions)}, AUTHORIZATION: "v1"}


def _group(name: str, of: str) -> Json:
    version = {"groupVersion": f"{name}/{of}", "version": of}
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


def _listed(kinds: Kinds, group: str, *, version: str) -> Json:
    resources = [one for kind in kinds if kind.group == group for one in _resources(kind)]
    if group == AUTHORIZATION:
        resources = [_REVIEW]
    group_version = f"{group}/{version}" if group else version
    listed = {"kind": "APIResourceList", "groupVersion": group_version, "resources": resources}
    return {"apiVersion": "v1", **listed} if group else listed


def _documents(kinds: Kinds) -> dict[str, Json]:
    groups = _groups(kinds)
    documents: dict[str, Json] = {
        "/version": _VERSION,
        "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
        "/api/v1": _listed(kinds, "", version="v1"),
        "/apis": {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [_group(name, version) for name, version in groups.items()],
        },
    }
    for name, version in groups.items():
        group = _group(name, version)
        documents[f"/apis/{name}"] = {"kind": "APIGroup", "apiVersion": "v1", **group}
        documents[f"/apis/{name}/{version}"] = _listed(kinds, name, version=version)
    return documents


DOCUMENTS = _documents(KINDS)
DOCUMENTS_WITH_NODE_SETS = _documents(KNOWN_KINDS)
