"""sunk-sync in Pods of real kubelets: from its chart and its image, as a user installs it."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import ADDRESSES, CONF, NODES, RealCluster
from tests.e2e.conftest import require
from tests.e2e.images import SLURMD
from tests.e2e.kubelets import Kubelets, Machine
from tests.e2e.network import ADDRESS, own_network
from tests.e2e.requirements import KUBE
from tests.e2e.stopwatch import Stopwatch
from tests.image.network import Service as Relay
from tests.image.network import hooks_endpoint
from tests.image.podman import Podman
from tests.image.shell import Shell
from tests.real.conftest import require_helm, require_podman
from tests.real.service import Service
from tests.real.stage import eventually
from tests.real.testbed import Bed, KubeServer, SlurmServer
from tests.real.testbed.bed import SLURM_DEFAULT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

KUBERNETES = "10.0.0.1"
"""The address of the Service `kubernetes`, which each Pod gets from its kubelet."""
KILL_WAIT_S = 30
REPOSITORY, TAG = "localhost/sunk-sync", "e2e"
VALUES: dict[str, Any] = {
    "image": {"repository": REPOSITORY, "tag": TAG, "pullPolicy": "Never"},
    "slurm": {"apiBase": f"http://{ADDRESS}:6820"},
    "hooks": {"url": f"http://{ADDRESS}:8000"},
    "nodesets": {"enabled": True},
    "scheduler": {"name": "slurm"},
    "settings": {"slurm-kill-wait": f"{KILL_WAIT_S}s", "termination-offset": "0s"},
}
CHART = "deploy/helm/sunk-sync"
INSTALL = f"helm upgrade --install sunk-sync {CHART} -n slurm -f values.json"
OURS = "app.kubernetes.io/name=sunk-sync"
SUNK = 'PATH="$PATH:deploy/kubectl" kubectl sunk'
NODE_GRACE = "20s"
"""Silence after which Kubernetes says that a Node is not ready."""
TAKE_OVER_S = 10
"""After which a standby certainly writes: a lease of 6 s, and what a busy machine needs."""
WORKLOAD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train", "namespace": "slurm"},
    "spec": {
        "schedulerName": "slurm",
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "dnsPolicy": "Default",
        "containers": [
            {
                "name": "train",
                "image": SLURMD.format(1),
                "imagePullPolicy": "Never",
                "command": ["/bin/sh", "-c", "echo trains; exec sleep 86400"],
                "resources": {"requests": {"cpu": "1", "memory": "64Mi"}},
            }
        ],
    },
}


class Site:
    """The servers of a new user, the terminal, and a watch."""

    def __init__(self, bed: Bed, kubelets: Kubelets, shell: Shell) -> None:
        self.bed, self.kubelets, self.shell = bed, kubelets, shell
        self.kube, self.slurm = bed.kube, bed.slurm
        self.watch = Stopwatch(bed.slurm.version)

    @cached_property
    def cluster(self) -> RealCluster:
        """For NodeSets. The account of its service exists from the installation on."""
        return RealCluster(self.bed, Service(self.bed), self.kubelets)

    def replicas(self) -> dict[str, Any]:
        """Return the Pods of sunk-sync that are not being deleted."""
        return {
            one["metadata"]["name"]: one
            for one in self._ours("pods")
            if "deletionTimestamp" not in one["metadata"]
        }

    def leader(self) -> str:
        """Return the Pod that holds the Lease; empty if none does."""
        (lease,) = self._ours("leases")
        holder: str = lease["spec"].get("holderIdentity") or ""
        return holder.rpartition("_")[0]

    def _ours(self, kind: str) -> Any:
        told = self.kube.kubectl("get", kind, "-n", "slurm", "-l", OURS, "-o", "json")
        return json.loads(told)["items"]

    def reason_of(self, slurm_node: str) -> str:
        """Return the reason of its drain; empty if it is not drained."""
        row = self.slurm.slurm_node(slurm_node)
        return str(row["reason"]) if "DRAIN" in row["state"] else ""

    def all_available(self) -> bool:
        return self.cluster.is_available(len(NODES))

    def machine(self, node: str) -> Machine:
        return next(one for one in self.kubelets.machines if one.node == node)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image of this working tree, for `ctr images import`."""
    require_podman()
    file: Path = tmp_path_factory.mktemp("image") / "sunk-sync.tar"
    with Podman() as podman:
        podman.import_base()
        podman.build(f"{REPOSITORY}:{TAG}")
        podman.run("save", "--format", "docker-archive", "--output", file, f"{REPOSITORY}:{TAG}")
    return file


@pytest.fixture(scope="module")
def site(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """kube-apiserver, Slurm and six kubelets with the image; nothing is installed."""
    require(SLURM_DEFAULT)
    require_helm()
    with ExitStack() as stack:
        stack.enter_context(own_network(*ADDRESSES, KUBERNETES))
        kube = stack.enter_context(KubeServer(KUBE, kubelet=False, node_grace=NODE_GRACE))
        slurm = stack.enter_context(
            SlurmServer(SLURM_DEFAULT, replace(CONF, kill_wait_s=KILL_WAIT_S))
        )
        bed = Bed(kube=kube, slurm=slurm)
        kube.start_scheduler()
        # There is no kube-proxy: these are the Services.
        stack.enter_context(Relay((KUBERNETES, 443), lambda: ("127.0.0.1", kube.port)))
        stack.enter_context(Relay((ADDRESS, 6820), lambda: ("127.0.0.1", slurm.port)))
        stack.enter_context(Relay((ADDRESS, 8000), lambda: hooks_endpoint(kube)))
        kubelets = stack.enter_context(Kubelets(kube, *NODES, slurm=SLURM_DEFAULT))
        for machine in kubelets.machines:
            kubelets.ctr(machine, "images", "import", str(archive))
        yield Site(bed, kubelets, Shell(bed, tmp_path_factory.mktemp("user")))


def test_a_user_installs_asks_loses_the_leader_upgrades_and_uninstalls(site: Site) -> None:
    try:
        installs(site)
        gets_nodes(site)
        runs_a_pod(site)
        asks(site)
        pauses(site)
        upgrades(site)
        ends_the_pod(site)
        loses_the_leader(site)
        loses_a_machine(site)
        uninstalls(site)
    except BaseException:
        print(site.kube.kubectl("get", "pods,events", "-A", "-o", "wide"))
        print(site.kube.kubectl("logs", "-n", "slurm", "-l", OURS, "--prefix", "--tail=30"))
        raise


def installs(site: Site) -> None:
    shell = site.shell
    shell("kubectl create namespace slurm")
    shell("scontrol token username=root lifespan=31536000 | cut -d= -f2 >token")
    shell("kubectl -n slurm create secret generic sunk-sync-slurm-token --from-file=token")
    shell.write("values.json", json.dumps(VALUES, indent=1))
    site.watch.begin()
    shell(INSTALL)
    shell("kubectl -n slurm rollout status deployment/sunk-sync")
    site.watch.until(site.leader, "helm install → two ready replicas, one leads")
    shell(f"kubectl -n slurm get pods -o wide -l {OURS}")
    nodes = {one["spec"]["nodeName"] for one in site.replicas().values()}
    assert len(nodes) == 2, "two replicas on two Nodes"
    assert "\n0 wrong," in shell(f"{SUNK} doctor")


def gets_nodes(site: Site) -> None:
    cluster = site.cluster
    cluster.put_key()
    site.watch.begin()
    cluster.make(len(NODES))
    site.watch.until(site.all_available, f"NodeSet → {len(NODES)} slurmd Pods available")
    site.shell("kubectl -n slurm get nodesets")
    site.shell("sinfo -N -l")


def runs_a_pod(site: Site) -> None:
    site.shell.write("pod.json", json.dumps(WORKLOAD, indent=1))
    site.watch.begin()
    site.shell("kubectl apply -f pod.json")
    site.shell("kubectl -n slurm wait --for=condition=Ready pod/train --timeout=60s")
    site.watch.until(lambda: site.kube.kubectl("logs", "-n", "slurm", "train"), "the Pod runs")
    assert "k8s/slurm/train/" in site.shell("squeue -o '%i %j %T %N'")


def asks(site: Site) -> None:
    """Exit code 1 of `diff` would be a difference older than a minute."""
    shell = site.shell
    said = shell(f"{SUNK} explain pod slurm/train")
    assert site.kube.pod("train", "slurm")["spec"]["nodeName"] in said
    assert "leads" in shell(f"{SUNK} status")
    shell(f"{SUNK} explain host cpu-0")
    shell(f"{SUNK} explain nodeset slurm/cpu")
    shell(f"{SUNK} diff --older-than 1m")


def pauses(site: Site) -> None:
    node = site.cluster.nodes_of()["cpu-2"]
    site.shell(f"{SUNK} pause --for 5m --why maintenance")
    site.shell(f"kubectl cordon {node}")
    time.sleep(3)
    assert not site.reason_of("cpu-2")
    assert "paused" in site.shell.refused(f"{SUNK} status")
    site.watch.begin()
    site.shell(f"{SUNK} resume")
    site.watch.until(lambda: site.reason_of("cpu-2") == "k8s: node cordoned", "resumed → drained")
    site.shell(f"kubectl uncordon {node}")
    site.watch.until(lambda: not site.reason_of("cpu-2"), "uncordoned → free")


def loses_the_leader(site: Site) -> None:
    """Its container gets SIGKILL; the kubelet starts it again, as a standby."""
    leader = site.leader()
    pod = site.replicas()[leader]
    (container,) = pod["status"]["containerStatuses"]
    name = container["containerID"].removeprefix("containerd://")
    node = site.cluster.nodes_of()["cpu-2"]
    machine = site.machine(pod["spec"]["nodeName"])
    site.watch.begin()
    site.kubelets.ctr(machine, "tasks", "kill", "--signal", "SIGKILL", name)
    site.shell(f"kubectl cordon {node}")
    took_s = site.watch.until(lambda: site.reason_of("cpu-2"), "leader killed → the next drains")
    assert took_s < TAKE_OVER_S
    assert site.leader() != leader
    site.shell(f"kubectl uncordon {node}")

    def back() -> bool:
        (one,) = site.replicas()[leader]["status"]["containerStatuses"]
        return bool(one["restartCount"] == 1 and one["ready"])

    site.watch.until(back, "the killed replica is ready again")
    site.watch.until(lambda: not site.reason_of("cpu-2"), "uncordoned → free")
    assert site.leader() != leader


def loses_a_machine(site: Site) -> None:
    """The power of the leader's machine fails, and comes back: its Pods start again."""
    leader = site.leader()
    node = site.replicas()[leader]["spec"]["nodeName"]
    of_node = {where: name for name, where in site.cluster.nodes_of().items()}
    lost = of_node.pop(node)
    other, seen = min(of_node.items())
    site.watch.begin()
    site.kubelets.power_off(site.machine(node))
    site.shell(f"kubectl cordon {other}")
    took_s = site.watch.until(lambda: site.reason_of(seen), "power cut → the next drains")
    assert took_s < TAKE_OVER_S
    assert site.leader() != leader
    site.shell(f"kubectl uncordon {other}")
    drained = lambda: site.reason_of(lost) == "k8s: node not ready"  # noqa: E731
    told = f"its Slurm node is drained (Kubernetes waits {NODE_GRACE}, sunk-sync 40 s)"
    site.watch.until(drained, told, within_s=120)
    site.shell("kubectl get nodes")
    site.shell("sinfo -R")
    site.kubelets.power_on(site.machine(node))
    site.watch.until(site.all_available, "power on → all Slurm nodes are available again")
    assert len(site.replicas()) == 2


def upgrades(site: Site) -> None:
    """Both replicas are replaced; the workload Pod and its job stay."""
    before = set(site.replicas())
    jobs = site.shell("squeue -h -o '%i %N'")
    site.shell(f"{INSTALL} --set settings.log-level=debug")
    site.shell("kubectl -n slurm rollout status deployment/sunk-sync")
    eventually(lambda: not before & set(site.replicas()), "both replaced", within_s=60)
    assert site.shell("squeue -h -o '%i %N'") == jobs
    assert site.kube.pod("train", "slurm")["status"]["phase"] == "Running"


def ends_the_pod(site: Site) -> None:
    site.watch.begin()
    site.shell("kubectl -n slurm delete pod train --wait=false")
    site.watch.until(lambda: not site.slurm.squeue("-h").strip(), "Pod deleted → no job")


def uninstalls(site: Site) -> None:
    shell = site.shell
    site.watch.begin()
    shell("kubectl -n slurm delete nodeset cpu --timeout=60s")
    site.watch.until(lambda: not site.slurm.slurm_nodes(), "NodeSet deleted → no Slurm node")
    shell("helm uninstall sunk-sync -n slurm")
    shell(f"kubectl -n slurm wait --for=delete pod -l {OURS} --timeout=60s")
    assert not shell(f"kubectl -n slurm get all,cm,lease,role -l {OURS} -o name").strip()
