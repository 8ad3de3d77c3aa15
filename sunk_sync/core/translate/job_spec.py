"""The placeholder job that some Pods ask for, or all that is wrong with them (P2-P9, P27, G2, G5).

Pure. One Pod, or the members of a gang: then the job has a node for each, and on every node what
the largest asks for.
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
from sunk_sync.core.translate.gres import GPU, gpu_type, gres_of, typed
from sunk_sync.core.translate.job_annotations import Value, read_settings

MESSAGE_MAX: Final = 1000
"""Kubernetes takes 1,024 bytes in an Event; ours may hold some that are longer than one."""
_MEBIBYTE: Final = 1 << 20
_ALIKE_SHOWN: Final = 3

_NOT_ASKED: Final = msgspec.structs.asdict(NOT_ASKED)
_UPDATE: Final = {setting.field: setting.update for setting in SETTINGS.values()}
"""Of each field that an annotation sets. An update would take any shape, even one that a submission
would be refused."""


class Invalid(NamedTuple):
    """Why these Pods get no job until one of them changes."""

    message: str
    """All that is wrong; of a gang with the member's name before it (G2)."""


class _DesiredWrite(NamedTuple):
    """What one Pod asks for, as far as it makes sense."""

    values: Mapping[str, Value]
    """Annotations and their values."""
    by_class: Mapping[str, Value]
    """What its PriorityClass asks for, under the names of annotations."""
    gres: Mapping[str, int]
    gpu_type: str
    problems: tuple[str, ...]


def describe(pods: Sequence[Pod], configuration: Configuration) -> JobDescription | Invalid:
    """The job for one Pod or for all members of a gang; never raises. `pods` is not empty."""
    members = sorted(pods, key=lambda pod: (pod.namespace, pod.name))
    desired_writes = [_desired(pod, configuration) for pod in members]
    values, conflicts = _merged(members, desired_writes)
    problems = [
        desired.problems + conflict
        for desired, conflict in zip(desired_writes, conflicts, strict=True)
    ]
    if any(problems):
        return Invalid(_told(members, problems))
    return JobDescription(**_shape(members, desired_writes), **_settings(values))


def digest(description: JobDescription) -> str:
    """16 hex digits: 8 of what only another job can have, 8 of what a waiting job can be given.

    A field that is not asked for does not count, so new ones change nothing.
    """
    asked = msgspec.structs.asdict(description)
    asked = {name: value for name, value in asked.items() if value != _NOT_ASKED[name]}
    free = {name: value for name, value in asked.items() if _UPDATE.get(name, "no") != "no"}
    fixed = {name: value for name, value in asked.items() if name not in free}
    fixed |= {name: bool(value) for name, value in free.items() if _UPDATE[name] == "value"}
    return _hashed(fixed) + _hashed(free)


def can_update(old: str, new: str) -> bool:
    """Whether a waiting job of digest `old` can be given the description of digest `new` (P20)."""
    return bool(old) and old[:8] == new[:8]


def _hashed(fields: Mapping[str, object]) -> str:
    return hashlib.sha256(msgspec.json.encode(sorted(fields.items()))).hexdigest()[:8]


def digested(
    pods: Sequence[Pod], configuration: Configuration
) -> tuple[JobDescription | Invalid, str]:
    """The same with its digest. Pods of one template, and there are thousands, ask for the same."""
    only = pods[0]
    if len(pods) > 1 or only.gang is not None:
        return _digested(pods, configuration)
    return _alike(only.spec, only.settings, only.namespace, configuration)


@lru_cache(maxsize=4096)
def _alike(
    spec: PodSpec,
    settings: tuple[tuple[str, str], ...],
    namespace: str,
    configuration: Configuration,
) -> tuple[JobDescription | Invalid, str]:
    pod = Pod(namespace=namespace, name="", uid="", spec=spec, settings=settings)
    return _digested([pod], configuration)


def _digested(
    pods: Sequence[Pod], configuration: Configuration
) -> tuple[JobDescription | Invalid, str]:
    described = describe(pods, configuration)
    return described, "" if isinstance(described, Invalid) else digest(described)


def static_cpu_warning(pods: Sequence[Pod]) -> str:
    """Text of the Event StaticCPU (P27); empty where no Pod pins CPUs."""
    return _STATIC_CPU if any(pod.spec.static_cpu for pod in pods) else ""


def unsupported(pods: Sequence[Pod]) -> tuple[str, ...]:
    """Hard rules of these Pods that Slurm cannot keep, sorted: for one Event (P8)."""
    return tuple(sorted({rule for pod in pods for rule in pod.spec.hard}))


_STATIC_CPU: Final = (
    "Guaranteed QoS with whole CPUs: a kubelet with the static CPU policy pins CPUs that Slurm "
    "gives to others; make CPU requests and limits differ"
)


# --- one Pod


def _desired(pod: Pod, configuration: Configuration) -> _DesiredWrite:
    asked = read_settings(pod.settings)
    gres, unmapped = gres_of(pod.spec.requests, configuration.gres_map)
    problems = (
        *_of_gang(pod),
        *_of_requests(pod, unmapped),
        *_of_grace(pod, configuration),
        *asked.problems,
        *_of_user(pod, asked.values, configuration),
        *_of_rules(pod, configuration),
    )
    return _DesiredWrite(
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
    """P2, P6: Slurm counts what is requested, so something must be."""
    asked = dict(pod.spec.requests)
    cpu, memory = asked.get("cpu", 0), asked.get("memory", 0)
    if cpu <= 0 or memory <= 0:
        yield (
            f"cpu and memory requests must be above 0, but they are {cpu / 1000:g} CPUs and "
            f"{memory / _MEBIBYTE:g} MiB"
        )
    if unmapped:
        yield f"Slurm does not know {', '.join(unmapped)}: name it in --gres-map"


def _of_grace(pod: Pod, configuration: Configuration) -> Iterable[str]:
    """P3: the Pod must be gone before Slurm kills what is left of its job."""
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


def _of_user(pod: Pod, values: Mapping[str, Value], configuration: Configuration) -> Iterable[str]:
    """P5: the table says who may be whom; without a table nobody asks."""
    policy = configuration.user_policy
    if policy is None:
        return
    user = int(values.get("user-id", 0))
    table = dict(policy)
    ranges = table.get(pod.namespace, table.get("*", ()))
    if not any(first <= user <= last for first, last in ranges):
        yield (
            f"namespace {pod.namespace} may not run jobs as user {user} (--user-policy; "
            f"annotation {PREFIX}user-id says which)"
        )


def _of_rules(pod: Pod, configuration: Configuration) -> Iterable[str]:
    """P8, P27: what Slurm cannot keep."""
    if pod.spec.claims:
        yield "resourceClaims are not supported"
    if pod.spec.hard and configuration.unsupported == "refuse":
        yield f"Slurm cannot keep {', '.join(pod.spec.hard)}"
    if pod.spec.static_cpu and configuration.refuse_static_cpu:
        yield _STATIC_CPU


def _by_class(pod: Pod, configuration: Configuration) -> Mapping[str, Value]:
    """P9."""
    mine = pod.spec.priority_class
    return {name: value for one, name, value in configuration.priority_map if one == mine}


# --- all of them


_Said = dict[str, tuple[Value, Pod]]
"""What was asked for first, and by whom."""


def _merged(
    members: Sequence[Pod], desired_writes: Sequence[_DesiredWrite]
) -> tuple[Mapping[str, Value], Sequence[tuple[str, ...]]]:
    """What all members together ask for, and of each what contradicts an earlier one.

    What one member leaves open another may say; any annotation wins over any PriorityClass.
    """
    said: _Said = {}
    conflicts = [
        _joined(said, pod, desired.values, where=PREFIX)
        for pod, desired in zip(members, desired_writes, strict=True)
    ]
    by_class: _Said = {}
    for index, pod in enumerate(members):
        left = {name: to for name, to in desired_writes[index].by_class.items() if name not in said}
        conflicts[index] += _joined(by_class, pod, left, where="by its PriorityClass ")
    return {name: value for name, (value, _) in (by_class | said).items()}, conflicts


def _joined(said: _Said, pod: Pod, more: Mapping[str, Value], *, where: str) -> tuple[str, ...]:
    problems = []
    for name, value in more.items():
        first, who = said.setdefault(name, (value, pod))
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


def _shape(members: Sequence[Pod], desired_writes: Sequence[_DesiredWrite]) -> dict[str, Any]:
    """P6, G5: on each node as much as the largest member needs."""
    requests = [dict(pod.spec.requests) for pod in members]
    kinds = {desired.gpu_type for desired in desired_writes if desired.gpu_type}
    kind = kinds.pop() if len(kinds) == 1 else ""
    gres: dict[str, int] = {}
    for desired in desired_writes:
        for name, count in typed(desired.gres, kind).items():
            gres[name] = max(count, gres.get(name, 0))
    return {
        "slurm_nodes": len(members),
        "cpus": max(-(-one["cpu"] // 1000) for one in requests),
        "memory_mb": max(-(-one["memory"] // _MEBIBYTE) for one in requests),
        "gres": tuple(sorted(gres.items())),
    }


def _settings(values: Mapping[str, Value]) -> dict[str, Any]:
    """P4, P5: without a group of its own a user gets the group of the same number."""
    fields: dict[str, Any] = {SETTINGS[name].field: value for name, value in values.items()}
    if "user_id" in fields:
        fields.setdefault("group_id", fields["user_id"])
    return fields


# --- words


def _told(members: Sequence[Pod], problems: Sequence[tuple[str, ...]]) -> str:
    """All of it; members with the same problems share a sentence."""
    if len(members) == 1:
        return _cut("; ".join(problems[0]))
    alike: dict[str, list[str]] = {}
    for pod, one in zip(members, problems, strict=True):
        if one:
            alike.setdefault("; ".join(one), []).append(_path(pod))
    return _cut(". ".join(f"{_named(names)}: {text}" for text, names in alike.items()))


def _named(names: Sequence[str]) -> str:
    more = len(names) - _ALIKE_SHOWN
    shown = ", ".join(names[:_ALIKE_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"{'Pods' if len(names) > 1 else 'Pod'} {shown}"


def _cut(text: str) -> str:
    """Within the bytes that an Event can hold."""
    whole = text.encode(errors="replace")
    if len(whole) <= MESSAGE_MAX:
        return text
    return whole[: MESSAGE_MAX - 3].decode(errors="ignore") + "…"
