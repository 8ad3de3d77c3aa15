"""Each file of deploy/examples, applied as it stands, with the real controller of its kind.

A stand-in for the kubelets reports the Pods running and ended. Controllers that Kubernetes does not
bring run beside the Slurm of the default version only, and Kueue only where `SUNK_SYNC_KUEUE=1 make
testbed` has built it.
"""

from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.real.applied import KILL_WAIT_S, NAMESPACE, WITHIN_S, ExampleStage, applied
from tests.real.conftest import for_each_slurm, require_controllers, with_settings
from tests.real.pod_groups import CRD, CRDS, NAME
from tests.real.service import allow
from tests.real.stage import eventually, stays
from tests.real.testbed.bed import SLURM_DEFAULT
from tests.real.testbed.cache import CONTROLLERS, FRAMEWORKS, KUEUE, kueue
from tests.real.testbed.controllers import Controllers
from tests.real.testbed.kube_objects import conditions
from tests.real.testbed.kubelet import EXIT_CODE
from tests.real.volumes import PROVISIONER, STORAGE_CLASSES, WAITS, Storage, storage_class
from tests.real.workloads import Load, all_jobs, workload_spec

STAGE_HOSTS = 4

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(240),
    pytest.mark.usefixtures("scheduler"),
    with_settings(
        watch_namespace=f"slurm,{NAMESPACE}",
        scheduler_name="slurm-slurm",
        slurm_kill_wait=f"{KILL_WAIT_S}s",
        termination_offset="5s",
    ),
]
beside = pytest.mark.parametrize("pods", [SLURM_DEFAULT], indirect=True)
"""On the version of Slurm with the controllers."""
if_kueue = pytest.mark.skipif(not kueue().built, reason="SUNK_SYNC_KUEUE=1 make testbed")


pods = for_each_slurm(ExampleStage)


@pytest.fixture(scope="module", autouse=True)
def _prepared(pods: ExampleStage, request: pytest.FixtureRequest) -> None:
    """Allow Pods in the namespace; SIGTERM ends their containers, as it does by default.

    Start the controllers before the first test that needs them: Kubernetes' garbage collector takes
    up to half a minute to learn of a new kind.
    """
    allow(pods.bed, NAMESPACE)
    for name in pods.bed.slurm.conf.names:
        pods.bed.kube.annotate_node(name, {EXIT_CODE: "143"})
    if pods.version == SLURM_DEFAULT:
        request.getfixturevalue("controllers")


@pytest.fixture(scope="module")
def controllers(pods: ExampleStage) -> Iterator[Controllers]:
    require_controllers()
    kube = pods.bed.kube
    kube.rest.call("POST", CRDS, CRD)  # Trainer looks for it once
    kube.kubectl("wait", "--for=condition=Established", f"crd/{NAME}")
    with Controllers(kube) as started:
        started.start(*CONTROLLERS, *FRAMEWORKS, *(KUEUE if kueue().built else ()))
        yield started


@pytest.fixture(scope="module")
def storage(pods: ExampleStage) -> Iterator[Storage]:
    with Storage(pods.bed, namespace=NAMESPACE) as storage:
        yield storage


def test_a_job_has_a_slurm_job_for_each_pod_and_ignores_cancelled_ones(pods: ExampleStage) -> None:
    with applied(pods, "job") as example:
        first = example.until_running(2)
        assert len(example.gangs(first)) == 2
        cancelled, other = first.values()
        example.cancel(cancelled)
        second = example.until_running(2)
        assert other.name in second
        assert "failed" not in example.get("job/evaluation")["status"]
        example.finish(*second.values())
        example.until_true("job/evaluation", "Complete")
        example.until(lambda: not example.jobs(), "its Slurm jobs have ended")


def test_a_daemon_set_that_names_the_scheduler_is_refused_P8(pods: ExampleStage) -> None:
    rest, labels = pods.bed.kube.rest, {"app": "daemon"}
    daemons = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
    made_by_it = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app%3Ddaemon"
    spec = {**workload_spec(), "schedulerName": "slurm-slurm", "terminationGracePeriodSeconds": 5}
    template = {"metadata": {"labels": labels}, "spec": spec}
    daemon = {"selector": {"matchLabels": labels}, "template": template}
    rest.call("POST", daemons, {"metadata": {"name": "daemon"}, "spec": daemon})

    def messages() -> set[str]:
        found = [conditions(one) for one in rest.call("GET", made_by_it)["items"]]
        return {one.get("PodScheduled", {}).get("message", "") for one in found}

    why = "a Pod of a DaemonSet gets no Slurm job: leave schedulerName out of its template"
    eventually(lambda: messages() == {why}, "each Pod says why", show=lambda: str(messages()))
    assert not [job for job in all_jobs(pods.bed) if "/daemon-" in job["name"]]
    rest.call("DELETE", f"{daemons}/daemon")


def test_an_indexed_job_is_a_gang_that_is_replaced_as_a_whole(pods: ExampleStage) -> None:
    with applied(pods, "indexed-job-gang") as example:
        first = example.until_running(3)
        assert len(example.gangs(first)) == 1
        example.evict(next(iter(first.values())))
        second = example.until_running(3, without=first)
        assert len(example.gangs(second)) == 1
        assert "failed" not in example.get("job/train")["status"]
        example.finish(*second.values())
        example.until_true("job/train", "Complete")


def test_a_rank_that_crashes_ends_the_gang_and_fails_the_job(pods: ExampleStage) -> None:
    with applied(pods, "indexed-job-gang") as example:
        gang = example.until_running(3)
        example.finish(gang.popitem()[1], code=1)
        example.until_true("job/train", "Failed")
        example.until(lambda: not example.alive() and not example.jobs(), "the gang has ended")


def test_a_cron_job_that_is_due_runs_by_slurm(pods: ExampleStage) -> None:
    with applied(pods, "cronjob") as example:
        last = {"status": {"lastScheduleTime": "2026-01-01T03:00:00Z"}}
        path = f"/apis/batch/v1/namespaces/{NAMESPACE}/cronjobs/report/status"
        example.kube.patch(path, last)
        (load,) = example.until_running(1).values()
        assert example.jobs()[load.until_bound()]["time_limit"]["number"] == 30
        example.finish(load)
        example.until(
            lambda: example.get("cronjob/report")["status"].get("lastSuccessfulTime"),
            "the CronJob has seen it succeed",
        )


def test_a_stateful_set_replaces_and_removes_its_pods_one_by_one(pods: ExampleStage) -> None:
    with applied(pods, "statefulset") as example:
        first = example.until_running(2)
        assert len(example.gangs(first)) == 2
        example.kubectl("rollout", "restart", "statefulset/cache")
        second = example.until_running(2, without=first)
        assert second.keys() == first.keys()
        example.kubectl("scale", "statefulset/cache", "--replicas=1")
        left = example.until_running(1)
        example.until(lambda: len(example.jobs()) == 1, "the job of the second Pod has ended")
        assert left["cache-0"].uid == second["cache-0"].uid


CLAIM = """
  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec:
        storageClassName: dynamic
        accessModes: [ReadWriteOnce]
        resources:
          requests: {storage: 1Gi}
  serviceName:"""


def test_each_replica_of_a_stateful_set_runs_where_the_volume_of_its_claim_is_made_P8(
    pods: ExampleStage, storage: Storage
) -> None:
    with applied(pods, "statefulset", changed={"\n  serviceName:": CLAIM}) as example:
        for name, load in example.until_running(2).items():
            assert storage.nodes_of(f"data-{name}") == [load.node]


def test_a_pod_runs_where_the_volume_of_its_claim_is_made_P8(
    pods: ExampleStage, storage: Storage
) -> None:
    one = storage_class("local-disks", PROVISIONER, WAITS)
    pods.bed.kube.rest.call("POST", STORAGE_CLASSES, one)
    with applied(pods, "volume") as example:
        (load,) = example.until_running(1).values()
        assert storage.is_bound("dataset")
        assert storage.nodes_of("dataset") == [load.node]


def test_a_deployment_scales_rolls_out_and_replaces_a_cancelled_pod(pods: ExampleStage) -> None:
    with applied(pods, "deployment") as example:
        example.until_running(2)
        example.kubectl("scale", "deployment/web", "--replicas=3")
        first = example.until_running(3)
        assert len(example.gangs(first)) == 3
        example.kubectl("rollout", "restart", "deployment/web")
        second = example.until_running(3, without=first)
        example.cancel(next(iter(second.values())))
        example.until_running(3)
        example.kubectl("rollout", "status", "deployment/web", f"--timeout={WITHIN_S:g}s")


@beside
@if_kueue
def test_slurm_sees_the_pods_of_a_kueue_job_when_they_are_admitted(pods: ExampleStage) -> None:
    with applied(pods, "kueue") as example:
        first = example.until_running(2)
        assert len(example.gangs(first)) == 1
        waiting = ("nightly-2", "nightly-1")["nightly-2" in next(iter(first))]
        assert stays(lambda: len(example.jobs()) == 1 and first.keys() == example.alive().keys())
        assert example.get(f"job/{waiting}")["spec"]["suspend"]
        example.finish(*first.values())
        second = example.until_running(2, without=first)
        assert all(name.startswith(waiting) for name in second)
        assert len(example.gangs(second)) == 1


@beside
@if_kueue
def test_a_pod_with_the_gate_of_kueue_has_no_job_until_it_is_admitted(pods: ExampleStage) -> None:
    labels = {"kueue.x-k8s.io/queue-name": "nightly"}
    with applied(pods, "kueue") as example:
        gang = example.until_running(2)
        load = pods.load(
            name="single", namespace=NAMESPACE, labels=labels, schedulerName="slurm-slurm"
        )
        assert {"name": "kueue.x-k8s.io/admission"} in load.pod["spec"]["schedulingGates"]
        assert stays(lambda: len(example.jobs()) == 1)
        for name in ("nightly-1", "nightly-2"):
            example.kubectl("delete", f"job/{name}")
        example.until(lambda: all(one.gone for one in gang.values()), "the gang is gone")
        assert example.until_running(1).keys() == {load.name}
        load.delete()


@beside
def test_each_job_of_a_job_set_is_a_gang_and_a_failed_one_restarts_all_G1(
    pods: ExampleStage,
) -> None:
    with applied(pods, "jobset") as example:
        first = example.until_running(4)
        gangs = example.gangs(first)
        assert sorted(map(len, gangs.values())) == [2, 2]
        names = next(iter(gangs.values()))
        example.cancel(first[names[0]])
        first = example.until_running(4, without={name: first[name] for name in names})
        assert example.get("jobset/sweep")["status"].get("restarts", 0) == 0
        example.finish(next(iter(first.values())), code=1)
        second = example.until_running(4, without=first)
        assert sorted(map(len, example.gangs(second).values())) == [2, 2]
        assert example.get("jobset/sweep")["status"]["restarts"] == 1
        example.finish(*second.values())
        example.until_true("jobset/sweep", "Completed")


EXCLUSIVE = """
  annotations:
    alpha.jobset.sigs.k8s.io/exclusive-topology: kubernetes.io/hostname
spec:
  failurePolicy:"""


@beside
def test_a_gang_with_exclusive_topology_never_starts(pods: ExampleStage) -> None:
    """JobSet creates the second Pod when the first one has a Node, and that waits for the gang."""
    with applied(pods, "jobset", changed={"\nspec:\n  failurePolicy:": EXCLUSIVE}) as example:
        example.until(lambda: len(example.alive()) == 2, "the leaders exist")
        for name in example.alive():
            leader = Load(pods.bed, name, namespace=NAMESPACE)
            leader.until(lambda leader=leader: leader.message.startswith("1 of the 2 Pods"))
        assert stays(lambda: not example.jobs() and len(example.alive()) == 2)


@beside
def test_without_a_gang_each_exclusive_job_has_a_node_of_its_own_P8(pods: ExampleStage) -> None:
    changed = {"\nspec:\n  failurePolicy:": EXCLUSIVE, "gang: job": "comment: alone"}
    with applied(pods, "jobset", changed=changed) as example:
        nodes: defaultdict[str, set[str]] = defaultdict(set)
        for name, load in example.until_running(4).items():
            nodes[name.rsplit("-", 2)[0]].add(load.node)
        assert set(map(len, nodes.values())) == {1}
        assert len(set.union(*nodes.values())) == len(nodes)
        print(f"exclusive: {dict(nodes)}")


@beside
def test_each_group_of_a_leader_worker_set_is_a_gang_G1(pods: ExampleStage) -> None:
    with applied(pods, "leaderworkerset") as example:
        first = example.until_running(4)
        gangs = sorted(example.gangs(first).values())
        assert gangs == [["serve-0", "serve-0-1"], ["serve-1", "serve-1-1"]]
        first["serve-0-1"].delete()
        group = {name: first[name] for name in gangs[0]}
        second = example.until_running(4, without=group)
        assert sorted(example.gangs(second).values()) == gangs
        assert second["serve-1"].uid == first["serve-1"].uid
        example.kubectl("scale", "leaderworkerset/serve", "--replicas=1")
        assert list(example.gangs(example.until_running(2)).values()) == gangs[:1]
        example.until(lambda: len(example.jobs()) == 1, "the job of the other group has ended")


@beside
def test_the_pods_of_a_ray_cluster_come_and_go_one_by_one(pods: ExampleStage) -> None:
    with applied(pods, "raycluster") as example:
        first = example.until_running(3)
        assert len(example.gangs(first)) == 3
        worker = next(name for name in first if "worker" in name)
        example.cancel(first.pop(worker))
        second = example.until_running(3)
        assert first.keys() < second.keys()
        example.change("raycluster/ray", "/spec/workerGroupSpecs/0/replicas", 1)
        left = example.until_running(2)
        example.until(lambda: len(example.jobs()) == 2, "the job of the other worker has ended")
        (head,) = (load for name, load in left.items() if "head" in name)
        example.finish(head, code=1)
        third = example.until_running(2, without={head.name: head})
        assert len(example.gangs(third)) == 2


@beside
def test_the_nodes_of_a_train_job_are_a_gang_that_comes_back_G1(pods: ExampleStage) -> None:
    with applied(pods, "trainjob") as example:
        first = example.until_running(2)
        assert len(example.gangs(first)) == 1
        example.cancel(next(iter(first.values())))
        second = example.until_running(2, without=first)
        assert len(example.gangs(second)) == 1
        example.finish(*second.values())
        example.until_true("trainjob/llm", "Complete")


COSCHEDULED = {
    "  mlPolicy:\n": "  podGroupPolicy:\n    coscheduling: {}\n  mlPolicy:\n",
    """                metadata:
                  annotations:
                    sunk.coreweave.com/gang: job
""": "",
}


@beside
def test_a_train_job_whose_runtime_makes_a_pod_group_is_a_gang_G1(pods: ExampleStage) -> None:
    with applied(pods, "trainjob", changed=COSCHEDULED) as example:
        (names,) = example.gangs(example.until_running(2)).values()
        assert len(names) == 2
        assert example.get("podgroup/llm")["spec"]["minMember"] == 2


@beside
def test_groups_whose_leader_must_be_ready_first_never_start(pods: ExampleStage) -> None:
    changed = {"startupPolicy: LeaderCreated": "startupPolicy: LeaderReady"}
    with applied(pods, "leaderworkerset", changed=changed) as example:
        example.until(lambda: len(example.alive()) == 2, "the leaders exist")
        leaders = [Load(pods.bed, name, namespace=NAMESPACE) for name in example.alive()]
        for leader in leaders:
            leader.until(lambda leader=leader: leader.message.startswith("1 of the 2 Pods"))
        assert stays(lambda: not example.jobs())


AGAIN = [
    pytest.param("jobset", 4, {}, id="JobSet"),
    pytest.param("leaderworkerset", 4, {}, id="LeaderWorkerSet"),
    pytest.param("trainjob", 2, {}, id="TrainJob"),
    pytest.param("trainjob", 2, COSCHEDULED, id="TrainJob by PodGroup"),
]
nightly = pytest.mark.night("test_gang_attempts shows the same with the Job controller alone")


@beside
@nightly
@pytest.mark.parametrize(("name", "size", "changed"), AGAIN)
def test_gangs_of_each_controller_come_back_after_all_or_one_of_them_failed_G8(
    pods: ExampleStage, name: str, size: int, changed: dict[str, str]
) -> None:
    with applied(pods, name, changed=changed, within_s=90) as example:
        first = example.until_running(size)
        gangs = len(example.gangs(first))
        example.finish(*first.values(), code=1)
        second = example.until_running(size, without=first)
        assert len(example.gangs(second)) == gangs
        names = min(example.gangs(second).values())
        example.finish(second[names[0]], code=1)
        third = example.until_running(size, without={one: second[one] for one in names})
        assert len(example.gangs(third)) == gangs


@beside
@nightly
@pytest.mark.parametrize(("name", "size", "changed"), AGAIN)
def test_gangs_that_are_applied_again_while_their_pods_end_come_back_G9(
    pods: ExampleStage, name: str, size: int, changed: dict[str, str]
) -> None:
    with applied(pods, name, changed=changed, within_s=90) as example:
        first = example.until_running(size)
        gangs = len(example.gangs(first))
        example.kubectl("delete", "--cascade=background", "-f", str(example.file))
        example.kubectl("apply", "-f", str(example.file))
        second = example.until_running(size, without=first)
        assert len(example.gangs(second)) == gangs
        example.until(lambda: len(example.jobs()) == gangs, "no job of the first is left")


@beside
@nightly
@pytest.mark.parametrize(("name", "size", "changed"), [AGAIN[0], *AGAIN[2:]])
def test_the_clean_up_of_a_succeeded_pod_ends_no_other_of_its_gang_G8(
    pods: ExampleStage, name: str, size: int, changed: dict[str, str]
) -> None:
    with applied(pods, name, changed=changed, within_s=90) as example:
        first = example.until_running(size)
        jobs = example.jobs().keys()
        done, *others = (first[one] for one in sorted(first))
        example.finish(done)
        done.until(lambda: done.pod["status"]["phase"] == "Succeeded")
        done.delete()
        example.until(lambda: done.gone, "cleaned up")
        assert stays(lambda: all(one.pod["status"]["phase"] == "Running" for one in others))
        assert example.jobs().keys() == jobs


@beside
@nightly
@pytest.mark.parametrize(
    ("name", "what", "size"), [("jobset", "jobset/sweep", 4), ("trainjob", "trainjob/llm", 2)]
)
def test_gangs_that_are_suspended_and_resumed_come_back_G8(
    pods: ExampleStage, name: str, what: str, size: int
) -> None:
    with applied(pods, name, within_s=90) as example:
        first = example.until_running(size)
        gangs = len(example.gangs(first))
        example.kubectl("patch", what, "--type=merge", "-p", '{"spec":{"suspend":true}}')
        example.until(lambda: not example.alive() and not example.jobs(), "suspended")
        example.kubectl("patch", what, "--type=merge", "-p", '{"spec":{"suspend":false}}')
        second = example.until_running(size, without=first)
        assert len(example.gangs(second)) == gangs
