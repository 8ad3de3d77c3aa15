"""When the Slurm nodes of a NodeSet are free, by one listing of all jobs (N6)."""

from typing import Any

import pytest

from sunk_sync.core.model.node_set_actions import GetJobEnds
from sunk_sync.core.model.node_set_answers import ENDLESS, JobEnds
from sunk_sync.core.model.outcomes import Done, Refused
from sunk_sync.slurm.read.job_ends import JobEndsRead
from tests.slurm.test_requeue import job, slurm_of

ASK = GetJobEnds("slurm/cpu", ("n1", "n2"))


def at(end_s: int) -> dict[str, Any]:
    return {"end_time": {"set": True, "infinite": False, "number": end_s}}


@pytest.mark.parametrize(
    ("jobs", "ends"),
    [
        ([], ()),
        ([job(1, **at(50)), job(2, **at(70)), job(3, **at(60))], (("n1", 70),)),
        ([job(1, on="n[1-3]", **at(50))], (("n1", 50), ("n2", 50))),
        ([job(1, state="PENDING", **at(50)), job(2, state="COMPLETED", **at(50))], ()),
        ([job(1, state="SUSPENDED", **at(50))], (("n1", 50),)),
        ([job(1), job(2, **at(50))], (("n1", ENDLESS),)),
    ],
    ids=["none", "the last", "on several", "not running", "suspended", "no end"],
)
async def test_the_last_job_of_each_node_counts_N6(
    jobs: list[dict[str, Any]], ends: tuple[tuple[str, int], ...]
) -> None:
    slurm = slurm_of(*jobs)
    (outcome,) = await JobEndsRead(slurm, slurm.clock).push([ASK])
    assert isinstance(outcome, Done)
    (news,) = outcome.seen
    assert isinstance(news, JobEnds)
    assert (news.node_set, news.ends) == ("slurm/cpu", ends)


async def test_nobody_waits_for_a_listing_that_fails_N6() -> None:
    slurm = slurm_of(job(1, on="n[1-"))
    (outcome,) = await JobEndsRead(slurm, slurm.clock).push([ASK])
    assert isinstance(outcome, Refused)
    (news,) = outcome.seen
    assert isinstance(news, JobEnds)
    assert news.ends == ()
