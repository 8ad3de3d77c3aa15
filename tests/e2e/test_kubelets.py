"""A kubelet leaves the machine as it was, also after `kill -9` of the tests."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e import cgroups
from tests.e2e.conftest import require
from tests.e2e.images import SLURMD
from tests.e2e.kubelets import Kubelets
from tests.e2e.network import own_network
from tests.e2e.requirements import KUBE
from tests.real.slurmd_pods import wait_for
from tests.real.testbed import KubeServer
from tests.real.testbed.bed import SLURM_DEFAULT
from tests.real.testbed.kube import REPOSITORY
from tests.real.testbed.sandbox import run, sweep

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

NODE = "alone"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "sleeps", "namespace": "default"},
    "spec": {
        "nodeName": NODE,
        "dnsPolicy": "Default",
        "automountServiceAccountToken": False,
        "containers": [
            {
                "name": "sleeps",
                "image": SLURMD.format(1),
                "imagePullPolicy": "Never",
                "command": ["/bin/sh", "-c", "echo awake; exec sleep 86400"],
            }
        ],
    },
}
PARAMETERS = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops")
PLACES = ("/var/lib/kubelet", "/var/lib/cni", "/run/containerd", "/opt/containerd", "/run/netns")


@contextmanager
def one_kubelet() -> Iterator[KubeServer]:
    """One kubelet with a Pod that runs."""
    require(SLURM_DEFAULT)
    addresses = own_network("10.65.0.11")
    with addresses, KubeServer(KUBE, kubelet=False) as kube:
        kube.ensure_namespace("default")
        with Kubelets(kube, NODE, slurm=SLURM_DEFAULT):
            kube.create_pod(POD)
            wait_for(lambda: is_running(kube), "the Pod runs", deadline_s=60)
            yield kube


def is_running(kube: KubeServer) -> bool:
    return bool(kube.pod("sleeps")["status"]["phase"] == "Running")


def traces() -> dict[str, str]:
    """Return what a kubelet could change on the machine."""
    found = {name: Path("/proc/sys", name).read_text() for name in PARAMETERS}
    found |= {place: str(Path(place).exists()) for place in PLACES}
    found["addresses"] = run(["ip", "-brief", "address"])
    found["mounts"] = Path("/proc/self/mountinfo").read_text()
    return found


def cgroups_of(pid: int) -> list[Path]:
    name = f"{cgroups.PREFIX}{pid}-{NODE}"
    return [folder for one in cgroups.hierarchies() if (folder := one / name).exists()]


def test_nothing_is_left_at_the_end() -> None:
    before = traces()
    with one_kubelet() as kube:
        assert cgroups_of(os.getpid())
        assert kube.kubectl("logs", "sleeps") == "awake\n"
        assert kube.kubectl("exec", "sleeps", "--", "cat", "/proc/1/comm") == "sleep\n"
    assert traces() == before
    assert not cgroups_of(os.getpid())


def test_after_kill_9_cgroups_alone_are_left_and_the_next_run_removes_them() -> None:
    before = traces()
    with subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.test_kubelets"],
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        inside = processes_of(other.pid)
        assert inside
        other.send_signal(signal.SIGKILL)
    wait_for(lambda: not processes_of(other.pid), "its kubelet and containers have ended")
    sweep()
    cgroups.sweep()
    assert not cgroups_of(other.pid)
    assert traces() == before


def processes_of(pid: int) -> list[int]:
    """Return the processes in the cgroups of its kubelet."""
    return cgroups.processes(f"{cgroups.PREFIX}{pid}-{NODE}")


if __name__ == "__main__":
    with one_kubelet():
        print("ready", flush=True)
        signal.pause()
