"""Requeue the jobs of drained Slurm nodes (N28)."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from sunk_sync.core.model.node_set import Requeueing
from sunk_sync.core.model.node_set_actions import RequeueJobs
from sunk_sync.core.model.node_set_answers import RequeueTried
from sunk_sync.core.model.outcomes import Done, Outcome, Refused, Unsure
from sunk_sync.slurm.api.answers import SlurmError, SlurmResponse
from sunk_sync.slurm.api.requests import SlurmCall, Take
from sunk_sync.slurm.write.requeue import RequeuePush
from tests.slurm.recorded.slurm_nodes import DOWN, SlurmNodes, slurm_node

ALL = Requeueing("time")
FIVE = ", ".join(f"job {number} is in partition main" for number in range(3)) + ", 2 more"
SPARE = Requeueing("partition", ("spare",))
LOW = Requeueing("qos", ("low",))


def job(number: int, *, on: str = "n1", state: str = "RUNNING", **fields: Any) -> dict[str, Any]:
    standard = {"partition": "main", "qos": "high", "batch_flag": True, "requeue": True}
    return {"job_id": number, "job_state": [state], "nodes": on, **standard, **fields}


class Slurm(SlurmNodes):
    """With jobs, and with POST /jobs/requeue."""

    jobs: Sequence[dict[str, Any]] = ()
    requeued: list[Any]
    refused: SlurmError | None = None

    async def call(self, call: SlurmCall) -> SlurmResponse | SlurmError:
        if call.path == "jobs/state/":
            return self.replied()
        if call.path == "jobs/requeue":
            self.requeued.append(msgspec.json.decode(call.body))
            return self.refused or self.replied()
        return await super().call(call)

    async def read_records(
        self, call: SlurmCall, key: str, take: Take
    ) -> SlurmResponse | SlurmError:
        if key != "jobs":
            return await super().read_records(call, key, take)
        failure = await take([msgspec.json.encode(one) for one in self.jobs], self.now_s)
        return failure or self.replied()

    def replied(self) -> SlurmResponse:
        return SlurmResponse(
            body=b"{}", version=self.version, asked_s=self.now_s, answered_s=self.now_s
        )


def slurm_of(*jobs: dict[str, Any], state: Sequence[str] = ("MIXED", "DRAIN")) -> Slurm:
    slurm = Slurm()
    slurm.add(slurm_node("n1", *state), slurm_node("n2", "MIXED", "DRAIN"))
    slurm.jobs, slurm.requeued = jobs, []
    return slurm


async def push(slurm: Slurm, *actions: RequeueJobs) -> list[Outcome]:
    return list(await RequeuePush(slurm, slurm.clock).push(actions))


def tried(outcome: Outcome) -> tuple[int, str]:
    assert isinstance(outcome, Done | Refused)
    (news,) = outcome.seen
    assert isinstance(news, RequeueTried)
    return news.requeued, news.left


@pytest.mark.parametrize(
    ("which", "jobs", "names", "left"),
    [
        (ALL, [job(1), job(2, on="n[1-2]"), job(3, on="n2")], ["1", "2"], ""),
        (ALL, [job(1), job(2, state="PENDING"), job(3, state="COMPLETED")], ["1"], ""),
        (ALL, [job(1), job(2, requeue=False)], ["1"], "job 2 must not be requeued (--no-requeue)"),
        (ALL, [job(1), job(2, batch_flag=False)], ["1"], "job 2 is no batch job by itself"),
        (ALL, [job(1), job(2, het_job_id={"set": True, "number": 2})], ["1"],
         "job 2 is no batch job by itself"),
        (SPARE, [job(1, partition="spare"), job(2)], ["1"], "job 2 is in partition main"),
        (LOW, [job(1, qos="low"), job(2)], ["1"], "job 2 has QOS high"),
        (ALL, [job(5, array_job_id={"set": True, "number": 5},
                   array_task_id={"set": True, "number": 0})], ["5_0"], ""),
    ],
    ids=["here", "running", "no requeue", "no batch", "het", "partition", "qos", "task"],
)  # fmt: skip
async def test_only_jobs_that_may_be_requeued_are_N28(
    which: Requeueing, jobs: list[dict[str, Any]], names: list[str], left: str
) -> None:
    """The record number of the first task is also the id of its array, with all its tasks."""
    slurm = slurm_of(*jobs)
    (outcome,) = await push(slurm, RequeueJobs("n1", which))
    assert slurm.requeued == [{"jobs": names, "flags": ["Incomplete"]}]
    assert isinstance(outcome, Done)
    assert tried(outcome) == (len(names), left)


@pytest.mark.parametrize(
    ("which", "jobs", "why"),
    [
        (SPARE, [job(n) for n in range(5)], FIVE),
        (ALL, [], "no job runs there yet, or all are ending"),
    ],
    ids=["none in the partition", "none"],
)  # fmt: skip
async def test_without_such_a_job_nothing_is_sent_N28(
    which: Requeueing, jobs: list[dict[str, Any]], why: str
) -> None:
    slurm = slurm_of(*jobs)
    (outcome,) = await push(slurm, RequeueJobs("n1", which))
    assert tried(outcome) == (0, why)
    assert slurm.requeued == []


@pytest.mark.parametrize(
    ("name", "state", "why"),
    [
        ("n1", ["MIXED"], "the node is not drained any more"),
        ("n1", ["IDLE", "DRAIN"], "no job runs there"),
        ("n3", ["IDLE"], "Slurm has no such node"),
        ("n[1-2]", ["IDLE"], "the action does not name one Slurm node"),
    ],
    ids=["lifted", "idle", "gone", "hostlist"],
)
async def test_the_node_is_read_again_before_the_requeue_N28(
    name: str, state: list[str], why: str
) -> None:
    slurm = slurm_of(job(1), state=state)
    (outcome,) = await push(slurm, RequeueJobs(name, ALL))
    assert isinstance(outcome, Refused)
    assert outcome.why == why
    assert slurm.requeued == []


async def test_an_older_slurmrestd_is_not_asked_N28() -> None:
    slurm = slurm_of(job(1))
    slurm.version = "v0.0.42"
    (outcome,) = await push(slurm, RequeueJobs("n1", ALL))
    assert tried(outcome)[1] == (
        "slurmrestd requeues jobs only from API v0.0.45 on, and this is v0.0.42"
    )
    assert slurm.requeued == []


async def test_a_refusal_by_slurm_is_tried_again_with_a_fresh_listing_N28() -> None:
    """It may have requeued some of the jobs."""
    slurm = slurm_of(job(1))
    slurm.refused = SlurmError("refused", "Requeue JobId=1 failed", 2037)
    (outcome,) = await push(slurm, RequeueJobs("n1", ALL))
    assert isinstance(outcome, Unsure)


@pytest.mark.parametrize("bad", [{"nodes": "n["}, {"job_state": 7}], ids=["hostlist", "state"])
async def test_one_unreadable_job_stops_it_N28(bad: dict[str, Any]) -> None:
    slurm = slurm_of(job(1), {**job(2), **bad})
    (outcome,) = await push(slurm, RequeueJobs("n1", ALL))
    assert isinstance(outcome, Unsure)
    assert slurm.requeued == []


async def test_without_slurmctld_nothing_is_sent_N28() -> None:
    slurm = slurm_of(job(1))
    slurm.before = lambda _: DOWN
    (outcome,) = await push(slurm, RequeueJobs("n1", ALL))
    assert isinstance(outcome, Unsure)
    assert await push(slurm) == []
