"""F1 for volumes: killed at any write for the volumes of a Pod, the service continues.

No claim gets two volumes, and no claim keeps a host to which its Pod never went.
"""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.real.conftest import Serve
from tests.real.trap import MANY, Trap, points, trapped
from tests.real.volumes import (
    DYNAMIC,
    LOCAL,
    SELECTED,
    SILENT,
    VOLUME_FOR,
    Storage,
    with_claim,
)
from tests.real.workloads import PodStage

STAGE_HOSTS = 6
WITHIN_S = 120.0
"""The next process alone needs half a minute to start on a busy machine."""
WRITES = {
    ("PATCH", "persistentvolumeclaims"): "mark of a claim",
    ("PATCH", "persistentvolumes"): "reservation",
    ("POST", "binding"): "binding",
}

pytestmark = [pytest.mark.real, pytest.mark.timeout(1200 if MANY else 400)]


def spoken(method: str, path: str) -> str:
    """Describe a write for the volumes of a Pod, or its binding."""
    parts = path.strip("/").split("/")
    return WRITES.get((method, parts[-2]), "") or WRITES.get((method, parts[-1]), "")


@pytest.fixture(scope="module")
def storage(pods: PodStage) -> Iterator[Storage]:
    with Storage(pods.bed) as storage:
        yield storage


def test_after_a_kill_at_any_write_for_volumes_each_claim_has_one_where_the_pod_runs_F1(
    pods: PodStage, storage: Storage, schedule: Serve
) -> None:
    hosts = [host.name for host in pods.pool("killed")]
    trap = Trap(spoken)
    with trapped(pods.bed, trap) as flags:
        trap.service = schedule(**flags)
        trap.disarm()
        live(pods, storage, "clean", hosts=hosts)
        writes = list(trap.seen)
        print(f"{len(writes)} writes in a life: {dict(Counter(writes))}")
        struck: Counter[str] = Counter()
        for number, way in points(len(writes)):
            trap.arm(number, way)
            live(pods, storage, f"k{number}-{way}", hosts=hosts)
            struck[f"{way} {trap.struck or '(no such write this time)'}"] += 1
        print(f"{struck.total()} kills: {dict(sorted(struck.items()))}")
        assert trap.service.lines(level="error") == []
        pods.quit()


def live(pods: PodStage, storage: Storage, name: str, *, hosts: list[str]) -> None:
    """Play a Pod with a claim whose volume is made, and one for which each host has a volume."""
    made, local = f"{name}-made", f"{name}-local"
    storage.add_claim(made, DYNAMIC)
    storage.add_claim(local, LOCAL)
    for host in hosts:
        storage.add_volume(f"{local}-{host}", LOCAL, host)
    load = pods.load(nodeSelector={"pool": "killed"}, **with_claim(made, local))
    load.until_bound(within_s=WITHIN_S)
    load.until(lambda: VOLUME_FOR not in storage.marks(made), within_s=WITHIN_S)
    for claim in (made, local):
        assert storage.is_bound(claim)
        assert len(storage.volumes_of(claim)) == 1
        assert storage.nodes_of(claim) == [load.node]
    (job,) = load.jobs
    assert job["nodes"] == load.node
    load.delete(now=True)
    load.until(lambda: not load.live, within_s=WITHIN_S)


def test_the_claim_of_a_pod_that_was_deleted_meanwhile_is_free_for_the_next_one_F1(
    pods: PodStage, storage: Storage, schedule: Serve
) -> None:
    first, second = pods.pool("deleted")
    service = schedule()
    storage.add_claim("deleted", SILENT)
    gone = pods.load(first, **with_claim("deleted"))
    gone.until(lambda: storage.marks("deleted").get(SELECTED) == first.name)
    service.kill9()
    gone.delete(now=True)
    service.start().wait_ready()
    gone.until(lambda: not gone.live)
    load = pods.load(second, **with_claim("deleted"))
    load.until(lambda: storage.marks("deleted").get(SELECTED) == second.name)
    assert storage.volumes_of("deleted") == []
    (job,) = load.jobs
    assert job["nodes"] == second.name
    assert not load.node
