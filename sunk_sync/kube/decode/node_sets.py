"""NodeSets from their wire shape to facts."""

import re
from sys import intern

from msgspec import convert
from msgspec.structs import replace

from sunk_sync.core.model.node_set import (
    EVERY_NODE,
    FINALIZER,
    ORPHAN_FINALIZER,
    Counts,
    Features,
    Gres,
    NodeSet,
    Registration,
    Requeueing,
    Topology,
    UpdateStrategy,
    Window,
)
from sunk_sync.core.model.pod_spec import PodSpec
from sunk_sync.core.translate.quantity import amounts_of, counted, nanos
from sunk_sync.core.translate.slurmd_pod import OF_HOST_NETWORK
from sunk_sync.kube.decode import wire_node_sets as wires
from sunk_sync.kube.decode.pod_specs import placement_of
from sunk_sync.kube.decode.strings import condition, cut

SLURMD = "slurmd"
"""Name of the container that runs slurmd."""
MIB = 1 << 20
PERCENT = "%"
DURATION = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?")


def node_set_row(wire: wires.WireNodeSet) -> NodeSet:
    """Raise one of BAD_BYTES if a value has no meaning."""
    meta, spec, status = wire.metadata, wire.spec, wire.status
    template = bytes(spec.template)
    per_node = spec.scaling_mode == "DaemonSet"
    one_each = EVERY_NODE if per_node else 1
    conditions = sorted(status.conditions or (), key=lambda one: one.type)
    return NodeSet(
        namespace=intern(meta.namespace),
        name=intern(meta.name),
        uid=meta.uid,
        generation=meta.generation,
        deleting=meta.deletion_timestamp is not None,
        held=FINALIZER in (meta.finalizers or ()),
        orphan=ORPHAN_FINALIZER in (meta.finalizers or ()),
        per_node=per_node,
        replicas=one_each if spec.replicas is None else spec.replicas,
        placement=_placement(template) if per_node else PodSpec(),
        prefix=spec.pod_name_prefix or meta.name,
        padding=spec.ordinal_padding,
        template=template,
        limits=_limits(template),
        registration=_registration(spec),
        features=_features(spec.features),
        topology=_topology(spec.topology),
        strategy=_strategy(spec.update_strategy),
        requeueing=_requeueing(spec),
        min_ready_s=float(spec.min_ready_seconds),
        lock=spec.lock,
        counts=convert(status, Counts, from_attributes=True),
        observed_generation=status.observed_generation,
        shown_revision=status.revision,
        shown_selector=cut(status.selector),
        conditions=tuple([condition(one) for one in conditions]),
        changed_at=tuple([one.last_transition_time or "" for one in conditions]),
    )


def _limits(template: bytes) -> tuple[tuple[str, int], ...]:
    for container in wires.decode_template(template).spec.containers:
        if container.name == SLURMD:
            amounts = amounts_of(container.resources.limits)
            counts = ((name, counted(name, amount)) for name, amount in amounts.items())
            return tuple(sorted(counts))
    return ()


def _placement(template: bytes) -> PodSpec:
    spec = wires.decode_template(template).spec
    placement = placement_of(
        spec.node_selector, affinity=spec.affinity, tolerations=spec.tolerations
    )
    if bytes(spec.host_network) != b"true":
        return placement
    return replace(placement, tolerations=(*placement.tolerations, OF_HOST_NETWORK))


def _registration(spec: wires.WireSpec) -> Registration:
    gres = spec.gres
    return Registration(
        cpus=spec.cpus,
        memory_mib=_mib(spec.memory),
        reserved_cores=spec.reserved.cores,
        reserved_mib=_mib(spec.reserved.memory),
        gres=None if gres is None else tuple(Gres(one.name, one.count, one.type) for one in gres),
        weight=spec.weight,
        extra=cut(spec.extra_conf),
    )


def _features(wire: wires.WireFeatures) -> Features:
    dynamic = {intern(cut(label)): cut(one.prefix) for label, one in wire.dynamic.items()}
    static = tuple(sorted(set(map(cut, wire.static))))
    return Features(static, tuple(sorted(dynamic.items())))


def _topology(wire: wires.WireTopology) -> Topology:
    if wire.block:
        return Topology((cut(wire.block),), cut(wire.block_topology), blocks=True)
    return Topology(tuple(map(cut, wire.tree)), cut(wire.under)) if wire.tree else Topology()


def _mib(quantity: str) -> int:
    return counted("memory", nanos(quantity)) // MIB


def _requeueing(spec: wires.WireSpec) -> Requeueing:
    jobs = spec.update_jobs
    names = {"partition": jobs.partitions, "qos": jobs.qos}.get(jobs.method, [])
    timeout = spec.scale_in_timeout
    return Requeueing(
        jobs.method,
        tuple(sorted(map(cut, names))),
        after_s=_seconds(jobs.after),
        scale_in_after_s=_seconds(timeout) if timeout else None,
    )


def _seconds(duration: str) -> float:
    """Return the seconds of a duration such as 1h30m."""
    found = DURATION.fullmatch(duration)
    if not found:
        raise ValueError(f"{cut(duration)} is no duration")
    hours, minutes, seconds = (int(one or 0) for one in found.groups())
    return float(hours * 3600 + minutes * 60 + seconds)


def _strategy(wire: wires.WireStrategy) -> UpdateStrategy:
    scheduled = wire.scheduled_update
    if scheduled is not None:
        start = int(scheduled.start_time.timestamp())
        window = Window(start, int(_seconds(scheduled.duration)))
        return UpdateStrategy(wire.type, window=window)
    given = wire.rolling_update.max_unavailable
    if isinstance(given, int):
        return UpdateStrategy(wire.type, max(given, 1), percent=False)
    return UpdateStrategy(wire.type, int(given.removesuffix(PERCENT)), percent=True)
