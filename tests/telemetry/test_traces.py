"""From the rows and the answers to the spans of each Pod: what is sent, when, and what it says."""

import uuid
from typing import Any, NamedTuple

import pytest
import structlog
from structlog.testing import capture_logs

from sunk_sync.core.model.actions import Bind, Drain, EndPod, SubmitJob
from sunk_sync.core.model.facts import News, Pod, Row, reference_of
from sunk_sync.core.model.job_description import JobDescription
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure, shown_by
from sunk_sync.core.model.pod_spec import PodSpec
from sunk_sync.telemetry import traces as module
from sunk_sync.telemetry.spans import Span, is_sampled, root_id, trace_id
from sunk_sync.telemetry.traces import PodTraces
from tests.kit.build import (
    BOUND,
    POD,
    Core,
    deleted,
    gang_pod,
    identity,
    job,
    observed,
    pod,
    room,
    running,
)

EPOCH_S = 1_000_000
"""Unix second of the monotonic second 0."""
NOW_S = 1000.0
CREATED = EPOCH_S + 990
"""Ten seconds before a test begins."""
NEW = pod(created_s=CREATED)


class Told(NamedTuple):
    """A span with its times in seconds since the test began."""

    name: str
    start_s: float
    end_s: float


class Way:
    """A core, and the traces that see each of its decisions."""

    def __init__(self, *rows: Row, share: float = 1.0) -> None:
        self.core = Core(now=NOW_S)
        self.spans: list[Span] = []
        self.share = share
        self.traces = self.new_traces()
        self.see(*room(), *rows)

    def new_traces(self) -> PodTraces:
        return PodTraces(
            self.spans.append,
            structlog.get_logger(),
            share=self.share,
            clock=lambda: self.core.now,
            wall_ns=lambda: int((EPOCH_S + self.core.now) * 1e9),
        )

    def restart(self) -> None:
        """Look at everything with traces of a new process."""
        self.traces = self.new_traces()
        self.core.reconciler.pending.update(dict.fromkeys(self.core.graph.keys.all()))
        self._look(self.core.settle())

    def see(self, *news: News | Row, after_s: float = 0.0) -> None:
        self.core.now += after_s
        self._look(self.core.see(*news))

    def _look(self, decisions: list[Any]) -> None:
        for decision in decisions:
            self.traces.decided(self.core.graph, decision)

    def answer(self, outcome: Outcome, *, took_s: float = 0.5, after_s: float = 0.0) -> None:
        """Answer a write that is sent now; but for a binding, take in the facts of the answer."""
        self.core.now += after_s
        sent_s = self.core.now
        self.core.now += took_s
        self.traces.answered(outcome, sent_s=sent_s, answered_s=self.core.now)
        if not isinstance(outcome.action, Bind):  # its order would be above those of `observed`
            self.see(*shown_by(outcome, asked_s=sent_s))

    @property
    def told(self) -> list[Told]:
        return [Told(one.name, since(one.start_ns), since(one.end_ns)) for one in self.spans]

    def span(self, name: str) -> Span:
        (found,) = [one for one in self.spans if one.name == name]
        return found


def since(at_ns: int) -> float:
    return round(at_ns / 1e9 - EPOCH_S - NOW_S, 3)


def submit(*pods: Pod) -> SubmitJob:
    return SubmitJob(name="k8s/ns/p1/0", identity=identity(*pods), description=JobDescription())


def made(*pods: Pod, **fields: Any) -> Done:
    return Done(submit(*pods), (observed(job(*pods, **fields)),))


def bind(one: Pod = POD) -> Bind:
    return Bind(reference_of(one), "kn1", "7", "n1")


END = EndPod(reference_of(POD), "SlurmTimeLimit", "job 7 ended: TIMEOUT")


def to_running(way: Way) -> None:
    """Take Pod p1 from its submission to the answer of its binding, in five seconds."""
    way.answer(made(POD))
    way.see(job(POD))
    way.see(running(POD), after_s=3.0)
    way.answer(Done(bind()), after_s=1.0)


def test_each_phase_and_each_call_of_a_pods_way_is_a_span() -> None:
    way = Way(NEW)
    to_running(way)
    way.see(pod(created_s=CREATED, node_name="kn1", job_id="7"))
    ended = pod(created_s=CREATED, node_name="kn1", job_id="7", ended=True, phase="Succeeded")
    way.see(ended, after_s=60.0)
    assert way.told == [
        Told("submit job", 0.0, 0.5),
        Told("queued in Slurm", 0.5, 3.5),
        Told("waiting to be bound", 3.5, 4.5),
        Told("bind", 4.5, 5.0),
        Told("running", 5.0, 65.0),
        Told("pod", -10.0, 65.0),
    ]
    root = way.span("pod")
    assert root.root
    assert not root.failure
    assert dict(root.attributes) == {
        "k8s.namespace.name": "ns",
        "k8s.pod.name": "p1",
        "k8s.pod.uid": POD.uid,
        "k8s.node.name": "kn1",
        "slurm.job.id": "7",
        "slurm.job.nodes": "n1",
        "sunk_sync.outcome": "Succeeded",
    }


def test_a_pod_that_is_deleted_after_its_end_has_one_root_span() -> None:
    way = Way(NEW)
    to_running(way)
    ended = pod(created_s=CREATED, node_name="kn1", job_id="7", ended=True, phase="Failed")
    way.see(ended)
    way.see(deleted("pods", ended), after_s=9.0)
    assert [one.name for one in way.spans].count("pod") == 1
    assert way.span("pod").failure == "the Pod failed"


def test_the_end_of_a_job_ends_its_pod_in_a_span_from_one_to_the_other() -> None:
    way = Way(NEW)
    to_running(way)
    way.see(pod(created_s=CREATED, node_name="kn1", job_id="7"))
    way.see(job(POD, state="TIMEOUT", slurm_nodes=("n1",)), after_s=10.0)
    way.answer(Done(END), after_s=0.25)
    way.see(deleted("pods", POD), after_s=4.25)
    assert way.told[-3:] == [
        Told("end Pod", 15.0, 15.75),
        Told("running", 5.0, 20.0),
        Told("pod", -10.0, 20.0),
    ]
    ended, root = way.span("end Pod"), way.span("pod")
    assert ended.attributes["sunk_sync.reason"] == "SlurmTimeLimit"
    assert ended.attributes["slurm.job.state"] == "TIMEOUT"
    assert root.failure == "SlurmTimeLimit: job 7 ended: TIMEOUT"
    assert root.attributes["sunk_sync.outcome"] == "deleted"


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        ((pod(created_s=CREATED, gated=True),), "waiting for scheduling gates"),
        ((gang_pod("p1", created_s=CREATED),), "waiting for the gang"),
        (
            (pod(created_s=CREATED, spec=PodSpec(requests=(("cpu", 99_000),))),),
            "waiting for a host",
        ),
        ((NEW,), ""),
    ],
    ids=["a gate", "a gang", "a host that is large enough", "nothing"],
)
def test_what_a_pod_waits_for_before_its_job_is_a_span(rows: tuple[Pod, ...], name: str) -> None:
    way = Way(*rows)
    way.answer(made(*rows), after_s=5.0)
    expected = [Told(name, -10.0, 5.0)] if name else []
    assert way.told == [*expected, Told("submit job", 5.0, 5.5)]


def test_the_wait_says_why() -> None:
    way = Way(gang_pod("p1"))
    way.answer(made(POD), after_s=5.0)
    assert "1 of the 2 Pods" in str(way.span("waiting for the gang").attributes["sunk_sync.why"])


def test_each_pod_of_a_gang_has_a_trace_of_its_own() -> None:
    both = gang_pod("p1"), gang_pod("p2")
    way = Way(*both)
    way.answer(made(*both))
    way.see(running(*both, at=("n1", "n2")))
    assert [(one.uid, one.name) for one in way.spans] == [
        *((one.uid, "submit job") for one in both),
        *((one.uid, "queued in Slurm") for one in both),
    ]
    assert {one.attributes["sunk_sync.gang"] for one in way.spans} == {"annotation/g"}


@pytest.mark.parametrize(
    ("outcome", "failure", "events"),
    [
        (
            Refused(submit(POD), "Invalid account", number=2045),
            "Invalid account",
            [("submission refused", 2045)],
        ),
        (Unsure(submit(POD), "timeout"), "timeout", []),
    ],
    ids=["refused", "no answer"],
)
def test_a_submission_without_a_job_is_an_error(
    outcome: Outcome, failure: str, events: list[tuple[str, int]]
) -> None:
    way = Way(NEW)
    way.answer(outcome)
    span = way.span("submit job")
    assert span.failure == failure
    found = [(one.name, one.attributes["slurm.error.number"]) for one in span.events]
    assert found == events


def test_after_a_refusal_the_pod_waits_for_the_next_submission() -> None:
    way = Way(NEW)
    way.answer(Refused(submit(POD), "no", number=2045))
    way.answer(made(POD), after_s=300.0)
    assert Told("waiting to submit again", 0.5, 300.5) in way.told


def test_the_root_counts_the_refused_submissions() -> None:
    way = Way(NEW)
    for _ in range(3):
        way.answer(Refused(submit(POD), "no", number=2045))
    way.see(deleted("pods", NEW))
    assert way.span("pod").attributes["sunk_sync.submissions_refused"] == 3


@pytest.mark.parametrize(
    ("row", "name"),
    [(job(POD, state="CANCELLED"), "queued in Slurm"), (None, "queued in Slurm")],
    ids=["cancelled", "the Pod is deleted"],
)
def test_a_job_that_ends_before_the_binding_is_an_error(row: Row | None, name: str) -> None:
    way = Way(NEW)
    way.answer(made(POD))
    way.see(job(POD))
    way.see(row if row is not None else deleted("pods", NEW), after_s=2.0)
    span = way.span(name)
    assert since(span.end_ns) == 2.5
    expected = "Slurm job 7 ended before the Pod was bound: CANCELLED" if row is not None else ""
    assert span.failure == expected


def test_a_refused_binding_is_an_error_and_the_pod_waits_on() -> None:
    way = Way(NEW)
    way.answer(made(POD))
    way.see(running(POD))
    way.answer(Refused(bind(), "denied"))
    assert way.span("bind").failure == "denied"
    way.see(running(POD, reason="x"), after_s=1.0)
    way.answer(Done(bind()), after_s=1.0)
    assert [one.name for one in way.spans].count("waiting to be bound") == 2


def test_a_binding_without_an_answer_begins_the_run_when_it_is_seen() -> None:
    way = Way(NEW)
    way.answer(made(POD))
    way.see(running(POD))
    way.answer(Unsure(bind(), "timeout"))
    way.see(BOUND, after_s=2.0)
    way.see(deleted("pods", BOUND), after_s=1.0)
    assert Told("running", 3.0, 4.0) in way.told


def restart_in(way: Way, *rows: Row) -> list[Told]:
    """Return what a new process tells of a Pod that is deleted 10 s after it starts."""
    way.see(*rows)
    way.core.now += 20.0
    way.spans.clear()
    way.restart()
    way.see(deleted("pods", NEW), after_s=10.0)
    return way.told


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ((job(POD, submitted_at=EPOCH_S + 1005),), Told("queued in Slurm", 5.0, 30.0)),
        ((running(POD),), Told("waiting to be bound", 20.0, 30.0)),
        ((running(POD), pod(created_s=CREATED, node_name="kn1", job_id="7")),
         Told("running", 0.0, 30.0)),
    ],
    ids=["queued: since Slurm got the job", "allocated: since the start", "bound: since it saw it"],
)  # fmt: skip
def test_a_new_process_goes_on_with_the_same_trace(rows: tuple[Row, ...], expected: Told) -> None:
    way = Way(NEW)
    assert restart_in(way, *rows) == [expected, Told("pod", -10.0, 30.0)]
    assert way.span(expected.name).attributes["sunk_sync.resumed"]


def test_a_pod_that_has_ended_before_a_restart_is_not_told_again() -> None:
    way = Way(pod(node_name="kn1", job_id="7", ended=True, phase="Succeeded"))
    way.see(deleted("pods", POD))
    assert way.told == []


def test_every_span_ends_after_it_begins_even_if_a_clock_was_set_back() -> None:
    way = Way(pod(created_s=EPOCH_S + 99_999))
    way.answer(made(POD))
    way.see(deleted("pods", POD))
    assert way.spans
    assert all(one.start_ns <= one.end_ns for one in way.spans)


UID = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"


@pytest.mark.parametrize(
    ("uid", "expected"),
    [(UID, uuid.UUID(UID).hex), ("f" * 32, "f" * 32), ("0" * 32, None), ("not a UUID", None)],
)
def test_the_id_of_the_trace_is_the_uid_of_the_pod(uid: str, expected: str | None) -> None:
    found = trace_id(uid)
    assert 0 < found < 2**128
    assert found == trace_id(uid)
    if expected is not None:
        assert f"{found:032x}" == expected


def test_the_spans_of_a_trace_have_different_ids() -> None:
    way = Way(NEW)
    to_running(way)
    way.see(deleted("pods", POD), after_s=1.0)
    ids = [one.span_id for one in way.spans]
    assert len(set(ids)) == len(ids)
    assert all(0 < one < 2**64 for one in ids)
    assert way.span("pod").span_id == root_id(POD.uid)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_about_this_share_of_pods_is_sampled(share: float) -> None:
    uids = [str(uuid.UUID(int=number)) for number in range(4000)]
    chosen = sum(is_sampled(uid, share) for uid in uids)
    assert chosen / len(uids) == pytest.approx(share, abs=0.03)


def test_a_larger_share_contains_the_smaller_one() -> None:
    uids = [str(uuid.UUID(int=number)) for number in range(1000)]
    assert {one for one in uids if is_sampled(one, 0.1)} < {
        one for one in uids if is_sampled(one, 0.2)
    }


def test_a_pod_outside_the_share_has_no_span() -> None:
    way = Way(NEW, share=0.0)
    to_running(way)
    way.see(deleted("pods", POD))
    assert way.told == []


def test_pods_beyond_the_bound_are_not_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PODS_MAX", 1)
    way = Way(NEW, pod("p2"))
    for one in (NEW, pod("p2")):
        way.see(deleted("pods", one))
    assert [one.attributes["k8s.pod.name"] for one in way.spans] == ["p1"]


def test_a_defect_ends_the_traces_and_nothing_else() -> None:
    way = Way(NEW)

    def broken(_: Span) -> None:
        raise ValueError("a bug")

    way.traces = PodTraces(
        broken,
        structlog.get_logger(),
        share=1.0,
        clock=lambda: way.core.now,
        wall_ns=lambda: 1,
    )
    with capture_logs() as lines:
        way.answer(made(POD))
        way.see(deleted("pods", POD))
        way.answer(made(POD))
    assert [line["event"] for line in lines] == ["traces stopped until a restart"]


def test_other_writes_have_no_span() -> None:
    way = Way(NEW)
    way.answer(Done(Drain("n1", "k8s: x")))
    assert way.told == []
