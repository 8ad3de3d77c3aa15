"""`sunk-sync demo` as a process: real kubectl against it, and how it ends."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sunk_sync.demo.stage.worlds import HOSTS, MACHINES
from tests.real.conftest import require
from tests.real.stage import eventually
from tests.real.testbed.cache import KUBE_DEFAULT, kube
from tests.real.testbed.kube_objects import CONTAINER, pod
from tests.real.testbed.sandbox import run

pytestmark = pytest.mark.real

FIRST_LINES_S = 30.0
soon = partial(eventually, within_s=20.0)
HOST = "n12"
SEED = "--seed=6"
"""A story without steps for HOST and without outages in its first minute."""
RESOURCES = {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
SPEC = {
    "schedulerName": "slurm-demo",
    "terminationGracePeriodSeconds": 1,
    "containers": [CONTAINER | RESOURCES],
}


class Demo:
    """One process, with its output in a file and its temporary files in a folder of its own."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder = folder / "tmp"
        self.folder.mkdir()
        self._out = folder / "out"
        self._folder = folder
        argv = [sys.executable, "-m", "sunk_sync", "demo", *flags]
        environment = os.environ | {"TMPDIR": str(self.folder)}
        with self._out.open("wb") as out:
            self.process = subprocess.Popen(argv, stdout=out, stderr=out, env=environment)

    @property
    def text(self) -> str:
        return self._out.read_text()

    def wait_for(self, pattern: str, *, within_s: float = FIRST_LINES_S) -> str:
        eventually(lambda: re.search(pattern, self.text), pattern, within_s=within_s)
        return next(re.finditer(pattern, self.text)).group(0)

    def kubectl(self, *argv: str) -> str:
        kubeconfig = self.wait_for(r"/\S+/kubeconfig")
        where = f"--kubeconfig={kubeconfig}", f"--cache-dir={self._folder / 'cache'}"
        return run([kube(KUBE_DEFAULT).path / "kubectl", *where, *argv], deadline_s=30)

    def slurm(self, path: str) -> Any:
        base = self.wait_for(r"http://\S+/slurm/v0\.0\.45")
        request = urllib.request.Request(f"{base}/{path}")
        request.add_header("X-SLURM-USER-TOKEN", "demo")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def slurm_node(self, name: str) -> Any:
        return self.slurm(f"node/{name}")["nodes"][0]

    def jobs(self, name: str) -> list[tuple[str, str]]:
        every = self.slurm("jobs/")["jobs"]
        mine = [job for job in every if job["name"].startswith(f"k8s/default/{name}/")]
        return [(job["nodes"], job["job_state"][0]) for job in mine]

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(10)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    require(kube=KUBE_DEFAULT)
    running = Demo(tmp_path, SEED)
    yield running
    if running.process.poll() is None:
        running.process.kill()
        running.process.wait()


def test_kubectl_cordon_drains_in_slurm_and_uncordon_lifts_the_drain(demo: Demo) -> None:
    demo.wait_for("✓")
    nodes = len(demo.kubectl("get", "nodes", "--no-headers").splitlines())
    assert len(HOSTS) + len(MACHINES) - nodes in (0, 1), "the story removes one Node at a time"
    assert "slurmd-n1 " in demo.kubectl("get", "pods", "-A")
    demo.kubectl("cordon", HOST)
    soon(lambda: "DRAIN" in demo.slurm_node(HOST)["state"], "drained")
    assert demo.slurm_node(HOST)["reason"].startswith("k8s: node cordoned")
    soon(lambda: "k8s: node cordoned" in demo.kubectl("describe", "node", HOST), "shown")
    demo.kubectl("uncordon", HOST)
    soon(lambda: "DRAIN" not in demo.slurm_node(HOST)["state"], "lifted")
    address = demo.wait_for(r"127\.0\.0\.1:\d+/readyz")
    with urllib.request.urlopen(f"http://{address}", timeout=10) as answer:
        assert answer.status == 200


def test_a_pod_applied_by_kubectl_runs_where_slurm_put_its_job(demo: Demo, tmp_path: Path) -> None:
    demo.wait_for("✓")
    manifest = tmp_path / "pod.json"
    manifest.write_text(json.dumps(pod("mine", spec=SPEC)))
    demo.kubectl("create", "--validate=false", "-f", str(manifest))

    def node() -> str:
        return demo.kubectl("get", "pod", "mine", "-o", "jsonpath={.spec.nodeName}")

    soon(node, "bound")
    assert demo.jobs("mine") == [(node(), "RUNNING")]
    demo.kubectl("delete", "pod", "mine")
    soon(lambda: [state for _, state in demo.jobs("mine")] == ["CANCELLED"], "its job has ended")


def test_ctrl_c_ends_the_demo_at_once_with_exit_code_0(demo: Demo) -> None:
    demo.wait_for("✓")
    assert list(demo.folder.iterdir())
    begun_s = time.monotonic()
    assert demo.end() == 0
    assert time.monotonic() - begun_s < 5.0
    assert list(demo.folder.iterdir()) == []
    assert "Traceback" not in demo.text


def test_the_fixed_story_passes(tmp_path: Path) -> None:
    demo = Demo(tmp_path, "--once")
    assert demo.process.wait(90) == 0, demo.text
    assert "every check passed" in demo.text
    assert list(demo.folder.iterdir()) == []
