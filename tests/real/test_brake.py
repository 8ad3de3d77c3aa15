"""P32: jobs that sunk-sync gives up are not replaced without a brake, on both Slurms.

`-rP` shows the measured submissions.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.real.conftest import Serve
from tests.real.service import Service
from tests.real.stage import Host, eventually
from tests.real.testbed import BedError
from tests.real.workloads import Load, WorkloadIndex

pytestmark = pytest.mark.real

MINUTE_S = 60.0
A_MINUTE_MAX = 5
SOON_S = 6.0
NO_DRAIN = {"node_not_ready_grace": "30m", "not_ready_grace": "30m"}
"""No drain is due while the test runs: Slurm goes on placing jobs on unfit hosts."""
POOL = "testbed/pool"


class Pool:
    """Hosts that the Pods of one test choose from."""

    def __init__(self, workloads: WorkloadIndex, name: str, size: int) -> None:
        self._workloads = workloads
        self._name = name
        self.hosts = [workloads.take() for _ in range(size)]
        for host in self.hosts:
            workloads.bed.kube.kubectl("label", "node", host.name, f"{POOL}={name}")

    def load(self) -> Load:
        return self._workloads.load(nodeSelector={POOL: self._name})

    def set_ready(self, *hosts: Host, ready: bool) -> None:
        for host in hosts:
            host.set_node_ready(ready=ready)


def submissions(service: Service, loads: list[Load], *, since: int) -> list[int]:
    """Of each Pod, by the log: those that were refused or unanswered too."""
    jobs = [line["job"] for line in service.writes("submit-job", since=since)]
    counts = [sum(f"/{load.name}/" in job for job in jobs) for load in loads]
    print(f"submissions of each Pod: {counts}")
    return counts


def test_while_no_node_is_ready_nothing_is_submitted_P32(
    workloads: WorkloadIndex, schedule: Serve
) -> None:
    service = schedule(**NO_DRAIN)
    pool = Pool(workloads, "none-ready", 3)
    pool.set_ready(*pool.hosts, ready=False)
    time.sleep(1)
    since = service.mark()
    loads = [pool.load() for _ in range(5)]
    nodes = ", ".join(sorted(host.name for host in pool.hosts))
    told = f"no host is ready; waiting for Node {nodes}"
    for load in loads:
        load.until(lambda load=load: load.message == told)
    time.sleep(MINUTE_S)
    assert submissions(service, loads, since=since) == [0] * 5
    assert [load.told("FailedScheduling") for load in loads] == [[told]] * 5
    pool.set_ready(pool.hosts[1], ready=True)
    ready_s = time.monotonic()
    for load in loads:
        load.until(lambda load=load: load.node == pool.hosts[1].name, within_s=SOON_S)
    print(f"all bound {time.monotonic() - ready_s:.2f} s after the Node was ready")
    assert max(submissions(service, loads, since=since)) <= 3  # the others are not excluded


def test_where_only_a_full_host_is_ready_few_jobs_are_made_P32_P12(
    workloads: WorkloadIndex, schedule: Serve
) -> None:
    """Each Pod tries each unfit host once; then its job waits for the ready host."""
    service = schedule(**NO_DRAIN)
    pool = Pool(workloads, "one-ready", 3)
    *unfit, full = pool.hosts
    theirs = workloads.occupy(full)
    pool.set_ready(*unfit, ready=False)
    time.sleep(1)
    since = service.mark()
    loads = [pool.load() for _ in range(5)]
    time.sleep(MINUTE_S)
    assert max(submissions(service, loads, since=since)) <= A_MINUTE_MAX
    workloads.scancel(theirs)
    for load in loads:
        load.until(lambda load=load: load.node == full.name, within_s=SOON_S)


@contextmanager
def suspending(workloads: WorkloadIndex, loads: list[Load]) -> Iterator[None]:
    """Somebody suspends each of their jobs as soon as it runs."""
    over = threading.Event()
    names = tuple(f"/{load.name}/" for load in loads)

    def suspend() -> None:
        while not over.wait(0.05):
            running = workloads.bed.slurm.squeue("-h", "-t", "R", "-o", "%i %j").splitlines()
            for job, _, name in (line.partition(" ") for line in running):
                if any(one in name for one in names):
                    with suppress(BedError):  # it has ended meanwhile
                        workloads.bed.slurm.scontrol("suspend", job)

    thread = threading.Thread(target=suspend, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_on_ready_hosts_too_no_pod_has_more_than_five_jobs_a_minute_P32(
    workloads: WorkloadIndex, schedule: Serve
) -> None:
    """The scripts' calls do not arrive, so half a second passes between start and binding."""
    service = schedule(hooks_url="http://127.0.0.1:1", **NO_DRAIN)
    pool = Pool(workloads, "ready", 2)
    since = service.mark()
    loads = [pool.load() for _ in range(3)]
    with suspending(workloads, loads):
        eventually(lambda: all(len(load.jobs) > 1 for load in loads), "jobs are given up")
        assert not any(load.node for load in loads)
        time.sleep(MINUTE_S)
        counts = submissions(service, loads, since=since)
    assert max(counts) <= A_MINUTE_MAX
