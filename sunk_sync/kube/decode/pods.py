"""Workload Pods and Pods of other schedulers from wire shapes to facts."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from operator import attrgetter
from sys import intern
from typing import Any, Final, get_args

from sunk_sync.core.model import names
from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.facts import Pod
from sunk_sync.core.model.job_description import SETTINGS
from sunk_sync.core.model.pod_spec import PodPhase
from sunk_sync.core.translate.job_annotations import NODES_BYTES_MAX
from sunk_sync.kube.decode import wire_pods as shapes
from sunk_sync.kube.decode.gangs import gang_of
from sunk_sync.kube.decode.pod_specs import spec_of, spec_of_other
from sunk_sync.kube.decode.strings import condition, cut
from sunk_sync.kube.decode.wire_hosts import WireCondition

FINISHED: Final = ("Succeeded", "Failed")
PHASES: Final[Mapping[str, PodPhase]] = {one: one for one in get_args(PodPhase)}
LABELS_KEPT: Final = 4096
ENDS_FOR_GOOD: Final = "Never"
NOTHING: Final = (b"", b"null")

Settings = tuple[tuple[str, str], ...]

_OURS = frozenset(names.WORKLOAD_CONDITIONS)
DAEMON_SET = "DaemonSet"
_NO_ANNOTATIONS = shapes.WirePodAnnotations()
_given: Any = attrgetter(*shapes.SETTING_FIELDS)
_type: Any = attrgetter("type")
_NONE_GIVEN = _given(_NO_ANNOTATIONS)


def _phase(text: str) -> PodPhase:
    """Return one of the five that Kubernetes has."""
    return PHASES.get(text, "Unknown")


def pod_row(wire: shapes.WirePod) -> Pod:
    """Decode a workload Pod. Raise one of BAD_BYTES if a part is invalid."""
    meta, spec, status = wire.metadata, wire.spec, wire.status
    annotations = meta.annotations or _NO_ANNOTATIONS
    created = meta.creation_timestamp
    return Pod(
        namespace=intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        created_s=int(created.timestamp()) if created else 0,
        node_name=intern(spec.node_name),
        phase=_phase(status.phase),
        terminating=meta.deletion_timestamp is not None,
        gated=bool(spec.scheduling_gates),
        ended=status.phase in FINISHED or _all_ended(spec, status),
        spec=spec_of(
            spec,
            guaranteed=status.qos_class == "Guaranteed",
            daemon=any(one.kind == DAEMON_SET for one in meta.owner_references or ()),
        ),
        labels=_labels(meta.labels) if meta.labels else (),
        settings=_settings(annotations) if meta.annotations else (),
        volume_claims=_volume_claims(meta.name, spec.volumes) if spec.volumes else (),
        gang=gang_of(meta),
        job_id=cut(annotations.job_id),
        bound_for=cut(annotations.bound_for),
        cancelled=cut(annotations.cancelled),
        resubmit=cut(annotations.resubmit),
        conditions=_conditions(status.conditions or ()),
    )


def _volume_claims(pod: str, volumes: list[shapes.WirePodVolume]) -> tuple[str, ...]:
    """Return the claims that the Pod names, or that Kubernetes makes for it."""
    found = [one.persistent_volume_claim for one in volumes]
    claims = {cut(one.claim_name) for one in found if one is not None}
    made = {f"{pod}-{one.name}" for one in volumes if bytes(one.ephemeral) not in NOTHING}
    return tuple(sorted(claims | made)) if claims or made else ()


def _labels(labels: dict[str, str]) -> tuple[tuple[str, str], ...]:
    pairs = [_pair(*one) for one in labels.items()]
    pairs.sort()
    return tuple(pairs)


@lru_cache(maxsize=LABELS_KEPT)
def _pair(key: str, value: str) -> tuple[str, str]:
    """Share one object for equal labels."""
    return intern(cut(key)), cut(value)


def other_row(wire: shapes.WireOtherPod) -> Pod:
    """Decode a Pod of another scheduler. Raise one of BAD_BYTES if a quantity is invalid."""
    meta, spec = wire.metadata, wire.spec
    return Pod(
        namespace=intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        node_name=intern(spec.node_name),
        terminating=meta.deletion_timestamp is not None,
        spec=spec_of_other(spec),
        labels=_labels(meta.labels) if meta.labels else (),
    )


def _all_ended(spec: shapes.WirePodSpec, status: shapes.WirePodStatus) -> bool:
    """Whether all containers have ended for good, before the phase says so.

    With another restartPolicy, or with sidecars, the kubelet may start a container again: then only
    the phase is evidence.
    """
    containers, seen = spec.containers, status.container_statuses
    if spec.restart_policy != ENDS_FOR_GOOD or not seen or len(seen) < len(containers):
        return False
    if spec.init_containers or any(one.restart_policy for one in containers):
        return False
    return all(bytes(one.state.terminated) not in (b"", b"null") for one in seen)


def _settings(annotations: shapes.WirePodAnnotations) -> Settings:
    values = _given(annotations)
    if values == _NONE_GIVEN:
        return ()
    pairs = zip(SETTINGS, values, strict=True)
    return _once(tuple([(name, _bounded(value)) for name, value in pairs if value is not None]))


def _bounded(value: str) -> str:
    """Cut a value above the limit so that it is refused: half a hostlist has other nodes."""
    return value[: NODES_BYTES_MAX + 1]


@lru_cache(maxsize=1024)
def _once(settings: Settings) -> Settings:
    """Share one object for equal settings."""
    return settings


def _conditions(conditions: Iterable[WireCondition]) -> tuple[Condition, ...]:
    ours = [condition(one) for one in conditions if one.type in _OURS]
    if len(ours) > 1:
        ours.sort(key=_type)
    return tuple(ours)
