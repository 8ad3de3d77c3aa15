"""Rows S13 to S20 with the real servers: what is never touched, and what is held."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest

from tests.real.conftest import Serve, with_settings
from tests.real.service import NAMESPACE, QUICK, Service
from tests.real.stage import Host, Stage, eventually, stays
from tests.real.testbed.kube_objects import conditions

STAGE_HOSTS = 110
pytestmark = [pytest.mark.real, pytest.mark.usefixtures("service")]

CORDONED = "k8s: node cordoned"
TERMINATED = "k8s: pod terminated"
ROLE = "sunk-sync-slurmd"
GETTERS = (ROLE, "sunk-sync-scheduler")
"""Both allow the account to read Pods by name."""
READERS = (ROLE, "sunk-sync-work")
"""Both allow the account to list Pods here, where slurmd Pods and workload share a namespace."""
RBAC = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"


@pytest.mark.parametrize("state", ["DOWN", "FAIL"])
def test_a_node_set_down_or_fail_keeps_its_state_and_reason_S13(host: Host, state: str) -> None:
    host.update(state=state.lower(), reason="psu burnt")
    host.until(lambda: state.capitalize() in host.pod_states)
    theirs = host.drain
    host.cordon()
    assert stays(lambda: host.drain == theirs and state in host.state)
    host.update(state="resume")
    host.until_drained(CORDONED)


def test_a_node_in_state_unknown_is_not_touched_S13(host: Host) -> None:
    """After a restart of slurmctld, until its slurmd registers."""
    slurm = host.bed.slurm
    slurm.stop_slurmd(host.name)
    slurm.restart_slurmctld()
    host.until(lambda: "UNKNOWN" in host.state)
    host.until(lambda: "Unknown" in host.pod_states)
    host.cordon()
    assert stays(lambda: "UNKNOWN" in host.state and host.reason == "")
    slurm.start_slurmd(host.name)
    host.until_drained(CORDONED)


def test_a_pod_is_not_marked_drained_until_slurmctld_says_whether_jobs_run_S6(host: Host) -> None:
    """A node whose CPUs are all in use is UNKNOWN after a restart, until its slurmd answers."""
    slurm = host.bed.slurm
    cpus = next(one["cpus"] for one in slurm.slurm_nodes() if one["name"] == host.name)
    job = host.run_job("-c", str(cpus))
    host.until(lambda: "ALLOCATED" in host.state)
    host.annotate_pod(pending_deletion="scale-down")
    host.until_drained("k8s: pod pending deletion: scale-down")
    slurm.stop_slurmd(host.name)
    slurm.restart_slurmctld()
    host.until(lambda: {"UNKNOWN", "DRAIN"} <= host.state)
    host.until(lambda: host.node_conditions["Running"] == "Unknown")
    assert stays(lambda: host.annotation("drained")[0] is None)
    slurm.start_slurmd(host.name)
    host.until(lambda: "ALLOCATED" in host.state)
    assert stays(lambda: host.annotation("drained")[0] is None)
    host.cancel(job)


def test_a_node_with_an_invalid_registration_is_not_touched_S13_S2(host: Host) -> None:
    """slurmctld replaces our reason by its own, which is then foreign."""
    host.cordon()
    host.until_drained(CORDONED)
    host.bed.slurm.report_gpus(host.name, one_only=True)
    try:
        host.until(lambda: "INVALID_REG" in host.state)
        host.until(lambda: "InvalidReg" in host.pod_states)
        theirs = host.drain
        assert theirs[1].startswith("gres/gpu count reported lower")
        host.uncordon()
        assert stays(lambda: host.drain == theirs, for_s=0.6)
        host.update(reason="k8s: put back by hand")
        ours = host.drain
        assert stays(lambda: host.drain == ours and "INVALID_REG" in host.state)
    finally:
        host.bed.slurm.report_gpus(host.name, one_only=False)
    host.until(lambda: "INVALID_REG" not in host.state)
    host.until_free()


def test_not_responding_alone_prevents_no_drain_S13(host: Host) -> None:
    host.bed.slurm.stop_slurmd(host.name)
    host.update(state="down", reason="x")
    host.update(state="resume")
    host.until(lambda: host.state == {"IDLE", "NOT_RESPONDING"})
    host.cordon()
    host.until_drained(CORDONED)
    assert "NOT_RESPONDING" in host.state
    host.until(lambda: host.node_conditions["NotResponding"] == "True")
    host.bed.slurm.start_slurmd(host.name)


def test_an_existing_drain_with_our_reason_causes_no_write_S14(
    stage: Stage, serve: Serve, host: Host
) -> None:
    """None either while sunk-sync still reads by name whether a Pod is gone."""
    serve()
    second = stage.take()
    for one in (host, second):
        one.until(lambda one=one: one.mark)  # type: ignore[misc]
        one.cordon()
    second.delete_pod()
    host.until_drained(CORDONED)
    second.until_drained(TERMINATED)
    stage.quit()
    before = host.drain, second.drain
    time.sleep(1.1)  # slurmctld's times have whole seconds
    service = serve()
    assert stays(lambda: (host.drain, second.drain) == before, for_s=0.6)
    assert service.writes(slurm_node=host.name, action="drain") == []
    assert service.writes(slurm_node=second.name, action="drain") == []


def test_a_drain_with_an_empty_reason_is_never_touched_S15(host: Host) -> None:
    """slurmrestd accepts a DRAIN without a reason."""
    host.bed.slurm.update_slurm_node(host.name, state=["DRAIN"])
    host.until(lambda: host.node_conditions.get("Cordon") == "True")
    theirs = host.drain
    assert theirs[:2] == (True, "")
    host.cordon()
    assert stays(lambda: host.drain == theirs)
    host.uncordon()
    assert stays(lambda: host.drain == theirs)
    host.until(lambda: host.annotation("drain") == ("(no reason given)", "(no reason given)"))


def test_a_reason_is_sanitised_before_the_write_S17(host: Host) -> None:
    hostile = 'a\x00b\n"c" #d \\e \u202e\u2028 RealMemory=1 ' + "é" * 400
    host.cordon(reason=hostile.replace("\x00", "\x01"))
    host.until(lambda: "DRAIN" in host.state)
    text = host.reason
    assert text.startswith("k8s: node cordoned: a b 'c' d /e RealMemory=1 éé")
    assert len(text) == 256
    assert text.isprintable()
    shown = host.bed.slurm.scontrol("show", "node", host.name)
    assert shown.count("Reason=") == 1
    before = host.drain
    assert stays(lambda: host.drain == before)


def test_slurmctld_keeps_a_sanitised_reason_over_a_restart_S17(host: Host) -> None:
    host.cordon(reason="ä" * 300)
    host.until(lambda: "DRAIN" in host.state)
    text = host.reason
    host.bed.slurm.restart_slurmctld()
    host.until(lambda: host.drained_as(text))
    host.uncordon()
    host.until_free()


def test_a_node_unknown_to_kubernetes_is_never_touched_S18(
    stage: Stage, serve: Serve, host: Host
) -> None:
    stage.quit()
    host.delete_pod()
    host.bed.kube.delete_node(host.name)
    host.update(comment="")
    host.update(state="drain", reason="k8s: looks like ours")
    before = host.drain
    serve()
    assert stays(lambda: host.drain == before and host.comment == "")
    host.update(state="undrain")
    assert stays(lambda: "DRAIN" not in host.state and host.comment == "")


def test_two_living_pods_that_claim_one_node_stop_all_writes_S16(
    host: Host, service: Service
) -> None:
    host.until(lambda: host.mark)
    host.create_pod(name=f"other-{host.name}")
    host.until(lambda: "SlurmNodeConflict" in host.events())
    events = host.events()
    assert f"slurm/other-{host.name}" in events
    assert f"slurm/{host.pod_name}" in events
    eventually(lambda: service.metric("sunk_sync_conflicts") >= 1, "the metric")
    assert service.lines("conflicting claims")
    host.until(lambda: "SlurmNodeConflict" in conditions(host.pod))
    before = host.drain
    host.annotate_pod(cordon="true")
    host.cordon()
    assert stays(lambda: host.drain == before)
    host.bed.kube.delete_pod(f"other-{host.name}", NAMESPACE)
    host.until_drained(CORDONED)
    host.until(lambda: "SlurmNodeConflict" not in conditions(host.pod))
    eventually(lambda: service.metric("sunk_sync_conflicts") == 0, "the metric back")


def test_a_pod_that_failed_or_succeeded_claims_nothing_S16(host: Host) -> None:
    for phase in ("Failed", "Succeeded"):
        name = f"{phase.lower()}-{host.name}"
        host.create_pod(name=name, annotations={"testbed/start-delay-s": "inf"})
        host.bed.kube.end_pod(name, NAMESPACE, phase=phase)
    time.sleep(0.3)
    host.cordon()
    host.until_drained(CORDONED)
    host.uncordon()
    host.until_free()


def test_a_terminating_pod_yields_to_its_replacement_S16(host: Host) -> None:
    host.until(lambda: host.mark)
    host.delete_pod(slowly=True)
    host.until_drained("k8s: pod terminating")
    name = f"new-{host.name}"
    host.create_pod(name=name)
    host.until_free()
    host.until(lambda: host.mark["pod"] == name)
    host.let_pod_end()
    assert stays(lambda: host.free)


def test_two_nodes_that_claim_one_slurm_node_stop_all_writes_S16(stage: Stage, host: Host) -> None:
    other = stage.take()
    for one in (host, other):
        one.until(lambda one=one: one.mark)  # type: ignore[misc]
        one.delete_pod()
        one.until_drained(TERMINATED)
    before = host.drain
    other.annotate_node(slurm_node=host.name)
    host.annotate_node(slurm_node=host.name)
    describe = ("describe", "node", other.name)
    other.until(lambda: "SlurmNodeConflict" in stage.bed.kube.kubectl(*describe))
    host.cordon()
    assert stays(lambda: host.drain == before)
    other.annotate_node(slurm_node=None)
    host.create_pod()
    host.until_drained(CORDONED)


class TestBreaker:
    """At most three drains a minute for something that is missing or not ready."""

    LIMIT = 3
    pytestmark = with_settings(max_drains_per_minute="3")

    def test_absences_beyond_the_limit_are_held_and_positive_causes_are_not_S19(
        self, service: Service, stage: Stage
    ) -> None:
        hosts = [stage.take() for _ in range(6)]
        for host in hosts:
            host.set_pod_ready(ready=False)
        not_ready = "k8s: pod not ready"
        eventually(lambda: _drained(hosts) == self.LIMIT, "the first three drained")
        assert stays(lambda: _drained(hosts) == self.LIMIT, for_s=1.5)
        eventually(lambda: service.metric("sunk_sync_drains_held") == 3, "the metric")
        assert "drains: degraded: 3 held" in service.readyz_verbose()[1]
        eventually(lambda: service.lines("drains held", level="warning"), "the log")
        assert "DrainsHeld" in stage.bed.kube.kubectl("get", "events", "-A", "-o", "wide")
        free = [host for host in hosts if host.free]
        free[0].cordon()
        free[0].until_drained(CORDONED)
        assert _drained(hosts) == self.LIMIT + 1
        for host in hosts:
            host.set_pod_ready(ready=True)
        free[0].uncordon()
        for host in hosts:
            host.until_free()
        eventually(lambda: service.metric("sunk_sync_drains_held") == 0, "none held")
        assert not_ready not in {host.reason for host in hosts}

    @pytest.mark.night("the next minute of the limit must begin")
    def test_held_drains_are_released_at_the_limit_S19(
        self, service: Service, stage: Stage
    ) -> None:
        """After a minute and a second complete listing that agrees."""
        service.restart().settle()  # the last minute counts only within one process
        hosts = [stage.take() for _ in range(5)]
        began_s = time.monotonic()
        for host in hosts:
            host.set_pod_ready(ready=False)
        eventually(lambda: _drained(hosts) == self.LIMIT, "three drained")
        eventually(lambda: _drained(hosts) == 5, "the others released", within_s=75)
        assert time.monotonic() - began_s > 59
        eventually(lambda: service.lines("drains released"), "said so")
        for host in hosts:
            host.set_pod_ready(ready=True)
        for host in hosts:
            host.until_free()


def _drained(hosts: list[Host]) -> int:
    return sum("DRAIN" in host.state for host in hosts)


def test_a_selector_that_matches_nothing_drains_nothing_S20(stage: Stage, serve: Serve) -> None:
    serve()
    before = _states(stage)
    service = serve(slurmd_selector="app.kubernetes.io/component=typo")
    eventually(lambda: "selector: degraded" in service.readyz_verbose()[1], "/readyz says selector")
    assert stays(lambda: _states(stage) == before, for_s=1.5)
    assert "SlurmdSelectorMismatch" in stage.bed.kube.kubectl("get", "events", "-A", "-o", "wide")
    assert [line["because"] for line in service.writes("drain")] == []
    assert service.writes("undrain") == []


def _states(stage: Stage) -> dict[str, tuple[bool, str]]:
    rows = stage.bed.slurm.slurm_nodes()
    return {row["name"]: ("DRAIN" in row["state"], row["reason"]) for row in rows}


@contextmanager
def without_role(stage: Stage) -> Iterator[None]:
    """Take the right to list Pods from the account; give it back afterwards."""
    rest = stage.bed.kube.rest
    paths = [f"{RBAC}/rolebindings/{name}" for name in READERS]
    bindings = [rest.call("GET", path) for path in paths]
    for path in paths:
        rest.call("DELETE", path)
    try:
        yield
    finally:
        for binding in bindings:
            binding["metadata"] = {"name": binding["metadata"]["name"], "namespace": NAMESPACE}
            rest.call("POST", f"{RBAC}/rolebindings", binding)


def test_a_forbidden_listing_is_no_absence_S20(stage: Stage) -> None:
    stage.quit()
    before = _states(stage)
    service = Service(stage.bed, **{**QUICK, "log_level": "debug"})
    with without_role(stage), ExitStack() as end:
        end.callback(service.start().kill9)
        eventually(lambda: service.lines("source lost", source="slurmd_pods"), service.tail())
        time.sleep(1.0)
        status, text = service.readyz_verbose()
        assert status == 503
        assert "kubernetes: slurmd pods: failed: not listed yet" in text
        assert _states(stage) == before
        assert service.write_count() == 0


def test_a_forbidden_read_by_name_is_no_absence_S20(stage: Stage, serve: Serve, host: Host) -> None:
    serve()
    host.until(lambda: host.mark)
    rest = stage.bed.kube.rest
    standing = {role: rest.call("GET", f"{RBAC}/roles/{role}")["rules"] for role in GETTERS}
    try:
        _may(stage, standing, get=False)
        host.delete_pod(slowly=True)
        host.until_drained("k8s: pod terminating")
        host.let_pod_end()
        assert stays(lambda: host.drained_as("k8s: pod terminating"), for_s=1.5)
    finally:
        _may(stage, standing, get=True)
    serve().restart()
    host.until_drained(TERMINATED)


def _may(stage: Stage, standing: dict[str, list[dict[str, list[str]]]], *, get: bool) -> None:
    for role, rules in standing.items():
        changed = [rule if get else _without_get(rule) for rule in rules]
        stage.bed.kube.patch(f"{RBAC}/roles/{role}", {"rules": changed})
    time.sleep(0.3)  # the authorizer sees the change through a watch


def _without_get(rule: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the rule without `get` for Pods; a rule without any verb is refused."""
    if rule["resources"] != ["pods"]:
        return rule
    return {**rule, "verbs": [verb for verb in rule["verbs"] if verb != "get"]}


def test_each_missing_slurmd_pod_is_read_by_name_S20(stage: Stage, serve: Serve) -> None:
    service = serve(log_level="debug")
    hosts = [stage.take() for _ in range(3)]
    for host in hosts:
        host.until(lambda host=host: host.mark)  # type: ignore[misc]
    since = service.mark()
    for host in hosts:
        host.delete_pod()
    for host in hosts:
        host.until_drained(TERMINATED)
        drains = partial(service.writes, "drain", slurm_node=host.name, reason=TERMINATED)
        eventually(drains, "the line of the log")
        pod = f"slurm/{host.pod_name}"
        reads = service.lines("read", pod=pod, action="get-object", since=since)
        assert reads[0]["timestamp"] < drains()[0]["timestamp"]


def test_a_dry_run_logs_its_decisions_and_writes_nothing(
    stage: Stage, serve: Serve, host: Host
) -> None:
    serve()
    host.until(lambda: host.mark)
    service = serve(dry_run="true")
    before, pod = _states(stage), host.pod["metadata"]["resourceVersion"]
    host.cordon()
    eventually(lambda: service.lines("not written", slurm_node=host.name), "the line of the log")
    (line,) = service.lines("not written", slurm_node=host.name, action="drain")
    assert line["because"].startswith(f"drained: Node {host.name} is cordoned")
    assert line["why"] == "dry run"
    assert stays(lambda: _states(stage) == before)
    assert host.pod["metadata"]["resourceVersion"] == pod
    assert service.write_count() == 0
    host.uncordon()
