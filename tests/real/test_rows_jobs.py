"""Rows P14 to P31 with the real servers: from a job to its Pod, and who may end what."""

import json
import time
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import pytest

from tests.real.conftest import Serve, with_settings
from tests.real.service import Service, allow
from tests.real.stage import Host, eventually, stays
from tests.real.workloads import FOREVER, Load, PodStage, all_jobs, lives, replaced, state_of

STAGE_HOSTS = 92
pytestmark = [pytest.mark.real, pytest.mark.usefixtures("scheduler")]


@pytest.fixture(scope="module")
def timed(pods: PodStage) -> Iterator[Load]:
    """A Pod whose job has a short time limit; slurmctld checks only every 30 s."""
    pods.serve()
    load = pods.load(pods.take(), knobs=FOREVER, annotations={"timeout": "1"})
    job = load.until_bound()
    pods.bed.slurm.scontrol("update", f"job={job}", "endtime=now+2")
    yield load
    load.let_end()


@pytest.mark.usefixtures("timed")
def test_a_job_stays_until_its_pod_is_gone_or_its_containers_end_P14_P15(pods: PodStage) -> None:
    slow = pods.load(pods.take(), knobs=FOREVER)
    done = pods.load(pods.take(), knobs={"testbed/run-s": "0.3"})
    knobs = {"testbed/run-s": "0.3", "testbed/exit-code": "3"}
    failed = pods.load(pods.take(), knobs=knobs)
    slow.until_bound()
    slow.delete()
    for load, phase in ((done, "Succeeded"), (failed, "Failed")):
        load.until(load.ended)
        assert load.pod["status"]["phase"] == phase
        assert len(load.jobs) == 1
    assert stays(lambda: slow.job["job_state"] == ["RUNNING"])
    slow.let_end()
    eventually(slow.ended, "ended")
    assert slow.gone
    assert not replaced(slow.job)


@pytest.mark.usefixtures("timed")
def test_a_bound_pod_ends_after_its_job_with_the_reason_P16(pods: PodStage) -> None:
    hosts = [pods.take() for _ in range(4)]
    loads = [pods.load(host, knobs=FOREVER) for host in hosts[:3]]
    loads.append(pods.load(hosts[3], knobs=FOREVER, annotations={"partition": "low"}))
    jobs = [load.until_bound() for load in loads]
    pods.scancel(jobs[0])
    hosts[1].update(state="down", reason="burnt")
    pods.bed.slurm.scontrol("suspend", jobs[2])
    pods.submit_above(hosts[3])
    reasons = ("SlurmJobCancelled", "SlurmNodeFail", "SlurmSuspended", "PreemptionByScheduler")
    for load, job, reason in zip(loads, jobs, reasons, strict=True):
        load.until(lambda load=load: load.terminating)
        assert load.disruption[0] == reason, load
        assert f"job {job}" in load.disruption[1]
        assert load.pod["metadata"]["deletionGracePeriodSeconds"] == 3
        assert not load.gone
    for load in loads:
        load.let_end()
    for load in loads:
        eventually(load.ended, f"no job of {load.name} is left")
        assert len(load.jobs) == 1


def test_a_pod_bound_by_somebody_else_keeps_its_node_and_loses_its_job_P18(
    pods: PodStage, host: Host
) -> None:
    load, blocker = pods.waiting(host)
    elsewhere = pods.take()
    load.bind_to(elsewhere)
    load.until(load.ended)
    load.until(lambda: load.events_of("BoundElsewhere"))
    assert stays(lambda: load.node == elsewhere.name and not load.terminating)
    assert len(load.jobs) == 1
    pods.scancel(blocker)


def test_a_requeued_job_is_replaced_and_its_pod_ends_P19(pods: PodStage, host: Host) -> None:
    load = pods.load(host, knobs=FOREVER)
    job = load.until_bound()
    assert not load.job["requeue"]
    pods.bed.slurm.scontrol("update", f"job={job}", "requeue=1")
    pods.bed.slurm.scontrol("requeue", job)
    load.until(lambda: load.terminating)
    assert load.disruption[0] == "SlurmJobEnded"
    assert "requeued" in load.disruption[1]
    assert load.node == host.name
    load.let_end()
    eventually(load.ended, "ended")
    assert len(load.jobs) == 1


def test_an_edit_applies_while_the_job_waits_and_is_ignored_later_P20(
    pods: PodStage, host: Host
) -> None:
    load, blocker = pods.waiting(host)
    first = load.job["job_id"]
    load.annotate(comment="for you")
    load.until(lambda: load.job["comment"] == "for you")
    assert [job["job_id"] for job in load.jobs] == [first]
    load.annotate(exclusive="user")
    load.until(lambda: len(load.jobs) == 2 and len(load.live) == 1)
    assert replaced(load.jobs[0])
    assert load.annotation("cancelled") is None
    pods.scancel(blocker)
    job = load.until_bound()
    load.annotate(comment="too late")
    load.until(lambda: load.events_of("SettingsIgnored"))
    assert stays(lambda: load.job["comment"] == "for you" and not load.terminating)
    assert len(load.events_of("SettingsIgnored")) == 1
    assert str(load.job["job_id"]) == job


def test_of_two_live_jobs_the_one_of_the_bound_pod_stays_P29(pods: PodStage, host: Host) -> None:
    load = pods.load(host)
    job = load.until_bound()
    twin = pods.impostor(load.job["admin_comment"], name=load.job["name"])
    begin = time.monotonic()
    eventually(lambda: not state_of(pods.bed, twin), "the twin ends")
    assert time.monotonic() - begin < 5
    (other,) = [one for one in load.jobs if str(one["job_id"]) == twin]
    assert replaced(other)
    assert [str(one["job_id"]) for one in load.live] == [job]
    assert stays(lambda: load.node == host.name and not load.terminating)


def test_a_job_cancelled_by_a_human_is_submitted_again_only_on_request_P17(
    pods: PodStage, scheduler: Service, host: Host
) -> None:
    load, blocker = pods.waiting(host)
    job = load.job["job_id"]
    pods.scancel(job)
    load.until(lambda: load.condition("PodScheduled")[1] == "SlurmJobCancelled")
    load.until(lambda: load.annotation("cancelled") == f"{job}/")
    load.until(lambda: load.events_of("SlurmJobCancelled"))
    assert not load.live
    scheduler.restart()
    assert stays(lambda: len(load.jobs) == 1)
    load.annotate(resubmit="1")
    load.until(lambda: load.live)
    pods.scancel(blocker)
    assert load.until_bound() != str(job)


def test_of_two_live_jobs_of_an_unbound_pod_the_running_one_stays_P29(
    pods: PodStage, host: Host
) -> None:
    load, blocker = pods.waiting(host)
    waiting = load.job
    pods.quit()
    pods.bed.slurm.scontrol("hold", str(waiting["job_id"]))
    pods.scancel(blocker)
    twin = pods.impostor(waiting["admin_comment"], name=waiting["name"], on=host)
    pods.serve()
    assert load.until_bound() == twin
    eventually(lambda: len(load.live) == 1, "one is left")
    assert replaced(next(one for one in load.jobs if one["job_id"] == waiting["job_id"]))


def test_a_job_of_another_cluster_or_scheduler_is_never_touched_P22(
    pods: PodStage, scheduler: Service, host: Host
) -> None:
    load = pods.load(host)
    load.until_bound()
    ours = json.loads(load.job["admin_comment"])["sunk-sync"]
    alien = {**ours, "pods": [f"slurm/gone/{0}"], "work": "0" * 16}
    texts = [
        json.dumps({"sunk-sync": {**alien, "cluster": "another"}}),
        json.dumps({"sunk-sync": {**alien, "scheduler": "another"}}),
        '{"sunk-sync": {"cluster": ',
        "",
    ]
    jobs = [pods.impostor(text, name="k8s/slurm/gone/00000000") for text in texts]
    mine = pods.impostor(json.dumps({"sunk-sync": alien}), name="k8s/slurm/gone/00000000")
    eventually(lambda: not state_of(pods.bed, mine), "the one that is ours ends")
    assert stays(lambda: all(state_of(pods.bed, job) for job in jobs))
    scheduler.restart()
    assert stays(lambda: all(state_of(pods.bed, job) for job in jobs))
    pods.scancel(*jobs)


@pytest.fixture
def held_back(pods: PodStage) -> Iterator[Callable[[], Load]]:
    """Create a Pod for a partition that starts no jobs; each is deleted at the end."""
    loads: list[Load] = []

    def load() -> Load:
        loads.append(pods.load(annotations={"partition": "off"}))
        return loads[-1]

    yield load
    pods.bed.slurm.scontrol("update", "partitionname=off", "state=down")
    for one in loads:
        one.delete()


def test_the_oldest_pods_come_first_and_each_shows_its_queue_position_P26(
    pods: PodStage, schedule: Serve, held_back: Callable[[], Load]
) -> None:
    pods.quit()
    early = [held_back() for _ in range(12)]
    time.sleep(1.1)
    late = [held_back() for _ in range(12)]
    schedule()
    loads = early + late
    eventually(lambda: sum(len(load) for load in by_load(pods, loads)) == 24, "submitted")
    first, second = (list(chain(*by_load(pods, some))) for some in (early, late))
    (array,) = {job for job, _ in first}  # of 16 Pods; that of the rest is submitted beside it
    assert max(first) < min(place for place in second if place[0] == array)
    schedule().restart()
    load_at = dict(zip(first + second, loads, strict=True))
    front, back = load_at[min(load_at)], load_at[max(load_at)]
    back.until(lambda: "At least 10 other Pods wait ahead" in back.message)
    front.until(lambda: "No other Pod waits ahead" in front.message)
    pods.bed.slurm.scontrol("update", "partitionname=off", "state=up")
    eventually(lambda: all(load.node for load in loads), "all bound")
    assert [len(jobs) for jobs in by_load(pods, loads)] == [1] * 24


def test_a_job_at_its_time_limit_ends_its_pod_P16(timed: Load) -> None:
    timed.until(lambda: timed.terminating, within_s=60)
    assert timed.disruption[0] == "SlurmTimeLimit"
    assert "TIMEOUT" in timed.job["job_state"]


def test_a_job_without_a_pod_ends_only_on_evidence_P21(pods: PodStage, schedule: Serve) -> None:
    allow(pods.bed, "elsewhere")
    schedule(watch_namespace="slurm,elsewhere")
    near = pods.load(pods.take())
    far = pods.load(pods.take(), namespace="elsewhere")
    for load in (near, far):
        load.until_bound()
    pods.quit()
    for load in (near, far):
        load.delete(now=True)
    allow(pods.bed, "elsewhere", allowed=False)
    service = schedule()
    eventually(near.ended, "its Pod is gone")
    assert stays(lambda: far.job["job_state"] == ["RUNNING"], for_s=1.5)
    assert not [line for line in service.writes("cancel-job") if "/elsewhere/" in line["job"]]
    pods.scancel(far.job["job_id"])


@with_settings(resubmit_cancelled="true")
def test_resubmit_cancelled_submits_without_a_request_P17(pods: PodStage, host: Host) -> None:
    load, blocker = pods.waiting(host)
    pods.scancel(load.job["job_id"])
    load.until(lambda: load.live, within_s=20)
    pods.scancel(blocker)
    load.until_bound()


@with_settings(hooks_url="http://127.0.0.1:9")
def test_missing_calls_of_placeholders_are_reported_L6(pods: PodStage, scheduler: Service) -> None:
    """The Pod is bound because the script writes `extra`."""
    load = pods.load(pods.take())
    job = load.until_bound()
    unheard = "sunk_sync_placeholders_unheard"
    eventually(lambda: scheduler.metric(unheard) == 1, "the script is missed", within_s=60)
    (line,) = scheduler.lines("placeholders run, but never called the hooks server")
    assert (line["level"], line["first"]) == ("warning", f"{job} {load.job['name']}")
    load.delete()
    eventually(lambda: scheduler.metric(unheard) == 0, "its job has ended", within_s=60)


@with_settings(max_pod_ends_per_minute="1")
def test_ends_for_failed_nodes_are_held_but_not_those_of_cancelled_jobs_P31(
    pods: PodStage, scheduler: Service
) -> None:
    hosts = [pods.take() for _ in range(4)]
    loads = [pods.load(host, knobs=FOREVER) for host in hosts]
    jobs = [load.until_bound() for load in loads]
    for host in hosts[:3]:
        host.update(state="down", reason="burnt")
    failing = loads[:3]
    eventually(lambda: any(load.terminating for load in failing), "one ends")
    held = [load for load in failing if not load.terminating]
    for load in held:
        load.until(lambda load=load: load.events_of("PodEndHeld"))
    pods.scancel(jobs[3])
    loads[3].until(lambda: loads[3].terminating)
    assert stays(lambda: sum(load.terminating for load in failing) == 1, for_s=2)
    assert scheduler.metric("sunk_sync_rule_failures_total") == 0
    for load in loads:
        load.let_end()


@with_settings(placeholder="allocation", gate="off")
def test_without_a_gate_a_host_is_drained_while_a_pod_outlives_its_job_P25(
    pods: PodStage, host: Host
) -> None:
    """An allocation has no process that keeps the host."""
    load = pods.load(host, knobs=FOREVER)
    pods.scancel(load.until_bound())
    host.until_drained("k8s: pod still terminating")
    load.until(lambda: load.terminating)
    assert stays(lambda: host.drained_as("k8s: pod still terminating"))
    load.let_end()
    host.until_free()
    load.until(lambda: load.gone)  # its containers have ended before


def test_a_pod_whose_node_is_gone_counts_as_gone_P25b(pods: PodStage, host: Host) -> None:
    load = pods.load(host, knobs=FOREVER)
    load.until_bound()
    load.delete()
    assert stays(lambda: load.live, for_s=1.0)
    host.bed.kube.delete_node(host.name)
    load.until(load.ended)
    assert load.terminating
    host.bed.kube.add_nodes(host.name)
    load.let_end()
    load.until(lambda: load.gone)


def test_for_a_silent_node_the_job_stays_and_an_event_explains_P25b(
    pods: PodStage, host: Host
) -> None:
    load = pods.load(host, knobs=FOREVER)
    load.until_bound()
    load.delete()
    host.set_node_ready(ready=False)
    host.until_drained("k8s: node not ready")
    load.until(lambda: load.events_of("NodeSilent"))
    assert "kubectl delete pod --force" in load.events_of("NodeSilent")[0]
    assert stays(lambda: load.live, for_s=1.0)
    load.delete(now=True)
    load.until(load.ended)
    host.set_node_ready(ready=True)


@with_settings(placeholder="script")
@pytest.mark.parametrize("options", [("--batch",), ("--full",)], ids=" ".join)
def test_a_signal_to_the_job_does_not_end_its_pod_L6(
    pods: PodStage, host: Host, options: tuple[str, ...]
) -> None:
    load = pods.load(host)
    job = load.until_bound()
    for name in ("USR1", "HUP", "INT", "TERM"):
        pods.scancel(*options, f"--signal={name}", job)
    assert stays(lambda: state_of(pods.bed, job) == "RUNNING" and not load.terminating, for_s=3)
    pods.scancel(job)
    load.until(load.ended)


@with_settings(gate="on")
def test_a_pod_preempted_before_its_binding_gets_a_new_job_P17(pods: PodStage, host: Host) -> None:
    first = pods.load(host, knobs=FOREVER)
    pods.scancel(first.until_bound())
    first.until(lambda: first.terminating)
    second = pods.load(host, annotations={"partition": "low"})
    second.until(lambda: second.live and second.job["job_state"] == ["RUNNING"])
    lost = second.job["job_id"]
    above = pods.submit_above(host)
    second.until(lambda: second.live and second.job["job_id"] != lost)
    (old,) = [job for job in second.jobs if job["job_id"] == lost]
    assert "PREEMPTED" in old["job_state"]
    assert second.annotation("cancelled") is None
    first.let_end()
    pods.scancel(above)
    second.until_bound()


def by_load(pods: PodStage, loads: list[Load]) -> list[list[Any]]:
    """Return the live jobs of each Pod; for an array its task counts."""
    jobs = [job for job in all_jobs(pods.bed) if lives(job)]
    return [[one for job in jobs if (one := place_of(load, job))] for load in loads]


def place_of(load: Load, job: dict[str, Any]) -> tuple[int, int] | None:
    if load.uid not in job["admin_comment"]:
        return None
    uids = json.loads(job["admin_comment"])["sunk-sync"].get("uids", [])
    if not uids:
        return job["job_id"], 0
    task = job["array_task_id"]
    if task["set"] and uids[task["number"]] != load.uid:
        return None
    return job["array_job_id"]["number"], uids.index(load.uid)
