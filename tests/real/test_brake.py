"""P32: jobs that sunk-sync gives up are not replaced without a brake, on both Slurms.

`-rP` shows the measured submissions.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime

import pytest

from tests.real.conftest import Serve, with_settings
from tests.real.service import Service
from tests.real.stage import Host, eventually
from tests.real.tap import Tap, tapped_kubeconfig
from tests.real.testbed import BedError
from tests.real.workloads import Load, PodStage, workload_spec

STAGE_HOSTS = 18
pytestmark = pytest.mark.real

MINUTE_S = 60.0
QUIET_S = 20.0
A_MINUTE_MAX = 5
SOON_S = 6.0
NO_DRAIN = {"node_not_ready_grace": "30m", "not_ready_grace": "30m"}
"""No drain is due while the test runs: Slurm goes on placing jobs on unfit hosts."""


def load_pool(pods: PodStage, pool: str, count: int) -> list[Load]:
    return [pods.load(nodeSelector={"pool": pool}) for _ in range(count)]


def end_readiness(hosts: list[Host]) -> None:
    for host in hosts:
        host.set_node_ready(ready=False)
    time.sleep(1)


def submissions(service: Service, loads: list[Load], *, since: int) -> list[int]:
    """Return the number for each Pod by the log, also refused and unanswered ones."""
    jobs = [line["job"] for line in service.writes("submit-job", since=since)]
    return [sum(f"/{load.name}/" in job for job in jobs) for load in loads]


def most_a_minute(service: Service, loads: list[Load], *, since: int) -> int:
    """Return the most jobs of one Pod that the log shows within a minute."""
    lines = service.writes("submit-job", since=since)
    most = 0
    for load in loads:
        mine = [line["timestamp"] for line in lines if f"/{load.name}/" in line["job"]]
        times_s = [datetime.fromisoformat(one).timestamp() for one in mine]
        most = max(
            most, *(sum(0 <= one - start < MINUTE_S for one in times_s) for start in times_s)
        )
    print(f"most jobs of one Pod within a minute: {most}")
    return most


@with_settings(**NO_DRAIN)
def test_while_no_node_is_ready_nothing_is_submitted_P32(
    pods: PodStage, scheduler: Service
) -> None:
    hosts = pods.pool("none-ready", 3)
    end_readiness(hosts)
    since = scheduler.mark()
    loads = load_pool(pods, "none-ready", 5)
    nodes = ", ".join(sorted(host.name for host in hosts))
    message = f"no host is ready; waiting for Node {nodes}"
    for load in loads:
        load.until(lambda load=load: load.message == message)
    time.sleep(QUIET_S)
    assert submissions(scheduler, loads, since=since) == [0] * 5
    assert [load.events_of("FailedScheduling") for load in loads] == [[message]] * 5
    hosts[1].set_node_ready(ready=True)
    ready_s = time.monotonic()
    for load in loads:
        load.until(lambda load=load: load.node == hosts[1].name, within_s=SOON_S)
    print(f"all bound {time.monotonic() - ready_s:.2f} s after the Node was ready")
    assert max(submissions(scheduler, loads, since=since)) <= 3  # the others are not excluded


@pytest.mark.night("it counts for a minute")
@with_settings(**NO_DRAIN)
def test_where_only_a_full_host_is_ready_few_jobs_are_made_P32_P12(
    pods: PodStage, scheduler: Service
) -> None:
    """Each Pod tries each unfit host once; then its job waits for the ready host."""
    *unfit, full = pods.pool("one-ready", 3)
    theirs = pods.occupy(full)
    end_readiness(unfit)
    since = scheduler.mark()
    loads = load_pool(pods, "one-ready", 5)
    time.sleep(MINUTE_S)
    assert max(submissions(scheduler, loads, since=since)) <= A_MINUTE_MAX
    pods.scancel(theirs)
    for load in loads:
        load.until(lambda load=load: load.node == full.name, within_s=SOON_S)


def test_where_no_host_has_room_a_pod_waits_without_a_job_until_a_pod_leaves_P28_P32(
    pods: PodStage, scheduler: Service
) -> None:
    """Slurm counts 16 CPUs, and the Nodes have 3 for Pods."""
    hosts = pods.pool("small", 2)
    for host in hosts:
        pods.bed.kube.set_allocatable(host.name, cpu="3")
    spec = {"nodeSelector": {"pool": "small"}, "containers": workload_spec(cpu="2")["containers"]}
    first = [pods.load(**spec) for _ in hosts]
    for load in first:
        load.until_bound()
    since = scheduler.mark()
    late = pods.load(**spec)
    full = ", ".join(sorted(host.name for host in hosts))
    message = f"no host has room beside its other Pods; waiting for room on {full}"
    late.until(lambda: late.message == message)
    time.sleep(QUIET_S)
    assert submissions(scheduler, [late], since=since) == [len(hosts)]  # one for each host
    left_s = time.monotonic()
    first[0].delete(now=True)
    late.until_bound(within_s=SOON_S)
    print(f"bound {time.monotonic() - left_s:.2f} s after a Pod was deleted")
    assert submissions(scheduler, [late], since=since) == [len(hosts) + 1]


@pytest.mark.night("it counts for a minute")
@with_settings(**NO_DRAIN)
def test_where_more_hosts_are_unfit_no_pod_has_more_than_five_jobs_a_minute_P32(
    pods: PodStage, scheduler: Service
) -> None:
    *unfit, full = pods.pool("many-unfit", 8)
    pods.occupy(full)
    end_readiness(unfit)
    since = scheduler.mark()
    loads = load_pool(pods, "many-unfit", 2)
    time.sleep(MINUTE_S)
    assert most_a_minute(scheduler, loads, since=since) == A_MINUTE_MAX


@contextmanager
def suspending(pods: PodStage, loads: list[Load]) -> Iterator[None]:
    """Suspend each of their jobs as soon as it runs, as an administrator."""
    over = threading.Event()
    names = tuple(f"/{load.name}/" for load in loads)

    def suspend() -> None:
        while not over.wait(0.05):
            running = pods.bed.slurm.squeue("-h", "-t", "R", "-o", "%i %j").splitlines()
            for job, _, name in (line.partition(" ") for line in running):
                if any(one in name for one in names):
                    with suppress(BedError):  # it has ended meanwhile
                        pods.bed.slurm.scontrol("suspend", job)

    thread = threading.Thread(target=suspend, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.fixture
def unbindable(pods: PodStage, schedule: Serve) -> Iterator[Service]:
    """A service whose bindings do not arrive: a job is suspended before its Pod is bound."""
    kube = pods.bed.kube

    def passes(_when: str, method: str, path: str) -> bool:
        return method == "GET" or not path.endswith("/binding")

    with Tap(kube.url, passes, ca_file=kube.ca_file) as tap:
        yield schedule(kubeconfig=str(tapped_kubeconfig(pods.bed, tap)), **NO_DRAIN)


@pytest.mark.night("it counts for a minute")
def test_on_ready_hosts_too_another_job_follows_but_no_more_than_five_a_minute_P32(
    pods: PodStage, unbindable: Service
) -> None:
    """Also when each host was tried: no job is refused for lack of another one.

    A binding without an answer may still arrive: until that is over, the job is not given up.
    """
    scheduler = unbindable
    hosts = pods.pool("ready", 2)
    since = scheduler.mark()
    loads = load_pool(pods, "ready", 2)
    with suspending(pods, loads):
        eventually(
            lambda: min(submissions(scheduler, loads, since=since)) > len(hosts),
            "a job for each host, and another one",
            within_s=MINUTE_S,
        )
        assert not any(load.node for load in loads)
    assert most_a_minute(scheduler, loads, since=since) <= A_MINUTE_MAX
