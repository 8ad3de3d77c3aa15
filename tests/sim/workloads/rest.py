"""The state that rows P and G require after convergence, independent of the product."""

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set

from msgspec import Struct

from sunk_sync.embedded.slurm.model.job import Job
from tests.sim import words
from tests.sim.words import PREFIX, Object
from tests.sim.workloads.domains import Scene, Seen, mind_each_other, why_not
from tests.sim.workloads.group_checks import exact
from tests.sim.workloads.people import NAMESPACE
from tests.sim.workloads.storage import claims_of
from tests.sim.workloads.truth import (
    clash,
    cpus_of,
    is_alive,
    is_live,
    is_ours,
    live_jobs,
    node_of,
    place_of,
    placed,
    slurm_node_of,
    spelled,
    uid_of,
    workloads_of,
)
from tests.sim.workloads.volume_rest import hosts_needed, hosts_with_volumes, selections
from tests.sim.worlds import Worlds

CPUS_MAX = 16
GRACE_MAX_S = 25
"""P3: less than the kill wait minus the offset."""


class Asked(Struct, frozen=True, kw_only=True):
    """Further inputs of the rows."""

    ends_read: Set[tuple[str, str]] = frozenset()
    """UID of a Pod and its job whose end the service has read (P16)."""
    ends_lost: bool = False
    """--lost-job=end (P30)."""
    resubmits: bool = False


def workload_unrest(worlds: Worlds, asked: Asked) -> list[str]:
    """Return a sentence for each deviation from the rows."""
    every = [pod for pod in worlds.kube.pods(NAMESPACE) if words.is_workload(pod)]
    pods = [pod for pod in every if not words.is_finished(pod)]
    found = [why for pod in pods for why in _of_pod(worlds, pod, every, asked=asked)]
    return [*found, *_orphans(worlds, pods), *_gangs(every), *selections(worlds)]


def _of_pod(worlds: Worlds, pod: Object, every: Sequence[Object], *, asked: Asked) -> Iterator[str]:
    name, jobs = pod["metadata"]["name"], live_jobs(worlds, uid_of(pod))
    numbers = [job.job_id for job in jobs]
    if words.is_terminating(pod):
        yield f"Pod {name} is still ending"
        return
    if len(jobs) > 1:
        yield f"P29: Pod {name} has jobs {numbers}"
    if place_of(pod):
        yield from _bound(worlds, pod, jobs, asked=asked)
        return
    why = _why_none(pod, every, hosts=len(worlds.slurm.nodes))
    # A job that waits stays when the Pod of a rank that succeeded is cleaned up.
    why = "" if why == "G1" and jobs and owner_of(pod) else why
    why = "" if why == "G7" and _is_bound_in_part(jobs, every) else why
    why = "" if why == "P17" and (asked.resubmits or _is_back(pod, jobs)) else why
    if not (why or jobs) and _waits_beside_others(worlds, pod, every):
        why = "P8"
    edited = any(map(_is_edited, _members(pod, every)))
    if why and jobs and not edited:
        yield f"{why}: Pod {name} has job {numbers}"
    elif not why and not jobs and not edited:
        yield f"P1: Pod {name} has no job: {words.conditions_of(pod).get('PodScheduled')}"
    elif not why and jobs:
        yield from _waiting(worlds, pod, jobs[0])
    if why in ("P2", "P3", "P7", "P8", "P10", "P17") and not _is_told(pod):
        yield f"{why}: Pod {name} shows no reason: {words.conditions_of(pod).get('PodScheduled')}"


def _members(pod: Object, every: Sequence[Object]) -> list[Object]:
    """Return the Pods of its gang, or only the Pod itself."""
    gang = words.annotations_of(pod).get(words.GANG)
    of_gang = [one for one in every if words.annotations_of(one).get(words.GANG) == gang]
    return [pod] if gang is None else of_gang


def _is_bound_in_part(jobs: Sequence[Job], every: Sequence[Object]) -> bool:
    """Whether one of these jobs has bound a Pod: the others must be bound, too (G1)."""
    bound = {uid_of(one) for one in every if place_of(one)}
    return any(not uids.isdisjoint(bound) for job in jobs for uids in workloads_of(job))


def _is_edited(pod: Object) -> bool:
    """Whether it became invalid: a job that it has already may stay."""
    return words.annotations_of(pod).get(PREFIX + "timeout") == "soon"


def _is_back(pod: Object, jobs: Sequence[Job]) -> bool:
    """Whether Slurm has lost the cancel of a user (P17).

    This job is the one that was cancelled, or it has a lower number: Slurm had lost everything when
    the annotation was still on its way.
    """
    cancelled = words.annotations_of(pod).get(words.CANCELLED, "").partition("/")[0]
    number = int(cancelled.partition("_")[0] or 0)
    return any(cancelled in _names(job) or job.job_id < number for job in jobs)


def _names(job: Job) -> set[str]:
    tasks = job.waiting_tasks if job.task is None else ()
    return {f"{job.array_id}_{task}" for task in tasks} or {spelled(job)}


def _bound(worlds: Worlds, pod: Object, jobs: Sequence[Job], *, asked: Asked) -> Iterator[str]:
    name, host = pod["metadata"]["name"], slurm_node_of(place_of(pod))
    if not jobs:
        yield from _without_job(worlds, pod, asked=asked)
        return
    job = jobs[0]
    if job.state != "RUNNING" or host not in job.nodes:
        yield f"P11: Pod {name} is on {host}, its job {job.job_id} {job.state} on {job.nodes}"


def _without_job(worlds: Worlds, pod: Object, *, asked: Asked) -> Iterator[str]:
    """P16 if the end can be read or was read. P30 if Slurm has forgotten the job and its end."""
    name, host = pod["metadata"]["name"], slurm_node_of(place_of(pod))
    named = (uid_of(pod), words.annotations_of(pod).get(words.JOB_ID, ""))
    known = {
        (uid, spelled(job))
        for job in worlds.slurm.jobs.values()
        if job.nodes and is_ours(job, worlds.cluster_uid)
        for uids in workloads_of(job)
        for uid in uids
    }
    node = worlds.slurm.nodes[host]
    if named in known | asked.ends_read:
        yield f"P16: Pod {name} is bound without a job, and job {named[1]} has ended"
    elif asked.ends_lost:
        yield f"P30: Pod {name} was not ended although Slurm lost its job"
    elif "DRAIN" not in node.flags or not words.is_our_text(node.reason):
        yield f"P30: Pod {name} lives without a job, and {host} is not drained: {node.reason!r}"


def _waiting(worlds: Worlds, pod: Object, job: Job) -> Iterator[str]:
    name = pod["metadata"]["name"]
    if job.state != "PENDING" and _is_held_up(worlds, pod, job):
        return
    if job.state != "PENDING":
        yield f"P11: Pod {name} is not bound although job {job.job_id} is {job.state}"
        return
    every = list(worlds.kube.pods(NAMESPACE))
    members = _members(pod, every)
    near, needed = hosts_with_volumes(worlds, members), hosts_needed(worlds, members)
    taken = _nodes_beside(worlds, pod, every) | (worlds.slurm.nodes.keys() - near)
    taken |= _nodes_forbidden(worlds, members) | _nodes_full(worlds, members)
    free = _free(worlds, job, but=taken)
    if not job.held and free and needed.issubset(free):
        yield f"P7: Pod {name} waits with job {job.job_id} ({job.state_reason}) although {free} fit"
    if not _is_told(pod):
        yield f"P1: Pod {name} waits without a reason in its conditions"


def _is_held_up(worlds: Worlds, pod: Object, job: Job) -> bool:
    """Whether a Pod without a job keeps it away, or one that is first at a claim of both (P8)."""
    claims = {*claims_of(pod)}
    sharing = [one for one in worlds.kube.pods(NAMESPACE) if claims & {*claims_of(one)}]
    jobs = [other for one in sharing for other in live_jobs(worlds, uid_of(one))]
    return any(_has_squatter(worlds, one) for one in (job, *jobs))


def _has_squatter(worlds: Worlds, job: Job) -> bool:
    """P11, P30: a Pod whose job Slurm has forgotten runs on one of its hosts."""
    there = [
        pod
        for pod in worlds.kube.pods(NAMESPACE)
        if words.is_workload(pod) and is_alive(pod) and place_of(pod)
        if slurm_node_of(place_of(pod)) in job.nodes
    ]
    return any(not live_jobs(worlds, uid_of(pod)) for pod in there)


def _waits_beside_others(worlds: Worlds, pod: Object, every: Sequence[Object]) -> bool:
    """P8, P28: other Pods, or volumes, leave it no host."""
    members = _members(pod, every)
    left = hosts_with_volumes(worlds, members) - _nodes_beside(worlds, pod, every)
    left -= _nodes_forbidden(worlds, members) | _nodes_full(worlds, members)
    if len(left) < len(members) or not hosts_needed(worlds, members).issubset(left):
        return True
    if _waits_for_room(worlds, pod, every):
        return True
    others = [one for one in every if one not in members and not place_of(one)]
    rivals = [one for one in others if live_jobs(worlds, uid_of(one))]
    scene = exact(worlds)
    return any(mind_each_other(one, pod, scene) for one in rivals)


def _nodes_forbidden(worlds: Worlds, members: Sequence[Object]) -> set[str]:
    """Return the Slurm nodes that a rule about other Pods closes to one of these.

    A Pod that is kept away from the host of its job stands there, or not: both close a node.
    """
    now = exact(worlds)
    later = Scene(now.nodes, [*now.pods, *_held_up(worlds, but=members)], now.namespaces)
    forbidden = {
        name
        for scene in (now, later)
        for name in scene.nodes
        if any(why_not(pod, name, scene) for pod in members)
    }
    return set(map(slurm_node_of, forbidden))


def _held_up(worlds: Worlds, *, but: Sequence[Object]) -> Iterator[Seen]:
    """Yield the Pods that are kept away from the hosts of their jobs, each on each host."""
    own = set(map(uid_of, but))
    for pod in worlds.kube.pods(NAMESPACE):
        if not words.is_workload(pod) or place_of(pod) or uid_of(pod) in own:
            continue
        for job in live_jobs(worlds, uid_of(pod)):
            if job.nodes and _is_held_up(worlds, pod, job):
                yield from (Seen(pod, node_of(name)) for name in job.nodes)


def _nodes_full(worlds: Worlds, members: Sequence[Object]) -> set[str]:
    """Return the Slurm nodes whose Nodes have less left than one of these Pods needs (P28)."""
    wanted, own = max(map(cpus_of, members)), set(map(uid_of, members))
    room = {
        node["metadata"]["name"]: int(node["status"]["allocatable"]["cpu"])
        for node in worlds.kube.nodes()
    }
    for pod in placed(worlds):
        if uid_of(pod) not in own and place_of(pod) in room:
            room[place_of(pod)] -= cpus_of(pod)
    return {slurm_node_of(name) for name, cpus in room.items() if cpus < wanted}


def _waits_for_room(worlds: Worlds, pod: Object, every: Sequence[Object]) -> bool:
    """P8: another Pod stands in the way on each host, or one that clashes has a job already."""
    members = _members(pod, every)
    others = _in_the_way(members, every)
    queued = [one for one in others if not place_of(one)]
    if any(live_jobs(worlds, uid_of(one)) for one in queued):
        return True
    left = worlds.slurm.nodes.keys() - _nodes_beside(worlds, pod, every)
    return bool(others) and len(left) < len(members)


def _in_the_way(members: Sequence[Object], every: Sequence[Object]) -> list[Object]:
    """Return the Pods that may not stand beside one of these."""
    own = set(map(uid_of, members))
    others = [one for one in every if uid_of(one) not in own and is_alive(one)]
    return [one for one in others if any(clash(one, member) for member in members)]


def _nodes_beside(worlds: Worlds, pod: Object, every: Sequence[Object]) -> set[str]:
    """Return the Slurm nodes where a Pod stands, or will, that this one may not join."""
    others = _in_the_way(_members(pod, every), every)
    stand = {slurm_node_of(place_of(one)) for one in others if place_of(one)}
    coming = [one for one in others if not place_of(one)]
    jobs = [job for one in coming for job in live_jobs(worlds, uid_of(one))]
    return stand.union(*[job.nodes for job in jobs])


def _free(worlds: Worlds, job: Job, *, but: Set[str]) -> list[str]:
    """Return the hosts with free resources if they suffice for the whole job.

    At rest every host is repaired, so sunk-sync must exclude none any more (P7, P32).
    """
    free = [
        node.name
        for node in worlds.slurm.nodes.values()
        if node.base == "IDLE"
        and node.name not in but
        and not node.flags & {"DRAIN", "FAIL", "NOT_RESPONDING"}
        and node.spec.cpus - node.cpus_used >= job.request.cpus
        and node.spec.memory_mb - node.memory_used_mb >= job.request.memory_mb
    ]
    return free if len(free) >= max(job.request.nodes, 1) else []


def _is_told(pod: Object) -> bool:
    condition = words.conditions_of(pod).get("PodScheduled", {})
    return condition.get("status") == "False" and bool(condition.get("message"))


def _why_none(pod: Object, every: Sequence[Object], *, hosts: int) -> str:
    """Return the row that explains why this Pod has no job. Empty: it must have one."""
    if pod["spec"].get("schedulingGates"):
        return "gated"
    annotations = words.annotations_of(pod)
    if words.GANG in annotations:
        size = int(annotations[words.GANG_SIZE])
        why = _why_no_gang(size, pod, every)
        return why or ("P10" if size > hosts else "")
    return _why_not_alone(pod)


def _why_no_gang(size: int, pod: Object, every: Sequence[Object]) -> str:
    """Return the row that explains why the gang of an unbound Pod has no job."""
    members = _members(pod, every)
    living = [one for one in members if not words.is_finished(one)]
    whys = [_why_not_alone(one) for one in living]
    if any(map(place_of, living)):
        return "G7"
    needed = size - _succeeded(members, living)
    if len(living) < needed or needed < 1:
        return "G1"
    if len(living) > needed:
        whys = [_why_not_alone(one) for one in living if _had_job(one) or _is_blamed(one, pod)]
        return _first(whys) if _had_job(pod) else "G7"
    return _first(whys)


def _succeeded(members: Sequence[Object], living: Sequence[Object]) -> int:
    """Return how many ranks of the owners of living members have succeeded (G8)."""
    owners = {owner_of(one) for one in living} - {""}
    ended = [one for one in members if one["status"].get("phase") == "Succeeded"]
    return len([one for one in ended if owner_of(one) in owners])


def owner_of(pod: Object) -> str:
    return next((one["uid"] for one in pod["metadata"].get("ownerReferences", ())), "")


def _first(whys: Sequence[str]) -> str:
    """Return the first reason. A cancel is last: --resubmit-cancelled can overrule it."""
    return next(iter(sorted(filter(None, whys), key="P17".__eq__)), "")


def _had_job(pod: Object) -> bool:
    """Whether the Pod had a job before.

    The product chooses the members if there are too many. A job can be cancelled before each member
    shows its id.
    """
    return not {words.JOB_ID, words.CANCELLED}.isdisjoint(words.annotations_of(pod))


def _is_blamed(member: Object, pod: Object) -> bool:
    message = words.conditions_of(pod).get("PodScheduled", {}).get("message", "")
    metadata = member["metadata"]
    return f"Pod {metadata['namespace']}/{metadata['name']}:" in message


def _why_not_alone(pod: Object) -> str:
    annotations = words.annotations_of(pod)
    if not cpus_of(pod):
        return "P2"
    if pod["spec"]["terminationGracePeriodSeconds"] >= GRACE_MAX_S:
        return "P3"
    if _is_edited(pod):
        return "P2"
    if cpus_of(pod) > CPUS_MAX:
        return "P7"
    cancelled = annotations.get(words.CANCELLED, "")
    if cancelled and cancelled.partition("/")[2] == annotations.get(words.RESUBMIT, ""):
        return "P17"
    return "P10" if annotations.get(PREFIX + "partition") == "nowhere" else ""


def _orphans(worlds: Worlds, pods: Sequence[Object]) -> Iterator[str]:
    """P13-P15, P21."""
    alive = {uid_of(pod) for pod in pods if is_alive(pod)}
    for job in worlds.slurm.jobs.values():
        if not is_live(job) or not is_ours(job, worlds.cluster_uid):
            continue
        for uids in workloads_of(job):
            if not uids & alive:
                yield f"P21: job {job.job_id} ({job.state}) lives without a Pod"


def _gangs(pods: Sequence[Object]) -> Iterator[str]:
    """G1: all or none."""
    members = defaultdict[str, list[Object]](list)
    for pod in pods:
        gang = words.annotations_of(pod).get(words.GANG)
        if gang is not None:
            members[gang].append(pod)
    for gang, each in members.items():
        size = int(words.annotations_of(each[0])[words.GANG_SIZE])
        yield from _replaced(gang, each)
        bound = [pod["metadata"]["name"] for pod in each if place_of(pod)]
        if any(not is_alive(pod) for pod in each):
            continue  # a member that ended by itself stays when the others are deleted
        if any(map(owner_of, each)):
            continue  # the Pod of a rank that succeeded may be cleaned up
        if bound and len(bound) != size:
            yield f"G1: of gang {gang} only {bound} are bound, of {size}"


def _replaced(gang: str, each: Sequence[Object]) -> Iterator[str]:
    """G8: a Pod that waits beside members that run does not take the place of a failed one."""
    running = [pod for pod in each if is_alive(pod) and place_of(pod)]
    jobs = {words.annotations_of(pod).get(words.JOB_ID) for pod in running}
    failed = [pod for pod in each if pod["status"].get("phase") == "Failed" and place_of(pod)]
    failed = [pod for pod in failed if words.annotations_of(pod).get(words.JOB_ID) in jobs]
    waiting = [pod for pod in each if is_alive(pod) and not place_of(pod)]
    waiting = [pod for pod in waiting if not pod["spec"].get("schedulingGates")]
    if running and failed and waiting:
        yield f"G8: gang {gang} runs in part, and {waiting[0]['metadata']['name']} waits"
