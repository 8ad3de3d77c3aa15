"""L1-L3: a job gets its Node for itself; the foreign Pod beside it ends first."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from sunk_sync.server.tokens import LOCK, make_token, new_key
from tests.e2e.cluster import CONF, RealCluster
from tests.e2e.images import SLURMD
from tests.e2e.network import ADDRESS
from tests.e2e.stopwatch import Stopwatch
from tests.real.service import MANIFESTS
from tests.real.slurmd_pods import wait_for
from tests.real.stage import annotation
from tests.real.testbed.kube import REPOSITORY
from tests.real.testbed.ports import Ports

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

SCRIPT = "sunk-sync-lock.sh"
LINES = (f"Prolog={SCRIPT}", "PrologFlags=Alloc", "BatchStartTimeout=120")
ENDS_S = 3
"""The foreign Pod takes so long to end."""
TICK_S = 0.02
FOREIGN = f"""
trap 'end=$(($(date +%s) + {ENDS_S}))' TERM
end=9999999999
while [ $(date +%s) -lt $end ]; do date +%s.%N >>/shared/foreign; sleep {TICK_S}; done
"""


@pytest.fixture
def locked(cluster: RealCluster) -> Iterator[RealCluster]:
    """The cluster with the prolog of the lock, which Slurm hands to the nodes."""
    key_file = cluster.kube.directory / "hooks.key"
    key_file.write_bytes(key := new_key())
    script = cluster.slurm.root / "etc/slurm" / SCRIPT
    script.write_text((REPOSITORY / "deploy/slurm" / SCRIPT).read_text())
    script.chmod(0o755)
    cluster.kube.kubectl("apply", "-k", MANIFESTS.parent / "lock")
    with Ports() as ports:
        address = f"{ADDRESS}:{ports.take()}"
        conf = f"url = http://{address}\nlock-token-file = /etc/slurm/sunk-sync/lock-token\n"
        token = make_token(key, LOCK) + "\n"
        cluster.put_secret("sunk-sync-lock", {"sunk-sync.conf": conf, "lock-token": token})
        hooks = {"hooks_api_bind_address": address, "hooks_key_file": str(key_file)}
        cluster.serve(
            components="syncer,scheduler,nodesets", lock="true", lock_linger="1s", **hooks
        )
        cluster.slurm.reconfigure(replace(CONF, extra_lines=(*CONF.extra_lines, *LINES)))
        yield cluster
        cluster.slurm.reconfigure(CONF)
        cluster.kube.kubectl("delete", "secret", "-n", "slurm", "sunk-sync-lock")


def foreign_pod(cluster: RealCluster, node: str) -> dict[str, Any]:
    """Make a Pod that writes the time again and again until its very end."""
    container = {
        "name": "foreign",
        "image": SLURMD.format(1),
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", FOREIGN],
        "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "foreign", "namespace": "default"},
        "spec": {
            "nodeName": node,
            "containers": [container],
            "volumes": [{"name": "shared", "hostPath": {"path": str(cluster.kubelets.shared)}}],
            "dnsPolicy": "Default",
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
        },
    }


def state(cluster: RealCluster, node: str) -> str:
    return annotation(cluster.kube.node(node), "lock") or ""


def test_a_job_starts_when_the_foreign_pod_has_ended_L1_L2_L3(locked: RealCluster) -> None:
    watch = Stopwatch(locked.slurm.version)
    locked.make(3)
    watch.until(lambda: locked.is_available(3), "NodeSet → three nodes available")
    node = locked.nodes_of()["cpu-1"]
    locked.kube.create_pod(foreign_pod(locked, node))
    watch.until(lambda: locked.file("foreign"), "a foreign Pod runs on the Node of cpu-1")
    submitted_s = time.time()
    job = locked.run_job("date +%s.%N >/shared/began; sleep 3", "-w", "cpu-1")
    wait_for(lambda: locked.file("began").endswith("\n"), "the job runs", deadline_s=60)
    assert state(locked, node) == "locked"
    last_s = float(locked.file("foreign").split()[-1])
    began_s = float(locked.file("began"))
    watch.say(
        f"submitted → the foreign Pod's last moment {last_s - submitted_s:.2f} s, "
        f"→ the job starts {began_s - last_s:.2f} s; overlap {max(last_s - began_s, 0):.2f} s"
    )
    assert began_s > last_s
    assert last_s - submitted_s > ENDS_S - 1
    wait_for(lambda: not locked.kube.pod_if_any("foreign", "default"), "the foreign Pod is gone")
    wait_for(lambda: locked.job(job)["job_state"] == ["COMPLETED"], "the job ended")
    watch.begin()
    watch.until(lambda: not state(locked, node), "the job has ended → the Node is unlocked")
    assert not locked.kube.node(node)["spec"].get("taints")
    assert len(locked.in_use()) == 3
