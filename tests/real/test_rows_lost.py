"""Rows P23, P30 and P31 when slurmctld starts without its state: every job is lost.

Three small test beds, one for each policy, wait side by side, because a job counts as lost only
after a minute.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from tests.real.conftest import check_health, require
from tests.real.service import Service
from tests.real.stage import Host, eventually, stays
from tests.real.testbed.cache import KUBE_DEFAULT, SLURM_SUITES
from tests.real.workloads import Load, PodStage, brief, state_of

pytestmark = pytest.mark.real

WITHIN_S = 90
"""Two listings more than a minute apart, both started after the loss."""


HOSTS = 3
"""Of the test bed of one policy."""
ONE_BY_ONE = threading.Lock()
"""Starting two test beds at once is slower than one after the other."""


@dataclass
class Loss:
    """The state before the loss, and its time."""

    pods: PodStage
    service: Service
    hosts: list[Host]
    loads: list[Load]
    at_s: float
    same_number: str
    """Another user's job with the id of our lost job."""
    gone_after_s: list[float] = field(default_factory=list)
    """When Pods were gone, until a moment after the first."""

    def watch(self) -> "Loss":
        eventually(self.gone, "a Pod ends", within_s=WITHIN_S)
        self.gone_after_s.append(time.monotonic() - self.at_s)
        stays(lambda: len(self.gone()) == 1, for_s=3)
        self.gone_after_s += [time.monotonic() - self.at_s] * (len(self.gone()) - 1)
        return self

    def gone(self) -> list[Load]:
        return [load for load in self.loads if load.gone]


def lose(version: str, policy: str) -> Loss:
    """Cause the loss with this policy; watch it while other losses start."""
    with ONE_BY_ONE:
        pods = PodStage(version, hosts=HOSTS)
        try:
            loss = _lose(pods, policy)
        except BaseException:
            pods.close()
            raise
    return loss.watch() if policy == "end" else loss


def _lose(pods: PodStage, policy: str) -> Loss:
    """Bind two Pods, then kill slurmctld and delete its state."""
    # With the gate placeholders are allocations, and no slurmd reports a script of theirs.
    service = pods.serve(gate="on", lost_job=policy, max_pod_ends_per_minute="1")
    hosts = [pods.take() for _ in range(HOSTS)]
    loads = [pods.load(host) for host in hosts[:2]]
    numbers = [load.until_bound() for load in loads]
    slurm = pods.bed.slurm
    slurm.lose_state()
    at_s = time.monotonic()
    slurm.wait_until_idle()
    taken = [pods.submit("-w", hosts[2].name, "--mem=100") for _ in numbers]
    assert numbers[0] in taken, (numbers, taken)
    return Loss(pods, service, hosts, loads, at_s, numbers[0])


Losses = Callable[[str], Loss]


@pytest.fixture(scope="module", params=SLURM_SUITES)
def losses(request: pytest.FixtureRequest) -> Iterator[Losses]:
    """Return the loss of one policy; all three start at once."""
    require(kube=KUBE_DEFAULT, slurm=request.param)
    with ThreadPoolExecutor(3) as threads:
        begun: dict[str, Future[Loss]] = {
            policy: threads.submit(lose, request.param, policy)
            for policy in ("keep", "readopt", "end")
        }
        yield lambda policy: begun[policy].result()
        for future in begun.values():
            if future.exception() is None:
                future.result().pods.close()


def lives(load: Load) -> bool:
    return bool(load.node) and not load.terminating


def test_with_keep_the_pod_lives_and_its_host_is_drained_P30(losses: Losses) -> None:
    loss = losses("keep")
    load, host = loss.loads[0], loss.hosts[0]
    assert host.free
    host.until_drained("k8s: pod without job", within_s=WITHIN_S)
    assert time.monotonic() - loss.at_s > 60
    load.until(lambda: load.events_of("PodWithoutJob"))
    assert lives(load)
    assert not load.jobs
    load.delete()
    host.until_free()


def test_a_foreign_job_with_our_former_id_is_never_touched_P23(losses: Losses) -> None:
    loss = losses("keep")
    load = loss.loads[1]
    assert loss.same_number in {one.annotation("job-id") for one in loss.loads[1:]} | {"1", "2"}
    load.delete()
    eventually(lambda: load.gone, "the Pod is gone")
    assert stays(lambda: state_of(loss.pods.bed, loss.same_number) == "RUNNING", for_s=1.5)
    assert not loss.service.writes("cancel-job")
    check_health(loss.service, since=0)


def test_with_readopt_the_pod_gets_a_new_job_on_its_host_P30(losses: Losses) -> None:
    loss = losses("readopt")
    for load, host in zip(loss.loads, loss.hosts, strict=False):
        load.until(lambda load=load: load.live, within_s=WITHIN_S)
        (job,) = load.live
        assert (job["nodes"], job["job_state"]) == (host.name, ["RUNNING"]), brief(job)
        host.until_free()
        assert lives(load)
    load = loss.loads[0]
    load.delete()
    eventually(load.ended, "its new job ends with it")
    check_health(loss.service, since=0)


def test_with_end_the_pods_end_one_a_minute_P30_P31(losses: Losses) -> None:
    loss = losses("end")
    (first_s,) = loss.gone_after_s
    assert first_s > 60
    check_health(loss.service, since=0)
