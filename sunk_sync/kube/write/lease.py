"""Read and write the Lease that says which replica leads (F6)."""

import re
from datetime import datetime
from math import ceil
from typing import Any, Final

import msgspec
from msgspec import Struct

from sunk_sync.core.model.names import HOOKS_ADDRESS, PAUSED, RELEASED_BY
from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.client import Caller, Request
from sunk_sync.kube.write.outcomes import is_gone

_UNFIT: Final = re.compile(r"[^a-z0-9]+")
MANAGER: Final = "sunk-sync-leader"
RELEASED_S: Final = 1
"""Duration in a released Lease, as Kubernetes' own components write it."""


def own_object_name(cluster_name: str) -> str:
    """Return the name of the Lease for a Slurm cluster; replace invalid characters."""
    return f"sunk-sync-{_UNFIT.sub('-', cluster_name.lower())}"


class LeasePlace(Struct, frozen=True):
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class LeaseState(Struct, frozen=True, kw_only=True):
    """What one Lease says."""

    version: str = ""
    """resourceVersion; empty: there is no Lease."""
    holder: str = ""
    released_by: str = ""
    """Who released it; empty: nobody, so somebody may still believe in holding it."""
    renewed: str = ""
    """The holder's time of day, only to notice changes and for humans."""
    duration_s: float = 0.0
    transitions: int = 0
    address: str = ""
    """host:port of the holder's hooks server."""
    paused: str = ""
    """Annotation paused."""


class LeaseClaim(Struct, frozen=True, kw_only=True):
    """What the holder writes."""

    holder: str
    duration_s: float
    address: str
    at: datetime


class _Meta(Struct, frozen=True, rename="camel"):
    resource_version: str
    annotations: dict[str, str] | None = None


class _Spec(Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(Struct, frozen=True):
    metadata: _Meta
    spec: _Spec | None = None


_decode = msgspec.json.Decoder(_Lease).decode
MISSING: Final = LeaseState()


class LeaseStore:
    """One Lease. Each write names the version that it replaces, so of two writers one fails."""

    def __init__(self, client: Caller, place: LeasePlace) -> None:
        self.place = place
        self._client = client
        self._folder = f"/apis/coordination.k8s.io/v1/namespaces/{place.namespace}/leases"
        self._path = f"{self._folder}/{place.name}"

    async def read(self, *, deadline_s: float) -> LeaseState | KubeError:
        """Read the Lease; MISSING if the API server itself says that there is none."""
        answer = await self._client.call(Request(path=self._path, deadline_s=deadline_s), _decode)
        if isinstance(answer, KubeError):
            return MISSING if is_gone(answer) else answer
        return _state(answer)

    async def create(self, *, deadline_s: float) -> LeaseState | KubeError:
        """Create the Lease without a holder."""
        return await self._write(MISSING, {}, {}, deadline_s=deadline_s)

    async def claim(
        self, claim: LeaseClaim, before: LeaseState, *, deadline_s: float
    ) -> LeaseState | KubeError:
        """Take or renew the Lease, if it still is as it was read."""
        renews = before.holder == claim.holder
        at = claim.at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec: dict[str, Any] = {
            "holderIdentity": claim.holder,
            "leaseDurationSeconds": ceil(claim.duration_s),
            "renewTime": at,
            "leaseTransitions": before.transitions + (not renews),
        }
        if not renews:
            spec["acquireTime"] = at
        annotations = {HOOKS_ADDRESS: claim.address or None, RELEASED_BY: None}
        return await self._write(before, annotations, spec, deadline_s=deadline_s)

    async def release(
        self, holder: str, before: LeaseState, *, deadline_s: float
    ) -> LeaseState | KubeError:
        """Give the Lease back, so that another replica takes it at once."""
        spec = {"holderIdentity": "", "leaseDurationSeconds": RELEASED_S}
        annotations = {HOOKS_ADDRESS: None, RELEASED_BY: holder}
        return await self._write(before, annotations, spec, deadline_s=deadline_s)

    async def set_paused(self, text: str, *, deadline_s: float) -> LeaseState | KubeError:
        """Set the annotation paused, or remove it; the holder of the Lease does not matter."""
        answer = await self._client.call(
            self._change(None, {PAUSED: text or None}, None, deadline_s=deadline_s), _decode
        )
        return answer if isinstance(answer, KubeError) else _state(answer)

    async def _write(
        self,
        before: LeaseState,
        annotations: dict[str, str | None],
        spec: dict[str, Any],
        *,
        deadline_s: float,
    ) -> LeaseState | KubeError:
        answer = await self._client.call(
            self._change(before.version, annotations, spec, deadline_s=deadline_s)
            if before.version
            else self._creation(annotations, spec, deadline_s=deadline_s),
            _decode,
        )
        return answer if isinstance(answer, KubeError) else _state(answer)

    def _change(
        self,
        version: str | None,
        annotations: dict[str, str | None],
        spec: dict[str, Any] | None,
        *,
        deadline_s: float,
    ) -> Request:
        """`version`, `spec`: None leaves it as it is."""
        metadata: dict[str, Any] = {"annotations": annotations}
        if version is not None:
            metadata["resourceVersion"] = version
        body: dict[str, Any] = {"metadata": metadata}
        if spec is not None:
            body["spec"] = spec
        return Request(
            method="PATCH",
            path=self._path,
            query=(("fieldManager", MANAGER),),
            body=msgspec.json.encode(body),
            content_type="application/merge-patch+json",
            deadline_s=deadline_s,
            by_anyone=True,
        )

    def _creation(
        self, annotations: dict[str, str | None], spec: dict[str, Any], *, deadline_s: float
    ) -> Request:
        given = {name: value for name, value in annotations.items() if value is not None}
        made = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.place.name, "annotations": given},
            "spec": spec,
        }
        return Request(
            method="POST",
            path=self._folder,
            query=(("fieldManager", MANAGER),),
            body=msgspec.json.encode(made),
            deadline_s=deadline_s,
            by_anyone=True,
        )


def is_other_version(error: KubeError) -> bool:
    """Whether the Lease is not the one that was read: it changed, exists already or is gone."""
    return error.status == 409 or is_gone(error)


def _state(lease: _Lease) -> LeaseState:
    spec, annotations = lease.spec or _Spec(), lease.metadata.annotations or {}
    return LeaseState(
        version=lease.metadata.resource_version,
        holder=spec.holder_identity or "",
        released_by=annotations.get(RELEASED_BY, ""),
        renewed=spec.renew_time or "",
        duration_s=float(spec.lease_duration_seconds or 0),
        transitions=spec.lease_transitions or 0,
        address=annotations.get(HOOKS_ADDRESS, ""),
        paused=annotations.get(PAUSED, ""),
    )
