"""Doctor's check of permissions."""

from collections.abc import Iterable, Iterator, Sequence

import anyio

from sunk_sync.cli.findings import Finding, fail, ok, some_of, warn
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.client import KubeClient, ResourceAttributes
from sunk_sync.kube.rbac import ALL_PODS, LOCKED_PODS, PERMISSIONS, Where
from sunk_sync.kube.write.hooks_key import secret_name
from sunk_sync.kube.write.lease import own_object_name
from sunk_sync.service.hooks_key import needs_secret
from sunk_sync.service.wiring import NODESETS
from sunk_sync.settings.model import Settings

ROLES = "grant it, as the chart (rbac.create) and deploy/manifests/roles.yaml do"
_NODE_SET_ROLES = f"{ROLES}; for component nodesets: deploy/nodesets/roles.yaml"


async def examine_permissions(client: KubeClient, settings: Settings) -> list[Finding]:
    """Ask the API server for each permission that these settings need."""
    wanted = list(_wanted(settings, own=client.namespace))
    everything = ResourceAttributes(verb="*", group="*", resource="*")
    answers = await anyio.gather(*(client.may(one) for one in [*wanted, everything]))
    asked = zip(wanted, answers[:-1], strict=True)
    return check_permissions(
        [(_spelled(one), answer) for one, answer in asked],
        everything=answers[-1],
        cure=_NODE_SET_ROLES if NODESETS in settings.components else ROLES,
    )


def _wanted(settings: Settings, *, own: str) -> Iterator[ResourceAttributes]:
    """Yield one question for each verb; own: the namespace of the hooks key and the Lease."""
    own_objects = {
        "secrets": (needs_secret(settings), secret_name(settings.cluster_name)),
        "leases": (settings.leader_elect, own_object_name(settings.cluster_name)),
    }
    all_pods = (ALL_PODS,) if settings.watch_all_pods else ()
    locked_pods = (LOCKED_PODS,) if settings.lock else ()
    for permission in (*PERMISSIONS, *all_pods, *locked_pods):
        if permission.component not in settings.components:
            continue
        names, namespaces = permission.names or ("",), _namespaces(permission.where, settings)
        if permission.resource in own_objects:
            needed, name = own_objects[permission.resource]
            if not needed:
                continue
            names, namespaces = (name if permission.names else "",), (own,)
        resource, _, subresource = permission.resource.partition("/")
        for namespace in namespaces:
            for verb, _ in permission.verbs:
                for name in names:
                    yield ResourceAttributes(
                        verb=verb,
                        group=permission.group,
                        resource=resource,
                        subresource=subresource,
                        namespace=namespace,
                        name=name,
                    )


def _namespaces(where: Where, settings: Settings) -> Sequence[str]:
    return {
        "cluster": ("",),
        "slurmd": settings.slurmd_namespace,
        "work": tuple(one.replace("*", "") for one in settings.watch_namespace),
        "own": (settings.own_namespace,),
        "default": ("default",),
    }[where]


Asked = tuple[str, str]
"""Verb and resource: `get`, `pods/status in slurm`."""


def _spelled(one: ResourceAttributes) -> Asked:
    resource = f"{one.resource}/{one.subresource}" if one.subresource else one.resource
    name = f" {one.name}" if one.name else ""
    return one.verb, f"{resource}{name}" + (f" in {one.namespace}" if one.namespace else "")


def check_permissions(
    answers: Sequence[tuple[Asked, bool | KubeError]],
    *,
    everything: bool | KubeError,
    cure: str = ROLES,
) -> list[Finding]:
    """Report missing permissions, and far more permissions than needed."""
    asked = dict(answers)
    findings = [
        fail("permissions", f"may not {', '.join(verbs)} {what}", cure)
        for what, verbs in _by_resource(one for one, may in asked.items() if may is False)
    ]
    unknown = [" ".join(one) for one, may in asked.items() if isinstance(may, KubeError)]
    if unknown:
        text = f"cannot be asked for, {some_of(unknown)}"
        findings.append(warn("permissions", text, "grant system:basic-user, as Kubernetes does"))
    if not findings:
        findings.append(ok("permissions", f"all {len(asked)} that are needed"))
    if everything is True:
        cure = "run it with the roles of the chart"
        findings.append(warn("permissions", "may do everything here", cure))
    return findings


def _by_resource(asked: Iterable[Asked]) -> Iterable[tuple[str, list[str]]]:
    verbs: dict[str, list[str]] = {}
    for verb, what in asked:
        verbs.setdefault(what, []).append(verb)
    return verbs.items()
