"""Log lines and metrics, and the CPU time that they cost."""

import io
import json
import logging
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

import sunk_sync
from sunk_sync.core.model import actions as act
from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.event_kinds import EVENT_CONFLICT
from sunk_sync.core.model.facts import Confirmed, ListingEnded, ListingStarted, Lost, Reference
from sunk_sync.core.model.lock_actions import GetNodePods
from sunk_sync.core.model.node_set import Counts
from sunk_sync.core.model.node_set_actions import Condemn, DeletePod, GetJobEnds
from sunk_sync.core.model.outcomes import Done, Refused, Unsure
from sunk_sync.core.model.pending_jobs import Demand, Waiting
from sunk_sync.core.model.volume_actions import GetProvisioning
from sunk_sync.telemetry import logs as logs_module
from sunk_sync.telemetry.exchange import Called, Exchange, Reply
from sunk_sync.telemetry.logs import LineWriter, Logs, clean
from sunk_sync.telemetry.metrics import SPECS, count_slurm_nodes
from sunk_sync.telemetry.telemetry import Telemetry
from tests.kit.node_sets import node_set
from tests.telemetry.test_slurm_metrics import show_all

POD = Reference("Pod", "slurm", "slurmd-n1", "u1")
NODE = Reference("Node", "", "n1", "u2")
CLAIM = Reference("PersistentVolumeClaim", "slurm", "c", "u3")
DRAIN = act.Drain("n1", "k8s: node cordoned")
BECAUSE = "drained: Node n1 is cordoned (kernel update)"


class Bench:
    """A Telemetry whose clock the test sets, with its lines and metrics."""

    def __init__(self, level: str = "info") -> None:
        self.now_s = 1000.0
        self._file = io.StringIO()
        self._logs = Logs(level, "json", self._file)
        self.telemetry = Telemetry(self._logs.log, clock=lambda: self.now_s)

    def lines(self) -> list[dict[str, Any]]:
        self._logs.close()
        return [json.loads(line) for line in self._file.getvalue().splitlines()]

    def metric(self, metric: str, /, **labels: str) -> float | None:
        return self.telemetry.registry.get_sample_value(metric, labels)

    def text(self) -> str:
        return generate_latest(self.telemetry.registry).decode()

    def close(self) -> None:
        self._logs.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.close()


def test_a_write_is_one_line_and_counted_and_timed(bench: Bench) -> None:
    bench.telemetry.wrote(DRAIN, Done(DRAIN), BECAUSE, 0.01234)
    (line,) = bench.lines()
    assert bench.metric("sunk_sync_writes_total", action="drain", outcome="done") == 1.0
    assert bench.metric("sunk_sync_write_duration_seconds_sum", action="drain") == 0.01234
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "level": "info", "event": "write", "action": "drain", "slurm_node": "n1",
        "reason": "k8s: node cordoned", "outcome": "done", "because": BECAUSE, "seconds": 0.0123,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("action", "reported"),
    [
        (act.Undrain("n1", "lifted, was k8s: x"), {"action": "undrain", "slurm_node": "n1"}),
        (act.SetComment("n1", "{}"), {"action": "set-comment", "slurm_node": "n1"}),
        (act.Cordon(NODE), {"action": "cordon", "node": "n1"}),
        (
            act.SetConditions(POD, (Condition("SlurmNodeStateIdle", "True", "r", "m"),)),
            {"pod": "slurm/slurmd-n1", "conditions": "SlurmNodeStateIdle=True"},
        ),
        (
            act.SetMetadata(NODE, "m", (("a", "b"),), (("c", "d"),)),
            {"node": "n1", "set": "a=b,c=d"},
        ),
        (
            act.RecordEvent(POD, EVENT_CONFLICT, "two"),
            {"event_reason": "SlurmNodeConflict", "message": "two"},
        ),
    ],
)
def test_a_line_names_its_object(
    bench: Bench, action: act.Action, reported: dict[str, str]
) -> None:
    """`node` is the Kubernetes Node, `slurm_node` the node of Slurm."""
    bench.telemetry.wrote(action, Done(action), "b", 0.1)
    (line,) = bench.lines()
    assert reported.items() <= line.items()


@pytest.mark.parametrize(
    ("look", "field"),
    [
        (act.GetObject("Pod", "slurm", "slurmd-n1", 0.0), {"pod": "slurm/slurmd-n1"}),
        (act.GetSlurmNode("n1", 0.0), {"slurm_node": "n1"}),
        (GetJobEnds("slurm/cpu", ("n1",)), {"nodeset": "slurm/cpu"}),
        (act.GetJob("7", 0.0), {"job_id": "7"}),
        (act.GetGang("job", "slurm", "g", 0.0), {"job": "slurm/g"}),
        (GetNodePods(NODE, "u1", "slurm", 0.0), {"node": "n1"}),
        (GetProvisioning(CLAIM, 0.0), {"persistentvolumeclaim": "slurm/c"}),
        (act.Relist("nodes", 0.0), {"source": "nodes"}),
    ],
    ids=lambda one: type(one).__name__,
)
def test_reads_are_logged_only_at_level_debug(look: act.Action, field: dict[str, str]) -> None:
    """While a lock waits, the Pods of its Node are listed up to 20 times a second."""
    info, debug = Bench("info"), Bench("debug")
    for one in (info, debug):
        one.telemetry.wrote(look, Done(look), "b", 0.1)
    assert info.lines() == []
    (line,) = debug.lines()
    assert line["event"] == "read"
    assert field.items() <= line.items()


def test_each_action_that_reads_is_in_the_test_above() -> None:
    reads = {kind for kind, traits in act.TRAITS.items() if traits.reads}
    (mark,) = test_reads_are_logged_only_at_level_debug.pytestmark  # type: ignore[attr-defined]
    assert reads == {type(look) for look, _ in mark.args[1]}


def test_a_read_that_proves_nothing_is_one_warning_a_minute(bench: Bench) -> None:
    """For example without the permission to get Nodes: then no Node counts as deleted."""
    for name in ("kn1", "kn2"):
        look = act.GetObject("Node", "", name, 0.0)
        bench.telemetry.wrote(look, Done(look, why="nodes is forbidden"), "b", 0.1)
    (line,) = bench.lines()
    assert (line["event"], line["level"], line["node"]) == ("read", "warning", "kn1")
    assert line["why"] == "nodes is forbidden"


def test_a_refusal_is_a_warning_with_the_answer_of_the_server(bench: Bench) -> None:
    bench.telemetry.wrote(DRAIN, Refused(DRAIN, "drained by root: bad DIMM"), BECAUSE, 0.1)
    (line,) = bench.lines()
    assert (line["level"], line["outcome"]) == ("warning", "refused")
    assert line["why"] == "drained by root: bad DIMM"


@pytest.mark.parametrize("action", [DRAIN, act.SetConditions(POD, ())], ids=["node", "Pod"])
def test_a_refusal_because_the_object_is_gone_is_no_fault(action: act.Action) -> None:
    """Most of these objects sunk-sync deleted itself, a moment before."""
    quiet, debug = Bench("info"), Bench("debug")
    for one in (quiet, debug):
        one.telemetry.wrote(action, Refused(action, "it is gone", missing=True), BECAUSE, 0.1)
    assert quiet.lines() == []
    (line,) = debug.lines()
    assert (line["outcome"], line["why"]) == ("refused", "it is gone")


def test_the_same_refusal_of_one_object_is_one_line_a_minute_with_a_count(bench: Bench) -> None:
    """Each change of a fact lets sunk-sync ask again."""
    other = act.Drain("n2", DRAIN.reason)
    for action in [DRAIN] * 50 + [other]:
        bench.telemetry.wrote(action, Refused(action, "Slurm says no"), BECAUSE, 0.1)
    bench.now_s += 61.0
    bench.telemetry.wrote(DRAIN, Refused(DRAIN, "Slurm says no"), BECAUSE, 0.1)
    told = [(one["slurm_node"], one.get("same_since_last_told", 0)) for one in bench.lines()]
    assert told == [("n1", 0), ("n2", 0), ("n1", 49)]


def test_a_late_answer_of_the_gate_is_a_line(bench: Bench) -> None:
    answer = act.AnswerGate(1, "n1", go=False, why="Pod ns/a")
    bench.telemetry.wrote(answer, Refused(answer, "the call has ended"), BECAUSE, 0.1)
    (line,) = bench.lines()
    assert (line["waits_for"], line["why"]) == ("Pod ns/a", "the call has ended")


def test_the_same_failure_of_1000_hosts_is_one_line_a_minute_with_a_count(bench: Bench) -> None:
    for number in range(1000):
        drain = act.Drain(f"n{number}", "k8s: x")
        bench.telemetry.wrote(drain, Unsure(drain, "timeout"), "b", 0.1)
    bench.now_s += 61.0
    bench.telemetry.wrote(DRAIN, Unsure(DRAIN, "timeout"), "b", 0.1)
    assert bench.metric("workqueue_retries_total", name="slurm") == 1001.0
    first, second = bench.lines()
    assert "same_since_last_told" not in first
    assert second["same_since_last_told"] == 999


def test_a_write_kept_by_policy_is_logged_once(bench: Bench) -> None:
    for _ in range(3):
        bench.telemetry.kept(DRAIN, "dry run", BECAUSE)
    bench.telemetry.kept(DRAIN, "not listed yet: nodes", BECAUSE)
    (line,) = bench.lines()
    assert (line["event"], line["why"], line["because"]) == ("not written", "dry run", BECAUSE)


REFERENCE = Reference("Pod", "slurm", "cpu-0", "u")


@pytest.mark.parametrize(
    "action",
    [Condemn(REFERENCE, "scale-in"), DeletePod(REFERENCE, "scale-in", drained=True)],
    ids=["condemn", "delete"],
)
def test_the_fields_of_an_action_do_not_hide_why_it_was_kept(
    bench: Bench, action: act.Action
) -> None:
    bench.telemetry.kept(action, "dry run", BECAUSE)
    bench.telemetry.wrote(action, Unsure(action, "timeout"), BECAUSE, 0.1)
    kept, _ = bench.lines()
    assert (kept["why"], kept["pending_deletion"]) == ("dry run", "scale-in")


def test_a_source_has_one_line_for_each_change(bench: Bench) -> None:
    tell = bench.telemetry.source
    tell(Confirmed("slurm_nodes", 1.0))
    tell(ListingStarted("slurm_nodes", 999.0, 1.0))
    assert bench.metric("sunk_sync_source_listed", source="slurm_nodes") == 0.0
    tell(ListingEnded("slurm_nodes"))
    assert bench.metric("sunk_sync_source_listed", source="slurm_nodes") == 1.0
    for _ in range(5):
        tell(Confirmed("slurm_nodes", 1000.0))
        tell(ListingStarted("slurm_nodes", 1000.0, 2.0))
        tell(ListingEnded("slurm_nodes"))
    for _ in range(3):
        tell(Lost("slurm_nodes", "connection refused"))
    bench.now_s += 60.0
    assert bench.metric("sunk_sync_source_listed", source="slurm_nodes") == 0.0
    assert bench.metric("sunk_sync_source_age_seconds", source="slurm_nodes") == 60.0
    for _ in range(3):
        tell(Lost("slurm_nodes", "connection refused", blind=True))
    tell(Confirmed("slurm_nodes", 1060.0))
    assert bench.metric("sunk_sync_source_age_seconds", source="slurm_nodes") == 0.0
    lines = bench.lines()
    assert [(line["level"], line["event"]) for line in lines] == [
        ("info", "source listed"),
        ("warning", "source lost"),
        ("error", "source cannot be read for a long time"),
        ("info", "source back"),
    ]
    assert lines[-1]["lost_for_seconds"] == 60.0


def test_a_source_that_was_never_listed_has_the_age_NaN(bench: Bench) -> None:
    """No alert fires on NaN."""
    assert 'sunk_sync_source_age_seconds{source="pods"} NaN' in bench.text()


def test_a_failed_rule_is_an_error_with_key_and_traceback_F7(bench: Bench) -> None:
    try:
        raise ValueError("odd Pod")
    except ValueError as error:
        bench.telemetry.rule_failed(("host", "n1"), "drain", error)
    assert bench.metric("sunk_sync_rule_failures_total", rule="drain") == 1.0
    (line,) = bench.lines()
    assert (line["level"], line["key"], line["rule"]) == ("error", "host n1", "drain")
    assert "ValueError: odd Pod" in line["exception"]


def test_alarms_and_queues_are_metrics(bench: Bench) -> None:
    telemetry = bench.telemetry
    telemetry.alarm_gauges.drains_held(7)
    telemetry.alarm_gauges.drains_held(8)
    telemetry.alarm_gauges.conflicts(2)
    telemetry.figures["sunk_sync_keys_out_of_service"] = 1
    telemetry.surprise(("host", "n1"), "drain", "nothing")
    telemetry.depth("slurm", 5)
    telemetry.added("slurm", 6)
    alarms = {
        "drains_held": 8,
        "conflicts": 2,
        "keys_out_of_service": 1,
        "audit_surprises_total": 1,
    }
    for name, value in alarms.items():
        assert bench.metric(f"sunk_sync_{name}") == value
    assert bench.metric("workqueue_depth", name="slurm") == 5.0
    assert bench.metric("workqueue_adds_total", name="slurm") == 6.0
    telemetry.alarm_gauges.drains_held(0)
    events = [line["event"] for line in bench.lines()]
    assert events == ["drains held", "conflicting claims", "audit surprise", "drains released"]


def test_alarms_of_pods_and_jobs_are_logged_at_start_and_end_P31_P21_P25(bench: Bench) -> None:
    alarm_gauges = bench.telemetry.alarm_gauges
    for count in (3, 4, 0):
        alarm_gauges.ends_held(count)
        alarm_gauges.jobs_kept([f"{number} k8s/ns/p/1" for number in range(count)])
        alarm_gauges.together(count, seconds=12.5)
        assert bench.metric("sunk_sync_pod_ends_held") == count
        assert bench.metric("sunk_sync_jobs_kept") == count
    assert bench.metric("sunk_sync_double_allocation_seconds_total") == 12.5
    assert [(line["level"], line["event"]) for line in bench.lines()] == [
        ("warning", "deletions of Pods held"),
        ("warning", "jobs not cancelled: sunk-sync cannot read their Pods"),
        ("warning", "jobs run beside Pods that still terminate"),
        ("info", "jobs not cancelled: sunk-sync cannot read their Pods"),
        ("info", "deletions of Pods released"),
        ("info", "sunk-sync can read the Pods of all jobs again"),
        ("info", "no job runs beside a Pod that still terminates"),
    ]


def test_kept_jobs_are_named_once_and_at_most_ten_in_a_line_P21(bench: Bench) -> None:
    alarm_gauges = bench.telemetry.alarm_gauges
    for count in (1, 1, 13, 5, 5):
        alarm_gauges.jobs_kept([f"{number} k8s/ns/p{number}/1" for number in range(count)])
    first, second = bench.lines()
    assert (first["jobs"], first["first"]) == (1, "0 k8s/ns/p0/1")
    named = [f"{number} k8s/ns/p{number}/1" for number in range(1, 11)]
    assert (second["jobs"], second["first"]) == (12, ", ".join(named))


@pytest.mark.parametrize(
    ("call", "outcome", "event"),
    [
        ("gate", "passed", "a job starts beside Pods that still terminate: its gate waited"),
        ("lock", "passed", "a job starts on a Node without the lock"),
        ("lock", "401", "hook call refused: no valid token"),
        ("lock", "go", ""),
        ("gate", "wait", ""),
    ],
)
def test_the_warning_about_a_call_names_what_the_call_asked_for_L1_L9(
    bench: Bench, call: str, outcome: str, event: str
) -> None:
    bench.telemetry.hooks.called(Called(call, Reply(200, {}, outcome, "7"), 0.1, "10.0.0.1"))
    told = [(line["level"], line["event"][: len(event)]) for line in bench.lines()]
    assert told == ([("warning", event)] if event else [])


def test_unheard_placeholders_are_one_warning_with_its_cure_and_one_end_L6(bench: Bench) -> None:
    alarm_gauges = bench.telemetry.alarm_gauges
    for count in (0, 12, 3, 0):
        alarm_gauges.unheard([f"{number} k8s/ns/p/1" for number in range(count)])
        assert bench.metric("sunk_sync_placeholders_unheard") == count
    began, ended = bench.lines()
    assert (began["level"], began["jobs"], ended["level"]) == ("warning", 12, "info")
    assert began["first"].count("k8s/ns/p/1") == 10
    assert "--hooks-url" in began["cure"]


def test_ends_of_pods_are_counted_by_reason_once_they_are_done(bench: Bench) -> None:
    end = act.EndPod(POD, "SlurmJobEnded", "Slurm job 7 ended: CANCELLED")
    for outcome in (Unsure(end, "timeout"), Done(end)):
        bench.telemetry.wrote(end, outcome, "b", 0.1)
    assert bench.metric("sunk_sync_pod_ends_total", reason="SlurmJobEnded") == 1.0


def test_differences_have_a_number_and_an_age_by_kind(bench: Bench) -> None:
    bench.telemetry.drift_gauges.show({"drain": (2, 9.0), "job": (0, 0.0)})
    assert bench.metric("sunk_sync_differences", kind="drain") == 2
    assert bench.metric("sunk_sync_oldest_difference_seconds", kind="drain") == 9
    assert bench.metric("sunk_sync_differences", kind="job") == 0


def test_exchanges_are_counted_as_rest_client_metrics_without_a_line(bench: Bench) -> None:
    bench.telemetry.exchange(
        Exchange(
            authority="slurm", method="GET", path="/nodes/", status="200", seconds=0.2,
            received_bytes=9,
        )
    )  # fmt: skip
    found = bench.metric("rest_client_requests_total", code="200", host="slurm", method="GET")
    assert found == 1.0
    assert bench.metric("sunk_sync_received_bytes_total", host="slurm", path="/nodes/") == 9.0
    assert bench.metric("sunk_sync_request_seconds_total", host="slurm", path="/nodes/") == 0.2
    assert bench.lines() == []


def test_the_expiry_of_the_token_is_a_metric_and_soon_a_warning_F5(bench: Bench) -> None:
    name = "slurm_token_expiry_timestamp_seconds"
    assert bench.metric(name) is None
    at = time.time() + 60.0
    bench.telemetry.token_expires(at)
    bench.telemetry.token_expires(at)
    assert bench.metric(name) == at
    (line,) = bench.lines()
    assert line["level"] == "warning"
    bench.telemetry.token_expires(None)
    assert bench.metric(name) is None


@pytest.mark.parametrize("at", [-1e30, 1e30, 0.0])
def test_an_impossible_expiry_is_logged_and_not_raised(bench: Bench, at: float) -> None:
    bench.telemetry.token_expires(at)
    assert bench.lines()[0]["event"] == "slurm token read"


def test_each_slurm_node_is_counted_once_by_its_worst_state() -> None:
    """Dashboards for SUNK expect these names."""
    states = [
        {"IDLE"}, {"IDLE", "DRAIN"}, {"DOWN", "DRAIN"}, {"MIXED", "NOT_RESPONDING"},
        {"ALLOCATED", "COMPLETING"}, {"IDLE", "MAINTENANCE"}, {"FUTURE"},
    ]  # fmt: skip
    counts = count_slurm_nodes([frozenset(state) for state in states])
    assert counts["slurm_nodes_total"] == 7
    assert {name.removeprefix("slurm_nodes_") for name, count in counts.items() if count == 1} == {
        "idle", "drain", "down", "mix", "not_responding", "comp", "maint",
    }  # fmt: skip


def test_every_metric_of_the_table_is_served(bench: Bench) -> None:
    telemetry = bench.telemetry
    telemetry.token_expires(time.time())
    telemetry.figures.update(count_slurm_nodes([frozenset({"IDLE"})] * 3))
    telemetry.wrote(DRAIN, Done(DRAIN), "b", 0.1)
    telemetry.figures["sunk_sync_slurm_metrics_duration_seconds"] = 0.2
    telemetry.figures["sunk_sync_trace_spans_dropped_total"] = 1
    show_all(telemetry.slurm_gauges)
    text = bench.text()
    labelled = telemetry.slurm_gauges.labelled()
    assert labelled is not None
    text += generate_latest(labelled).decode()
    for spec in SPECS:
        assert f"# TYPE {spec.name} {spec.kind}\n" in text, spec.name
        assert f"# HELP {spec.name} " in text, spec.name
    assert "slurm_nodes_total 3.0" in text


def test_a_nodeset_has_its_numbers_and_loses_them_when_it_is_gone(bench: Bench) -> None:
    counts = Counts(desired=4, replicas=3, available=1, idle=1, allocated=2, draining=1)
    bench.telemetry.node_set_gauges.show([node_set(4, counts=counts)])
    of = '{namespace="slurm",nodeset="cpu"}'
    shown = {line for line in bench.text().splitlines() if line.startswith("kube_sunk_nodeset_")}
    numbers = {"desired": 4, "current": 3, "unavailable": 3, "idle": 1, "drained": 1, "ready": 0}
    assert {f"kube_sunk_nodeset_{name}{of} {value}.0" for name, value in numbers.items()} <= shown
    bench.telemetry.node_set_gauges.show([])
    assert of not in bench.text()


def test_waiting_jobs_count_for_the_nodesets_that_can_run_them(bench: Bench) -> None:
    gauges = bench.telemetry.node_set_gauges
    gauges.show([node_set(4)])
    gauges.show_pending({
        Demand("gpu", "", "", waits_for_nodes=True): Waiting(2, 5),
        Demand("gpu", "cpu", "", waits_for_nodes=True): Waiting(1, 1),
        Demand("gpu", "h100", "", waits_for_nodes=True): Waiting(7, 7),
        Demand("gpu", "", "gpu", waits_for_nodes=True): Waiting(3, 3),
        Demand("gpu", "", "", waits_for_nodes=False): Waiting(9, 9),
    })  # fmt: skip
    text = bench.text()
    of = '{namespace="slurm",nodeset="cpu",partition="gpu"}'
    assert f"kube_sunk_nodeset_pending_jobs{of} 3.0" in text
    assert f"kube_sunk_nodeset_pending_nodes{of} 6.0" in text
    held = '{features="",gres="",partition="gpu",waits_for="other"}'
    assert f"sunk_sync_pending_jobs{held} 9.0" in text
    gauges.show_pending({})
    assert "partition" not in bench.text()


def test_every_metric_in_the_source_is_in_the_table() -> None:
    sources = Path(sunk_sync.__file__).parent.rglob("*.py")
    named = r'"((?:sunk_sync|slurm_token|workqueue|rest_client)_[a-z_]+)"'
    found = {name for path in sources for name in re.findall(named, path.read_text())}
    assert found <= {spec.name for spec in SPECS}


def test_the_longest_step_is_forgotten_after_two_minutes(bench: Bench) -> None:
    name = "sunk_sync_loop_longest_step_seconds"
    bench.telemetry.stepped(0.5, 10, 20)
    assert bench.metric(name) == 0.5
    bench.now_s += 61.0
    assert bench.metric(name) == 0.5
    bench.now_s += 61.0
    assert bench.metric(name) == 0.5
    assert bench.metric(name) == 0.0
    assert bench.metric("sunk_sync_decisions_total") == 10.0
    assert bench.metric("sunk_sync_news_total") == 20.0


def test_a_step_costs_less_than_5_us_of_CPU(bench: Bench) -> None:
    """With coverage on; the best of several runs, since the machine is shared."""

    def steps_s() -> float:
        begun = time.process_time()
        for _ in range(10_000):
            bench.telemetry.stepped(1e-5, 1, 1)
        return time.process_time() - begun

    assert min(steps_s() for _ in range(5)) / 10_000 < 5e-6


def test_texts_are_bounded_and_without_control_characters() -> None:
    assert clean("a\x1b[31m\n\u2028b") == "a [31m  b"
    assert len(clean("x" * 5000)) == 1001


def test_lone_surrogates_and_line_ends_make_one_valid_line(bench: Bench) -> None:
    bench.telemetry.wrote(DRAIN, Refused(DRAIN, "\ud800\n" + "y" * 9999), "b\r\nc", 0.1)
    (line,) = bench.lines()
    assert line["because"] == "b  c"
    assert len(line["why"]) <= 1001


def test_warnings_of_libraries_are_logged_and_lower_levels_are_not(bench: Bench) -> None:
    """Debug lines of an HTTP library may hold a token."""
    logging.getLogger("asyncio_chatter").info("GET /x X-SLURM-USER-TOKEN: s3cr3t")
    logging.getLogger("aiohttp").warning("odd %s", "thing")
    assert [line["event"] for line in bench.lines()] == ["odd thing"]


def test_a_record_that_cannot_be_formatted_is_logged_as_it_is(bench: Bench) -> None:
    record = logging.LogRecord("x", logging.ERROR, "f", 1, "odd %d", ("thing",), None)
    (handler,) = [one for one in logging.getLogger().handlers if type(one).__name__ == "_Libraries"]
    handler.emit(record)
    assert [line["event"] for line in bench.lines()] == ["odd %d"]


def test_close_removes_the_handler_of_libraries() -> None:
    before = len(logging.getLogger().handlers)
    Bench().close()
    assert len(logging.getLogger().handlers) == before


def test_a_full_pipe_drops_lines_and_does_not_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs_module, "LINES_WAITING_MAX", 100)
    monkeypatch.setattr(logs_module, "CLOSE_S", 0.05)
    reading, writing = os.pipe()
    writer = LineWriter(os.fdopen(writing, "w"))
    begun = time.perf_counter()
    for _ in range(1000):
        writer.msg("x" * 10_000)
    assert time.perf_counter() - begun < 20.0
    assert writer.dropped > 800
    writer.close()
    os.close(reading)


def test_close_writes_all_waiting_lines() -> None:
    file = io.StringIO()
    writer = LineWriter(file)
    for number in range(1000):
        writer.msg(str(number))
    writer.close()
    assert len(file.getvalue().splitlines()) == 1000


def test_the_console_format_is_plain_text() -> None:
    file = io.StringIO()
    logs = Logs("info", "console", file)
    logs.log.info("write", slurm_node="n1", because=BECAUSE)
    logs.close()
    assert "slurm_node=n1" in file.getvalue()
    assert BECAUSE in file.getvalue()
