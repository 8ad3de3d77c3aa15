"""A new user installs the chart, drains a Node, runs a Pod, upgrades and uninstalls.

Every command is run as it is printed (`-rP`). docs/install.md shows the transcript.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.image.conftest import Built
from tests.image.kubelet import Kubelet
from tests.image.load import Load
from tests.image.network import Address, PodNetwork, Service, hooks_endpoint
from tests.image.shell import Shell
from tests.real.conftest import require, require_helm
from tests.real.replicas import hooks_key
from tests.real.stage import Host, annotation, eventually
from tests.real.testbed import Bed, SlurmConf
from tests.real.testbed.bed import SLURM_DEFAULT
from tests.real.testbed.cache import KUBE_DEFAULT
from tests.real.testbed.kube import REPOSITORY

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

NAMESPACE = "slurm"
REGISTRY = "registry.example/sunk-sync"
QUICK = "SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1"
"""Slurm itself may delay a batch job by three seconds; the figures are those of sunk-sync."""
CONF = SlurmConf(slurmds=3, external_nodes=60, kill_wait_s=30, extra_lines=(QUICK,))
READY_S = 180
SOON_S = 60
"""Limits for a busy machine; the transcript has the real times."""
FREED_S = 25
"""Less than KillWait, after which Slurm itself frees the nodes of a placeholder."""
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: NAME
  namespace: slurm
spec:
  schedulerName: slurm-slurm
  terminationGracePeriodSeconds: 10
  containers:
  - name: main
    image: ubuntu
    resources:
      requests: {cpu: "4", memory: 8Gi}
"""
VALUES = """\
image:
  repository: registry.example/sunk-sync
settings:
  slurm-kill-wait: 30s
"""
CHART = "deploy/helm/sunk-sync"
INSTALL = (
    f"helm upgrade --install sunk-sync {CHART} -n {NAMESPACE} --set image.repository={REGISTRY}"
)
OURS = "app.kubernetes.io/name=sunk-sync"
SCHEDULER = "slurm-slurm"
CORDONED = "k8s: node cordoned"
KINDS = "configmap,service,deployment,pdb,lease,role,rolebinding,serviceaccount"
CLUSTER_KINDS = (
    "clusterrole,clusterrolebinding,validatingadmissionpolicy,validatingadmissionpolicybinding"
)
SQUEUE = "squeue -o '%i %j %T %N'"
AROUND_S = 2
SHOWN = 3000
LOST = "lost the Lease: this process ends"
"""Only then a replica ends by itself: a busy API server does not answer in time."""


class User:
    """A new user of sunk-sync, and what stands around the test."""

    def __init__(self, bed: Bed, shell: Shell, kubelet: Kubelet) -> None:
        self.bed, self.shell, self.kubelet = bed, shell, kubelet

    def host(self, name: str) -> Host:
        return Host(self.bed, name)

    def timed(self, command: str, what: str, claim: Callable[[], Any]) -> float:
        """Run the command; return the seconds from its begin until the claim holds."""
        began_s = time.monotonic()
        self.shell(command)
        eventually(claim, what, within_s=SOON_S, show=self.logs)
        seconds = time.monotonic() - began_s
        self.shell.say(f"{what}: {seconds:.2f} s after the command began")
        return seconds

    def until_rolled_out(self) -> None:
        self.shell(f"kubectl -n {NAMESPACE} rollout status deployment/sunk-sync")

    def logs(self) -> str:
        """Return the end of the log of each replica, and how often each began and ended."""
        runs = self.kubelet.runs.values()
        logs = [f"{run.name}:\n{run.log[-SHOWN:]}" for run in runs]
        states = [
            f"{run.name}: running {run.running}, ready {run.ready}, starts {run.starts}, "
            f"exit codes {run.exit_codes}, last line {run.log.splitlines()[-1:]}"
            for run in runs
        ]
        now = datetime.now(UTC).isoformat()
        return "\n".join([*logs, *states, f"now {now}"])


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    require(kube=KUBE_DEFAULT, slurm=SLURM_DEFAULT, scheduler=True)
    require_helm()
    with Bed.start(conf=CONF, hosts=False) as made:
        made.kube.start_scheduler()
        yield made


@pytest.fixture(scope="module")
def user(image: Built, bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    podman = image.podman
    podman.run("tag", image.tag, f"{REGISTRY}:0.1.0")
    network = PodNetwork(podman)
    here = network.gateway
    with (bed.slurm.root / "etc/hosts").open("a") as names:
        names.write(f"{here} sunk-sync-hooks.{NAMESPACE}.svc\n")
    services: dict[Address, Callable[[], Address | None]] = {
        (here, 443): lambda: ("127.0.0.1", bed.kube.port),
        (here, 6820): lambda: ("127.0.0.1", bed.slurm.port),
        (here, 8000): lambda: hooks_endpoint(bed.kube),
    }
    with ExitStack() as stack:
        for at, find in services.items():
            stack.enter_context(Service(at, find))
        hosts = dict.fromkeys(("kubernetes.default.svc", "slurm-restd"), here)
        kubelet = stack.enter_context(Kubelet(bed.kube, podman, network, hosts=hosts))
        home: Path = tmp_path_factory.mktemp("user")
        yield User(bed, Shell(bed, home), kubelet)


def test_a_new_user_installs_upgrades_rolls_back_and_uninstalls(user: User) -> None:
    installs(user)
    drains_the_first_node(user)
    runs_the_first_pod(user)
    changes_a_setting(user)
    uninstalls(user)
    installs_again(user)
    removes_everything(user)
    makes_mistakes(user)


def installs(user: User) -> None:
    shell = user.shell
    began_s = time.monotonic()
    shell(f"kubectl create namespace {NAMESPACE}")
    shell("scontrol token username=root lifespan=31536000 | cut -d= -f2 >token")
    shell(f"kubectl -n {NAMESPACE} create secret generic sunk-sync-slurm-token --from-file=token")
    shell.say("here the slurmd Pods of the Slurm cluster start")
    user.bed.kube.add_hosts(*CONF.names, namespace=NAMESPACE)
    installed_s = time.monotonic()
    shell(INSTALL)
    user.until_rolled_out()
    shell.say(f"two ready replicas {time.monotonic() - installed_s:.1f} s after that")
    shell(f"kubectl -n {NAMESPACE} get pods,pdb,lease -l {OURS}")
    doctor(user)
    assert time.monotonic() - began_s < READY_S


def doctor(user: User) -> None:
    """The API server of the test bed cannot exec: the stand-in of the kubelet does."""
    said = user.shell.show(
        f"kubectl -n {NAMESPACE} exec deployment/sunk-sync -- sunk-sync doctor",
        lambda: user.kubelet.one().execute("sunk-sync", "doctor"),
    )
    assert "0 wrong" in said


def drains_the_first_node(user: User) -> None:
    host = user.host("n1")
    drained = lambda: host.drained_as(CORDONED)  # noqa: E731
    assert user.timed("kubectl cordon n1", "drained in Slurm", drained) < SOON_S
    user.shell("sinfo -R")
    assert user.timed("kubectl uncordon n1", "free in Slurm", lambda: host.free) < SOON_S


def runs_the_first_pod(user: User) -> None:
    shell = user.shell
    shell.write("pod.yaml", POD.replace("NAME", "evaluation"))
    bound = lambda: node_of(user, "evaluation")  # noqa: E731
    assert user.timed("kubectl apply -f pod.yaml", "bound", bound) < SOON_S
    shell(f"kubectl -n {NAMESPACE} wait --for=condition=Ready pod/evaluation")
    shell(f"kubectl -n {NAMESPACE} get pod evaluation -o wide")
    assert f"k8s/{NAMESPACE}/evaluation/" in shell(SQUEUE)
    said = shell.refused("sed 's/evaluation/second/; /resources/,$d' pod.yaml | kubectl apply -f -")
    assert "cpu" in said, said


def applies(user: User, name: str) -> None:
    user.shell(f"sed s/evaluation/{name}/ pod.yaml | kubectl apply -f -")


def node_of(user: User, pod: str) -> str:
    return str(user.bed.kube.pod(pod, NAMESPACE)["spec"].get("nodeName", ""))


def changes_a_setting(user: User) -> None:
    user.shell.write("my-values.yaml", VALUES)
    rolls(user, f"helm upgrade sunk-sync {CHART} -n {NAMESPACE} -f my-values.yaml")
    rolls(user, f"helm rollback sunk-sync -n {NAMESPACE}")
    user.shell(f"helm -n {NAMESPACE} history sunk-sync")


def rolls(user: User, command: str) -> None:
    """Run a command that replaces both replicas, while Nodes are cordoned and Pods are made."""
    before = list(user.kubelet.runs.values())
    with Load(user.bed, SCHEDULER, NAMESPACE) as load:
        time.sleep(AROUND_S)
        user.shell(command)
        user.until_rolled_out()
        eventually(lambda: not any(one.running for one in before), "the old replicas ended")
        time.sleep(AROUND_S)
        load.end(within_s=SOON_S)
        user.shell.say(f"meanwhile, four a second: cordons {load.drains}; Pods {load.pods}")
        assert max(load.drains.took_s + load.pods.took_s) < SOON_S
        gone = "no job of a Pod that is gone"
        eventually(lambda: not load.jobs, gone, within_s=FREED_S, show=user.logs)
    for run in user.kubelet.runs.values():
        assert len(run.exit_codes) == run.log.count(LOST), run.log[-SHOWN:]


def uninstalls(user: User) -> None:
    """The replicas end; what keeps jobs, Pods and Nodes as they are stays."""
    shell, host = user.shell, user.host("n2")
    user.timed("kubectl cordon n2", "drained in Slurm", lambda: host.drained_as(CORDONED))
    applies(user, "training")
    eventually(lambda: node_of(user, "training"), "bound", within_s=SOON_S, show=user.logs)
    shell(f"helm uninstall sunk-sync -n {NAMESPACE}")
    replicas = list(user.kubelet.runs.values())
    eventually(lambda: not any(one.running for one in replicas), "the replicas ended")
    left = shell(f"kubectl -n {NAMESPACE} get secret,{KINDS} -o name")
    assert set(left.split()) == {
        "secret/sunk-sync-slurm-hooks-key",
        "secret/sunk-sync-slurm-token",
        "configmap/kube-root-ca.crt",
        "serviceaccount/default",
    }
    assert not shell(f"kubectl get {CLUSTER_KINDS} -l {OURS} -o name").strip()
    shell.say("from here on nobody keeps both sides in sync")
    shell("kubectl uncordon n2")
    shell(f"kubectl -n {NAMESPACE} delete pod training")
    applies(user, "later")
    time.sleep(AROUND_S)
    assert CORDONED in shell("sinfo -R")
    said = shell(SQUEUE)
    assert all(f"/{name}/" in said for name in ("evaluation", "training")), said
    assert "Pending" in shell(f"kubectl -n {NAMESPACE} get pods evaluation later")
    shell("scontrol show node n2 | grep -E 'Reason|Comment'")
    shell("kubectl get node n2 -o jsonpath='{.metadata.labels}{.metadata.annotations}'")
    shell("kubectl get node n2 -o custom-columns='CONDITIONS:.status.conditions[*].type'")


def installs_again(user: User) -> None:
    """The same command continues: drains, jobs and Pods are those of the first installation."""
    shell, host = user.shell, user.host("n2")
    key, job = hooks_key(user.bed), job_of(user, "evaluation")
    shell(INSTALL)
    user.until_rolled_out()
    began_s = time.monotonic()
    eventually(
        lambda: host.free,
        "the drain of the uncordoned Node is lifted",
        within_s=SOON_S,
        show=user.logs,
    )
    eventually(
        lambda: node_of(user, "later"),
        "the Pod that waited is bound",
        within_s=SOON_S,
        show=user.logs,
    )
    ended = lambda: "/training/" not in user.bed.slurm.squeue("-h", "-o", "%j")  # noqa: E731
    eventually(ended, "the job of the deleted Pod ended", within_s=SOON_S, show=user.logs)
    shell.say(f"{time.monotonic() - began_s:.1f} s later all three are in sync")
    shell("sinfo -R")
    shell(SQUEUE)
    assert hooks_key(user.bed) == key
    assert job_of(user, "evaluation") == job


def job_of(user: User, pod: str) -> str | None:
    return annotation(user.bed.kube.pod(pod, NAMESPACE), "job-id")


def removes_everything(user: User) -> None:
    """As deploy/README.md says, while sunk-sync still runs, then by hand."""
    shell, host = user.shell, user.host("n3")
    user.timed("kubectl cordon n3", "drained in Slurm", lambda: host.drained_as(CORDONED))
    for block in removal():
        for command in block:
            shell(command.replace("NODE", "n3"))
        eventually(
            lambda: not user.bed.slurm.squeue("-h").strip(),
            "no job",
            within_s=SOON_S,
            show=user.logs,
        )
    replicas = list(user.kubelet.runs.values())
    assert not any(one.running for one in replicas)
    assert host.free
    assert not traces(user)


def traces(user: User) -> list[str]:
    """Return what names sunk-sync in Kubernetes and in Slurm, but for slurmd Pods and Events."""
    rest = user.bed.kube.rest
    paths = ("/api/v1/nodes", "/api/v1/secrets", "/apis/coordination.k8s.io/v1/leases")
    found = [one for path in paths for one in rest.call("GET", path)["items"]]
    for one in found:
        del one["metadata"]["managedFields"]
    texts = [json.dumps(one) for one in (*found, *user.bed.slurm.slurm_nodes())]
    named = (re.search(".{0,80}(sunk|Slurm[A-Z]).{0,200}", text) for text in texts)
    return [one[0] for one in named if one]


def removal() -> list[list[str]]:
    """Return the commands of deploy/README.md, block by block, without comments."""
    text = (REPOSITORY / "deploy" / "README.md").read_text()
    section = text.partition("## Remove everything")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    return [block.strip().splitlines() for block in blocks]


def makes_mistakes(user: User) -> None:
    """A namespace that does not exist, and no Secret: the same command again needs no cleaning."""
    shell, pods = user.shell, f"-n {NAMESPACE} -l {OURS}"
    install = f"{INSTALL} --set scheduler.scope.namespaces=team-a"
    assert 'namespaces "team-a" not found' in shell.refused(install)
    shell("kubectl create namespace team-a")
    shell(install)
    describe = ["describe", "pods", *pods.split()]
    eventually(lambda: "FailedMount" in user.bed.kube.kubectl(*describe), "no Secret")
    shell(f"kubectl get pods {pods}")
    said = shell(f"kubectl describe pods {pods} | grep FailedMount | tail -1")
    assert 'secrets "sunk-sync-slurm-token" not found' in said
    shell(f"kubectl -n {NAMESPACE} create secret generic sunk-sync-slurm-token --from-file=token")
    user.until_rolled_out()
    doctor(user)
