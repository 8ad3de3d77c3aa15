"""The placeholder job for a Pod or a gang, or every problem with it (P2-P9, P27, G2, G5).

The job of a gang has one node for each member. On every node it requests what the largest member
requests.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import ceil
from typing import Any, Final, NamedTuple

import msgspec

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import Pod
from sunk_sync.core.model.job_description import NOT_ASKED, SETTINGS, JobDescription
from sunk_sync.core.model.names import PREFIX
from sunk_sync.core.model.pod_spec import PodSpec
from sunk_sync.core.model.user_policy import (
    NO_DEFAULTS,
    NamespaceDefaults,
    Problem,
    UserPolicy,
    problems_of,
    with_defaults,
)
from sunk_sync.core.translate.gres import GPU, gpu_type, gres_of, typed
from sunk_sync.core.translate.job_annotations import Value, read_settings
from sunk_sync.core.translate.user_policy import with_namespace_defaults

MESSAGE_MAX: Final = 1000
"""Kubernetes accepts 1,024 bytes in an Event, and a character may be longer than one byte."""
_MEBIBYTE: Final = 1 << 20
_NAMES_SHOWN: Final = 3

_NOT_ASKED: Final = msgspec.structs.asdict(NOT_ASKED)
_UPDATE: Final = {setting.field: setting.update for setting in SETTINGS.values()}
"""Field that an annotation sets → how Slurm updates it. Slurm accepts any shape in an update, even
one that it refuses in a submission."""


class Invalid(NamedTuple):
    """Why these Pods get no job until one of them changes."""

    message: str
    """Every problem; in a gang after the name of the member (G2)."""


class _PodRequest(NamedTuple):
    values: Mapping[str, Value]
    """Annotations and their values."""
    by_class: Mapping[str, Value]
    """Settings of its PriorityClass, by annotation."""
    gres: Mapping[str, int]
    gpu_type: str
    problems: tuple[str, ...]


def describe(
    pods: Sequence[Pod], configuration: Configuration, *, own: NamespaceDefaults = NO_DEFAULTS
) -> JobDescription | Invalid:
    """Describe the job for one Pod or a whole gang; `pods` is not empty. Never raises."""
    return _digested(pods, configuration, own=own)[0]


def digest(description: JobDescription) -> str:
    """Return 16 hex digits: 8 of fields that need a new job, 8 of fields that an update can change.

    A field without a value does not count, so a new field changes no digest.
    """
    asked = msgspec.structs.asdict(description)
    asked = {name: value for name, value in asked.items() if value != _NOT_ASKED[name]}
    free = {name: value for name, value in asked.items() if _UPDATE.get(name, "no") != "no"}
    fixed = {name: value for name, value in asked.items() if name not in free}
    fixed |= {name: bool(value) for name, value in free.items() if _UPDATE[name] == "value"}
    return _hashed(fixed) + _hashed(free)


def can_update(old: str, new: str) -> bool:
    return bool(old) and old[:8] == new[:8]


def _hashed(fields: Mapping[str, object]) -> str:
    return hashlib.sha256(msgspec.json.encode(sorted(fields.items()))).hexdigest()[:8]


def digested(
    pods: Sequence[Pod], configuration: Configuration, *, own: NamespaceDefaults = NO_DEFAULTS
) -> tuple[JobDescription | Invalid, str]:
    """Describe the job and digest the request of its Pods. Many Pods of one template share it.

    The digest is empty if a value is invalid, but not if --user-policy alone refuses the job. It
    does not depend on the policy, so a job that waits outlives a change of the policy.
    """
    only = pods[0]
    if len(pods) > 1 or only.gang is not None:
        return _digested(pods, configuration, own=own)
    of = (only.namespace, own)
    return _digested_spec(only.spec, only.settings, of, configuration)


@lru_cache(maxsize=4096)
def _digested_spec(
    spec: PodSpec,
    settings: tuple[tuple[str, str], ...],
    of: tuple[str, NamespaceDefaults],
    configuration: Configuration,
) -> tuple[JobDescription | Invalid, str]:
    namespace, own = of
    pod = Pod(namespace=namespace, name="", uid="", spec=spec, settings=settings)
    return _digested([pod], configuration, own=own)


def _digested(
    pods: Sequence[Pod], configuration: Configuration, *, own: NamespaceDefaults
) -> tuple[JobDescription | Invalid, str]:
    members = sorted(pods, key=lambda pod: (pod.namespace, pod.name))
    pod_requests = [_desired(pod, configuration) for pod in members]
    values, conflicts = _merged(members, pod_requests)
    problems = [
        desired.problems + conflict
        for desired, conflict in zip(pod_requests, conflicts, strict=True)
    ]
    is_valid = not any(problems)
    shape = _shape(members, pod_requests) if is_valid else {}
    asked = digest(JobDescription(**shape, **_settings(values))) if is_valid else ""
    policy, namespace = configuration.namespace_rules, members[0].namespace
    if policy is not None:
        policy, refused = _ruled(policy, values, own, namespace=namespace)
        texts = _by_member(refused, pod_requests)
        problems = [one + more for one, more in zip(problems, texts, strict=True)]
        values = with_defaults(policy, values, namespace=namespace)
    if any(problems):
        return Invalid(_message(members, problems)), asked
    return JobDescription(**shape, **_settings(values)), asked


def _ruled(
    policy: UserPolicy, values: Mapping[str, Value], own: NamespaceDefaults, *, namespace: str
) -> tuple[UserPolicy, list[Problem]]:
    """Return the policy with the defaults of the Namespace, and what it refuses.

    A wrong default concerns only jobs that name no value of their own.
    """
    policy, wrong = with_namespace_defaults(policy, own, namespace=namespace)
    unset = {annotation: text for annotation, text in wrong if annotation not in values}
    refused = problems_of(policy, values, namespace=namespace)
    return policy, [*unset.items(), *(one for one in refused if one[0] not in unset)]


def _by_member(
    refused: Sequence[Problem], pod_requests: Sequence[_PodRequest]
) -> Sequence[tuple[str, ...]]:
    """Return the refusals of each member: of its annotations, or of what no member sets (P5)."""
    texts: list[tuple[str, ...]] = [()] * len(pod_requests)
    for annotation, text in refused:
        own = [annotation in one.values or annotation in one.by_class for one in pod_requests]
        for index, is_own in enumerate(own):
            if is_own or not any(own):
                texts[index] += (text,)
    return texts


def static_cpu_warning(pods: Sequence[Pod]) -> str:
    """Return the text of the Event StaticCPU (P27), or empty."""
    return _STATIC_CPU if any(pod.spec.static_cpu for pod in pods) else ""


_DAEMON: Final = "a Pod of a DaemonSet gets no Slurm job: leave schedulerName out of its template"
_STATIC_CPU: Final = (
    "Guaranteed QoS with whole CPUs: a kubelet with the static CPU policy pins CPUs that Slurm "
    "gives to others; make CPU requests and limits differ"
)


def _desired(pod: Pod, configuration: Configuration) -> _PodRequest:
    asked = read_settings(pod.settings)
    gres, unmapped = gres_of(pod.spec.requests, configuration.gres_map)
    problems = (
        *_of_gang(pod),
        *_of_requests(pod, unmapped),
        *_of_grace(pod, configuration),
        *asked.problems,
        *_of_rules(pod, configuration),
    )
    return _PodRequest(
        values=asked.values,
        by_class=_by_class(pod, configuration),
        gres=gres,
        gpu_type=gpu_type(pod.spec, configuration.gpu_types) if GPU in gres else "",
        problems=problems,
    )


def _of_gang(pod: Pod) -> Iterable[str]:
    if pod.gang is not None and pod.gang.problem:
        yield pod.gang.problem


def _of_requests(pod: Pod, unmapped: Sequence[str]) -> Iterable[str]:
    """P2, P6: Slurm counts requests, so a Pod needs some."""
    asked = dict(pod.spec.requests)
    cpu, memory = asked.get("cpu", 0), asked.get("memory", 0)
    if cpu <= 0 or memory <= 0:
        yield (
            f"cpu and memory requests must be above 0, but cpu is {cpu / 1000:g} and memory is "
            f"{memory / _MEBIBYTE:g} MiB"
        )
    if unmapped:
        yield f"Slurm does not know {', '.join(unmapped)}: name it in --gres-map"


def _of_grace(pod: Pod, configuration: Configuration) -> Iterable[str]:
    """P3: the Pod must be gone before Slurm kills the rest of its job."""
    limit_s = configuration.kill_wait_s - configuration.termination_offset_s
    grace_s = pod.spec.grace_s
    if grace_s < limit_s:
        return
    largest = ceil(limit_s) - 1
    allowed = f"at most {largest} is allowed" if largest >= 0 else "no value is allowed"
    yield (
        f"terminationGracePeriodSeconds {grace_s} must be less than Slurm's KillWait "
        f"{configuration.kill_wait_s:g} s minus {configuration.termination_offset_s:g} s: {allowed}"
    )


def _of_rules(pod: Pod, configuration: Configuration) -> Iterable[str]:
    """P8, P27: rules that sunk-sync cannot keep."""
    if pod.spec.device_claims:
        yield "resourceClaims are not supported"
    if pod.spec.daemon:
        yield _DAEMON
    if pod.spec.static_cpu and configuration.refuse_static_cpu:
        yield _STATIC_CPU


def _by_class(pod: Pod, configuration: Configuration) -> Mapping[str, Value]:
    """P9."""
    mine = pod.spec.priority_class
    return {name: value for one, name, value in configuration.priority_map if one == mine}


_First = dict[str, tuple[Value, Pod]]
"""Annotation → its first value, and the Pod that has it."""


def _merged(
    members: Sequence[Pod], pod_requests: Sequence[_PodRequest]
) -> tuple[Mapping[str, Value], Sequence[tuple[str, ...]]]:
    """Merge the settings of all members; return also the contradictions of each to an earlier one.

    A member may leave a setting to another. An annotation wins over any PriorityClass.
    """
    first_values: _First = {}
    conflicts = [
        _joined(first_values, pod, desired.values, where=PREFIX)
        for pod, desired in zip(members, pod_requests, strict=True)
    ]
    by_class: _First = {}
    for index, pod in enumerate(members):
        left = {
            name: to
            for name, to in pod_requests[index].by_class.items()
            if name not in first_values
        }
        conflicts[index] += _joined(by_class, pod, left, where="by its PriorityClass ")
    return {name: value for name, (value, _) in (by_class | first_values).items()}, conflicts


def _joined(
    first_values: _First, pod: Pod, more: Mapping[str, Value], *, where: str
) -> tuple[str, ...]:
    problems = []
    for name, value in more.items():
        first, who = first_values.setdefault(name, (value, pod))
        if first != value:
            problems.append(
                f"{where}{name} {_short(value)} differs from {_short(first)} of {_path(who)} in "
                "the same gang"
            )
    return tuple(problems)


def _path(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"


def _short(value: Value) -> str:
    text = str(value)
    return repr(text if len(text) <= 60 else text[:60] + "…")


def _shape(members: Sequence[Pod], pod_requests: Sequence[_PodRequest]) -> dict[str, Any]:
    """P6, G5: each node has what the largest member requests."""
    sizes = [size_of(pod) for pod in members]
    kinds = {desired.gpu_type for desired in pod_requests if desired.gpu_type}
    kind = kinds.pop() if len(kinds) == 1 else ""
    gres: dict[str, int] = {}
    for desired in pod_requests:
        for name, count in typed(desired.gres, kind).items():
            gres[name] = max(count, gres.get(name, 0))
    return {
        "slurm_nodes": len(members),
        "cpus": max(cpus for cpus, _ in sizes),
        "memory_mb": max(memory_mb for _, memory_mb in sizes),
        "gres": tuple(sorted(gres.items())),
    }


def size_of(pod: Pod) -> tuple[int, int]:
    """Return CPUs and MiB as Slurm counts them: whole ones, rounded up."""
    asked = dict(pod.spec.requests)
    return -(-asked.get("cpu", 0) // 1000), -(-asked.get("memory", 0) // _MEBIBYTE)


def _settings(values: Mapping[str, Value]) -> dict[str, Any]:
    """P4, P5: a user without a group of its own gets the group of the same number."""
    fields: dict[str, Any] = {SETTINGS[name].field: value for name, value in values.items()}
    if "user_id" in fields:
        fields.setdefault("group_id", fields["user_id"])
    return fields


def _message(members: Sequence[Pod], problems: Sequence[tuple[str, ...]]) -> str:
    """Join all problems; members with the same problems share a sentence."""
    if len(members) == 1:
        return _cut("; ".join(problems[0]))
    by_text: dict[str, list[str]] = {}
    for pod, one in zip(members, problems, strict=True):
        if one:
            by_text.setdefault("; ".join(one), []).append(_path(pod))
    return _cut(". ".join(f"{_named(names)}: {text}" for text, names in by_text.items()))


def _named(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    shown = ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"{'Pods' if len(names) > 1 else 'Pod'} {shown}"


def _cut(text: str) -> str:
    whole = text.encode(errors="replace")
    if len(whole) <= MESSAGE_MAX:
        return text
    return whole[: MESSAGE_MAX - 3].decode(errors="ignore") + "…"
