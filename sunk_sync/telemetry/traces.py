"""Traces of Pods: each phase of a Pod's way, and each call for it, is a span, sent when it ends.

The loop says which workload it decided and which write was answered. The rows of the graph show in
which phase each Pod is. One record is kept for each Pod that exists.
"""

from collections.abc import Callable, Sequence

import structlog
from msgspec.structs import replace

from sunk_sync.core.decide import NOTHING
from sunk_sync.core.graph.graph import Graph
from sunk_sync.core.model.actions import Bind, EndPod, SubmitJob
from sunk_sync.core.model.facts import Job, Pod
from sunk_sync.core.model.keys import uids_of
from sunk_sync.core.model.outcomes import Done, Outcome, Refused
from sunk_sync.core.model.verdict import Decision
from sunk_sync.core.views.workload import Workload
from sunk_sync.telemetry.pod_phases import (
    ALLOCATED,
    BIND,
    END,
    NO_PHASE,
    QUEUED,
    ROOT,
    RUNNING,
    SUBMIT,
    Phase,
    Record,
    failure_of,
    job_in,
    of_end,
    of_job,
    of_outcome,
    of_phase,
    of_pod,
    phase_of,
    refresh,
)
from sunk_sync.telemetry.spans import Send, Span, SpanEvent, is_sampled

PODS_MAX = 20_000
"""Pods that are traced at the same time; further ones are not."""
OF_A_JOB = (QUEUED, ALLOCATED, RUNNING)
SECOND_NS = 10**9

_Call = SubmitJob | Bind | EndPod


class PodTraces:
    """No method waits or raises: a defect here ends the traces, not the service."""

    def __init__(
        self,
        send: Send,
        log: structlog.typing.FilteringBoundLogger,
        *,
        share: float,
        clock: Callable[[], float],
        wall_ns: Callable[[], int],
    ) -> None:
        self._send = send
        self._log = log
        self._share = share
        self._clock = clock
        self._wall_ns = wall_ns
        self._records: dict[str, Record] = {}  # by UID
        self._uids_of: dict[str, set[str]] = {}  # by key of the workload
        self._broken = False

    def decided(self, graph: Graph, decision: Decision) -> None:
        """See in which phase the Pods of the workload are; other keys do not matter."""
        kind, key = decision.key
        if kind != "workload" or self._broken:
            return
        try:
            self._look(graph, key, because=decision.because)
        except Exception as error:  # noqa: BLE001 - see the class
            self._break(error)

    def answered(self, outcome: Outcome, *, sent_s: float, answered_s: float) -> None:
        """Take the answer to a write: a submission, a binding or the end of a Pod has a span."""
        action = outcome.action
        if self._broken or not isinstance(action, _Call):
            return
        try:
            for uid in _uids(action):
                record = self._records.get(uid)
                if record is not None and not record.closed:
                    record.seen = ()
                    times = (self._ns(sent_s), self._ns(answered_s))
                    self._called(record, action, outcome, times=times)
        except Exception as error:  # noqa: BLE001 - see the class
            self._break(error)

    def _break(self, error: Exception) -> None:
        self._broken = True
        self._records.clear()
        self._uids_of.clear()
        self._log.error("traces stopped until a restart", exc_info=error)

    def _ns(self, at_s: float) -> int:
        """Return the Unix time of a monotonic second."""
        return self._wall_ns() - int((self._clock() - at_s) * SECOND_NS)

    def _look(self, graph: Graph, key: str, *, because: str) -> None:
        pods = graph.workloads.index.pods.get(key, {})
        for uid in sorted(self._uids_of.get(key, set()) - pods.keys()):
            self._left(graph, uid)
        workload: Workload | None = None
        for pod in filter(self._is_traced, pods.values()):
            record = self._records.get(pod.uid)
            seen = (because, pod, *_jobs(graph, pod.uid))
            if record is not None and (record.closed or record.seen == seen):
                continue  # most decisions change nothing, and a view of the workload is costly
            workload = workload or graph.workload(key)
            phase = phase_of(pod, workload)
            record = record or self._open(graph, pod, key=key, phase=phase)
            record.seen = seen
            refresh(record, pod, workload=workload)
            if phase != record.phase and not record.closed:
                self._change_phase(graph, record, phase)
            if because != NOTHING.because:
                record.why = because
            if pod.ended and not record.closed:
                self._close(graph, record, outcome=pod.phase)

    def _change_phase(self, graph: Graph, record: Record, phase: Phase) -> None:
        at_ns = self._begun_ns(graph, record, phase)
        self._end_phase(record, graph.jobs.get(record.phase.job_id) or record.job, at_ns=at_ns)
        _begin_phase(record, phase, at_ns=at_ns)

    def _is_traced(self, pod: Pod) -> bool:
        if pod.uid in self._records:
            return True
        return len(self._records) < PODS_MAX and is_sampled(pod.uid, self._share)

    def _open(self, graph: Graph, pod: Pod, *, key: str, phase: Phase) -> Record:
        """Begin to trace a Pod. If it has ended, another process has sent its root span."""
        record = Record(pod=pod, key=key, phase=phase, since_ns=0, closed=pod.ended)
        record.resumed = phase.name in OF_A_JOB
        record.since_ns = self._resumed_ns(graph, record) if record.resumed else self._created(pod)
        self._records[pod.uid] = record
        self._uids_of.setdefault(key, set()).add(pod.uid)
        return record

    def _created(self, pod: Pod) -> int:
        now_ns = self._wall_ns()
        return min(pod.created_s * SECOND_NS, now_ns) if pod.created_s else now_ns

    def _resumed_ns(self, graph: Graph, record: Record) -> int:
        """Return when a phase began that another process has seen begin, as far as is known."""
        job = graph.jobs.get(record.phase.job_id)
        if record.phase.name == QUEUED and job is not None and job.submitted_at:
            return min(job.submitted_at * SECOND_NS, self._wall_ns())
        return self._begun_ns(graph, record, record.phase)

    def _begun_ns(self, graph: Graph, record: Record, phase: Phase) -> int:
        """Return when a phase began that is new to the record; a binding may be older."""
        memory = graph.workloads.memory
        placed_s = memory.placed_s.get(record.pod.uid) if phase.name == RUNNING else None
        return self._wall_ns() if placed_s is None else self._ns(placed_s)

    def _end_phase(self, record: Record, job: Job | None, *, at_ns: int) -> None:
        """Send the span of the phase that ends; `job`: the row of its job."""
        if record.phase.name:
            span = Span(
                uid=record.pod.uid,
                name=record.phase.name,
                start_ns=min(record.since_ns, at_ns),
                end_ns=at_ns,
                attributes=of_phase(record, job),
                failure=failure_of(record.phase, job),
            )
            self._send(span)
        _begin_phase(record, NO_PHASE, at_ns=at_ns)

    def _called(
        self, record: Record, action: _Call, outcome: Outcome, *, times: tuple[int, int]
    ) -> None:
        match action:
            case SubmitJob():
                self._submitted(record, outcome, times=times)
            case Bind():
                self._bound(record, action, outcome, times=times)
            case EndPod():
                self._ended(record, action, outcome, times=times)

    def _submitted(self, record: Record, outcome: Outcome, *, times: tuple[int, int]) -> None:
        sent_ns, answered_ns = times
        waited = record.phase.name not in OF_A_JOB
        if waited:
            self._end_phase(record, None, at_ns=sent_ns)
        job = job_in(outcome)
        more = {**record.request, **of_job(job), **of_outcome(outcome)}
        span = _call(record, SUBMIT, outcome, times=times)
        span = replace(span, attributes={**of_pod(record.pod), **more})
        if isinstance(outcome, Refused):
            record.refused += 1
            event = SpanEvent("submission refused", answered_ns, of_outcome(outcome))
            span = replace(span, events=(event,))
        self._send(span)
        if waited and job is not None:
            record.job = job
            _begin_phase(record, Phase(QUEUED, job.job_id), at_ns=answered_ns)

    def _bound(
        self, record: Record, action: Bind, outcome: Outcome, *, times: tuple[int, int]
    ) -> None:
        sent_ns, answered_ns = times
        if record.phase.name == ALLOCATED:
            self._end_phase(record, record.job, at_ns=sent_ns)
        span = _call(record, BIND, outcome, times=times)
        node = {"k8s.node.name": action.node_name, "slurm.node.name": action.slurm_node}
        more = {**of_job(record.job), **node, **of_outcome(outcome)}
        self._send(replace(span, attributes={**of_pod(record.pod), **more}))
        if isinstance(outcome, Done) and not outcome.missing and record.phase == NO_PHASE:
            _begin_phase(record, Phase(RUNNING), at_ns=answered_ns)

    def _ended(
        self, record: Record, action: EndPod, outcome: Outcome, *, times: tuple[int, int]
    ) -> None:
        """The first try begins with the known end of the job, a further one with its request."""
        sent_ns, answered_ns = times
        if record.ended_by is None and record.job_ended_s is not None:
            sent_ns = min(sent_ns, self._ns(record.job_ended_s))
        record.ended_by = action
        span = _call(record, END, outcome, times=(sent_ns, answered_ns))
        why = {"sunk_sync.reason": action.reason, "sunk_sync.message": action.message}
        more = {**of_job(record.job), **why, **of_outcome(outcome)}
        self._send(replace(span, attributes={**of_pod(record.pod), **more}))

    def _left(self, graph: Graph, uid: str) -> None:
        """The workload has a Pod no more: it is gone, or an edit moved it to another gang."""
        record = self._records[uid]
        uids = self._uids_of[record.key]
        uids.discard(uid)
        if not uids:
            del self._uids_of[record.key]
        record.key = graph.workloads.index.key_of_uid.get(uid, "")
        if record.key:
            self._uids_of.setdefault(record.key, set()).add(uid)
            return
        if not record.closed:
            self._close(graph, record, outcome="deleted")
        del self._records[uid]

    def _close(self, graph: Graph, record: Record, *, outcome: str) -> None:
        """Send the last phase and the root span."""
        now_ns, pod, by = self._wall_ns(), record.pod, record.ended_by
        job = graph.jobs.get(record.phase.job_id) or record.job
        self._end_phase(record, job, at_ns=now_ns)
        record.closed = True
        failure = "the Pod failed" if outcome == "Failed" else ""
        span = Span(
            uid=pod.uid,
            name=ROOT,
            start_ns=self._created(pod),
            end_ns=now_ns,
            attributes=of_end(record, outcome),
            failure=f"{by.reason}: {by.message}" if by is not None else failure,
            root=True,
        )
        self._send(span)


def _begin_phase(record: Record, phase: Phase, *, at_ns: int) -> None:
    record.phase, record.since_ns, record.resumed, record.why = phase, at_ns, False, ""


def _call(record: Record, name: str, outcome: Outcome, *, times: tuple[int, int]) -> Span:
    """Return the span of a write, without attributes."""
    sent_ns, answered_ns = times
    return Span(
        uid=record.pod.uid,
        name=name,
        start_ns=min(sent_ns, answered_ns),
        end_ns=answered_ns,
        attributes={},
        failure="" if isinstance(outcome, Done) else outcome.why,
        call=True,
    )


def _jobs(graph: Graph, uid: str) -> list[Job | None]:
    return [graph.jobs.get(one) for one in graph.workloads.index.jobs_of_uid.get(uid, ())]


def _uids(action: _Call) -> Sequence[str]:
    if isinstance(action, SubmitJob):
        return uids_of(action.identity)
    return (action.reference.uid,)
