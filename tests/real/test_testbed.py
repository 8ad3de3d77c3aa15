"""The test bed itself: real servers, isolated, and gone with their owner."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.real.conftest import require, require_helm
from tests.real.testbed import (
    Bed,
    BedError,
    KubeServer,
    RestError,
    SlurmConf,
    SlurmServer,
    kube_objects,
    sandbox,
)
from tests.real.testbed import build as building
from tests.real.testbed.build import build
from tests.real.testbed.cache import KUBE_DEFAULT, SLURM_SUITES, Artifact
from tests.real.testbed.kubelet import END_DELAY, EXIT_CODE, FAILURES, INDEX, RUN, START_DELAY
from tests.real.testbed.ports import Ports
from tests.real.testbed.progress import Progress
from tests.real.testbed.up import write_commands

pytestmark = pytest.mark.real

# A process that starts a test bed, prints what belongs to it, and waits to be killed.
OWNER = """
import json, time
from tests.real.testbed import SlurmConf, SlurmServer
slurm = SlurmServer("26.05", SlurmConf(accounting=True))
pids = [slurm.init_pid, *(daemon.pid for daemon in slurm.daemons.values())]
supervisor = slurm.supervisor_pid
slurm.daemons["slurmctld"].pause()
print(json.dumps([str(slurm.directory), pids, supervisor]), flush=True)
time.sleep(600)
"""


def eventually(condition: Callable[[], object], deadline_s: float = 5) -> None:
    sandbox.wait_until(lambda: bool(condition()), "the claim", deadline_s=deadline_s)


def ready(an_object: Any) -> str:
    return kube_objects.status_of(an_object, "Ready")


def test_slurm_has_the_requested_version(slurm: SlurmServer) -> None:
    """A Debian suite may get another version of Slurm."""
    assert f"slurm-wlm {slurm.version}." in slurm.scontrol("--version")
    ping = slurm.rest.call("GET", slurm.path("ping/"))
    assert [controller["responding"] for controller in ping["pings"]] == [True]
    assert ping["meta"]["slurm"]["release"].startswith(slurm.version)


def test_slurmd_runs_a_job(slurm: SlurmServer) -> None:
    names = slurm.conf.slurmd_names
    said = slurm.run_in_root("srun", "-N3", "sh", "-c", "echo $SLURMD_NODENAME")
    assert sorted(said.split()) == names


def test_drain_and_undrain_by_rest(slurm: SlurmServer) -> None:
    slurm.update_slurm_node("n[1-2]", state=["DRAIN"], reason="testbed: check")
    states = slurm.states()
    assert ["DRAIN" in states[name] for name in ("n1", "n2", "n3")] == [True, True, False]
    assert slurm.slurm_node("n1")["reason"] == "testbed: check"
    slurm.update_slurm_node("n[1-2]", state=["UNDRAIN"], reason="testbed: over")
    assert not any("DRAIN" in state for state in slurm.states().values())


def test_slurm_refuses_a_wrong_token(slurm: SlurmServer) -> None:
    with pytest.raises(RestError) as refusal:
        type(slurm.rest)(slurm.url).call("GET", slurm.path("nodes/"))
    assert refusal.value.status == 401


@pytest.mark.parametrize("version", SLURM_SUITES)
def test_nodes_without_slurmd_are_idle(version: str) -> None:
    require(slurm=version)
    with SlurmServer(version, SlurmConf(slurmds=1, external_nodes=1000)) as slurm:
        slurm.update_slurm_node("x[1-1000]", state=["DRAIN"], reason="testbed: all")
        states = slurm.states()
        assert len(states) == 1001
        assert sum("DRAIN" in state for state in states.values()) == 1000
        assert "DRAIN" not in states["n1"]


@pytest.mark.parametrize("version", SLURM_SUITES)
def test_servers_of_slurm_stop_and_start_again(version: str) -> None:
    require(slurm=version)
    conf = SlurmConf(slurmds=2, gpus=2, extra_lines=["SlurmdTimeout=7"])
    with SlurmServer(version, conf) as slurm:
        slurm.update_slurm_node("n1", state=["DRAIN"], reason="testbed: kept")
        slurm.stop_slurmctld()
        assert "DOWN" in slurm.run_in_root("sh", "-c", "scontrol ping || true")
        slurm.start_slurmctld()
        slurm.stop_slurmrestd()
        with pytest.raises(OSError, match="refused"):
            slurm.states()
        slurm.start_slurmrestd()
        slurm.stop_slurmd("n2")
        slurm.start_slurmd("n2")
        slurm.reconfigure(SlurmConf(slurmds=2, gpus=2, extra_lines=["SlurmdTimeout=9"]))
        eventually(lambda: {"IDLE", "DRAIN"} <= set(slurm.states()["n1"]))
        slurm.update_slurm_node("n1", state=["UNDRAIN"], reason="testbed: over")
        slurm.wait_until_idle()
        assert slurm.slurm_node("n1")["gres"] == "gpu:2"
        assert " 9 sec" in slurm.scontrol("show", "config").split("SlurmdTimeout")[1]


def test_a_paused_slurmctld_hangs_and_continues(slurm: SlurmServer) -> None:
    slurmctld = slurm.daemons["slurmctld"]
    slurmctld.pause()
    with pytest.raises(BedError, match="still running after"):
        sandbox.run(slurm.in_root("sinfo", "-h"), deadline_s=0.5)
    slurmctld.resume()
    assert "idle" in slurm.sinfo("-h")
    slurm.wait_until_idle()


def test_a_paused_server_can_be_stopped(slurm: SlurmServer) -> None:
    slurm.daemons["slurmd-n3"].pause()
    slurm.stop_slurmd("n3")
    assert not slurm.daemons["slurmd-n3"].running
    slurm.start_slurmd("n3")
    slurm.wait_until_idle()


@pytest.mark.parametrize("version", SLURM_SUITES)
def test_accounting_records_user_and_account(version: str) -> None:
    require(slurm=version)
    conf = SlurmConf(
        slurmds=1,
        accounting=True,
        users={"alice": 1001},
        extra_lines=["AccountingStorageEnforce=associations,limits,qos"],
    )
    with SlurmServer(version, conf) as slurm:
        with pytest.raises(BedError, match="Invalid account"):
            slurm.run_in_root("srun", "true", user="1001:1001")
        slurm.sacctmgr("add", "account", "games")
        slurm.sacctmgr("add", "user", "alice", "account=games")
        assert slurm.run_in_root("srun", "id", "-un", user="1001:1001").strip() == "alice"
        ran = ("sacct", "-X", "--noheader", "--parsable2", "--format=user,account,state")
        eventually(lambda: slurm.run_in_root(*ran).split() == ["alice|games|COMPLETED"])
        slurm.stop_slurmdbd()
        slurm.start_slurmdbd()
        assert "games" in slurm.sacctmgr("show", "account", "format=account")


def test_a_test_bed_has_no_accounting_by_default(slurm: SlurmServer) -> None:
    assert not {"slurmdbd", "mariadb"} & set(slurm.daemons)
    with pytest.raises(BedError, match="accounting"):
        slurm.sacctmgr("show", "account")


class Place:
    """Pods of a test in a namespace of its own, on Node m1."""

    def __init__(self, kube: KubeServer) -> None:
        self.kube = kube

    def create(self, name: str, *, node: str | None = "m1", **more: Any) -> None:
        self.kube.create(kube_objects.pod(name, namespace="testbed", node=node, **more))

    def pod(self, name: str) -> Any:
        return self.kube.pod(name, "testbed")

    def phase(self, name: str) -> str:
        return str(self.pod(name)["status"]["phase"])

    def until_ready(self, name: str) -> None:
        eventually(lambda: ready(self.pod(name)) == "True")

    def until_phase(self, name: str, phase: str) -> None:
        eventually(lambda: self.phase(name) == phase)

    def until_gone(self, name: str) -> None:
        eventually(lambda: self.kube.pod_if_any(name, "testbed") is None)


@pytest.fixture
def place(kube: KubeServer) -> Iterator[Place]:
    kube.ensure_namespace("testbed")
    kube.add_nodes("m1")
    yield Place(kube)
    kube.delete_node("m1")
    kube.rest.call("DELETE", "/api/v1/namespaces/testbed/pods", {"gracePeriodSeconds": 0})


def test_kubernetes_has_the_requested_version(kube: KubeServer) -> None:
    said = json.loads(kube.kubectl("version", "-o", "json"))
    assert said["serverVersion"]["gitVersion"] == f"v{kube.version}"
    assert said["clientVersion"]["gitVersion"] == f"v{kube.version}"


def test_the_kubelet_stand_in_runs_and_ends_pods(place: Place) -> None:
    place.create("p1")
    place.until_ready("p1")
    assert place.phase("p1") == "Running"
    place.kube.delete_pod("p1", "testbed")
    place.until_gone("p1")


def test_a_pod_without_a_node_does_not_run(place: Place) -> None:
    place.create("p2", node=None)
    time.sleep(0.2)
    assert place.phase("p2") == "Pending"


def test_a_slow_pod_starts_and_ends_late(place: Place) -> None:
    kube = place.kube
    kube.annotate_node("m1", {START_DELAY: "inf", END_DELAY: "inf"})
    place.create("patient")
    place.create("quick", annotations={START_DELAY: "0"})
    place.until_ready("quick")
    assert place.phase("patient") == "Pending"
    kube.annotate_node("m1", {START_DELAY: "0.3"})
    place.until_ready("patient")
    kube.delete_pod("patient", "testbed")
    time.sleep(0.3)
    assert "deletionTimestamp" in place.pod("patient")["metadata"]
    kube.annotate_pod("patient", "testbed", {END_DELAY: "0"})
    place.until_gone("patient")
    kube.annotate_node("m1", {START_DELAY: None, END_DELAY: None})


@pytest.mark.parametrize(("exit_code", "phase"), [("0", "Succeeded"), ("1", "Failed")])
def test_containers_end_with_their_exit_code(place: Place, exit_code: str, phase: str) -> None:
    name = f"ends-{exit_code}"
    place.create(name, annotations={RUN: "0.2", EXIT_CODE: exit_code})
    place.until_phase(name, phase)
    assert ready(place.pod(name)) == "False"


def test_only_pods_of_one_completion_index_fail_and_only_so_often(place: Place) -> None:
    path = "/api/v1/namespaces/testbed/configmaps"
    made = place.kube.rest.call("POST", path, {"metadata": {"name": "owner"}})["metadata"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": made["uid"]}
    for name, index, phase in (
        ("rank-0", "0", "Succeeded"),
        ("rank-1", "1", "Failed"),
        ("rank-1-again", "1", "Succeeded"),
    ):
        codes = {INDEX: index, RUN: "0.1", f"{EXIT_CODE}-1": "1", FAILURES: "1"}
        pod = kube_objects.pod(name, namespace="testbed", node="m1", annotations=codes)
        pod["metadata"]["ownerReferences"] = [owner]
        place.kube.create(pod)
        place.until_phase(name, phase)
    place.kube.rest.call("DELETE", f"{path}/owner")


def test_a_pod_that_does_not_fit_is_rejected(place: Place) -> None:
    def create(name: str, cpu: str) -> None:
        resources = {"resources": {"requests": {"cpu": cpu}}}
        place.create(name, spec={"containers": [kube_objects.CONTAINER | resources]})

    create("big", "12")
    place.until_phase("big", "Running")
    create("more", "5")
    create("little", "4")
    place.until_phase("more", "Failed")
    status = place.pod("more")["status"]
    assert status["reason"] == "OutOfcpu"
    assert "requested: 5000, used: 1" in status["message"]
    place.until_phase("little", "Running")
    place.kube.delete_pod("big", "testbed")
    place.until_gone("big")
    create("again", "12")
    place.until_phase("again", "Running")


def test_a_test_sets_pods_and_nodes_unready(place: Place) -> None:
    kube = place.kube
    place.create("p5")
    place.until_ready("p5")
    kube.set_pod_ready("p5", "testbed", ready=False)
    kube.set_node_ready("m1", ready=False)
    time.sleep(0.3)
    assert ready(place.pod("p5")) == "False"
    assert ready(kube.node("m1")) == "Unknown"
    kube.set_node_ready("m1", ready=True)
    assert ready(kube.node("m1")) == "True"
    kube.end_pod("p5", "testbed", phase="Failed")
    assert place.phase("p5") == "Failed"


def test_a_service_account_has_only_its_permissions(kube: KubeServer) -> None:
    kubeconfig = kube.kubeconfig_for("nobody", "testbed", lifespan_s=600)
    assert "system:serviceaccount:testbed:nobody" in kube.kubectl(
        "auth", "whoami", kubeconfig=kubeconfig
    )
    with pytest.raises(BedError, match="forbidden"):
        kube.kubectl("get", "nodes", kubeconfig=kubeconfig)


@pytest.mark.parametrize("a_signal", [signal.SIGTERM, signal.SIGKILL])
def test_the_api_server_restarts_with_everything(place: Place, a_signal: signal.Signals) -> None:
    place.kube.restart(a_signal)
    name = f"after-{a_signal.name.lower()}"
    place.create(name)
    place.until_ready(name)


def test_hosts_exist_in_kubernetes_and_slurm(bed: Bed) -> None:
    for name in bed.slurm.conf.names:
        eventually(lambda: ready(bed.kube.pod(f"slurmd-{name}", "slurm")) == "True")  # noqa: B023
        assert bed.kube.pod(f"slurmd-{name}", "slurm")["spec"]["nodeName"] == name
        assert "IDLE" in bed.slurm.slurm_node(name)["state"]


def test_kubectl_and_sinfo_of_the_bed_work(bed: Bed) -> None:
    commands = write_commands(bed, bed.kube.directory / "bin")
    subprocess.run([commands / "kubectl", "cordon", "n1"], check=True, capture_output=True)
    assert bed.kube.node("n1")["spec"]["unschedulable"] is True
    bed.kube.cordon("n1", unschedulable=False)
    assert "unschedulable" not in bed.kube.node("n1")["spec"]
    said = subprocess.run([commands / "sinfo", "-h"], check=True, capture_output=True, text=True)
    assert "n[1-3]" in said.stdout


def test_two_beds_do_not_see_each_other(bed: Bed) -> None:
    require(slurm="26.05")
    with Bed.start(kube=KUBE_DEFAULT, slurm="26.05", conf=SlurmConf(slurmds=1)) as other:
        other.kube.cordon("n1")
        other.slurm.update_slurm_node("n1", state=["DRAIN"], reason="testbed: other")
        assert "unschedulable" not in bed.kube.node("n1")["spec"]
        assert "DRAIN" not in bed.slurm.states()["n1"]
        directories = [other.kube.directory, other.slurm.directory]
        assert all(directory.exists() for directory in directories)
    assert not any(directory.exists() for directory in directories)
    assert "IDLE" in bed.slurm.states()["n1"]


def start_owner() -> tuple[subprocess.Popen[str], Path, list[int], int]:
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    directory, pids, supervisor = json.loads(owner.stdout.readline())
    assert all(map(alive, pids))
    return owner, Path(directory), pids, supervisor


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def mounted(directory: Path) -> bool:
    return str(directory) in Path("/proc/self/mounts").read_text()


def test_a_killed_owner_leaves_nothing() -> None:
    require(slurm="26.05")
    owner, directory, pids, supervisor = start_owner()
    with owner:
        owner.kill()
    eventually(lambda: not any(map(alive, [*pids, supervisor])))
    assert not directory.exists()
    assert not mounted(directory)


def test_the_next_start_removes_the_folder_of_a_killed_supervisor() -> None:
    require(slurm="26.05")
    owner, directory, pids, supervisor = start_owner()
    with owner:
        os.kill(supervisor, signal.SIGKILL)
        owner.kill()
    eventually(lambda: not any(map(alive, pids)))
    assert not mounted(directory)
    sandbox.sweep()  # or the sweep of another test process, just before
    assert not directory.exists()


def test_a_sweep_keeps_running_sandboxes(bed: Bed) -> None:
    sandbox.sweep()
    assert bed.slurm.directory.exists()
    assert "IDLE" in bed.slurm.states()["n1"]


def test_a_server_that_cannot_start_reports_why_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require(slurm="26.05")
    monkeypatch.setattr(sandbox, "PREFIX", f"{sandbox.PREFIX}{os.getpid()}-")
    with pytest.raises(BedError, match="NoSuchOption"):
        SlurmServer("26.05", SlurmConf(extra_lines=["NoSuchOption=1"]))
    assert not list(sandbox.base().glob(sandbox.PREFIX + "*"))


def test_ports_are_never_given_twice() -> None:
    with Ports() as first, Ports() as second:
        taken = [ports.take() for _ in range(50) for ports in (first, second)]
        assert len(set(taken)) == 100
        assert max(taken) < 32768


def test_a_second_build_costs_nothing() -> None:
    require(kube=KUBE_DEFAULT, slurm="26.05")
    require_helm()
    start_s = time.monotonic()
    with Progress() as progress:
        build(KUBE_DEFAULT, ["26.05"], progress)
    assert time.monotonic() - start_s < 1


def test_two_parallel_builds_build_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path))
    artifact = Artifact("thing-1", "recipe")
    built = []

    def slowly(part: Path) -> None:
        time.sleep(0.2)
        built.append(part)

    def wrongly(_part: Path) -> None:
        raise BedError("no luck")

    with pytest.raises(BedError):
        artifact.ensure(wrongly)
    (tmp_path / ".thing-1-x.part").mkdir()
    with ThreadPoolExecutor(2) as threads:
        results = [threads.submit(artifact.ensure, slowly) for _ in range(2)]
    assert sorted(result.result() for result in results) == [False, True]
    assert len(built) == 1
    assert artifact.built
    assert not list(tmp_path.glob(".*.part"))
    assert not Artifact("thing-1", "another recipe").built


def test_another_slurm_in_the_suite_fails_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path))
    monkeypatch.setenv("DEBIAN_MIRROR", "none.invalid")
    monkeypatch.setattr(building, "run_logged", lambda *_: None)
    monkeypatch.setattr(building, "_first_line", lambda *_: "slurm-wlm 26.11.0")
    require()
    with Progress() as progress, pytest.raises(BedError, match=r"now has 'slurm-wlm 26\.11\.0'"):
        build(None, ["26.05"], progress)
    assert not list(tmp_path.glob("slurm-26.05-*"))
