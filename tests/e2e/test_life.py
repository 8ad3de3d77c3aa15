"""The life of a NodeSet on three kubelets: made, used, updated under a job, scaled to zero."""

from itertools import pairwise

import pytest

from tests.e2e.cluster import NODES, ONE_BY_ONE, RealCluster
from tests.e2e.images import SLURMD
from tests.e2e.stopwatch import Stopwatch

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NEW = SLURMD.format(2)
TICK_S = 0.2
LONG_S = 40
GAP_MAX_S = 3.0
"""Between two ticks of a job that nobody disturbs, on a busy machine."""
TICKS = f"""
i=0
while [ $i -lt {int(LONG_S / TICK_S)} ]; do
  echo $(date +%s.%N) $(hostname) >>/shared/ticks; sleep {TICK_S}; i=$((i+1))
done
"""


def names(cluster: RealCluster) -> list[str]:
    """Return the hosts of the job across all nodes, once all have answered."""
    return sorted(cluster.file("names").split())


def run_across(cluster: RealCluster, watch: Stopwatch, text: str) -> None:
    (cluster.kubelets.shared / "names").unlink(missing_ok=True)
    watch.begin()
    cluster.run_job("srun hostname >/shared/names.part; mv /shared/names.part /shared/names", "-N3")
    watch.until(lambda: names(cluster) == ["cpu-0", "cpu-1", "cpu-2"], text)


def test_from_an_empty_slurm_to_an_empty_slurm_N1_N2_N6_N12(cluster: RealCluster) -> None:
    watch = Stopwatch(cluster.slurm.version)
    assert not cluster.slurm.slurm_nodes()

    watch.begin()
    cluster.make(3, updateStrategy=ONE_BY_ONE)
    watch.until(lambda: cluster.usable(3), "NodeSet → three slurmd registered and idle")
    watch.until(lambda: cluster.is_available(3), "→ the status says available")
    assert len(set(cluster.nodes_of().values()) & set(NODES)) == 3
    run_across(cluster, watch, "a job with srun across three Pods")

    update_under_a_job(cluster, watch)
    run_across(cluster, watch, "a job with srun across three new Pods")

    watch.begin()
    cluster.scale(0)
    watch.until(lambda: not cluster.pods_of(), "scaled to zero: no Pod")
    watch.until(lambda: not cluster.slurm.slurm_nodes(), "→ no record in Slurm")


def update_under_a_job(cluster: RealCluster, watch: Stopwatch) -> None:
    """Two Pods are replaced one by one beside the job, the third when the job has ended."""
    job = cluster.run_job(TICKS, "-w", "cpu-1")
    watch.until(lambda: cluster.file("ticks"), "a long job runs on cpu-1")
    before = {name: pod["metadata"]["uid"] for name, pod in cluster.pods_of().items()}
    fewest = 3

    def replaced(*which: str) -> bool:
        nonlocal fewest
        fewest = min(fewest, len(cluster.in_use()))
        images = cluster.images()
        return [name for name in sorted(images) if images[name] == NEW] == list(which)

    watch.begin()
    cluster.set_slurmd(image=NEW)
    watch.until(lambda: replaced("cpu-0", "cpu-2"), "the two idle Pods have the new image")
    assert cluster.job(job)["job_state"] == ["RUNNING"]
    assert cluster.pods_of()["cpu-1"]["metadata"]["uid"] == before["cpu-1"]
    watch.until(lambda: replaced("cpu-0", "cpu-1", "cpu-2"), "job ended, the third one has it")
    watch.until(lambda: cluster.is_available(3), "all three available")
    assert fewest >= 2
    ended = cluster.job(job)
    assert (ended["job_state"], ended["restart_cnt"]) == (["COMPLETED"], 0)
    check_ticks(cluster, watch)


def check_ticks(cluster: RealCluster, watch: Stopwatch) -> None:
    lines = [line.split() for line in cluster.file("ticks").splitlines()]
    times = [float(at) for at, _ in lines]
    gap_s = max(after - before for before, after in pairwise(times))
    watch.say(f"the job ticked {len(times)} times, the longest gap {gap_s:.2f} s")
    assert len(times) == int(LONG_S / TICK_S)
    assert {host for _, host in lines} == {"cpu-1"}
    assert gap_s < GAP_MAX_S
