"""Conclusions that several rules draw from one workload."""

from collections.abc import Sequence

from msgspec.structs import replace

from sunk_sync.core.model.config import Configuration
from sunk_sync.core.model.facts import Job, Pod, SubmitRefused
from sunk_sync.core.model.job_description import JobDescription
from sunk_sync.core.model.job_identity import hosts_digest
from sunk_sync.core.model.placeholder import QUEUED
from sunk_sync.core.model.timing import doubled_s
from sunk_sync.core.translate.counted import counted
from sunk_sync.core.translate.hostlist import compress
from sunk_sync.core.translate.job_states import (
    AGAIN,
    end_of,
    left_no_trace,
    may_have_begun,
    never_began,
)
from sunk_sync.core.translate.slurm_errors import FOR_NODES, meaning
from sunk_sync.core.views.parts import GivenUp, Placement, SubmissionHistory
from sunk_sync.core.views.workload import (
    AbsentPods,
    CandidateHosts,
    EndedJobs,
    JobRequest,
    LiveJob,
    Members,
    Submission,
    Workload,
)

NODES_NAMED = 5
"""Nodes that a condition names."""
TRIED_AGAIN_S = 300.0
"""How long sunk-sync avoids a host after it gave up a job there, unless the host changes (P32)."""
REFUSED_AGAIN_S = 300.0
"""How long sunk-sync waits after Slurm refused a job, unless the Pods change (P10)."""
REFUSED_FIRST_S = 10.0
"""Its first pause where the Pods need not change; doubled each time, up to REFUSED_AGAIN_S."""
HOSTS_CAME_S = 60.0
"""Its longest pause where more nodes help, once some host has changed since."""


OUT_OF_TURN = "waits its turn: Pods that may not run side by side are placed one after another"


def named(workload: Workload) -> str:
    """Return `Pod ns/name`; for a gang the first Pod and the number of the others."""
    pods = workload.members.pods
    if not pods:
        return f"workload {workload.key}"
    more = f" and {len(pods) - 1} more" if len(pods) > 1 else ""
    return f"Pod {pods[0].namespace}/{pods[0].name}{more}"


def was_cancelled(job: Job | None) -> bool:
    """Whether a person cancelled the job (P17): not sunk-sync, which marks it first, nor Slurm."""
    if job is None or job.identity.replaced or left_no_trace(job):
        return False
    return "CANCELLED" in job.state


def mark_of(job_id: str, pod: Pod) -> str:
    """Return the value of annotation `cancelled`: no new job while `resubmit` stays the same."""
    return f"{job_id}/{pod.resubmit}"


def cancelled_id(pod: Pod) -> str:
    """Return the id of the job in annotation `cancelled`, or empty."""
    return pod.cancelled.partition("/")[0]


def cancelled_job(members: Members, ended: EndedJobs) -> str:
    """Return the id of a cancelled job that blocks a new one, or empty (P17)."""
    for pod in members.pods:
        job_id, _, resubmit = pod.cancelled.partition("/")
        if pod.cancelled and resubmit == pod.resubmit:
            return job_id
    last = ended.last
    if last is not None and was_cancelled(last):
        marked = all(cancelled_id(pod) == last.job_id for pod in members.pods)
        return "" if marked else last.job_id
    return ""


def exclusions(workload: Workload, *, now: float) -> tuple[tuple[str, ...], str]:
    """Return hosts that cannot take the Pods, or where sunk-sync gave up a job lately (P12, P32).

    The second value is their digest; empty: the hosts that can take the Pods are not known.

    The latter are allowed again if no other host is left, by our tables or by Slurm's refusal.
    First those that have room: on a full host a job would start in vain.
    """
    hosts, refused = workload.hosts, workload.submission.refused
    if refused is not None and refused.kind in QUEUED:
        return hosts.excluded, hosts.digest
    avoided = [one for one in workload.history.hosts if _is_avoided(one, now)]
    for given_up in (avoided, [one for one in avoided if one.full]):
        names = {one.slurm_node for one in given_up}
        others = names.difference(hosts.required)
        if others and not names.issuperset(hosts.fit):
            excluded = tuple(sorted({*hosts.excluded, *others}))
            return excluded, hosts_digest(excluded, required=hosts.required)
    return hosts.excluded, hosts.digest


def pinned(description: JobDescription, required: Sequence[str]) -> JobDescription:
    """Return the description with hosts that the job must get, besides those of its Pods' owner."""
    if not required:
        return description
    given = description.required_nodes
    return replace(description, required_nodes=",".join([*filter(None, (given,)), *required]))


def tried_again_s(history: SubmissionHistory, now: float) -> float | None:
    """Return when sunk-sync may use the next such host again; None: it avoids none (P32)."""
    times = [one.since_s + TRIED_AGAIN_S for one in history.hosts if not one.full]
    return min([time for time in times if now < time], default=None)


def _is_avoided(given_up: GivenUp, now: float) -> bool:
    return given_up.full or now < given_up.since_s + TRIED_AGAIN_S


def full_hosts(workload: Workload) -> Sequence[str]:
    """Return hosts without room beside other Pods, if too few others are left; else empty (P28).

    Slurm does not know it: it would start a job there in vain.
    """
    description, fit = workload.request.description, workload.hosts.fit
    full = {one.slurm_node for one in workload.history.hosts if one.full}
    if description is None or full.isdisjoint(fit):
        return ()
    left = [name for name in fit if name not in full]
    return sorted(full.intersection(fit)) if len(left) < description.slurm_nodes else ()


def end_in_words(ended: EndedJobs) -> str:
    """Return how the last job ended by itself before its Pods were bound, or empty (P17)."""
    last = ended.last
    if last is None or last.identity.replaced or was_cancelled(last):
        return ""
    if not AGAIN.isdisjoint(last.state):
        return ""
    where = f" on {compress(last.slurm_nodes)}" if last.slurm_nodes else ""
    if may_have_begun(last):
        return f"Slurm cancels job {last.job_id}{where}, and its script may still run"
    if never_began(last):
        why = ended.node_reason or "a prolog failed, or somebody cancelled it while a prolog ran"
        return f"Slurm ended job {last.job_id}{where} before it began: {why}"
    reason = f" ({last.reason})" if last.reason not in ("", "None") else ""
    return f"Slurm job {last.job_id} ended{where} before its Pod was bound: {end_of(last)}{reason}"


def claims_in_words(workload: Workload) -> str:
    """Return why a job that may be the workload's keeps it from another one, or empty (P23)."""
    if not workload.claims:
        return ""
    jobs = ", ".join(workload.claims[:NODES_NAMED])
    return (
        f"Slurm job {jobs} may be its job, but its texts do not prove it: scancel it if it is not"
    )


def host_waited_for(workload: Workload) -> str:
    """Return what a workload without a job waits for before it gets one, or empty (P32)."""
    hosts = workload.hosts
    if hosts.not_ready:
        return _readiness_waited_for(hosts)
    if full := full_hosts(workload):
        return f"no host has room beside its other Pods; waiting for room on {_some_of(full)}"
    return "" if hosts.in_turn else OUT_OF_TURN


def _readiness_waited_for(hosts: CandidateHosts) -> str:
    """Name the Nodes that the workload waits for (P32), in bounded length."""
    return f"no host is ready; waiting for Node {_some_of(hosts.not_ready)}"


def _some_of(names: Sequence[str]) -> str:
    more = len(names) - NODES_NAMED
    return ", ".join(names[:NODES_NAMED]) + (f" and {more} more" if more > 0 else "")


def is_open(submission: Submission, configuration: Configuration) -> bool:
    """Whether a submission without an answer may still become a job (F2)."""
    attempt = submission.attempt
    return (
        attempt is not None and submission.jobs_listed_s < attempt.sent_s + configuration.settle_s
    )


def refusal_ends_s(submission: Submission, request: JobRequest) -> float | None:
    """Return until when Slurm's refusal counts; None: no refusal, or the Pods changed since."""
    refused = submission.refused
    if refused is None or refused.kind not in QUEUED or refused.digest != request.digest:
        return None
    return submission.refused_s + _refused_pause_s(refused, submission)


def _refused_pause_s(refused: SubmitRefused, submission: Submission) -> float:
    number = refused.number or 0
    row = meaning(number)
    if number in FOR_NODES and submission.hosts_changed:
        longest_s = HOSTS_CAME_S
    elif number in FOR_NODES or (number and (row is None or row[0] != "user")):
        longest_s = REFUSED_AGAIN_S
    else:
        return REFUSED_AGAIN_S
    return doubled_s(REFUSED_FIRST_S, doublings=submission.refusals - 1, longest_s=longest_s)


def is_known_gone(absent: AbsentPods, named_pod: str) -> bool:
    """Whether this Pod of the job's identity is certainly gone (P21)."""
    namespace, _, rest = named_pod.partition("/")
    name, _, uid = rest.partition("/")
    if uid in absent.gone:
        return True
    if not name:
        return absent.listed
    for one in absent.get_results:
        if (one.namespace, one.name) == (namespace, name):
            return one.found == "no" or (one.found == "yes" and one.uid != uid)
    return False


def is_over(workload: Workload) -> bool:
    """Whether no Pod has a container or will ever have one: the job may end (P14, P15, P21)."""
    absent = workload.absent
    if absent.pods and not all(is_known_gone(absent, pod) for pod in absent.pods):
        return False
    stranded = [one.pod.uid for one in workload.stuck if one.stranded]
    pods = workload.members.pods
    return not [pod for pod in pods if may_live(pod) and pod.uid not in stranded]


def may_live(pod: Pod) -> bool:
    """Whether the Pod has a container, or may still get one."""
    return not (pod.ended or (pod.terminating and not pod.node_name))


def free_placements(live: LiveJob, members: Members) -> Sequence[Placement]:
    if not members.bound:
        return live.placements
    taken = {pod.node_name for pod in members.bound}
    return [one for one in live.placements if one.node is None or one.node.name not in taken]


def why_unfit(live: LiveJob, members: Members) -> str:
    """Return why unbound Pods cannot go where the job runs (P12); empty: they can, or unknown."""
    placements = live.placements
    if not (members.unbound and placements):
        return ""  # its state was read, but not its hosts
    if len(placements) < len(members.pods):
        hosts = counted(len(placements), "host")
        return f"it holds {hosts} for {counted(len(members.pods), 'Pod')}"
    for placement in free_placements(live, members):
        if (placement.node is None or placement.unfit) and not placement.unknown:
            return f"{placement.slurm_node} cannot take it: {placement.unfit}"
    return ""


def is_broken(members: Members, absent: AbsentPods) -> bool:
    """Whether a member was deleted or is made again, so that the others must end too (G3, G8).

    A member that ended by itself is none any more, and its deletion changes nothing.
    """
    if members.replacement is not None:
        return True
    if len(members.pods) + len(absent.pods) < 2:
        return False
    gone = [pod for pod in absent.pods if is_known_gone(absent, pod)]
    lost = gone and not members.unread_ends
    return bool(members.pods) and bool(lost or members.leaving)


def why_others_end(members: Members, job_id: str) -> str:
    """Return why the other members of a broken gang end."""
    if members.replacement is None:
        return f"a member of the gang of job {job_id} is gone"
    name = members.replacement.name
    return f"a member of the gang of job {job_id} failed, and Pod {name} takes its place"


def why_beside(workload: Workload) -> str:
    """Return why the surplus Pods of a gang wait (G7, G8)."""
    members = workload.members
    living = [pod for pod in members.pods if not (pod.ended or pod.terminating)]
    if not living or is_broken(members, workload.absent):
        return "its gang starts again when the earlier Pods and their Slurm job have ended"
    full = "its gang already has as many Pods as its size"
    gang = members.surplus[0].gang
    if gang is None or gang.kind != "group":
        return full
    return f"{full}: minMember of PodGroup {gang.name} is the number of its Pods"
