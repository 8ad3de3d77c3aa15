"""Pods on a Slurm with accounting: their conditions, and a token without rights."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.real.conftest import for_each_slurm
from tests.real.pod_bed import PodBed, qos_bed
from tests.real.service import Service
from tests.real.stage import PREFIX, stays
from tests.real.testbed.kube_objects import conditions

pytestmark = [pytest.mark.real, pytest.mark.timeout(200)]


bed = for_each_slurm(lambda version: qos_bed(version, 2, "PrivateData=jobs"))


@pytest.fixture
def service(bed: PodBed) -> Iterator[Service]:
    bed.set_gate(on=True)
    with bed.service(gate=True) as service:
        yield service
        service.put_token(bed.bed.slurm.token())
        bed.clear()


def shows(bed: PodBed, name: str, text: str) -> bool:
    """Whether the message of PodScheduled=False contains the text."""
    one = conditions(bed.pod(name)).get("PodScheduled", {})
    return one.get("status") == "False" and text in one.get("message", "")


def job(bed: PodBed, name: str) -> Any:
    (found,) = bed.live(name)
    return found


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize(
    ("field", "right", "number"), [("account", "games", 2045), ("qos", "low", 2066)]
)
def test_an_unknown_account_or_qos_is_reported_and_can_be_corrected_P10(
    bed: PodBed, field: str, right: str, number: int
) -> None:
    name = f"wrong-{field}"
    wrong: dict[str, Any] = {field: "nope"}
    bed.make_pod(name, **wrong)
    bed.until(lambda: shows(bed, name, f"({number})"), f"the Pod shows {number}")
    assert shows(bed, name, f"annotation {PREFIX}{field}")
    bed.annotate(name, **{field: right})
    bed.until_bound(name)
    assert job(bed, name)[field] == right


@pytest.mark.usefixtures("service")
def test_a_pod_over_a_limit_waits_for_it_or_for_an_edit_P1_P11a_P20(bed: PodBed) -> None:
    bed.make_pod("first", qos="single")
    bed.until_bound("first")
    for name in ("second", "edited"):
        bed.make_pod(name, qos="single")
        bed.until(partial(shows, bed, name, "QOSMaxJobsPerUserLimit"), "it waits")
        assert shows(bed, name, "its user would have more running jobs than its QOS allows")
    bed.annotate("edited", qos="high", account="games")
    bed.until_bound("edited")
    assert (job(bed, "edited")["qos"], job(bed, "edited")["account"]) == ("high", "games")
    bed.delete_pod("first")
    bed.until_bound("second")


def test_jobs_hidden_from_the_token_do_not_count_as_lost_P30(bed: PodBed) -> None:
    """A token without rights does not list the jobs of other users."""
    bed.set_gate(on=True)
    with bed.service(gate=True, lost_job="end") as service:
        bed.make_pod("kept", qos="low")
        bed.until_bound("kept")
        theirs = job(bed, "kept")["job_id"]
        service.kill9()
        service.put_token(bed.bed.slurm.token(user="alice"))
        service.start()
        lost = partial(service.lines, "source lost", since=service.begun, source="jobs")
        bed.until(lambda: any("PrivateData" in one["why"] for one in lost()), "it says so")
        assert stays(lambda: job(bed, "kept")["job_id"] == theirs, for_s=4)
        assert "deletionTimestamp" not in bed.pod("kept")["metadata"]
        service.put_token(bed.bed.slurm.token())
        bed.make_pod("next")
        bed.until_bound("next")
        assert job(bed, "kept")["job_id"] == theirs
        bed.clear()
