"""Rule `outgrow`: a Pod that was resized beyond its job says so."""

import pytest
from msgspec.structs import replace

from sunk_sync.core.model.actions import RecordEvent, SetConditions
from sunk_sync.core.model.condition import Condition
from sunk_sync.core.model.event_kinds import EVENT_OUTGREW
from sunk_sync.core.model.facts import Job, Pod, reference_of
from sunk_sync.core.model.names import TOO_SMALL_CONDITION
from sunk_sync.core.model.pod_spec import PodSpec
from sunk_sync.core.rules.workload.outgrow import ADVICE
from tests.kit.build import pod, running, two_hosts

MIB = 1 << 20


def sized(cpu: int, memory_mb: int) -> PodSpec:
    """`cpu`: in thousandths."""
    return PodSpec(requests=(("cpu", cpu), ("memory", memory_mb * MIB)))


def bound(cpu: int, memory_mb: int) -> Pod:
    return pod(node_name="kn1", job_id="7", spec=sized(cpu, memory_mb))


def holding(of: Pod, *, cpus: int = 2, memory_mb: int = 100) -> Job:
    return replace(running(of), cpus=cpus, memory_mb=memory_mb)


def wants(of: Pod, job: Job) -> list[SetConditions | RecordEvent]:
    found = two_hosts(of, job).workload_wants(of)
    return [
        one
        for one in found
        if isinstance(one, SetConditions)
        or (isinstance(one, RecordEvent) and one.event == EVENT_OUTGREW)
    ]


@pytest.mark.parametrize(
    ("cpu", "memory_mb", "excess"),
    [
        (2000, 100, ""),
        (100, 10, ""),
        (1001, 100, ""),
        (2001, 100, "3 CPUs, and Slurm job 7 holds 2"),
        (2000, 101, "101 MiB, and Slurm job 7 holds 100 MiB"),
        (
            4000,
            200,
            "4 CPUs, and Slurm job 7 holds 2; 200 MiB, and Slurm job 7 holds 100 MiB",
        ),
    ],
    ids=["as large", "smaller", "within a CPU", "more CPUs", "more memory", "more of both"],
)
def test_a_pod_larger_than_its_job_gets_a_condition_P20(
    cpu: int, memory_mb: int, excess: str
) -> None:
    mine = bound(cpu, memory_mb)
    message = f"the Pod requests {excess}. {ADVICE}"
    told = Condition(TOO_SMALL_CONDITION, "True", "PodResized", message)
    expected = [SetConditions(reference_of(mine), (told,))] if excess else []
    assert wants(mine, holding(mine)) == expected


def test_the_event_follows_the_condition_P20() -> None:
    mine = bound(4000, 100)
    (first,) = wants(mine, holding(mine))
    assert isinstance(first, SetConditions)
    shown = replace(mine, conditions=first.conditions)
    message = first.conditions[0].message
    assert wants(shown, holding(shown)) == [RecordEvent(reference_of(mine), EVENT_OUTGREW, message)]


def test_the_condition_goes_when_the_pod_fits_its_job_again_P20() -> None:
    shown = Condition(TOO_SMALL_CONDITION, "True", "PodResized", "was larger")
    mine = replace(bound(2000, 100), conditions=(shown,))
    assert wants(mine, holding(mine)) == [SetConditions(reference_of(mine), ())]


@pytest.mark.parametrize(
    "job",
    [
        holding(bound(1, 1), memory_mb=0, cpus=8),
        holding(bound(1, 1), cpus=0),
        replace(holding(bound(1, 1)), state=frozenset({"COMPLETING", "CANCELLED"})),
    ],
    ids=["all memory of its node", "not read", "ended"],
)
def test_a_job_that_holds_enough_or_is_not_known_says_nothing_P20(job: Job) -> None:
    assert not wants(bound(4000, 1000), job)
