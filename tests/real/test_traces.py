"""One Pod on real servers is one trace: its phases, the calls for it, and the job in Slurm."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from tests.kit.collector import Collector
from tests.real.conftest import Serve
from tests.real.stage import Host
from tests.real.workloads import PodStage

STAGE_HOSTS = 2
pytestmark = pytest.mark.real

WAY = ["submit job", "queued in Slurm", "waiting to be bound", "bind", "running", "pod"]
WITHIN_S = 40.0


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector on a thread, as the tests here do not await."""
    collector, loop = Collector(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(collector.start(), loop).result(10)
    yield collector
    asyncio.run_coroutine_threadsafe(collector.aclose(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)


def test_a_pod_from_its_creation_to_its_end_is_one_trace(
    pods: PodStage,
    schedule: Serve,
    host: Host,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
    schedule(traces_endpoint=collector.address)
    load = pods.load(host)
    job_id = load.until_bound()
    pods.scancel(job_id)
    load.until(lambda: "pod" in collector.names_of(load.uid), within_s=WITHIN_S)
    found = sorted(collector.of(load.uid), key=lambda one: one.end_ns)
    for one in found:
        took_ms = (one.end_ns - one.start_ns) / 1e6
        print(f"{pods.bed.slurm.version}: {one.name}: {took_ms:.0f} ms {one.failure}")
    assert [one.name for one in found if one.name != "end Pod"] == WAY
    spans = {one.name: one for one in found}
    root = spans["pod"]
    assert {one.parent_id for one in found if one is not root} == {root.span_id}
    assert all(root.start_ns <= one.start_ns <= one.end_ns <= root.end_ns for one in found)
    assert spans["bind"].attributes["k8s.node.name"] == host.name
    assert root.attributes["slurm.job.id"] == spans["queued in Slurm"].attributes["slurm.job.id"]
    assert root.attributes["slurm.job.id"] == job_id
    assert root.attributes["slurm.job.state"] == "CANCELLED"
    assert spans["end Pod"].attributes["sunk_sync.reason"] == "SlurmJobCancelled"
    assert spans["running"].end_ns >= spans["end Pod"].start_ns
