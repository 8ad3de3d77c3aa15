"""In which phase of its way a Pod is, and what a span says about it."""

from collections.abc import Mapping

from msgspec import Struct

from sunk_sync.core.model.actions import EndPod
from sunk_sync.core.model.facts import Job, Observed, Pod
from sunk_sync.core.model.outcomes import Done, Outcome, Refused
from sunk_sync.core.translate.job_states import end_of, is_live, is_waiting
from sunk_sync.core.translate.shortened import shortened
from sunk_sync.core.views.workload import Workload
from sunk_sync.telemetry.action_words import name_of
from sunk_sync.telemetry.spans import Value

ROOT = "pod"
GATED = "waiting for scheduling gates"
GANG = "waiting for the gang"
HOST = "waiting for a host"
AGAIN = "waiting to submit again"
SUBMIT = "submit job"
QUEUED = "queued in Slurm"
ALLOCATED = "waiting to be bound"
BIND = "bind"
RUNNING = "running"
END = "end Pod"

Attributes = Mapping[str, Value]


class Phase(Struct, frozen=True):
    name: str
    """Of its span; empty: nothing that takes long."""
    job_id: str = ""


NO_PHASE = Phase("")


class Record(Struct, kw_only=True):
    """What is known about one Pod that exists and is traced."""

    pod: Pod
    key: str
    """Of its workload."""
    phase: Phase = NO_PHASE
    since_ns: int
    """When the phase began."""
    resumed: bool = False
    """Another process saw the phase begin: this one may know its beginning too late."""
    seen: tuple[object, ...] = ()
    """The decision and the rows of the last look; empty: look again."""
    closed: bool = False
    """The root span is sent."""
    why: str = ""
    """The last decision in this phase."""
    job: Job | None = None
    """The last job."""
    job_ended_s: float | None = None
    request: Attributes = {}
    """Of the job; replaced as a whole."""
    refused: int = 0
    """Submissions that Slurm refused."""
    ended_by: EndPod | None = None
    """Why the Pod had to end."""


def phase_of(pod: Pod, workload: Workload) -> Phase:
    if pod.node_name:
        return Phase(RUNNING)
    live, hosts = workload.live, workload.hosts
    if live is not None:
        return Phase(QUEUED if is_waiting(live.job) else ALLOCATED, live.job.job_id)
    if any(one.gated for one in workload.members.pods):
        return Phase(GATED)
    if workload.members.missing:
        return Phase(GANG)
    if hosts.unfit or hosts.not_ready:
        return Phase(HOST)
    return Phase(AGAIN) if workload.submission.refused is not None else NO_PHASE


def refresh(record: Record, pod: Pod, *, workload: Workload) -> None:
    """Take over what the rows show now; what they show no more stays."""
    record.pod = pod
    live, ended, asked = workload.live, workload.ended, workload.request.description
    job = live.job if live is not None else ended.last
    if job is not None:
        record.job = job
        record.job_ended_s = None if live is not None else ended.since_s or None
    if asked is not None:
        said = {
            "slurm.job.partition": asked.partition,
            "slurm.job.account": asked.account,
            "slurm.job.qos": asked.qos,
        }
        record.request = _not_empty(said)


def failure_of(phase: Phase, job: Job | None) -> str:
    """Return why a phase before the binding failed: its job ended."""
    if phase.name not in (QUEUED, ALLOCATED) or job is None or is_live(job):
        return ""
    if job.job_id != phase.job_id:
        return ""
    return f"Slurm job {job.job_id} ended before the Pod was bound: {end_of(job)}"


def of_pod(pod: Pod) -> Attributes:
    said = {
        "k8s.namespace.name": pod.namespace,
        "k8s.pod.name": pod.name,
        "k8s.pod.uid": pod.uid,
        "k8s.node.name": pod.node_name,
        "sunk_sync.gang": f"{pod.gang.kind}/{pod.gang.name}" if pod.gang is not None else "",
    }
    return _not_empty(said)


def of_job(job: Job | None) -> Attributes:
    if job is None:
        return {}
    said = {
        "slurm.job.id": job.job_id,
        "slurm.job.nodes": shortened(job.slurm_nodes),
        "slurm.job.state": "" if is_live(job) else end_of(job),
    }
    return _not_empty(said)


def of_phase(record: Record, job: Job | None) -> Attributes:
    """Return the attributes of a phase that ends; `job`: the row of its job."""
    more: dict[str, Value] = {**of_pod(record.pod), **record.request, **of_job(job)}
    if record.phase.job_id:
        more["slurm.job.id"] = record.phase.job_id
    if record.why:
        more["sunk_sync.why"] = record.why
    if record.resumed:
        more["sunk_sync.resumed"] = True
    return more


def of_end(record: Record, outcome: str) -> Attributes:
    """Return the attributes of the root span."""
    more: dict[str, Value] = {**of_pod(record.pod), **record.request, **of_job(record.job)}
    more["sunk_sync.outcome"] = outcome
    if record.refused:
        more["sunk_sync.submissions_refused"] = record.refused
    return more


def of_outcome(outcome: Outcome) -> Attributes:
    said: dict[str, Value] = {"sunk_sync.outcome": name_of(outcome)}
    if isinstance(outcome, Refused) and outcome.number is not None:
        said["slurm.error.number"] = outcome.number
    if not isinstance(outcome, Done):
        said["sunk_sync.why"] = outcome.why
    return said


def job_in(outcome: Outcome) -> Job | None:
    """Return the job that the answer to a submission shows."""
    rows = (one.row for one in outcome.seen if isinstance(one, Observed))
    return next((row for row in rows if isinstance(row, Job)), None)


def _not_empty(said: Mapping[str, str]) -> Attributes:
    return {name: text for name, text in said.items() if text}
