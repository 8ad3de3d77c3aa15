"""Volumes are read from the first Pod with a claim on: until then they close no host (row P8)."""

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import SetScheduled
from sunk_sync.core.model.facts import Job, Lost, Row, Source
from sunk_sync.core.model.volume_actions import SelectNode
from sunk_sync.core.model.volumes import StorageClass, Volume, VolumeClaim
from sunk_sync.core.workloads.volume_choice import UNREADABLE
from sunk_sync.core.workloads.volumes import UNREAD
from tests.kit.build import SMALL, Core, listing, pod, room, running, source_of

CLAIM = VolumeClaim(namespace="ns", name="data", uid="u-data", storage_class="made")
MADE = StorageClass(name="made", uid="u-made", waits=True, provisioner="example.com/disk")
MINE = pod("p1", spec=SMALL, volume_claims=("data",))
HOSTS: tuple[Source, ...] = ("nodes", "slurmd_pods", "slurm_nodes", "pods", "jobs")


def with_claim_alone(*jobs: Job) -> Core:
    """Return a core that has read everything but volumes and classes of storage."""
    rows: list[Row] = [*room("n1"), MINE, *jobs]
    core = Core(listed=False)
    for source in HOSTS:
        core.see(*listing(source, *[row for row in rows if source_of(row) == source]))
    core.see_listing("volume_claims", CLAIM)
    for source in ("csi_nodes", "csi_drivers", "storage_capacities"):
        core.see_listing(source)
    return core


def test_a_running_job_is_kept_until_volumes_are_read_P8() -> None:
    core = with_claim_alone(running(MINE))
    assert core.cancels(MINE) == []
    core.see_listing("volumes")
    core.see_listing("storage_classes", MADE)
    assert [one.node_name for one in core.workload_wants(MINE, SelectNode)] == ["kn1"]


@pytest.mark.parametrize(("after_s", "shown"), [(0.5, []), (1.5, [UNREAD])])
def test_a_pod_does_not_show_at_once_that_its_volumes_are_not_read_P8(
    after_s: float, shown: list[str]
) -> None:
    """A message changes once a minute at most, so the first one should be the cause."""
    core = with_claim_alone()
    core.wait(after_s)
    wants = core.workload_wants(MINE, SetScheduled)
    assert [one.message for one in wants] == shown
    assert core.submission(MINE) is None


def test_no_pod_is_bound_while_its_claims_cannot_be_read_P8() -> None:
    """In seed 9476698 the claim had been deleted during the outage."""
    bound = replace(CLAIM, volume="v1", bound=True)
    core = with_claim_alone(running(MINE))
    core.see_listing("volumes", Volume(name="v1", uid="u-v1", claim="ns/data", claim_uid="u-data"))
    core.see_listing("storage_classes", MADE)
    core.see_listing("volume_claims", bound)
    assert core.binds(MINE)
    core.see(Lost("volume_claims", "no answer in time", blind=True))
    assert not core.binds(MINE)
    assert not core.cancels(MINE)
    assert core.workload_verdict(MINE).because == UNREADABLE
    core.see_listing("volume_claims", bound)
    assert core.binds(MINE)
