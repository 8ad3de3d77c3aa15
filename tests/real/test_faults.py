"""Rows F3, F4, F5, F8, F10 and `Unknown` of M2 with the real servers.

Each test checks the log, /readyz?verbose and the metrics, and the recovery. F1 is in test_kill.py,
F11 with M8 in test_rows_mirror.py.
"""

import signal
import time
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from itertools import pairwise

import pytest

from tests.real.conftest import Serve, with_settings
from tests.real.service import NAMESPACE, Service
from tests.real.stage import Host, Stage, eventually, stays
from tests.real.testbed.kube_objects import Object

STAGE_HOSTS, STAGE_CROWD = 24, 40
pytestmark = pytest.mark.real

CORDONED = "k8s: node cordoned"
EXPIRY = "slurm_token_expiry_timestamp_seconds"
FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"


def until_lost(service: Service, source: str, *, since: int, within_s: float = 15) -> None:
    """Wait until log, /readyz?verbose and metric report it; /readyz and /livez stay 200."""
    lost = partial(service.lines, "source lost", source=source, since=since)
    eventually(lost, f"{source} lost", within_s=within_s)
    name = {"slurm_nodes": "slurm", "nodes": "kubernetes: nodes"}[source]
    eventually(
        lambda: f"{name}: degraded: cannot be read: " in service.readyz_verbose()[1], "shown"
    )
    assert service.readyz()[0] == 200
    assert service.livez()[0] == 200
    assert service.metric("sunk_sync_source_listed", source=source) == 0


def until_back(service: Service, source: str, *, since: int, within_s: float = 15) -> None:
    """Wait until the same three report the recovery."""
    back = partial(service.lines, "source back", source=source, since=since)
    eventually(back, f"{source} back", within_s=within_s)
    eventually(lambda: "degraded" not in service.readyz_verbose()[1], "nothing degraded")
    assert service.metric("sunk_sync_source_listed", source=source) == 1


def until_synced(host: Host) -> None:
    """Check that a cordon and an uncordon arrive again."""
    host.cordon()
    host.until_drained(CORDONED)
    until_lifted(host)


def until_lifted(host: Host) -> None:
    host.uncordon()
    host.until_free()


def test_a_restart_of_the_apiserver_loses_nothing_F3(
    stage: Stage, service: Service, host: Host
) -> None:
    """The resourceVersions of the watches are too old afterwards (410)."""
    kube = stage.bed.kube
    host.cordon()
    host.until_drained(CORDONED)
    theirs = stage.take()
    theirs.update(state="drain", reason="fan broken")
    eventually(lambda: service.writes("drain", slurm_node=host.name), "its line in the log")
    since, before = service.mark(), (host.drain, theirs.drain)
    for number in range(20):  # the restarted server keeps no events from before its start
        kube.create({"kind": "Namespace", "metadata": {"name": f"age-{time.time_ns()}-{number}"}})
    kube.stop()
    until_lost(service, "nodes", since=since)
    assert (host.drain, theirs.drain) == before
    kube.start()
    until_back(service, "nodes", since=since)
    assert (host.drain, theirs.drain) == before
    assert service.writes("drain", since=since) == []
    assert service.writes("undrain", since=since) == []
    until_lifted(host)
    until_synced(host)


@pytest.mark.night("an outage of twenty seconds")
def test_a_long_outage_of_the_apiserver_is_healed_within_seconds_F3(
    stage: Stage, service: Service, host: Host
) -> None:
    since = service.mark()
    stage.bed.kube.stop()
    time.sleep(20)
    stage.bed.kube.start()
    host.cordon()
    host.until_drained(CORDONED, within_s=8)
    until_back(service, "nodes", since=since, within_s=8)


def test_a_hanging_apiserver_delays_a_cordon_F3(stage: Stage, service: Service, host: Host) -> None:
    daemon = stage.bed.kube.daemons["kube-apiserver"]
    daemon.pause()
    time.sleep(2)
    assert service.livez()[0] == 200
    daemon.resume()
    until_synced(host)


def test_a_stopped_slurmctld_is_reported_and_recovers_F4(
    stage: Stage, service: Service, host: Host
) -> None:
    """slurmrestd reports this after ten seconds."""
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
    until_lifted(host)


def test_a_stopped_slurmrestd_is_reported_and_recovers_F4(
    stage: Stage, service: Service, host: Host
) -> None:
    slurm = stage.bed.slurm
    since = service.mark()
    slurm.stop_slurmrestd()
    until_lost(service, "slurm_nodes", since=since, within_s=5)
    host.cordon()
    time.sleep(1)
    slurm.start_slurmrestd()
    host.until_drained(CORDONED)
    until_back(service, "slurm_nodes", since=since)
    until_lifted(host)


def test_a_slow_slurmrestd_loses_nothing_F4(stage: Stage, service: Service, host: Host) -> None:
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
    until_lifted(host)


@pytest.mark.night("an outage of more than a minute")
def test_conditions_are_unknown_after_a_minute_without_slurmctld_F4_M2(
    stage: Stage, serve: Serve, host: Host
) -> None:
    """This test takes 75 s."""
    service = serve()
    host.until(lambda: len(host.node_conditions) == 4)
    since = service.mark()
    stage.bed.slurm.stop_slurmctld()
    unknown = dict.fromkeys(("Cordon", "Drain", "NotResponding", "Running"), "Unknown")
    eventually(lambda: host.node_conditions == unknown, "all Unknown", within_s=90)
    assert service.lines("source cannot be read for a long time", since=since, level="error")
    stage.bed.slurm.start_slurmctld()
    until_back(service, "slurm_nodes", since=since, within_s=30)
    eventually(lambda: set(host.node_conditions.values()) == {"False"}, "known again", within_s=20)
    stage.quit()  # its log has an expected error


def test_an_expired_token_is_reported_and_a_new_one_is_used_F5(
    stage: Stage, service: Service, host: Host
) -> None:
    slurm = stage.bed.slurm
    since = service.mark()
    expired = slurm.token(lifespan_s=1)
    time.sleep(2)
    service.put_token(expired)
    until_lost(service, "slurm_nodes", since=since)
    eventually(lambda: 0 < service.metric(EXPIRY) < time.time(), "the metric in the past")
    host.cordon()
    service.put_token(slurm.token())
    host.until_drained(CORDONED, within_s=8)
    until_back(service, "slurm_nodes", since=since)
    eventually(lambda: service.metric(EXPIRY) > time.time() + 3000, "the metric in the future")
    until_lifted(host)


def test_a_rotated_token_fails_no_request_F5(stage: Stage, service: Service, host: Host) -> None:
    since = service.mark()
    failed = _failed(service)
    service.put_token(stage.bed.slurm.token(lifespan_s=7200))
    eventually(lambda: service.metric(EXPIRY) > time.time() + 7000, "the new one in use")
    until_synced(host)
    assert _failed(service) == failed
    assert service.lines("source lost", since=since) == []


def _failed(service: Service) -> float:
    """Return the number of failed requests to slurmrestd."""
    return sum(
        float(sample.value)
        for sample in service.metrics()
        if sample.name == "rest_client_requests_total"
        and sample.labels["host"] == "slurm"
        and sample.labels["code"] not in ("200", "304")
    )


REJECTION: Object = {"metadata": {"name": "reject-us"}}
NO_SEATS = {
    "nominalConcurrencyShares": 0,
    "lendablePercent": 0,
    "borrowingLimitPercent": 0,
    "limitResponse": {"type": "Reject"},
}
ACCOUNT = {
    "kind": "ServiceAccount",
    "serviceAccount": {"name": "sunk-sync", "namespace": NAMESPACE},
}
NODE_PATCHES = {
    "verbs": ["patch"],
    "apiGroups": [""],
    "resources": ["nodes", "nodes/status"],
    "clusterScope": True,
}
FAIRNESS: dict[str, Object] = {
    "prioritylevelconfigurations": {"spec": {"type": "Limited", "limited": NO_SEATS}},
    "flowschemas": {
        "spec": {
            "priorityLevelConfiguration": REJECTION["metadata"],
            "matchingPrecedence": 2,
            "rules": [{"subjects": [ACCOUNT], "resourceRules": [NODE_PATCHES]}],
        }
    },
}


@pytest.fixture
def rejecting(stage: Stage) -> Iterator[None]:
    """Let priority and fairness of the API server reject our patches of Nodes with 429."""
    rest = stage.bed.kube.rest
    for collection, spec in FAIRNESS.items():
        rest.call("POST", f"{FLOW}/{collection}", {**REJECTION, **spec})
    yield
    for collection in reversed(FAIRNESS):
        rest.call("DELETE", f"{FLOW}/{collection}/reject-us")


@with_settings(log_level="debug")
@pytest.mark.usefixtures("service", "rejecting")
def test_429_is_honoured_and_retried_F8(stage: Stage, service: Service) -> None:
    """Most of 40 Nodes are rejected; none is retried before Retry-After."""
    time.sleep(1)  # fairness applies a moment after its objects are created
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
"""Delay of a log line on a busy machine."""


def _tries_s(service: Service, name: str, *, since: int) -> list[float]:
    """Return when a write of this Node's conditions succeeded or failed."""
    lines = service.writes("set-conditions", node=name, since=since)
    return [datetime.fromisoformat(line["timestamp"]).timestamp() for line in lines]


def test_sigterm_finishes_writes_in_flight_F10(stage: Stage, serve: Serve, host: Host) -> None:
    service = serve()
    daemon = stage.bed.slurm.daemons["slurmrestd"]
    daemon.pause()
    host.cordon()
    time.sleep(1)
    service.send()
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
def test_without_writes_it_ends_within_a_second_F10(serve: Serve, a_signal: signal.Signals) -> None:
    service = serve()
    service.send(a_signal)
    began_s = time.monotonic()
    assert service.wait_end() == 0
    assert time.monotonic() - began_s < 2
    assert service.lines(level="error") == []


def test_it_is_not_ready_while_it_stops_F10(stage: Stage, serve: Serve, host: Host) -> None:
    service = serve()
    daemon = stage.bed.slurm.daemons["slurmrestd"]
    daemon.pause()
    try:
        host.cordon()
        time.sleep(1)
        service.send()
        eventually(lambda: service.readyz()[0] == 503, "not ready", within_s=3)
        assert "shutdown: failed: stopping" in service.readyz_verbose()[1]
    finally:
        daemon.resume()
    assert service.wait_end() == 0
