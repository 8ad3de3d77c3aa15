"""Rows F3, F4, F5, F8, F10 and M2's `Unknown` against the real servers.

Each claims what the log, /readyz?verbose and the metrics say, and that it heals. F1 is
test_kill.py, F11 stands with M8 in test_rows_mirror.py.
"""

import signal
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

import pytest

from tests.real.conftest import Serve
from tests.real.service import NAMESPACE, Service
from tests.real.stage import Host, Stage, eventually, stays
from tests.real.testbed.kube_objects import Object

pytestmark = pytest.mark.real

CORDONED = "k8s: node cordoned"
FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"


def until_lost(service: Service, source: str, *, since: int, within_s: float = 15) -> None:
    """The log, /readyz?verbose and the metric say so; /readyz and /livez stay 200."""
    eventually(
        lambda: service.lines("source lost", source=source, since=since),
        f"{source} lost",
        within_s=within_s,
    )
    name = {"slurm_nodes": "slurm", "nodes": "kubernetes: nodes"}[source]
    eventually(lambda: f"{name}: degraded: cannot be read: " in service.readyz_verbose()[1], "told")
    assert service.readyz()[0] == 200
    assert service.livez()[0] == 200
    assert service.metric("sunk_sync_source_listed", source=source) == 0


def until_back(service: Service, source: str, *, since: int, within_s: float = 15) -> None:
    """The same three say that it heals."""
    eventually(
        lambda: service.lines("source back", source=source, since=since),
        f"{source} back",
        within_s=within_s,
    )
    eventually(lambda: "degraded" not in service.readyz_verbose()[1], "nothing degraded")
    assert service.metric("sunk_sync_source_listed", source=source) == 1


def until_workloads(host: Host) -> None:
    """Cordon and uncordon arrive again."""
    host.cordon()
    host.until_drained(CORDONED)
    host.uncordon()
    host.until_free()


# --- F3


def test_F03_apiserver_restarted(stage: Stage, service: Service, host: Host) -> None:
    """The watches break and their resourceVersions are too old (410): listed anew, nothing lost.

    What had been cordoned stays drained from first to last.
    """
    kube = stage.bed.kube
    host.cordon()
    host.until_drained(CORDONED)
    theirs = stage.take()
    theirs.update(state="drain", reason="fan broken")
    eventually(lambda: service.writes("drain", slurm_node=host.name), "its line in the log")
    since, before = service.mark(), (host.drain, theirs.drain)
    _age_versions(stage)
    kube.stop()
    until_lost(service, "nodes", since=since)
    assert (host.drain, theirs.drain) == before
    kube.start()
    until_back(service, "nodes", since=since)
    assert (host.drain, theirs.drain) == before
    assert service.writes("drain", since=since) == []
    assert service.writes("undrain", since=since) == []
    host.uncordon()
    host.until_free()
    until_workloads(host)


def _age_versions(stage: Stage) -> None:
    """Let the world move on: the restarted server keeps no events older than its start."""
    kube = stage.bed.kube
    for number in range(20):
        kube.create({"kind": "Namespace", "metadata": {"name": f"age-{time.time_ns()}-{number}"}})


def test_F03_a_long_outage_of_the_apiserver_is_healed_within_seconds(
    stage: Stage, service: Service, host: Host
) -> None:
    """20 s away: by then the attempts are seconds apart, not half minutes."""
    since = service.mark()
    stage.bed.kube.stop()
    time.sleep(20)
    stage.bed.kube.start()
    host.cordon()
    host.until_drained(CORDONED, within_s=8)
    until_back(service, "nodes", since=since, within_s=8)


def test_F03_apiserver_that_hangs(stage: Stage, service: Service, host: Host) -> None:
    """SIGSTOP: connections stand, nothing answers; afterwards the cordon arrives."""
    daemon = stage.bed.kube.daemons["kube-apiserver"]
    daemon.pause()
    time.sleep(2)
    assert service.livez()[0] == 200
    daemon.resume()
    until_workloads(host)


# --- F4


def test_F04_slurmctld_stopped(stage: Stage, service: Service, host: Host) -> None:
    """slurmrestd answers after ten seconds that nobody is there; what waits is done after."""
    other = stage.take()
    other.cordon()
    other.until_drained(CORDONED)
    since = service.mark()
    stage.bed.slurm.stop_slurmctld()
    host.cordon()
    until_lost(service, "slurm_nodes", since=since, within_s=30)
    status, text = service.readyz_verbose()
    assert status == 200
    assert "kubernetes: nodes: ok" in text
    other.uncordon()
    stage.bed.slurm.start_slurmctld()
    until_back(service, "slurm_nodes", since=since, within_s=30)
    host.until_drained(CORDONED)
    other.until_free()
    host.uncordon()
    host.until_free()


def test_F04_slurmrestd_stopped(stage: Stage, service: Service, host: Host) -> None:
    """Refused connections: told at once, healed within the backoff of a few seconds."""
    slurm = stage.bed.slurm
    since = service.mark()
    slurm.stop_slurmrestd()
    until_lost(service, "slurm_nodes", since=since, within_s=5)
    host.cordon()
    time.sleep(1)
    slurm.start_slurmrestd()
    host.until_drained(CORDONED)
    until_back(service, "slurm_nodes", since=since)
    host.uncordon()
    host.until_free()


def test_F04_slurmrestd_slow(stage: Stage, service: Service, host: Host) -> None:
    """It hangs for three seconds: nothing is lost, nothing is done twice, the rest goes on."""
    daemon = stage.bed.slurm.daemons["slurmrestd"]
    daemon.pause()
    host.cordon()
    time.sleep(3)
    assert service.livez()[0] == 200
    assert "kubernetes: nodes: ok" in service.readyz_verbose()[1]
    daemon.resume()
    host.until_drained(CORDONED)
    assert stays(lambda: host.drained_as(CORDONED), for_s=0.5)
    assert len(service.writes("drain", slurm_node=host.name, outcome="done")) == 1
    host.uncordon()
    host.until_free()


def test_F04_M02_unknown_after_a_minute_without_slurmctld(
    stage: Stage, serve: Serve, host: Host
) -> None:
    """All four conditions of every Node; back with the first answer. Takes 75 s."""
    service = serve()
    host.until(lambda: len(host.node_conditions) == 4)
    since = service.mark()
    stage.bed.slurm.stop_slurmctld()
    unknown = dict.fromkeys(("Cordon", "Drain", "NotResponding", "Running"), "Unknown")
    eventually(lambda: host.node_conditions == unknown, "all Unknown", within_s=90)
    assert service.lines("source unreadable for long", since=since, level="error")
    stage.bed.slurm.start_slurmctld()
    until_back(service, "slurm_nodes", since=since, within_s=30)
    eventually(lambda: set(host.node_conditions.values()) == {"False"}, "known again", within_s=20)
    stage.quit()  # its log holds an error, rightly


# --- F5


def test_F05_an_expired_token_then_a_good_one(stage: Stage, service: Service, host: Host) -> None:
    """Told with the cause; the metric shows when it ran out; the new file is taken at once."""
    slurm = stage.bed.slurm
    since = service.mark()
    expired = slurm.token(lifespan_s=1)
    time.sleep(2)
    service.put_token(expired)
    until_lost(service, "slurm_nodes", since=since)
    eventually(
        lambda: 0 < service.metric("slurm_token_expiry_timestamp_seconds") < time.time(),
        "the metric in the past",
    )
    host.cordon()
    service.put_token(slurm.token())
    host.until_drained(CORDONED, within_s=8)
    until_back(service, "slurm_nodes", since=since)
    eventually(
        lambda: service.metric("slurm_token_expiry_timestamp_seconds") > time.time() + 3000,
        "the metric in the future",
    )
    host.uncordon()
    host.until_free()


def test_F05_a_rotated_token_is_taken_without_a_hitch(
    stage: Stage, service: Service, host: Host
) -> None:
    """The file is replaced while the old token still holds: no request fails."""
    since = service.mark()
    failed = _failed(service)
    service.put_token(stage.bed.slurm.token(lifespan_s=7200))
    eventually(
        lambda: service.metric("slurm_token_expiry_timestamp_seconds") > time.time() + 7000,
        "the new one in use",
    )
    until_workloads(host)
    assert _failed(service) == failed
    assert service.lines("source lost", since=since) == []


def _failed(service: Service) -> float:
    """Requests to slurmrestd that did not end well."""
    return sum(
        float(sample.value)
        for sample in service.metrics()
        if sample.name == "rest_client_requests_total"
        and sample.labels["host"] == "slurm"
        and sample.labels["code"] not in ("200", "304")
    )


# --- F8


@pytest.fixture
def rejecting(stage: Stage) -> Iterator[None]:
    """The API server's own priority and fairness rejects our patches of Nodes: 429."""
    rest = stage.bed.kube.rest
    for collection, an_object in _fairness():
        rest.call("POST", f"{FLOW}/{collection}", an_object)
    yield
    _let_through(stage)


def _let_through(stage: Stage) -> None:
    for collection, an_object in reversed(_fairness()):
        name = an_object["metadata"]["name"]
        found = stage.bed.kube.rest.call("GET", f"{FLOW}/{collection}")["items"]
        if name in {one["metadata"]["name"] for one in found}:
            stage.bed.kube.rest.call("DELETE", f"{FLOW}/{collection}/{name}")


def _fairness() -> list[tuple[str, Object]]:
    """A level without seats and a flow of exactly our patches of Nodes."""
    subject = {
        "kind": "ServiceAccount",
        "serviceAccount": {"name": "sunk-sync", "namespace": NAMESPACE},
    }
    what = {
        "verbs": ["patch"],
        "apiGroups": [""],
        "resources": ["nodes", "nodes/status"],
        "clusterScope": True,
    }
    level = {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": 0,
            "lendablePercent": 0,
            "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Reject"},
        },
    }
    kinds = {"apiVersion": "flowcontrol.apiserver.k8s.io/v1"}
    meta = {"metadata": {"name": "reject-us"}}
    flow = {
        "priorityLevelConfiguration": {"name": "reject-us"},
        "matchingPrecedence": 2,
        "rules": [{"subjects": [subject], "resourceRules": [what]}],
    }
    return [
        (
            "prioritylevelconfigurations",
            {**kinds, **meta, "kind": "PriorityLevelConfiguration", "spec": level},
        ),
        ("flowschemas", {**kinds, **meta, "kind": "FlowSchema", "spec": flow}),
    ]


def test_F08_429_is_honoured_and_tried_again(
    request: pytest.FixtureRequest, stage: Stage, serve: Serve
) -> None:
    """40 Nodes to write at once: most are rejected, none is tried again before Retry-After (one
    second at least), and all is done in the end.
    """
    service = serve(log_level="debug")
    request.getfixturevalue("rejecting")
    time.sleep(1)  # fairness counts a moment after its objects are made
    hosts = stage.crowd[:40]
    names = [host.name for host in hosts]
    since = service.mark()
    stage.bed.slurm.update_slurm_node(",".join(names), state=["DRAIN"], reason="fan broken")
    shown = ("fan broken", "fan broken")
    for host in hosts:
        host.until(lambda host=host: host.annotation("drain") == shown, within_s=60)  # type: ignore[misc]
        host.until(lambda host=host: host.node_conditions["Drain"] == "True", within_s=60)  # type: ignore[misc]
    tries = [_tries_s(service, name, since=since) for name in names]
    assert sum(len(times) > 1 for times in tries) > 5
    gaps = [later - earlier for times in tries for earlier, later in pairwise(times)]
    assert min(gaps) >= 1.0 - LINE_LATE_S
    stage.bed.slurm.update_slurm_node(",".join(names), state=["UNDRAIN"])


LINE_LATE_S = 0.2
"""A line of the log may be written so much after what it tells, on a busy machine."""


def _tries_s(service: Service, name: str, *, since: int) -> list[float]:
    """When the conditions of this Node were written or tried in vain."""
    lines = service.writes("set-conditions", node=name, since=since)
    return [datetime.fromisoformat(line["timestamp"]).timestamp() for line in lines]


# --- F10


def test_F10_sigterm_finishes_what_is_in_flight(stage: Stage, serve: Serve, host: Host) -> None:
    """slurmrestd hangs while the drain is under way: it is waited for, told, and exit is 0."""
    service = serve()
    daemon = stage.bed.slurm.daemons["slurmrestd"]
    daemon.pause()
    host.cordon()
    time.sleep(1)
    service.begin_to_end()
    time.sleep(1)
    assert service.running
    assert service.lines("stopping")
    daemon.resume()
    began_s = time.monotonic()
    assert service.wait_end() == 0
    assert time.monotonic() - began_s < 5
    assert host.drained_as(CORDONED)
    assert service.writes("drain", slurm_node=host.name, outcome="done")
    assert service.lines()[-1]["event"] == "stopped"
    host.uncordon()
    serve()
    host.until_free()


@pytest.mark.parametrize("a_signal", [signal.SIGTERM, signal.SIGINT])
def test_F10_quiet_it_ends_within_a_second(serve: Serve, a_signal: signal.Signals) -> None:
    """Exit code 0 and no error in the log."""
    service = serve()
    service.send(a_signal)
    began_s = time.monotonic()
    assert service.wait_end() == 0
    assert time.monotonic() - began_s < 2
    assert service.lines(level="error") == []


def test_F10_not_ready_while_it_stops(stage: Stage, serve: Serve, host: Host) -> None:
    """/readyz turns 503 and names the shutdown, so that nobody counts on it."""
    service = serve()
    daemon = stage.bed.slurm.daemons["slurmrestd"]
    daemon.pause()
    try:
        host.cordon()
        time.sleep(1)
        service.begin_to_end()
        eventually(lambda: service.readyz()[0] == 503, "not ready", within_s=3)
        assert "shutdown: failed: stopping" in service.readyz_verbose()[1]
    finally:
        daemon.resume()
    assert service.wait_end() == 0
