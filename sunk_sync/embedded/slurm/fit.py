"""Which nodes a job can use, which jobs it preempts, and why it cannot start."""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from itertools import islice
from typing import Final

from msgspec.structs import replace

from sunk_sync.embedded.slurm.model.gres import Gres, added, asked, configured, left, picked
from sunk_sync.embedded.slurm.model.job import Job, JobRequest, needed_cpus, needed_memory_mb
from sunk_sync.embedded.slurm.model.node import Node, is_fit
from sunk_sync.embedded.slurm.model.release import (
    BUSY_NODES,
    NO_CONFIGURATION,
    NOT_AVAILABLE,
    Release,
    SlurmError,
)

_OUT: Final = frozenset({"DRAIN", "FAIL"})


def wanted_nodes(request: JobRequest) -> int:
    return request.nodes if request.any_of else max(request.nodes, len(request.required_nodes))


def fitting(request: JobRequest, nodes: Iterable[Node]) -> tuple[Node, ...] | None:
    """Return the first nodes that fit, in the order of `nodes`; None if it cannot start now."""
    return _chosen(request, (node for node in _allowed(request, nodes) if has_room(request, node)))


def _chosen(request: JobRequest, able: Iterable[Node]) -> tuple[Node, ...] | None:
    """Return as many of these nodes as the job wants, the required ones among them."""
    wanted, must = wanted_nodes(request), _must_have(request)
    if not must:
        found = tuple(islice(able, wanted))
        return found if found and len(found) == wanted else None
    names = {node.name: node for node in able}
    taken = {*must, *_nearest(list(names), must)[: wanted - len(must)]}
    found = tuple(node for name, node in names.items() if name in taken)
    return found if len(found) == wanted and must.issubset(names) else None


def _nearest(names: Sequence[str], must: Set[str]) -> list[str]:
    """Return the other nodes as Slurm adds them: those behind the first required one, then back."""
    first = next((place for place, name in enumerate(names) if name in must), 0)
    return [name for name in (*names[first:], *names[:first][::-1]) if name not in must]


def _must_have(request: JobRequest) -> frozenset[str]:
    """Return the nodes that the job needs besides others; of more than it wants it needs none."""
    required = request.required_nodes
    return frozenset(required if len(required) < wanted_nodes(request) else ())


def _allowed(request: JobRequest, nodes: Iterable[Node]) -> Iterable[Node]:
    required, excluded = set(request.required_nodes), set(request.excluded_nodes)
    others = len(required) < wanted_nodes(request)
    for node in nodes:
        if node.name not in excluded and (others or node.name in required):
            yield node


def has_room(request: JobRequest, node: Node) -> bool:
    return (
        is_fit(node)
        and set(request.features).issubset(node.active_features)
        and needed_cpus(request, node) <= node.spec.cpus - node.cpus_used
        and needed_memory_mb(request, node) <= node.spec.memory_mb - node.memory_used_mb
        and gres_on(request, node, used=node.gres_used) is not None
    )


def gres_on(request: JobRequest, node: Node, *, used: Gres) -> Gres | None:
    """Return the GRES that the request gets there, all if exclusive; None if there are too few."""
    if not node.gres and not request.tres_per_node:
        return ()
    has = configured(node.gres)
    if request.exclusive:
        return None if used else has
    return picked(left(has, used), asked(request.tres_per_node))


def is_out(node: Node) -> bool:
    return node.base != "IDLE" or bool(node.flags & _OUT)


def why_never(
    request: JobRequest, members: Sequence[Node], *, release: Release
) -> SlurmError | None:
    """Return why the request could not start on an empty cluster; None if it could."""
    if _chosen(request, _able(request, members)):
        return None
    too_large = wanted_nodes(request) > len(members)
    return release.too_large if too_large else NO_CONFIGURATION


def why_not_now(request: JobRequest, members: Sequence[Node]) -> SlurmError:
    up = (node for node in _able(request, members) if not is_out(node))
    return BUSY_NODES if _chosen(request, up) else NOT_AVAILABLE


def _able(request: JobRequest, nodes: Iterable[Node]) -> Iterable[Node]:
    """Yield the nodes that fit if they are empty and up."""
    for node in _allowed(request, nodes):
        if (
            set(request.features).issubset(node.features)
            and needed_cpus(request, node) <= node.spec.cpus
            and needed_memory_mb(request, node) <= node.spec.memory_mb
            and gres_on(request, node, used=()) is not None
        ):
            yield node


def victims_of(
    job: Job, nodes: Sequence[Node], *, running: Mapping[str, Sequence[Job]]
) -> Collection[Job] | None:
    """Return the jobs that must end for this job to start; None if that is not enough.

    `running`: node → jobs there that it may preempt, those already ending first.
    """
    offers: dict[str, Sequence[Job]] = {}
    for node in _allowed(job.request, nodes):
        victims = _victims_on(job.request, node, running.get(node.name, ()))
        if victims is not None:
            offers[node.name] = victims
    wanted, must = wanted_nodes(job.request), _must_have(job.request)
    if len(offers) < wanted or not must.issubset(offers):
        return None

    def cost(name: str) -> tuple[bool, int]:
        return name not in must, sum(each.preempted_s is None for each in offers[name])

    chosen = sorted(offers, key=cost)[:wanted]
    return {each.job_id: each for name in chosen for each in offers[name]}.values()


def _victims_on(request: JobRequest, node: Node, running: Sequence[Job]) -> Sequence[Job] | None:
    """Return as few jobs of this node as are enough, in their order."""
    node = replace(node, ending=0)
    for count, victim in enumerate(running):
        if has_room(request, node):
            return running[:count]
        node = without(node, victim)
    return running if has_room(request, node) else None


def without(node: Node, job: Job) -> Node:
    return charged(node, job, sign=-1)


def charged(node: Node, job: Job, *, sign: int) -> Node:
    """Add the job to the node (`sign` 1) or remove it (-1); a SUSPENDED one uses no CPUs."""
    gres = job.gres[job.nodes.index(node.name)] if job.gres else ()
    held = replace(
        node,
        memory_used_mb=node.memory_used_mb + sign * needed_memory_mb(job.request, node),
        gres_used=added(node.gres_used, gres, sign=sign),
    )
    return held if job.state == "SUSPENDED" else run_on(held, job, sign=sign)


def run_on(node: Node, job: Job, *, sign: int) -> Node:
    return replace(
        node,
        running=node.running + sign,
        cpus_used=node.cpus_used + sign * needed_cpus(job.request, node),
    )
