"""P8, P28: volumes, ports and rules between Pods on real kubelets, which run a Pod or refuse it."""

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from tests.e2e.cluster import CONF, NODES, RealCluster
from tests.e2e.images import SLURMD
from tests.e2e.local_path import CLASS, LocalPath, folder
from tests.e2e.network import ADDRESS
from tests.e2e.stopwatch import Stopwatch
from tests.real.slurmd_pods import wait_for
from tests.real.testbed import BedError
from tests.real.testbed.ports import Ports
from tests.real.volumes import (
    LOCAL,
    NO_PROVISIONER,
    STORAGE_CLASSES,
    VOLUMES,
    WAITS,
    claim,
    claim_spec,
    storage_class,
    volume,
)
from tests.real.workloads import pod_term

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

SCHEDULER = "slurm"
CLAIMS = "/api/v1/namespaces/slurm/persistentvolumeclaims"
REPLICAS = 3
PORT = 30333
SMALL, LARGE = "500m", "1"
"""CPUs of a Pod. Two small ones fit a Node beside its slurmd Pod, two large ones do not, although
Slurm starts two jobs there."""
WRITES = "echo $(hostname) >>/data/names; exec sleep 86400"
NO_PORTS = "didn't have free ports for the requested pod ports"
NO_ROOM_BESIDE = "didn't match pod anti-affinity rules"
SAID_S = 90
"""A message that changes again within half a minute is written after it."""


class Workloads:
    """Deployments and StatefulSets of a user, in a cluster whose Slurm has six nodes."""

    def __init__(self, cluster: RealCluster) -> None:
        self.cluster = cluster
        self.kube = cluster.kube
        self.watch = Stopwatch(cluster.slurm.version)

    def apply(self, kind: str, name: str, **spec: Any) -> None:
        """Make an object of this kind with label and selector `app`."""
        file = self.kube.directory / "workload.json"
        file.write_text(json.dumps({
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"app": name}}, **spec},
        }))  # fmt: skip
        self.kube.kubectl("apply", "-n", "slurm", "-f", file)

    def add_local_volume(self, node: str, path: str) -> None:
        """Make a static local volume on the Node, and claim `static` that waits for its Pod."""
        one, call = volume("static", LOCAL, node), self.kube.rest.call
        del one["spec"]["hostPath"]
        one["spec"]["local"] = {"path": path}
        call("POST", STORAGE_CLASSES, storage_class(LOCAL, NO_PROVISIONER, WAITS))
        call("POST", VOLUMES, one)
        call("POST", CLAIMS, claim("static", LOCAL))

    def pods(self, app: str) -> list[dict[str, Any]]:
        told = self.kube.kubectl("get", "pods", "-n", "slurm", "-l", f"app={app}", "-o", "json")
        return list(json.loads(told)["items"])

    def nodes(self, app: str) -> list[str]:
        """Return the Node of each Pod that is ready."""
        return sorted(pod["spec"]["nodeName"] for pod in self.pods(app) if is_ready(pod))

    def failed(self, app: str) -> list[str]:
        """Return why the kubelet refused Pods."""
        return [
            f"{pod['status'].get('reason')}: {pod['status'].get('message')}"
            for pod in self.pods(app)
            if pod["status"]["phase"] == "Failed"
        ]

    def waiting(self, app: str) -> list[str]:
        """Return what the Pods without a Node say."""
        return [
            one["message"]
            for pod in self.pods(app)
            for one in pod["status"].get("conditions", ())
            if (one["type"], one["status"]) == ("PodScheduled", "False")
        ]

    def until_ready(self, app: str, number: int, what: str) -> list[str]:
        """Wait until so many of its Pods are ready, and return their Nodes."""
        self.watch.begin()
        self.watch.until(lambda: len(self.nodes(app)) == number, what)
        return self.nodes(app)

    def clear(self) -> None:
        kinds = "deployments,statefulsets,persistentvolumeclaims"
        self.kube.kubectl("delete", kinds, "--all", "-n", "slurm", "--wait=false")
        wait_for(lambda: not self._pods_of_slurm(), "the Pods are gone", deadline_s=60)
        with suppress(BedError):
            self.kube.kubectl("delete", "pv", "static", "--wait=false")
            self.kube.kubectl("delete", "storageclass", LOCAL)

    def _pods_of_slurm(self) -> list[Any]:
        told = json.loads(self.kube.kubectl("get", "pods", "-n", "slurm", "-o", "json"))
        return [one for one in told["items"] if one["spec"]["schedulerName"] == SCHEDULER]


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)


def template(
    app: str, script: str, *, cpu: str = SMALL, port: int | None = None, **spec: Any
) -> dict[str, Any]:
    """Return the template of a Pod that needs one of the two CPUs of a Slurm node."""
    container: dict[str, Any] = {
        "name": "main",
        "image": SLURMD.format(1),
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", script],
        "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
    }
    if port is not None:
        container["ports"] = [{"containerPort": 80, "hostPort": port}]
    if "volumes" in spec or app == "disks":
        container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {
            "schedulerName": SCHEDULER,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "dnsPolicy": "Default",
            "containers": [container],
            **spec,
        },
    }


@pytest.fixture
def workloads(cluster: RealCluster) -> Iterator[Workloads]:
    """The cluster with a NodeSet of six, and a service that schedules Pods."""
    key_file = cluster.kube.directory / "hooks.key"
    key_file.write_bytes(b"k" * 32)
    with Ports() as ports:
        address = f"{ADDRESS}:{ports.take()}"
        cluster.serve(
            components="syncer,scheduler,nodesets",
            scheduler_name=SCHEDULER,
            termination_offset="0s",
            slurm_kill_wait=f"{CONF.kill_wait_s}s",
            hooks_api_bind_address=address,
            hooks_url=f"http://{address}",
            hooks_key_file=str(key_file),
        )
        cluster.make(len(NODES))
        wait_for(partial(cluster.is_available, len(NODES)), "six nodes", deadline_s=60)
        made = Workloads(cluster)
        yield made
        made.clear()


@pytest.fixture
def local_path(workloads: Workloads) -> Iterator[LocalPath]:
    with LocalPath(workloads.kube, workloads.cluster.kubelets) as provisioner:
        yield provisioner
        workloads.clear()


@pytest.mark.usefixtures("local_path")
def test_each_replica_gets_a_disk_where_its_job_runs_and_keeps_it_P8(workloads: Workloads) -> None:
    claims = [{"metadata": {"name": "data"}, "spec": claim_spec(CLASS)}]
    workloads.apply(
        "StatefulSet",
        "disks",
        serviceName="disks",
        replicas=REPLICAS,
        podManagementPolicy="Parallel",
        template=template("disks", WRITES, cpu=LARGE),
        volumeClaimTemplates=claims,
    )
    workloads.until_ready("disks", REPLICAS, "StatefulSet with claims → three replicas ready")
    before = places(workloads)
    assert all(written(workloads, pod) == f"{pod}\n" for pod in before)
    workloads.kube.kubectl("delete", "pods", "-n", "slurm", "-l", "app=disks")
    workloads.until_ready("disks", REPLICAS, "its Pods deleted → three replicas ready again")
    assert places(workloads) == before
    assert all(written(workloads, pod) == f"{pod}\n" * 2 for pod in before)


def places(workloads: Workloads) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in workloads.pods("disks")}


def written(workloads: Workloads, pod: str) -> str:
    """Return what the Pod's disk holds, read on its Node."""
    node = workloads.kube.pod(pod, "slurm")["spec"]["nodeName"]
    (machine,) = (one for one in workloads.cluster.kubelets.machines if one.node == node)
    (file,) = workloads.cluster.kubelets.directory.glob(
        f"{machine.node}/volumes/*_data-{pod}/names"
    )
    assert str(file).startswith(folder(machine))
    return file.read_text()


def test_a_pod_runs_where_its_local_volume_is_P8(workloads: Workloads) -> None:
    machine = workloads.cluster.kubelets.machines[3]
    disk = machine.folder / "static"
    disk.mkdir(mode=0o777, exist_ok=True)
    workloads.add_local_volume(machine.node, str(disk))
    data = {"name": "data", "persistentVolumeClaim": {"claimName": "static"}}
    pod = template("static", WRITES, volumes=[data])
    workloads.apply("Deployment", "static", replicas=1, template=pod)
    nodes = workloads.until_ready("static", 1, "Deployment with a local volume → ready")
    assert nodes == [machine.node]
    assert (disk / "names").read_text().startswith("static-")


def test_replicas_that_need_one_port_of_the_node_get_a_node_each_P8(workloads: Workloads) -> None:
    pod = template("ports", "exec sleep 86400", port=PORT)
    workloads.apply("Deployment", "ports", replicas=len(NODES), template=pod)
    nodes = workloads.until_ready("ports", len(NODES), "six replicas with one port → ready")
    assert nodes == sorted(NODES)
    workloads.kube.kubectl("scale", "-n", "slurm", "deployment/ports", f"--replicas={REPLICAS * 3}")
    wait_for(lambda: says(workloads, "ports", NO_PORTS), "three more wait", deadline_s=SAID_S)
    assert not workloads.failed("ports")


def test_replicas_that_keep_apart_get_a_node_each_P8(workloads: Workloads) -> None:
    apart = {"requiredDuringSchedulingIgnoredDuringExecution": [pod_term("apart")]}
    affinity = {"podAntiAffinity": apart}
    pod = template("apart", "exec sleep 86400", affinity=affinity)
    workloads.apply("Deployment", "apart", replicas=REPLICAS, template=pod)
    nodes = workloads.until_ready("apart", REPLICAS, "three replicas that keep apart → ready")
    assert len(set(nodes)) == REPLICAS
    workloads.kube.kubectl("scale", "-n", "slurm", "deployment/apart", f"--replicas={REPLICAS * 3}")
    workloads.until_ready("apart", len(NODES), "scaled to nine → six ready")
    assert workloads.nodes("apart") == sorted(NODES)
    wait_for(lambda: says(workloads, "apart", NO_ROOM_BESIDE), "three more wait", deadline_s=SAID_S)


def says(workloads: Workloads, app: str, words: str) -> bool:
    """Whether three Pods wait, and one of them gives this reason: the others wait for its turn."""
    told = workloads.waiting(app)
    return len(told) == REPLICAS and any(words in one for one in told)
