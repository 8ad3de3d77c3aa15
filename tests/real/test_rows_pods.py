"""Rows P1 to P13 with the real servers: from a Pod to its Node."""

import time
from typing import Any

import pytest

from tests.real.conftest import Serve, with_settings
from tests.real.service import MANIFESTS, Service
from tests.real.stage import Host, eventually, stays
from tests.real.testbed.kube_objects import REQUIRED
from tests.real.workloads import (
    FOREVER,
    KILL_WAIT_S,
    PodStage,
    pod_term,
    replaced,
    state_of,
    with_port,
    workload_spec,
)

STAGE_HOSTS = 60
pytestmark = [pytest.mark.real, pytest.mark.usefixtures("scheduler")]

at_once = with_settings(gate="on")
"""With allocations, which do not wait for slurmctld's tick."""
STRICT = {
    "refuse_static_cpu": "true",
    "priority_map": "urgent=partition=high,weighty=priority=4711",
}


def pinned(**resources: str) -> list[dict[str, Any]]:
    """Return a container of QoS class Guaranteed."""
    (container,) = workload_spec()["containers"]
    return [{**container, "resources": {"requests": resources, "limits": resources}}]


@at_once
def test_a_pod_bound_within_a_second_costs_only_the_binding_P1(
    pods: PodStage, scheduler: Service, host: Host
) -> None:
    since = scheduler.mark()
    load = pods.load(host)
    job_id = load.until_bound()
    assert load.node == host.name
    assert str(load.job["job_id"]) == job_id == load.annotation("job-id")
    load.until(lambda: load.events_of("Scheduled"))

    def written() -> list[str]:
        return [line["action"] for line in scheduler.writes(since=since, pod=load.path)]

    load.until(lambda: "record-event" in written())
    assert written() == ["bind", "record-event"]
    managers = {one["manager"] for one in load.pod["metadata"]["managedFields"]}
    assert not [one for one in managers if one.startswith("sunk-sync-")]


@at_once
def test_no_pod_is_bound_beside_one_whose_job_has_ended_P11(pods: PodStage, host: Host) -> None:
    first = pods.load(host, knobs=FOREVER)
    pods.scancel(first.until_bound())
    first.until(lambda: first.terminating)
    second = pods.load(host)
    second.until(lambda: second.live and "RUNNING" in second.job["job_state"])
    second.until(lambda: f"waits for Pod {first.path} to end" in second.message)
    assert stays(lambda: not second.node)
    first.let_end()
    second.until_bound()
    assert first.stopped
    assert "DRAIN" not in host.state


@at_once
def test_a_single_pod_is_allocated_at_once_if_a_host_is_free_P11a(
    pods: PodStage, scheduler: Service
) -> None:
    times = []
    for _ in range(3):
        host = pods.take()
        begin = time.monotonic()
        load = pods.load(host)
        load.until_bound()
        times.append(time.monotonic() - begin)
        assert not load.job["batch_flag"]
        assert "FAILED" not in load.jobs[0]["job_state"]
    assert min(times) < 0.4, times
    full = pods.take()
    blocker = pods.occupy(full)
    eventually(lambda: "ALLOCATED" in full.state, "seen full")
    scheduler.settle()
    load = pods.load(full)
    load.until(lambda: load.live)
    assert len(load.jobs) == 1, load
    assert load.job["batch_flag"]
    pods.scancel(blocker)
    load.until_bound()


def test_a_waiting_pod_shows_slurms_reason_P1(pods: PodStage, host: Host) -> None:
    load, blocker = pods.waiting(host)
    job = load.job
    status, reason, message = load.condition("PodScheduled")
    assert (status, reason) == ("False", "Unschedulable")
    assert f"Slurm job {job['job_id']} waits" in message
    load.until(lambda: f"({load.job['state_reason']})" in load.message)
    load.until(lambda: load.annotation("job-id") == str(job["job_id"]))
    load.until(lambda: load.message in load.events_of("FailedScheduling"))
    pods.scancel(blocker)
    assert load.until_bound() == str(job["job_id"])
    assert load.condition("PodScheduled")[0] == "True"


def test_a_pod_is_unschedulable_only_while_more_nodes_would_help_P33(
    pods: PodStage, host: Host
) -> None:
    load, blocker = pods.waiting(host)
    load.until(lambda: load.waits_for == "Unschedulable")
    job_id = str(load.job["job_id"])
    pods.bed.slurm.scontrol("hold", job_id)
    load.until(lambda: load.waits_for == "SlurmJobPending")
    assert "(JobHeldAdmin)" in load.message
    pods.bed.slurm.scontrol("release", job_id)
    load.until(lambda: load.waits_for == "Unschedulable")
    pods.scancel(blocker)
    assert load.until_bound() == job_id


def test_a_refused_pod_needs_no_further_node_P10_P33(pods: PodStage) -> None:
    load = pods.load(annotations={"partition": "nowhere"})
    load.until(lambda: load.waits_for == "SlurmRefused")
    assert "(2000)" in load.message


def test_a_pod_with_scheduling_gates_gets_no_job_P1(pods: PodStage, host: Host) -> None:
    load = pods.load(host, schedulingGates=[{"name": "later.example/gate"}])
    assert stays(lambda: not load.jobs)
    pods.bed.kube.patch_pod(load.name, load.namespace, {"spec": {"schedulingGates": None}})
    load.until_bound()
    assert len(load.jobs) == 1


def test_an_invalid_pod_is_refused_at_once_P2_P3_P4(pods: PodStage) -> None:
    (container,) = workload_spec()["containers"]
    bare = {**container, "resources": {"requests": {"memory": "1Gi"}}}
    idle = pods.load(containers=[bare])
    slow = pods.load(terminationGracePeriodSeconds=KILL_WAIT_S)
    odd = pods.load(annotations={"timeout": "soon", "priority": "high"})
    words = {
        idle: ["cpu"],
        slow: [str(KILL_WAIT_S), str(KILL_WAIT_S - 1)],
        odd: ["timeout", "soon", "priority", "high"],
    }
    for load, expected in words.items():
        load.until(lambda load=load: load.events_of("InvalidPod"))
        (message,) = load.events_of("InvalidPod")
        assert load.condition("PodScheduled") == ("False", "InvalidPod", message)
        assert [word for word in expected if word not in message] == [], message
    assert stays(lambda: not any(load.jobs for load in words))
    odd.annotate(timeout="90s", priority=None)
    odd.until_bound()
    assert odd.job["time_limit"]["number"] == 2


def test_hosts_that_cannot_take_the_pod_are_excluded_from_its_job_P7(pods: PodStage) -> None:
    fit, tainted = pods.pool("seven")
    taint(tainted)
    load = pods.load(nodeSelector={"pool": "seven"})
    load.until_bound()
    assert load.node == fit.name
    names = set(pods.bed.slurm.conf.names)
    excluded = pods.expand(load.job["excluded_nodes"])
    assert excluded == names - {fit.name}
    assert not load.job["required_nodes"]
    tolerations = [{"key": "test/broken", "operator": "Exists"}]
    tolerant = pods.load(nodeSelector={"pool": "seven"}, tolerations=tolerations)
    tolerant.until_bound()
    assert pods.expand(tolerant.job["excluded_nodes"]) == names - {fit.name, tainted.name}


def test_the_exclusions_of_a_job_that_waits_follow_taints_and_labels_P7(pods: PodStage) -> None:
    bad, good = pods.pool("renewed")
    blockers = pods.occupy(bad), pods.occupy(good)
    load = pods.load(nodeSelector={"pool": "renewed"})
    first = load.until_waits()
    taint(bad)
    load.until(lambda: bad.name in pods.expand(load.job["excluded_nodes"]), within_s=75)
    assert good.name not in pods.expand(load.job["excluded_nodes"])
    pods.scancel(blockers[0])
    assert stays(lambda: not load.node)
    (late,) = pods.pool("renewed", 1)
    load.until_bound(within_s=75)
    assert load.node == late.name
    (only,) = load.jobs
    assert (only["job_id"], only["submit_time"]) == (first["job_id"], first["submit_time"])
    pods.scancel(blockers[1])


def test_nothing_is_submitted_while_no_host_fits_P7(pods: PodStage) -> None:
    load = pods.load(nodeSelector={"pool": "nowhere"})
    load.until(lambda: load.condition("PodScheduled")[:2] == ("False", "Unschedulable"))
    load.until(lambda: load.message in load.events_of("FailedScheduling"))
    assert stays(lambda: not load.jobs)
    (host,) = pods.pool("nowhere", 1)
    load.until_bound()
    assert load.node == host.name


def test_watch_all_pods_counts_pods_of_others_P28(pods: PodStage, schedule: Serve) -> None:
    full, other = pods.pool("eight")
    pods.bed.kube.kubectl("apply", "-k", MANIFESTS.parent / "all-pods")
    large = pinned(cpu="15", memory="64Mi")
    theirs = pods.load(nodeName=full.name, schedulerName="other", containers=large)
    schedule(watch_all_pods="true")
    wanted = pinned(cpu="4", memory="64Mi")
    load = pods.load(nodeSelector={"pool": "eight"}, containers=wanted)
    load.until_bound()
    assert load.node == other.name
    assert full.name in pods.expand(load.job["excluded_nodes"])
    waits = pods.load(full, containers=wanted)
    waits.until(lambda: "Insufficient cpu" in waits.message)
    assert not waits.jobs
    theirs.delete(now=True)
    waits.until_bound()
    pods.bed.kube.kubectl("delete", "-k", MANIFESTS.parent / "all-pods")


def test_what_the_api_server_adds_for_a_runtime_class_and_the_host_network_is_kept_P8_P28(
    pods: PodStage,
) -> None:
    """It writes overhead, node selector and ports into the Pod when the Pod is created."""
    first, second = pods.pool("kata", 2)
    pods.bed.kube.kubectl("label", "node", first.name, second.name, "kata=yes")
    pods.bed.kube.rest.call("POST", "/apis/node.k8s.io/v1/runtimeclasses", {
        "metadata": {"name": "kata"},
        "handler": "kata",
        "overhead": {"podFixed": {"cpu": "1", "memory": "10Mi"}},
        "scheduling": {"nodeSelector": {"kata": "yes"}},
    })  # fmt: skip
    (container,) = pinned(cpu="2", memory="64Mi")
    container["ports"] = [{"containerPort": 8080}]
    spec: dict[str, Any] = {
        "runtimeClassName": "kata",
        "hostNetwork": True,
        "containers": [container],
    }
    loads = [pods.load(**spec) for _ in range(2)]
    for load in loads:
        load.until_bound(within_s=30)
        assert load.job["cpus"]["number"] == 3
    assert {load.node for load in loads} == {first.name, second.name}


def test_a_nominated_node_means_nothing_P11(pods: PodStage) -> None:
    nominated, other = pods.pool("nominated", 2)
    load = pods.load(other, schedulingGates=[{"name": "example.com/later"}])
    status = {"nominatedNodeName": nominated.name}
    pods.bed.kube.patch_pod_status(load.name, load.namespace, status)
    pods.bed.kube.patch_pod(load.name, load.namespace, {"spec": {"schedulingGates": []}})
    load.until_bound()
    assert load.node == other.name


def test_watch_all_pods_keeps_rules_between_our_pods_and_those_of_others_P8(
    pods: PodStage, schedule: Serve
) -> None:
    """On three Nodes: a Pod that keeps others away, one with a port, one that others want."""
    first, second, third = pods.pool("beside", 3)
    pods.bed.kube.kubectl("apply", "-k", MANIFESTS.parent / "all-pods")
    keeps_web_away = {"podAntiAffinity": {REQUIRED: [pod_term("web")]}}
    foe = pods.load(nodeName=first.name, schedulerName="other", affinity=keeps_web_away)
    pods.load(nodeName=second.name, schedulerName="other", **with_port(8080))
    pods.load(nodeName=third.name, schedulerName="other", labels={"app": "db"})
    schedule(watch_all_pods="true")
    pool = {"pool": "beside"}
    web = pods.load(nodeSelector=pool, labels={"app": "web"}, **with_port(8080))
    wants_db = {"podAffinity": {REQUIRED: [pod_term("db")]}}
    for load in (web, pods.load(nodeSelector=pool, affinity=wants_db)):
        load.until_bound()
        assert load.node == third.name
    waits = pods.load(first, labels={"app": "web"})
    waits.until(lambda: "existing pods anti-affinity rules" in waits.message)
    assert not waits.jobs
    foe.delete(now=True)
    waits.until_bound()
    pods.bed.kube.kubectl("delete", "-k", MANIFESTS.parent / "all-pods")


def test_a_pod_for_pinned_cpus_gives_one_warning_P27(pods: PodStage, host: Host) -> None:
    load, blocker = pods.waiting(host, containers=pinned(cpu="2", memory="1Gi"))
    load.until(lambda: load.events_of("StaticCPU"))
    pods.scancel(blocker)
    load.until_bound()
    assert len(load.events_of("StaticCPU")) == 1


def test_a_refused_pod_is_submitted_again_only_after_a_change_P10(
    pods: PodStage, scheduler: Service, host: Host
) -> None:
    since = scheduler.mark()
    load = pods.load(host, annotations={"partition": "nowhere"})
    load.until(lambda: load.events_of("SlurmRefused"))
    assert "(2000)" in load.message
    assert load.message in load.events_of("SlurmRefused")

    def submissions() -> int:
        lines = scheduler.writes("submit-job", since=since)
        return sum(line["job"].startswith(f"k8s/{load.path}/") for line in lines)

    assert stays(lambda: submissions() == 1, for_s=2)
    load.annotate(partition="main")
    load.until_bound()
    assert submissions() == 2


def test_a_pod_is_bound_once_the_script_of_its_job_has_started_P11_P24(
    pods: PodStage, host: Host
) -> None:
    load = pods.load(host)
    load.until_bound()
    assert load.node == host.name
    load.until(lambda: load.job["extra"].endswith(": started"))
    assert load.job["batch_flag"]
    assert len(load.jobs) == 1
    load.until(lambda: load.events_of("Scheduled"))
    assert str(load.job["job_id"]) in load.events_of("Scheduled")[0]


def test_a_job_on_an_unfit_host_is_replaced_P12(pods: PodStage) -> None:
    bad, good = pods.pool("twelve")
    blockers = pods.occupy(bad), pods.occupy(good)
    load = pods.load(nodeSelector={"pool": "twelve"})
    first = load.until_waits()
    taint(bad)
    pods.scancel(blockers[0])
    load.until(lambda: len(load.jobs) > 1)
    assert load.node == ""
    given_up = next(job for job in load.jobs if job["job_id"] == first["job_id"])
    assert "CANCELLED" in given_up["job_state"]
    assert replaced(given_up)
    assert bad.name in pods.expand(load.job["excluded_nodes"])
    load.until(lambda: load.events_of("SlurmJobReplaced"))
    assert bad.name in load.events_of("SlurmJobReplaced")[0]
    pods.scancel(blockers[1])
    load.until_bound()
    assert load.node == good.name


def test_deleting_an_unbound_pod_ends_its_job_P13(pods: PodStage, host: Host) -> None:
    load, blocker = pods.waiting(host)
    job = str(load.job["job_id"])
    begin = time.monotonic()
    load.delete()
    eventually(lambda: not state_of(pods.bed, job), "cancelled")
    assert time.monotonic() - begin < 1.0
    assert len(load.jobs) == 1
    assert not replaced(load.job)
    pods.scancel(blocker)


@with_settings(**STRICT)
def test_strict_settings_refuse_and_map_P9_P27(pods: PodStage) -> None:
    for name in ("urgent", "weighty"):
        body = {"metadata": {"name": name}, "value": 10}
        pods.bed.kube.rest.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
    static = pods.load(containers=pinned(cpu="2", memory="1Gi"))
    urgent = pods.load(pods.take(), priorityClassName="urgent")
    weighty = pods.load(pods.take(), priorityClassName="weighty")
    wins = pods.load(pods.take(), priorityClassName="urgent", annotations={"partition": "low"})
    for load in (urgent, weighty, wins):
        load.until_bound()
    assert urgent.job["partition"] == "high"
    assert weighty.job["priority"]["number"] == 4711
    assert wins.job["partition"] == "low"
    static.until(lambda: static.events_of("InvalidPod"))
    assert not static.jobs


def taint(host: Host) -> None:
    host.bed.kube.kubectl("taint", "node", host.name, "test/broken=yes:NoSchedule")
