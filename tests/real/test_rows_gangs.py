"""Rows G1 to G7 with the real servers: Pods that start and end together."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.real.conftest import with_settings
from tests.real.pod_groups import make_pod_group
from tests.real.service import NAMESPACE, allow
from tests.real.stage import PREFIX, eventually, stays
from tests.real.testbed.rest import RestError
from tests.real.workloads import FOREVER, Job, Load, PodStage, workload_spec

pytestmark = [
    pytest.mark.real,
    pytest.mark.usefixtures("scheduler"),
    with_settings(watch_namespace="slurm,gangs"),
]

BINDINGS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/binding"]}
NO_BINDING = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "no-binding"},
    "spec": {
        "matchConstraints": {"resourceRules": [{**BINDINGS, "operations": ["CREATE"]}]},
        "validations": [
            {"expression": "!object.metadata.name.startsWith('refused')", "message": "not this one"}
        ],
    },
}
NO_BINDING_HERE = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "no-binding"},
    "spec": {"policyName": "no-binding", "validationActions": ["Deny"]},
}
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
Call = Callable[..., Any]


@pytest.fixture
def call(pods: PodStage) -> Call:
    return pods.bed.kube.rest.call


@pytest.fixture(scope="module", autouse=True)
def _allowed(pods: PodStage) -> None:
    allow(pods.bed, "gangs")


def member(pods: PodStage, gang: str, **more: Any) -> Load:
    """Create a Pod of a gang of two."""
    return pods.load(annotations={"gang": gang, "gang_size": "2"}, **more)


def one_job(loads: list[Load]) -> Job:
    """Return their one live job when it runs on one node for each Pod."""
    eventually(lambda: all(load.node for load in loads), f"all bound: {loads}")
    found = [[job["job_id"] for job in load.live] for load in loads]
    assert found == [found[0]] * len(loads)
    (job,) = loads[0].live
    assert job["node_count"]["number"] == len(loads)
    assert len({load.node for load in loads}) == len(loads)
    return dict(job)


def test_a_complete_gang_gets_one_job_and_surplus_members_wait_G1_G7_P33(pods: PodStage) -> None:
    first = member(pods, "g1")
    first.until(lambda: first.message.startswith("1 of the 2 Pods"))
    assert first.waits_for == "GangIncomplete"
    assert not first.jobs
    second = member(pods, "g1")
    job = one_job([first, second])
    assert {first.node, second.node} == set(pods.expand(job["nodes"]))
    third = member(pods, "g1")
    third.until(lambda: "as many Pods as its size" in third.message)
    assert third.waits_for == "GangFull"
    third.until(lambda: third.events_of("FailedScheduling"))
    assert stays(lambda: not third.jobs and not third.node)


def test_the_pods_of_an_indexed_job_are_a_gang_G1(pods: PodStage, call: Call) -> None:
    spec = {
        "completions": 3,
        "parallelism": 3,
        "completionMode": "Indexed",
        "template": {
            "metadata": {"annotations": {PREFIX + "gang": "job"}},
            "spec": {**workload_spec(), "restartPolicy": "Never"},
        },
    }
    path = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
    call("POST", path, {"metadata": {"name": "j3"}, "spec": spec})
    loads: list[Load] = []

    def made() -> bool:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=job-name%3Dj3"
        found = [one["metadata"] for one in call("GET", path)["items"]]
        loads[:] = [Load(pods.bed, one["name"], uid=one["uid"]) for one in found]
        return len(loads) == 3

    eventually(made, "three Pods")
    one_job(loads)


def test_a_pod_group_gives_the_size_G1(pods: PodStage) -> None:
    make_pod_group(pods.bed.kube.rest, NAMESPACE, "pg", size=2)
    labels = {"scheduling.x-k8s.io/pod-group": "pg"}
    first = pods.load(labels=labels)
    first.until(lambda: first.message.startswith("1 of the 2 Pods"))
    one_job([first, pods.load(labels=labels)])


def test_an_invalid_member_refuses_the_whole_gang_by_name_G2(pods: PodStage) -> None:
    good = member(pods, "g2")
    bad = member(pods, "g2", terminationGracePeriodSeconds=300)
    for load in (good, bad):
        load.until(lambda load=load: load.events_of("InvalidPod"))
        assert bad.name in load.message
        assert "300" in load.message
        assert not load.jobs


@pytest.mark.parametrize("how", ["a member deleted", "its job cancelled"])
def test_a_gang_ends_as_a_whole_G3(pods: PodStage, how: str) -> None:
    loads = [member(pods, f"g3{how[0]}", knobs=knobs) for knobs in ({}, FOREVER)]
    job = one_job(loads)
    if how == "a member deleted":
        loads[0].delete()
        loads[1].until(lambda: loads[1].terminating)
        assert stays(lambda: loads[1].job["job_state"] == ["RUNNING"])
        assert loads[1].disruption[0] == "SlurmJobEnded"
    else:
        pods.scancel(job["job_id"])
        loads[1].until(lambda: loads[1].terminating)
        assert loads[1].disruption[0] == "SlurmJobCancelled"
    eventually(lambda: loads[0].gone, "the first is gone")
    loads[1].let_end()
    eventually(loads[1].ended, "ended")
    assert len(loads[1].jobs) == 1


@pytest.fixture
def _binding_refused(call: Call) -> Iterator[None]:
    """Let the API server refuse each binding of a Pod whose name begins with `refused`."""
    call("POST", f"{ADMISSION}/validatingadmissionpolicies", NO_BINDING)
    call("POST", f"{ADMISSION}/validatingadmissionpolicybindings", NO_BINDING_HERE)
    yield
    call("DELETE", f"{ADMISSION}/validatingadmissionpolicybindings/no-binding")
    call("DELETE", f"{ADMISSION}/validatingadmissionpolicies/no-binding")


@pytest.mark.usefixtures("_binding_refused")
def test_a_failed_binding_rolls_back_the_gang_G4(pods: PodStage) -> None:
    wait_for_policy(pods)
    bound = member(pods, "g4")
    refused = member(pods, "g4", name="refused-1")
    eventually(lambda: bound.gone, f"rolled back: {bound} {refused}")
    eventually(refused.ended, f"its job ended: {refused}")
    assert refused.node == ""
    refused.delete()


def wait_for_policy(pods: PodStage) -> None:
    host = pods.take()
    probe = pods.load(name="refused-0", schedulingGates=[], schedulerName="nobody")

    def denied() -> bool:
        try:
            probe.bind_to(host, dry_run=True)
        except RestError as error:
            return "not this one" in str(error)
        return False

    eventually(denied, "the policy counts")
    probe.delete()


def test_the_largest_request_applies_on_each_node_G5(pods: PodStage) -> None:
    small = member(pods, "g5")
    large = member(pods, "g5", **workload_spec("3", "2Gi"))
    job = one_job([small, large])
    assert job["cpus"]["number"] == 6
    assert job["memory_per_node"]["number"] == 2048


def test_a_gang_that_waits_for_nodes_says_what_it_asks_of_each_G5_P33(pods: PodStage) -> None:
    pods.pool("g33", 1)
    small = member(pods, "g33", nodeSelector={"pool": "g33"})
    large = member(pods, "g33", nodeSelector={"pool": "g33"}, **workload_spec("3", "2Gi"))
    asked = f"ts gang asks for 2 hosts with 3 CPUs and 2 GiB each, as its largest Pod {large.name}"
    for load in (small, large):
        load.until(lambda load=load: asked in load.message)
        assert load.waits_for == "Unschedulable"
    pods.pool("g33", 1)
    eventually(lambda: small.node and large.node, "both bound", within_s=90)
    one_job([small, large])


def test_the_same_name_in_two_namespaces_is_two_gangs_G6(pods: PodStage) -> None:
    here, there = [member(pods, "g6")], [member(pods, "g6", namespace="gangs")]
    for (load,) in (here, there):
        load.until(lambda load=load: load.message.startswith("1 of the 2 Pods"))
    here.append(member(pods, "g6"))
    there.append(member(pods, "g6", namespace="gangs"))
    assert one_job(here)["job_id"] != one_job(there)["job_id"]
