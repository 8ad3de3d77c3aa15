"""The account of one workload: its Pods, its jobs, and the hosts that can take it."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from sunk_sync.core.explain.account import SEE_MAX, Fact, polled, sentence, watched
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.facts import Job, Pod
from sunk_sync.core.model.names import RESUBMIT, SCHEDULED_CONDITION
from sunk_sync.core.tables.claims import pod_key
from sunk_sync.core.translate.counted import counted
from sunk_sync.core.translate.job_states import is_waiting
from sunk_sync.core.translate.pending import error_in_words, in_words
from sunk_sync.core.translate.shortened import shortened
from sunk_sync.core.views.conclusions import cancelled_job, full_hosts, refusal_ends_s, why_beside
from sunk_sync.core.views.workload import Workload

REASONS_MAX = 16
"""Groups of hosts, by what keeps the Pod away."""


def workload_facts(graph: Graph, key: str, *, now: float) -> tuple[Fact, ...]:
    workload = graph.workload(key)
    return (
        *_pod_facts(graph, workload, now=now),
        *_job_facts(graph, workload, now=now),
        *_submission_facts(workload, now=now),
        *_host_facts(graph, workload),
    )


def _pod_facts(graph: Graph, workload: Workload, *, now: float) -> Iterator[Fact]:
    pods = (*workload.members.pods, *workload.members.surplus)
    for pod in pods[:SEE_MAX]:
        entry = graph.pods.entries[pod_key(pod.namespace, pod.name)]
        ages = watched(graph.pods, entry, now=now)
        yield Fact(side="Kubernetes", what=_path(pod), says=_of_pod(pod), **ages)
    if len(pods) > SEE_MAX:
        yield Fact(side="Kubernetes", what="Pods", says=f"and {len(pods) - SEE_MAX} more")
    if workload.members.missing:
        yield Fact(side="Kubernetes", what="gang", says=workload.members.missing)
    ignored = list(dict.fromkeys(one for pod in pods for one in pod.spec.preferences))
    if ignored:
        says = f"Slurm chooses among the hosts that can take the Pod: {shortened(ignored)}"
        yield Fact(side="sunk-sync", what="ignored", says=says)
    if workload.absent.pods:
        names = [one.rpartition("/")[0] for one in workload.absent.pods]
        says = f"the job names Pods that are not listed: {shortened(names)}"
        yield Fact(side="Kubernetes", what="Pods", says=says)


def _path(pod: Pod) -> str:
    return f"Pod {pod.namespace}/{pod.name}"


def _of_pod(pod: Pod) -> str:
    shown = [one for one in pod.conditions if one.type == SCHEDULED_CONDITION and one.message]
    return sentence(
        "ended" if pod.ended else pod.phase,
        f"bound to Node {pod.node_name}" if pod.node_name else "not bound",
        "terminating" if pod.terminating else "",
        "held by a scheduling gate" if pod.gated else "",
        f"cancelled in Slurm ({pod.cancelled})" if pod.cancelled else "",
        f"says: {shown[0].message}" if shown and not pod.node_name else "",
    )


def _job_facts(graph: Graph, workload: Workload, *, now: float) -> Iterator[Fact]:
    for job_id in graph.workloads.index.job_ids(workload.key)[:SEE_MAX]:
        entry = graph.jobs.entries[job_id]
        ages = polled(graph.jobs, entry, now=now)
        yield Fact(side="Slurm", what=f"job {job_id}", says=_of_job(entry.row, workload), **ages)


def _of_job(job: Job, workload: Workload) -> str:
    live = workload.live
    counts = live is not None and live.job is job
    waits = is_waiting(job)
    called = counts and live is not None and job.script and live.started
    return sentence(
        "+".join(sorted(job.state)),
        f"on {shortened(job.slurm_nodes)}" if job.slurm_nodes else "",
        str(in_words(job.reason)) if waits and job.reason not in ("", "None") else "",
        f"about {counted(live.ahead, 'Pod of sunk-sync waits', 'Pods of sunk-sync wait')} longer"
        if waits and counts and live and live.ahead
        else "",
        "its script reported its start" if job.started or called else "",
        "being preempted" if job.preempted_at else "",
        "it was requeued" if job.requeued else "",
        "a further job, which must end" if live is not None and job in live.others else "",
    )


def _submission_facts(workload: Workload, *, now: float) -> Iterator[Fact]:
    submission, history = workload.submission, workload.history
    if submission.attempt is not None:
        says = f"sent {now - submission.attempt.sent_s:.0f} s ago, without an answer yet"
        yield Fact(side="sunk-sync", what="submission", says=says)
    if submission.refused is not None and refusal_ends_s(submission, workload.request) is not None:
        yield Fact(side="Slurm", what="refusal", says=submission.refused.text)
    if history.given_up:
        jobs = counted(history.given_up, "job", "jobs in a row")
        says = f"gave up {jobs}, on hosts that could not take the Pods"
        yield Fact(side="sunk-sync", what="submission", says=says)


def _host_facts(graph: Graph, workload: Workload) -> Iterator[Fact]:
    """While the workload waits: which hosts can take it, and why the others cannot."""
    pods = [pod for pod in workload.members.unbound if not (pod.ended or pod.terminating)]
    if not pods or (workload.live is not None and not is_waiting(workload.live.job)):
        return
    fit: list[str] = []
    away: defaultdict[str, list[str]] = defaultdict(list)
    reasons = graph.workloads.reasons_of(workload.key, pods)
    for name, why in sorted(reasons.items()):
        (away[", ".join(why)] if why else fit).append(name)
    many = len(fit) + sum(map(len, away.values()))
    says = f"{len(fit)} of {many} can take it" + (f": {shortened(fit)}" if fit else "")
    yield Fact(side="sunk-sync", what="hosts", says=says)
    by_number = sorted(away.items(), key=lambda one: -len(one[1]))
    for unfit, names in by_number[:REASONS_MAX]:
        yield Fact(
            side="sunk-sync", what="hosts", says=f"{len(names)} cannot: {unfit}: {shortened(names)}"
        )


def workload_cures(graph: Graph, key: str) -> tuple[str, ...]:
    workload = graph.workload(key)
    gang = _cures_of_gang(workload)
    return (*gang, *_cures_of_pods(graph, workload), *_cures_of_jobs(workload))


def _cures_of_gang(workload: Workload) -> Iterator[str]:
    members = workload.members
    if members.missing:
        yield f"Complete the gang: {members.missing}"
    if members.surplus:
        yield f"Pod {members.surplus[0].name} waits: {why_beside(workload)}"


def _cures_of_pods(graph: Graph, workload: Workload) -> Iterator[str]:
    members = workload.members
    if any(pod.gated for pod in members.pods):
        yield "Remove the scheduling gates of the Pod: sunk-sync waits for them"
    if workload.request.invalid:
        yield f"Correct the Pod and create it again: {workload.request.invalid}"
    if workload.hosts.unfit:
        yield f"Ask for less, or make a host fit: {workload.hosts.unfit}"
    if workload.hosts.not_ready:
        yield f"Make one of these Nodes ready: {shortened(workload.hosts.not_ready)}"
    if full := full_hosts(workload):
        where = shortened(full)
        yield f"Free room on one of these Slurm nodes, or compare sizes with doctor: {where}"
    refused = workload.submission.refused
    if refused is not None and refusal_ends_s(workload.submission, workload.request) is not None:
        yield _capital(error_in_words(refused.number or 0, refused.text).advice)
    if workload.binding.refused:
        yield "See what keeps sunk-sync from binding Pods: sunk-sync doctor"
    cancelled = cancelled_job(members, workload.ended) if workload.live is None else ""
    if cancelled and not graph.configuration.resubmit_cancelled:
        pod = members.pods[0]
        annotate = f"kubectl -n {pod.namespace} annotate pod {pod.name} {RESUBMIT}=again"
        yield f"Job {cancelled} was cancelled in Slurm. For a new one: {annotate}"


def _cures_of_jobs(workload: Workload) -> Iterator[str]:
    live = workload.live
    if live is None:
        return
    if is_waiting(live.job) and live.job.reason not in ("", "None"):
        yield _capital(in_words(live.job.reason).advice)
    occupants = [pod for placement in live.placements for pod in placement.occupants]
    if occupants:
        yield f"Its host is still used by these Pods, which must end first: {shortened(occupants)}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def workload_see(graph: Graph, key: str) -> tuple[str, ...]:
    workload = graph.workload(key)
    hosts = workload.live.job.slurm_nodes if workload.live is not None else ()
    return tuple(
        [f"host {name}" for name in _unique([*hosts, *_bound_hosts(graph, workload)])][:SEE_MAX]
    )


def _bound_hosts(graph: Graph, workload: Workload) -> list[str]:
    names = [graph.claims.host_of_node(pod.node_name) for pod in workload.members.bound]
    return [name for name in names if name]


def _unique(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))
